package model

import "headcount/problem"

// hrm runs two stacks of layers in turns, each turn with caches of its own: L_cycles turns
// of the low stack and one of the high stack, H_cycles times over. Attention is gated by a
// fourth projection and no norm has weights (vllm hrm_text.py). The layers are those that
// cache; the first of them hold the parameters of both stacks.
var hrm = family{
	name:          "hrm_text",
	architectures: []string{"HrmTextForCausalLM"},
	types:         []string{"hrm_text"},
	resolve: func(r *reader) *Model {
		stack, turns := r.size("num_layers_per_stack"), r.size("H_cycles")*(r.size("L_cycles")+1)
		if turns > maxLayers || stack > maxLayers || stack*turns > maxLayers {
			r.fail(problem.BadValue, "num_layers_per_stack", "more than %d layers over all cycles", maxLayers)
		}
		h := r.heads()
		h.kv = h.query
		bias := r.flag("attention_bias", false)
		d := decoder{heads: h, depth: stack * turns, gated: true, qkvBias: bias, outBias: bias,
			mlpBias: r.flag("mlp_bias", false), norms: []string{}, noFinalNorm: true}
		m := r.decoder(d)
		if r.err != nil {
			return m
		}
		gate := linear("self_attn.gate_proj", Attention, queryHeads(h.query, h.key), whole(m.HiddenSize))
		held := &Layer{Caches: m.Layers[0].Caches, Params: append(m.Layers[0].Params, gate)}
		again := &Layer{Caches: m.Layers[0].Caches}
		m.Layers = append(repeat(held, 2*stack), repeat(again, stack*(turns-2))...)
		m.Outer = append(m.Outer, Param{Name: "model.z_L_init", Part: Other, Rows: whole(m.HiddenSize)})
		return m
	},
}
