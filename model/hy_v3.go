package model

import "headcount/dtype"

// hyV3 has dense first layers, then routed experts whose router is float32 and a shared
// expert (vllm hy_v3.py). It reads the width of an expert from expert_hidden_dim.
var hyV3 = family{
	name:          "hy_v3",
	architectures: []string{"HYV3ForCausalLM"},
	types:         []string{"hy_v3"},
	resolve: func(r *reader) *Model {
		width := "moe_intermediate_size"
		if r.Has("expert_hidden_dim") {
			width = "expert_hidden_dim"
		}
		e := r.experts("mlp", "num_experts", width)
		r.share(&e, "shared_mlp", "num_shared_experts", 0)
		e.routerDType, e.scoreBias = dtype.Float32, "mlp.expert_bias"
		d := decoder{
			gated:      true,
			experts:    e,
			sparse:     sparseFrom(r.opt("first_k_dense_replace", 1), 1),
			nextN:      r.nextN(),
			everyStage: true,
		}
		if r.flag("qk_norm", false) {
			d.qkNorm = normPerHead
		}
		return r.decoder(d)
	},
}
