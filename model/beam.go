package model

import "headcount/dtype"

// beam has sliding layers with rotary positions and full ones without, a gate on the
// result of attention with a bias a query head, norms on both sides of each half, and MLPs
// or routed experts by mlp_layer_types (vllm models/beam/nvidia).
var beam = family{
	name:          "beam",
	architectures: []string{"BeamForCausalLM"},
	types:         []string{"beam"},
	resolve: func(r *reader) *Model {
		layers, h := r.layers(), r.heads()
		hidden := r.size("hidden_size")
		e := r.experts("mlp", "num_experts", "moe_intermediate_size")
		e.routerDType, e.scoreBias = dtype.Float32, "mlp.gate.e_score_correction_bias"
		return r.decoder(decoder{
			gated: true, untied: true, heads: h, qkNorm: normPerHead, experts: e, sparse: r.sparseByType(layers),
			norms: []string{"input_layernorm", "pre_feedforward_layernorm", "post_attention_layernorm", "post_feedforward_layernorm"},
			extra: func(int) []Param {
				return []Param{
					linear("self_attn.output_gate_proj", Attention, queryHeads(h.query, h.key), whole(hidden)),
					{Name: "self_attn.gate_bias", Part: Attention, Rows: queryHeads(h.query, 1)},
				}
			},
			rotary: rotary{only: "sliding_attention", dtype: dtype.Float32},
		})
	},
}
