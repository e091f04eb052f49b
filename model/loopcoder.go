package model

import "headcount/problem"

// loopCoder goes through its layers loop_num times. Each pass has a cache of its own, full
// in the first pass and a window in the others; a gate per layer mixes the passes (vllm
// iquest_loopcoder.py).
var loopCoder = family{
	name:          "iquest_loopcoder",
	architectures: []string{"IQuestLoopCoderForCausalLM"},
	types:         []string{"iquestloopcoder"},
	resolve: func(r *reader) *Model {
		h, loops := r.heads(), r.opt("loop_num", 2)
		if loops > maxLayers || loops*r.layers() > maxLayers {
			r.fail(problem.BadValue, "loop_num", "more than %d layers over all passes", maxLayers)
			return r.model()
		}
		window := r.opt("loop_window_size", 64)
		m := r.decoder(decoder{gated: true, heads: h, everyStage: true, extra: func(int) []Param {
			gate := linear("gate_projections.gate_proj", Other, queryHeads(h.query, 1), whole(h.key))
			return []Param{gate, bias("gate_projections.gate_proj", Other, queryHeads(h.query, 1))}
		}})
		for _, l := range distinct(m.Layers) {
			for range loops - 1 {
				l.Caches = append(l.Caches, h.cache(window))
			}
		}
		return m
	},
}
