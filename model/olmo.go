package model

// olmo normalises without weights (transformers modeling_olmo.py).
var olmo = family{
	name:          "olmo",
	architectures: []string{"OlmoForCausalLM"},
	types:         []string{"olmo"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		return r.decoder(decoder{gated: true, qkvBias: bias, outBias: bias, norms: []string{}, noFinalNorm: true})
	},
}

// olmo2 normalises after attention and after the MLP, and queries and keys over all heads
// together (transformers modeling_olmo2.py).
var olmo2 = family{
	name:          "olmo2",
	architectures: []string{"Olmo2ForCausalLM"},
	types:         []string{"olmo2"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		return r.decoder(decoder{
			gated:   true,
			qkvBias: bias,
			outBias: bias,
			norms:   []string{"post_attention_layernorm", "post_feedforward_layernorm"},
			qkNorm:  normWhole,
		})
	},
}
