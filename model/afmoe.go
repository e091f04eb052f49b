package model

import "headcount/dtype"

// afmoe has three sliding layers to each full one, a gate on the attention's result, four
// norms a layer, and after dense first layers routed and shared experts behind a float32
// router (vllm afmoe.py).
var afmoe = family{
	name:          "afmoe",
	architectures: []string{"AfmoeForCausalLM"},
	types:         []string{"afmoe"},
	resolve: func(r *reader) *Model {
		e := r.experts("mlp", "num_experts", "moe_intermediate_size")
		r.share(&e, "shared_experts", "num_shared_experts", 0)
		e.router, e.routerDType, e.scoreBias, e.biasPart = "mlp.router.gate", dtype.Float32, "mlp.expert_bias", MLP
		h, hidden := r.heads(), r.size("hidden_size")
		return r.decoder(decoder{
			gated:   true,
			heads:   h,
			qkNorm:  normPerHead,
			norms:   []string{"input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"},
			experts: e,
			sparse:  sparseFrom(r.opt("num_dense_layers", 0), 1),
			untied:  true,
			rotary:  rotary{only: "sliding_attention"},
			extra: func(int) []Param {
				return []Param{linear("self_attn.gate_proj", Attention, queryHeads(h.query, h.key), whole(hidden))}
			},
		})
	},
}
