package model

import (
	"slices"

	"headcount/dtype"
	"headcount/problem"
)

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

// ernieVLMoE is ernieMoE beside a vision tower, with as many experts again, narrower ones,
// for the tokens of images; its lists give a number for text and one for images (vllm
// ernie45_vl_moe.py).
var ernieVLMoE = family{
	name:          "ernie4_5_vl_moe",
	architectures: []string{"Ernie4_5_VLMoeForConditionalGeneration"},
	types:         []string{"ernie4_5_moe_vl", "ernie4_5_vl_moe_text"},
	resolve: func(r *reader) *Model {
		counts, widths := r.each("moe_num_experts"), r.each("moe_intermediate_size")
		text := experts{prefix: "mlp", count: counts[0], width: widths[0], field: "moe_intermediate_size",
			router: "mlp.text_experts_gate", routerDType: dtype.Float32}
		r.share(&text, "shared_experts", "moe_num_shared_experts", 0)
		image := experts{prefix: "mlp.vision", count: counts[len(counts)-1], width: widths[len(widths)-1],
			field: "moe_intermediate_size", router: "mlp.vision_experts_gate", routerDType: dtype.Float32}
		text.beside = append(image.params(r.size("hidden_size")), Param{Name: "mlp.gate.e_score_correction_bias",
			Part: MoERouter, Rows: whole(len(counts)), Cols: whole(counts[0]), DType: dtype.Float32})
		first, last := slices.Min(r.each("moe_layer_start_index")), r.layers()-1
		if r.Has("moe_layer_end_index") {
			last = slices.Max(r.each("moe_layer_end_index"))
		}
		bias := r.flag("use_bias", false)
		return r.decoder(decoder{gated: true, qkvBias: bias, mlpBias: bias, experts: text,
			sparse: func(layer int) bool { return first <= layer && layer <= last }})
	},
}

// each reads one number, or a list of them, of which none may be negative.
func (r *reader) each(key string) []int {
	if _, isList := r.List(key); !isList {
		return []int{r.opt(key, 0)}
	}
	out := r.ints(key)
	if len(out) == 0 || slices.Min(out) < 0 {
		r.fail(problem.BadValue, key, "not a list of numbers that are 0 or more")
		return []int{0}
	}
	return out
}
