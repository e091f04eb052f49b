package model

// exaoneMoE is EXAONE 4 with routed and shared experts (vllm exaone_moe.py).
var exaoneMoE = family{
	name:          "exaone_moe",
	architectures: []string{"ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM"},
	types:         []string{"exaone_moe"},
	resolve: func(r *reader) *Model {
		e := r.experts("mlp", "num_experts", "moe_intermediate_size")
		r.share(&e, "shared_experts", "num_shared_experts", 0)
		e.scoreBias = "mlp.e_score_correction_bias"
		bias := r.flag("attention_bias", false)
		sparse := sparseFrom(r.opt("first_k_dense_replace", 0), 1)
		if r.Has("mlp_layer_types") {
			sparse = r.sparseByType(r.layers())
		}
		return r.decoder(decoder{
			gated:   true,
			qkvBias: bias,
			outBias: bias,
			mlpBias: r.flag("mlp_bias", false),
			qkNorm:  normPerHead,
			experts: e,
			sparse:  sparse,
		})
	},
}
