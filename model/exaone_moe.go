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
		bias, layers := r.flag("attention_bias", false), r.layers()
		windows, hidden := r.windows(layers), r.size("hidden_size")
		d := decoder{
			gated:     true,
			qkvBias:   bias,
			outBias:   bias,
			mlpBias:   r.flag("mlp_bias", false),
			qkNorm:    normPerHead,
			windows:   windows,
			experts:   e,
			sparse:    r.sparseByType(layers),
			nextN:     r.nextAt("num_nextn_predict_layers", 1),
			nextDense: true,
			nextJoin:  shardedJoin(hidden),
		}
		if d.sparse == nil {
			d.sparse = sparseFrom(r.opt("first_k_dense_replace", 0), 1)
		}
		if layers > 0 {
			d.nextWindow = windows[0] // the MTP layer takes the first layer's type
		}
		return r.decoder(d)
	},
}
