package model

import "headcount/dtype"

// grok is Grok-1 and Grok-2: norms on both sides of each half of a layer, routed experts
// behind a float32 router, and beside them a plain MLP where residual_moe says so (sglang
// models/grok.py; vLLM served it up to 0.24).
var grok = family{
	name:          "grok",
	architectures: []string{"Grok1ForCausalLM", "Grok1ModelForCausalLM"},
	types:         []string{"grok-1"},
	resolve: func(r *reader) *Model {
		width := "moe_intermediate_size"
		if !r.Has(width) {
			width = "intermediate_size"
		}
		count := "num_local_experts"
		if !r.Has(count) {
			count = "num_experts"
		}
		e := r.experts("block_sparse_moe", count, width)
		e.projections, e.routerDType = mixtralProjections, dtype.Float32
		if r.flag("residual_moe", false) {
			e.beside = mlpParams("mlp", MLP, r.size("hidden_size"), r.size("intermediate_size"), true, false)
		}
		return r.decoder(decoder{
			gated:   true,
			norms:   []string{"pre_attn_norm", "post_attn_norm", "pre_moe_norm", "post_moe_norm"},
			experts: e,
			untied:  true,
		})
	},
}

// xverseMoE is Llama's attention with routed and shared experts in every layer (sglang
// models/xverse_moe.py).
var xverseMoE = family{
	name:          "xverse_moe",
	architectures: []string{"XverseMoeForCausalLM"},
	types:         []string{"xverse_moe"},
	resolve: func(r *reader) *Model {
		e := r.experts("mlp", "num_experts", "intermediate_size")
		e.router = "mlp.router"
		r.share(&e, "shared_experts", "num_shared_experts", 0)
		return r.decoder(decoder{gated: true, experts: e})
	},
}
