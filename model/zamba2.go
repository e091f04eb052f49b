package model

import (
	"slices"
	"strings"

	"headcount/problem"
)

// zamba2 is a stack of Mamba-2 layers; before some of them runs one of a few transformer
// blocks that these layers share, each with a cache and low-rank adapters of its own. A
// block takes the hidden state beside the embedding. All blocks, and with them the caches
// of attention, are built before the first layer, so that layer lists them (vllm zamba2.py).
var zamba2 = family{
	name:          "zamba2",
	architectures: []string{"Zamba2ForCausalLM", "Zamba2Model"},
	types:         []string{"zamba2"},
	resolve: func(r *reader) *Model {
		layers, hidden := r.layers(), r.size("hidden_size")
		m := r.zambaMamba(hidden)
		b := r.zambaBlock(hidden)
		types := r.strings("layers_block_type", layers)
		if r.err != nil || !r.valid(m.State, "n_mamba_heads") {
			return r.model()
		}
		mixer := m.params("mamba", hidden)
		forms := map[string]*form{
			"linear_attention": {alone: true, caches: []Cache{m.cache()}, params: mixer},
			"hybrid":           {alone: true, caches: []Cache{m.cache()}, params: append(b.perLayer(hidden), mixer...)},
		}
		forms["mamba"] = forms["linear_attention"]
		model := r.decoder(decoder{
			heads: b.heads, tied: true, everyStage: true, norms: []string{"input_layernorm"}, names: jambaNames,
			form: func(layer int) *form {
				if layer >= len(types) || forms[types[layer]] == nil {
					r.fail(problem.BadValue, "layers_block_type", "neither mamba nor hybrid in layer %d", layer)
					return forms["mamba"]
				}
				return forms[types[layer]]
			},
		})
		if len(model.Layers) > 0 {
			first := *model.Layers[0]
			first.Caches = append(slices.Repeat([]Cache{b.cache(0)}, countOf(types, "hybrid")), first.Caches...)
			model.Layers[0] = &first
		}
		for range b.count {
			model.Outer = append(model.Outer, everywhere(b.params(hidden)...)...)
		}
		return model
	},
}

func countOf(list []string, want string) (n int) {
	for _, s := range list {
		if s == want {
			n++
		}
	}
	return n
}

// zambaMamba reads the Mamba-2 mixer.
func (r *reader) zambaMamba(hidden int) mamba2 {
	m := mamba2{
		State: State{Mixer: Mamba2, Inner: r.times("mamba_expand", r.size("mamba_expand"), hidden), Heads: max(r.size("n_mamba_heads"), 1),
			StateSize: r.size("mamba_d_state"), Groups: r.size("mamba_ngroups"), Kernel: r.kernel("mamba_d_conv")},
		fields:    mamba2Fields{inner: "mamba_expand", heads: "n_mamba_heads", groups: "mamba_ngroups"},
		projBias:  r.flag("add_bias_linear", false),
		convBias:  r.flag("use_conv_bias", true),
		gatedNorm: true,
	}
	m.HeadDim = max(m.Inner/m.Heads, 1)
	return m
}

// A zambaBlock is a shared transformer block, of which a model has a few.
type zambaBlock struct {
	heads
	count, inner, width, rank int
	adapters, biased          bool
}

func (r *reader) zambaBlock(hidden int) zambaBlock {
	b := zambaBlock{count: r.size("num_mem_blocks"), inner: r.size("attention_hidden_size"), width: r.size("intermediate_size"),
		rank: r.size("adapter_rank"), adapters: r.flag("use_shared_attention_adapter", false), biased: r.flag("add_bias_linear", false)}
	n, dim := r.size("num_attention_heads"), r.size("attention_head_dim")
	b.heads = heads{query: n, kv: n, key: dim, value: dim}
	if b.count > maxLayers {
		r.fail(problem.BadValue, "num_mem_blocks", "more than %d", maxLayers)
	}
	return b
}

// params are what the layers share of a block.
func (b zambaBlock) params(hidden int) []Param {
	params := attentionParams("shared_transformer.self_attn", b.heads, b.inner, false, false)
	for i := range params {
		if strings.Contains(params[i].Name, "o_proj") {
			params[i].Rows = whole(hidden)
		}
	}
	params = append(params, mlpParams("shared_transformer.feed_forward", MLP, hidden, b.width, true, b.biased)...)
	return append(params, norm("shared_transformer.input_layernorm", 2*hidden), norm("shared_transformer.pre_ff_layernorm", hidden))
}

// perLayer are a layer's own adapters of a block and the projection of its result.
func (b zambaBlock) perLayer(hidden int) []Param {
	const prefix = "shared_transformer."
	rank, width := sharded(b.rank, "adapter_rank"), sharded(b.width, "intermediate_size")
	params := []Param{
		linear("linear", Other, whole(hidden), whole(hidden)),
		linear(prefix+"feed_forward.gate_up_proj_adapter.0", MLP, rank, whole(hidden)),
		linear(prefix+"feed_forward.gate_up_proj_adapter.1", MLP, width, whole(b.rank)),
		linear(prefix+"feed_forward.gate_up_proj_adapter.1", MLP, width, whole(b.rank)),
	}
	if b.adapters {
		for _, name := range []string{"q", "k", "v"} {
			params = append(params,
				linear(prefix+"self_attn.linear_"+name+"_adapter.0", Attention, rank, whole(b.inner)),
				linear(prefix+"self_attn.linear_"+name+"_adapter.1", Attention, sharded(b.inner, "attention_hidden_size"), whole(b.rank)))
		}
	}
	return params
}
