package model

// seedOSS is Llama-like with a bias of its own for attention's output (transformers
// modeling_seed_oss.py).
var seedOSS = family{
	name:          "seed_oss",
	architectures: []string{"SeedOssForCausalLM"},
	types:         []string{"seed_oss"},
	resolve: func(r *reader) *Model {
		return r.decoder(decoder{
			gated:   true,
			qkvBias: r.flag("attention_bias", true),
			outBias: r.flag("attention_out_bias", false),
			mlpBias: r.flag("mlp_bias", false),
		})
	},
}

// helium is Llama-like without a bias on attention's output (transformers
// modeling_helium.py).
var helium = family{
	name:          "helium",
	architectures: []string{"HeliumForCausalLM"},
	types:         []string{"helium"},
	resolve: func(r *reader) *Model {
		return r.decoder(decoder{gated: true, squareOut: true, qkvBias: r.flag("attention_bias", false), mlpBias: r.flag("mlp_bias", false)})
	},
}
