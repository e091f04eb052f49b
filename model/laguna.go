package model

import "headcount/problem"

// laguna has a number of query heads for each layer, sliding or full, a gate on the
// attention's result, and routed and shared experts after dense first layers (vllm
// laguna.py).
var laguna = family{
	name:          "laguna",
	architectures: []string{"LagunaForCausalLM", "LagunaModel"},
	types:         []string{"laguna"},
	resolve: func(r *reader) *Model {
		layers, hidden, h := r.layers(), r.size("hidden_size"), r.heads()
		e := r.experts("mlp", "num_experts", "moe_intermediate_size")
		e.shared, e.sharedWidth = "mlp.shared_expert", r.opt("shared_expert_intermediate_size", 0)
		e.scoreBias, e.biasPart = "mlp.experts.e_score_correction_bias", MoEExperts
		a := r.lagunaAttention()
		return separate(r.decoder(decoder{
			gated: true, heads: h, experts: e, sparse: r.sparseByType(layers),
			form: formPerKind(r.lagunaKinds(layers, h.query), func(k attentionKind) *form {
				h := h
				h.query = k.query
				return &form{caches: []Cache{h.cache(k.window)}, params: a.params(h, hidden, k.window > 0)}
			}),
		}))
	},
}

// separate keeps gate and up projections of dense MLPs and shared experts two modules
// (LagunaMLP).
func separate(m *Model) *Model {
	for _, l := range distinct(m.Layers) {
		for i := range l.Params {
			if p := &l.Params[i]; p.Part == MLP || p.Part == MoEShared {
				p.Apart = true
			}
		}
	}
	return m
}

// lagunaKinds reads query heads and window of each layer.
func (r *reader) lagunaKinds(layers, query int) []attentionKind {
	kinds, counts := make([]attentionKind, layers), r.ints("num_attention_heads_per_layer")
	if len(counts) != 0 && len(counts) != layers {
		r.fail(problem.BadValue, "num_attention_heads_per_layer", "%d entries for %d layers", len(counts), layers)
		return nil
	}
	windows := r.windows(layers)
	for i := range kinds {
		kinds[i] = attentionKind{query: query, window: windows[i]}
		if len(counts) > 0 {
			kinds[i].query = counts[i]
		}
		if kinds[i].query < 1 {
			r.fail(problem.BadValue, "num_attention_heads_per_layer", "entry %d is less than 1", i)
		}
	}
	return kinds
}

// lagunaAttention is what its layers share.
type lagunaAttention struct {
	biased bool
	gate   string // "": none; "per-head"; anything else: one element of each head
	sinks  bool   // in sliding layers
}

func (r *reader) lagunaAttention() lagunaAttention {
	a := lagunaAttention{biased: r.flag("attention_bias", false), sinks: r.flag("swa_attention_sink_enabled", false)}
	if text, ok := r.Text("gating"); ok {
		a.gate = text
	} else if r.flag("gating", true) {
		a.gate = "per-head"
	}
	return a
}

func (a lagunaAttention) params(h heads, hidden int, sliding bool) []Param {
	params := append(attentionParams("self_attn", h, hidden, a.biased, a.biased),
		norm("self_attn.q_norm", h.key), norm("self_attn.k_norm", h.key))
	switch a.gate {
	case "":
	case "per-head":
		params = append(params, linear("self_attn.g_proj", Attention, queryHeads(h.query, 1), whole(hidden)))
	default:
		params = append(params, linear("self_attn.g_proj", Attention, queryHeads(h.query, h.key), whole(hidden)))
	}
	if a.sinks && sliding {
		params = append(params, sinks("self_attn.sink", h.query))
	}
	return params
}
