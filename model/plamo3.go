package model

import "headcount/problem"

// plamo3 has norms before and after each half of a layer and, in most layers, a window, which
// a list gives for each (vllm plamo3.py).
var plamo3 = family{
	name:          "plamo3",
	architectures: []string{"Plamo3ForCausalLM"},
	types:         []string{"plamo3"},
	resolve: func(r *reader) *Model {
		m := r.decoder(decoder{
			gated: true, qkNorm: normPerHead, windows: r.listedWindows(r.layers()),
			norms:  []string{"pre_mixer_norm", "post_mixer_norm", "pre_mlp_norm", "post_mlp_norm"},
			rotary: rotary{served: true}, everyStage: true,
		})
		if theta, ok := r.Float("rope_local_theta"); ok && len(m.Ropes) == 1 {
			local := m.Ropes[0]
			local.Type, local.Theta, local.LayerType = "default", theta, "sliding_attention"
			m.Ropes[0].LayerType = "full_attention"
			m.Ropes = append(m.Ropes, local)
		}
		return m
	},
}

// listedWindows reads each layer's window from a list, under the name that the engine gives
// it or its own; null is none.
func (r *reader) listedWindows(layers int) []int {
	key := "interleaved_sliding_window"
	list, ok := r.List(key)
	if !ok {
		key = "sliding_window"
		list, ok = r.List(key)
	}
	switch {
	case !ok:
		r.fail(problem.MissingField, key, "a window for each layer is missing")
	case len(list) != layers:
		r.fail(problem.BadValue, key, "%d entries for %d layers", len(list), layers)
	}
	out := make([]int, layers)
	if r.err != nil {
		return out
	}
	for i, v := range list {
		n, isInt := v.Int()
		if isInt && n > 0 && n <= maxSize {
			out[i] = int(n)
		}
	}
	return out
}
