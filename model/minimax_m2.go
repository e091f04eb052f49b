package model

import "headcount/dtype"

// minimaxM2 normalises queries and keys over all heads, each rank its own part, and keeps
// its router in float32 (vllm minimax_m2.py).
var minimaxM2 = family{
	name:          "minimax_m2",
	architectures: []string{"MiniMaxM2ForCausalLM"},
	types:         []string{"minimax_m2"},
	resolve: func(r *reader) *Model {
		e := r.experts("block_sparse_moe", "num_local_experts", "intermediate_size")
		e.projections, e.routerDType = mixtralProjections, dtype.Float32
		if r.flag("use_routing_bias", false) {
			e.scoreBias = "block_sparse_moe.e_score_correction_bias"
		}
		turned := 0 // by the factor, where there is one
		if _, ok := r.partial(r.Object("rope_parameters")); !ok {
			turned = r.opt("rotary_dim", 0)
		}
		return r.decoder(decoder{
			gated:   true,
			qkvBias: r.flag("attention_bias", false),
			qkNorm:  normWhole,
			experts: e,
			untied:  true,
			rotary:  rotary{dim: turned},
		})
	},
}
