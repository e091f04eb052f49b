package model

// olmo3 has three sliding layers to each full one, norms after attention and MLP, and
// norms over all query and key heads together. vLLM serves it by Transformers' own
// modules (transformers modeling_olmo3.py).
var olmo3 = family{
	name:          "olmo3",
	architectures: []string{"Olmo3ForCausalLM", "Olmo3Model", "Olmo3ForSequenceClassification"},
	types:         []string{"olmo3"},
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
