package model

import "headcount/dtype"

// ernieMoE has routed and shared experts in the layers from moe_layer_start_index to
// moe_layer_end_index, every moe_layer_interval-th, and a float32 router (vllm
// ernie45_moe.py).
var ernieMoE = family{
	name:          "ernie4_5_moe",
	architectures: []string{"Ernie4_5_MoeForCausalLM"},
	types:         []string{"ernie4_5_moe"},
	resolve: func(r *reader) *Model {
		e := r.experts("mlp", "moe_num_experts", "moe_intermediate_size")
		r.share(&e, "shared_experts", "moe_num_shared_experts", 0)
		e.routerDType, e.scoreBias = dtype.Float32, "mlp.gate.e_score_correction_bias"
		bias, hidden := r.flag("use_bias", false), r.size("hidden_size")
		return r.decoder(decoder{
			gated:     true,
			qkvBias:   bias,
			mlpBias:   bias,
			experts:   e,
			sparse:    r.ernieSparse(),
			nextN:     r.nextN(),
			nextDense: true,
			nextJoin: []Param{ // vllm ernie_mtp.py
				{Name: "mtp_linear_proj.weight", Part: Other, Rows: whole(hidden), Cols: whole(2 * hidden)},
				norm("mtp_emb_norm", hidden), norm("mtp_hidden_norm", hidden),
			},
		})
	},
}

// ernieSparse returns whether a layer has experts.
func (r *reader) ernieSparse() func(layer int) bool {
	first, every := r.opt("moe_layer_start_index", 0), max(r.opt("moe_layer_interval", 1), 1)
	last := r.layers() - 1
	if n, ok := r.Int("moe_layer_end_index"); ok && n >= 0 {
		last = int(min(n, maxLayers))
	}
	if !r.flag("use_moe", true) {
		last = -1
	}
	return func(layer int) bool { return (layer+1)%every == 0 && first <= layer && layer <= last }
}
