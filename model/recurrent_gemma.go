package model

import "headcount/problem"

// recurrentGemma is Griffin (arXiv 2402.19427): two layers of gated linear recurrence to
// each one of windowed attention (transformers modeling_recurrent_gemma.py).
var recurrentGemma = family{
	name:          "recurrent_gemma",
	architectures: []string{"RecurrentGemmaForCausalLM", "RecurrentGemmaModel"},
	types:         []string{"recurrent_gemma"},
	resolve: func(r *reader) *Model {
		layers, hidden, h := r.layers(), r.size("hidden_size"), r.heads()
		s := State{Mixer: RGLRU, Inner: r.size("lru_width"), Kernel: r.kernel("conv1d_width")}
		window, biased := r.opt("attention_window_size", 0), r.flag("attention_bias", false)
		blocks := r.strings("layers_block_type", layers)
		if r.err != nil || !r.valid(s, "lru_width") {
			return r.model()
		}
		forms := map[string]*form{
			"recurrent": {caches: []Cache{s.cache()}, params: rglru(s, h.query, hidden)},
			"attention": {caches: []Cache{h.cache(window)}, params: attentionParams("temporal_block", h, hidden, biased, true)},
		}
		return r.decoder(decoder{
			gated: true, mlpBias: true, heads: h, intermediate: max(r.size("intermediate_size")/2, 1),
			norms: []string{"temporal_pre_norm", "channel_pre_norm"},
			form: func(layer int) *form {
				if layer >= len(blocks) || forms[blocks[layer]] == nil {
					r.fail(problem.BadValue, "block_types", "neither recurrent nor attention in layer %d", layer)
					return forms["recurrent"]
				}
				return forms[blocks[layer]]
			},
		})
	},
}

// rglru are the parameters of a recurrent block: projections in and out, a convolution, and
// gates that are block-diagonal over heads.
func rglru(s State, heads, hidden int) []Param {
	const prefix = "temporal_block"
	inner, block := whole(s.Inner), whole(s.Inner/max(heads, 1))
	params := []Param{
		linear(prefix+".linear_y", Attention, inner, whole(hidden)), bias(prefix+".linear_y", Attention, inner),
		linear(prefix+".linear_x", Attention, inner, whole(hidden)), bias(prefix+".linear_x", Attention, inner),
		linear(prefix+".linear_out", Attention, whole(hidden), inner), bias(prefix+".linear_out", Attention, whole(hidden)),
		{Name: prefix + ".rg_lru.recurrent_param", Part: Attention, Rows: inner},
	}
	for _, gate := range []string{"input_gate", "recurrent_gate"} {
		params = append(params,
			Param{Name: prefix + ".rg_lru." + gate + "_weight", Part: Attention, Rows: inner, Cols: block},
			Param{Name: prefix + ".rg_lru." + gate + "_bias", Part: Attention, Rows: inner})
	}
	return append(params, convolution(prefix+".conv_1d", s.Kernel, true, inner)...)
}
