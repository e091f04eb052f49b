package model

// aria is Llama's attention with routed and shared experts in every layer and a head of its
// own, beside a vision tower (vllm aria.py).
var aria = family{
	name:          "aria",
	architectures: []string{"AriaForConditionalGeneration"},
	types:         []string{"aria_text"},
	resolve: func(r *reader) *Model {
		e := r.experts("mlp", "moe_num_experts", "intermediate_size")
		e.router = "mlp.router"
		r.share(&e, "shared_experts", "moe_num_shared_experts", 0)
		bias := r.flag("attention_bias", false)
		return r.decoder(decoder{gated: true, qkvBias: bias, outBias: bias, experts: e, untied: true})
	},
}
