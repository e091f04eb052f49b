package model

import "headcount/dtype"

// dots1 has dense first layers, then routed and shared experts, and normalises queries and
// keys a head at a time (transformers modeling_dots1.py).
var dots1 = family{
	name:          "dots1",
	architectures: []string{"Dots1ForCausalLM"},
	types:         []string{"dots1"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		return corrected(r.decoder(decoder{
			gated:   true,
			qkvBias: bias,
			outBias: bias,
			qkNorm:  normPerHead,
			experts: r.deepSeekExperts(),
			sparse:  sparseFrom(r.opt("first_k_dense_replace", 0), 1),
		}))
	},
}

// solarOpen is dots1 without norms of queries and keys and without dense layers
// (transformers modeling_solar_open.py).
var solarOpen = family{
	name:          "solar_open",
	architectures: []string{"SolarOpenForCausalLM"},
	types:         []string{"solar_open"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		return corrected(r.decoder(decoder{gated: true, qkvBias: bias, experts: r.deepSeekExperts()}))
	},
}

// corrected adds the corrections of scores that the class does not train and so keeps
// beside the parameters.
func corrected(m *Model) *Model {
	for _, l := range distinct(m.Layers) {
		for _, p := range l.Params {
			if p.Experts > 0 {
				l.Buffers = []Param{{Name: "mlp.gate.e_score_correction_bias", Part: MoERouter, Rows: whole(p.Experts), DType: dtype.Float32}}
				break
			}
		}
	}
	return m
}
