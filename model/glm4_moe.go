package model

import "headcount/dtype"

// glm4MoE has dense first layers, then routed experts whose router is float32 and a shared
// expert (vllm glm4_moe.py; glm4_1v.py wraps it beside a tower). Its MTP layers follow the
// decoder's in the checkpoint.
var glm4MoE = family{
	name:          "glm4_moe",
	architectures: []string{"Glm4MoeForCausalLM", "Glm4vMoeForConditionalGeneration"},
	types:         []string{"glm4_moe", "glm4v_moe_text"},
	resolve: func(r *reader) *Model {
		d := decoder{
			gated:   true,
			qkvBias: r.flag("attention_bias", false),
			experts: r.deepSeekExperts(),
			sparse:  sparseFrom(r.opt("first_k_dense_replace", 0), 1),
			untied:  true,
			nextN:   r.nextN(),
		}
		d.experts.routerDType = dtype.Float32
		d.experts.scoreBias = "mlp.gate.e_score_correction_bias"
		if r.flag("use_qk_norm", false) {
			d.qkNorm = normPerHead
		}
		return r.decoder(d)
	},
}
