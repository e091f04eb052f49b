package model

import (
	"slices"

	"headcount/dtype"
	"headcount/problem"
)

// kimiLinear has layers of Kimi delta attention (arXiv 2510.26692) and, in their place
// every few layers, latent attention without rotary positions; dense first layers, then
// routed and shared experts. Kimi K3 is the same with gates of full rank, experts that
// work on a projection, and residuals over blocks of layers (vllm models/kimi_k3).
var kimiLinear = family{
	name:          "kimi_linear",
	architectures: []string{"KimiLinearForCausalLM", "KimiK3ForConditionalGeneration"},
	types:         []string{"kimi_linear", "kimi_k3"},
	resolve: func(r *reader) *Model {
		layers, hidden, l := r.layers(), r.size("hidden_size"), r.latent()
		k, e := r.kda(), r.kimiExperts(hidden)
		linearLayers := r.kdaLayers(layers)
		gated := r.flag("mla_use_output_gate", false)
		blocks := r.Has("attn_res_block_size")
		if r.err != nil || !r.valid(k.State, "linear_attn_config") {
			return r.model()
		}
		attention := func() *form {
			f := &form{caches: []Cache{l.cache()}, params: l.params("self_attn", hidden)}
			if gated {
				f.params = append(f.params, outputGate(l, hidden))
			}
			return f
		}
		d := decoder{
			gated: true, latent: &l, untied: true, experts: e, rotary: rotary{none: true},
			sparse: sparseFrom(r.opt("first_k_dense_replace", 0), r.opt("moe_layer_freq", 1)),
			form: formPerKind(linearLayers, func(linear bool) *form {
				f := attention()
				if linear {
					f = &form{caches: []Cache{k.cache()}, params: k.params("self_attn", hidden)}
				}
				if blocks {
					f.params = append(f.params, blockResiduals(hidden)...)
				}
				return f
			}),
		}
		m := r.decoder(d)
		m.Draft = r.kimiDraft(d, attention, layers, hidden)
		for _, layer := range append(distinct(m.Layers), distinct(m.Draft)...) {
			if len(layer.Caches) > 0 && layer.Caches[0].Kind == Latent {
				layer.Buffers = []Param{{Name: "self_attn.scale", Part: Attention, Rows: whole(1), DType: dtype.Float32}}
			}
		}
		if blocks {
			m.Outer = append(m.Outer, Param{Name: "model.output_attn_res_norm.weight", Part: Norm, Rows: whole(hidden), Stage: LastStage},
				Param{Name: "model.output_attn_res_proj.weight", Part: Other, Rows: whole(1), Cols: whole(hidden), Stage: LastStage})
		}
		return m
	},
}

// kimiDraft are the MTP layers: latent attention, and experts as if they were further layers
// of the decoder (vllm models/kimi_k3/nvidia/mtp.py).
func (r *reader) kimiDraft(d decoder, attention func() *form, layers, hidden int) []*Layer {
	sparse := make([]bool, r.nextN())
	for i := range sparse {
		sparse[i] = d.experts.count > 0 && d.sparse(layers+i)
	}
	if slices.Contains(sparse, false) {
		d.intermediate = r.size("intermediate_size")
	}
	return perKind(sparse, func(sparse bool) *Layer {
		k := layerKind{form: attention(), sparse: sparse}
		return &Layer{Caches: d.caches(k), Params: append(d.params(k, hidden), deepSeekJoin(hidden)...)}
	})
}

// outputGate is the projection to a gate of each element of latent attention's result.
func outputGate(l latent, hidden int) Param {
	return linear("self_attn.g_proj", Attention, queryHeads(l.query, l.value), whole(hidden))
}

// blockResiduals weigh the results of earlier blocks before each half of a layer.
func blockResiduals(hidden int) []Param {
	return []Param{
		norm("self_attention_res_norm", hidden), norm("mlp_res_norm", hidden),
		{Name: "self_attention_res_proj.weight", Part: Other, Rows: whole(1), Cols: whole(hidden)},
		{Name: "mlp_res_proj.weight", Part: MLP, Rows: whole(1), Cols: whole(hidden)},
	}
}

// kda are the parameters of Kimi delta attention: heads of one width for keys and values.
type kda struct {
	State
	fullRank bool // the output gate is projected from the hidden state, not through a head's width
	decay    bool // so is the decay
	field    string
}

// kda reads linear_attn_config.
func (r *reader) kda() kda {
	const key = "linear_attn_config"
	heads, width := r.within(key, "num_heads", 0), r.within(key, "head_dim", 0)
	k := kda{field: key + ".num_heads", State: State{Mixer: KDA, Kernel: r.within(key, "short_conv_kernel_size", 0), Groups: heads, Heads: heads,
		HeadDim: width, StateSize: width}}
	if min(k.Kernel, heads, width) == 0 && r.err == nil {
		r.fail(problem.MissingField, key, "num_heads, head_dim or short_conv_kernel_size is missing")
	}
	v, _ := r.Object(key).Get("use_full_rank_gate")
	k.fullRank, _ = v.Bool()
	return k
}

func (k kda) params(prefix string, hidden int) []Param {
	name := func(s string) string { return prefix + "." + s }
	inner := Axis{Size: k.Heads * k.HeadDim, Split: Sharded, Unit: k.HeadDim, Field: k.field}
	heads := sharded(k.Heads, k.field)
	params := []Param{
		linear(name("q_proj"), Attention, inner, whole(hidden)),
		linear(name("k_proj"), Attention, inner, whole(hidden)),
		linear(name("v_proj"), Attention, inner, whole(hidden)),
		linear(name("b_proj"), Attention, heads, whole(hidden)),
		linear(name("o_proj"), Attention, whole(hidden), inner),
		{Name: name("A_log"), Part: Attention, Rows: heads, DType: dtype.Float32},
		{Name: name("dt_bias"), Part: Attention, Rows: inner, DType: dtype.Float32},
		norm(name("o_norm"), k.HeadDim),
	}
	for _, p := range convolution(name("conv1d"), k.Kernel, false, inner, inner, inner) {
		p.DType = dtype.Float32
		params = append(params, p)
	}
	if k.decay {
		return append(params,
			linear(name("f_proj"), Attention, inner, whole(hidden)),
			linear(name("g_proj"), Attention, inner, whole(hidden)))
	}
	params = append(params,
		linear(name("f_a_proj"), Attention, whole(k.HeadDim), whole(hidden)),
		linear(name("f_b_proj"), Attention, inner, whole(k.HeadDim)))
	if k.fullRank { // fused with the projections above, whose share is padded to 16 rows
		fill := Axis{Size: 4*inner.Size + k.Heads, Least: k.HeadDim, Unit: 16, Split: Filler, Field: k.field}
		return append(params, linear(name("g_proj"), Attention, inner, whole(hidden)), linear(name("b_proj"), Attention, fill, whole(hidden)))
	}
	return append(params,
		linear(name("g_a_proj"), Attention, whole(k.HeadDim), whole(hidden)),
		linear(name("g_b_proj"), Attention, inner, whole(k.HeadDim)))
}

// kdaLayers reads which layers have delta attention: those that linear_attn_config counts,
// from 1, in kda_layers.
func (r *reader) kdaLayers(layers int) []bool {
	out := make([]bool, layers)
	v, _ := r.Object("linear_attn_config").Get("kda_layers")
	for _, entry := range v.List() {
		n, ok := entry.Int()
		if !ok || n < 1 || n > int64(layers) {
			r.odd("no-such-layer", "not every entry of linear_attn_config.kda_layers is the number of one of %d layers: engines look for those that are", layers)
			continue
		}
		out[n-1] = true
	}
	if !slices.Contains(out, true) && r.err == nil {
		r.fail(problem.MissingField, "linear_attn_config", "kda_layers names no layer")
	}
	return out
}

// kimiExperts reads routed experts, which may work on a projection of the hidden state. On
// several ranks each holds at least some rows of an expert, padded up to them.
func (r *reader) kimiExperts(hidden int) experts {
	e := r.experts("block_sparse_moe", "num_experts", "moe_intermediate_size")
	r.share(&e, "shared_experts", "num_shared_experts", 0)
	e.scoreBias, e.projections = "block_sparse_moe.gate.e_score_correction_bias", mixtralProjections
	e.least = r.opt("min_moe_intermediate_per_partition", 256)
	e.hidden = r.opt("routed_expert_hidden_size", 0)
	if e.hidden == 0 {
		return e
	}
	e.beside = []Param{
		linear("block_sparse_moe.routed_expert_down_proj", MLP, whole(e.hidden), whole(hidden)),
		linear("block_sparse_moe.routed_expert_up_proj", MLP, whole(hidden), whole(e.hidden)),
	}
	if r.flag("latent_moe_use_norm", false) {
		e.beside = append(e.beside, norm("block_sparse_moe.routed_expert_norm", e.hidden))
	}
	return e
}
