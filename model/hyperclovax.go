package model

// hyperclovax is Llama-like, with a norm after each half of a layer where use_post_norm
// says so (vllm hyperclovax.py).
var hyperclovax = family{
	name:          "hyperclovax",
	architectures: []string{"HyperCLOVAXForCausalLM"},
	types:         []string{"hyperclovax"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		d := decoder{gated: true, qkvBias: bias, outBias: bias, mlpBias: r.flag("mlp_bias", false)}
		if r.flag("use_post_norm", false) {
			d.norms = []string{"input_layernorm", "post_attention_layernorm", "post_norm1", "post_norm2"}
		}
		return r.decoder(d)
	},
}
