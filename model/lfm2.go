package model

import (
	"strings"

	"headcount/problem"
)

// lfm2 mixes gated short convolutions with attention. The head is the embedding (vllm
// lfm2.py; lfm2_vl.py wraps it beside a tower).
var lfm2 = family{
	name:          "lfm2",
	architectures: []string{"Lfm2ForCausalLM", "Lfm2Model", "Lfm2VlForConditionalGeneration", "Lfm2VlModel", "Lfm2BidirectionalModel"},
	types:         []string{"lfm2", "lfm2_vl"},
	resolve: func(r *reader) *Model {
		mlp := mlpParams("mlp", MLP, r.size(r.given("block_dim", "hidden_size")), r.lfm2Width(), true, false)
		m := r.decoder(r.lfm2(r.size(r.given("conv_dim", "hidden_size")), mlp))
		if r.arch == "Lfm2BidirectionalModel" { // its convolutions read ahead, and keep nothing
			for _, l := range distinct(m.Layers) {
				if l.Caches[0].Kind == Recurrent {
					l.Caches = nil
				}
			}
		}
		return m
	},
}

// lfm2MoE has routed experts in all but its first layers (vllm lfm2_moe.py).
var lfm2MoE = family{
	name:          "lfm2_moe",
	architectures: []string{"Lfm2MoeForCausalLM", "Lfm2MoeModel"},
	types:         []string{"lfm2_moe"},
	resolve: func(r *reader) *Model {
		d := r.lfm2(r.size("hidden_size"), nil)
		d.experts = r.experts("feed_forward", "num_experts", "moe_intermediate_size")
		d.experts.projections, d.experts.routerPacks = mixtralProjections, true
		if r.flag("use_expert_bias", true) {
			d.experts.scoreBias = "feed_forward.expert_bias"
		}
		d.sparse = sparseFrom(r.opt("num_dense_layers", 0), 1)
		return r.decoder(d)
	},
}

// lfm2 reads what the dense and the sparse model share. width is the convolution's, mlp
// the MLP of every layer where all have one.
func (r *reader) lfm2(width int, mlp []Param) decoder {
	layers, hidden, view := r.layers(), r.size("hidden_size"), r.heads()
	h := r.quotient(view)
	conv := shortConv{State: State{Mixer: ShortConv, Inner: max(width, 1), Kernel: r.kernel("conv_L_cache")},
		biased: r.flag("conv_bias", false)}
	if r.err != nil || !r.valid(conv.State, "conv_L_cache") {
		return decoder{}
	}
	attention := append(attentionParams("self_attn", h, hidden, false, false),
		norm("self_attn.q_layernorm", h.key), norm("self_attn.k_layernorm", h.key))
	return decoder{
		gated: true, tied: true, heads: view, norms: []string{"operator_norm", "ffn_norm"}, names: lfm2Names,
		everywhere: []Part{Embedding},
		form: r.formByType(layers, map[string]*form{
			"conv":           {caches: []Cache{conv.cache()}, params: append(conv.params("conv", conv.Inner), mlp...), alone: mlp != nil},
			"full_attention": {caches: []Cache{h.cache(0)}, params: append(attention, mlp...), alone: mlp != nil},
		}),
	}
}

// lfm2Names are LFM2's names for LLaMA's.
var lfm2Names = strings.NewReplacer(
	"mlp.gate_proj.", "feed_forward.w1.", "mlp.up_proj.", "feed_forward.w3.", "mlp.down_proj.", "feed_forward.w2.",
	"self_attn.o_proj.", "self_attn.out_proj.", "model.norm", "model.embedding_norm")

// lfm2Width is the width of the MLP: two thirds of the config's, times a factor, rounded
// up to a multiple, where the config asks for that.
func (r *reader) lfm2Width() int {
	n := r.size("intermediate_size")
	if !r.flag("block_auto_adjust_ff_dim", true) {
		return n
	}
	width := float64(2 * n / 3)
	if factor, ok := r.Float("block_ffn_dim_multiplier"); ok {
		width *= factor
	}
	unit := r.size("block_multiple_of")
	if !(width >= 1 && width < maxSize) || r.err != nil {
		r.fail(problem.BadValue, "block_ffn_dim_multiplier", "does not make a width of %d", n)
		return 1
	}
	return (int(width) + unit - 1) / unit * unit
}
