package model

import "headcount/problem"

// dory has layers of attention alone and of an MLP alone, without norms, and goes through
// some of them several times. Each pass has a cache of its own unless the passes share one
// (vllm dory.py).
var dory = family{
	name:          "dory",
	architectures: []string{"DoryForCausalLM"},
	types:         []string{"dory"},
	resolve: func(r *reader) *Model {
		layers, hidden, h := r.layers(), r.size("hidden_size"), r.heads()
		width, window, loops := r.size("intermediate_size"), r.opt("sliding_window", 0), r.doryLoops(layers)
		types := r.layerTypes(layers)
		if types == nil && r.err == nil {
			r.underived()
		}
		if r.err != nil {
			return r.model()
		}
		type kind struct {
			name   string
			passes int
		}
		kinds := make([]kind, layers)
		for i := range kinds {
			kinds[i] = kind{types[i], loops[i]}
		}
		m := r.decoder(decoder{
			heads: h, noFinalNorm: true, norms: []string{}, untied: true, windows: make([]int, layers),
			form: formPerKind(kinds, func(k kind) *form {
				if k.name == "mlp" {
					return &form{params: doryMLP(hidden, width), alone: true}
				}
				f := &form{params: doryAttention(h, hidden), alone: true}
				for range k.passes {
					c := h.cache(0)
					if k.name == "sliding_attention" {
						c = h.cache(window)
					}
					f.caches = append(f.caches, c)
				}
				return f
			}),
		})
		m.Outer = append(m.Outer, Param{Name: "lm_head.logit_scale", Part: Head, Rows: whole(r.size("vocab_size")), Stage: LastStage})
		return m
	},
}

// doryLoops are the caches that each layer's passes have.
func (r *reader) doryLoops(layers int) []int {
	out := make([]int, layers)
	first, last, passes := r.opt("n_input_layers", 0), r.opt("n_output_layers", 0), r.sizeOr("n_recurrent_loops", 1)
	looped := r.opt("n_recurrent_layers", layers-min(first+last, layers))
	if first+looped+last != layers && r.err == nil {
		r.fail(problem.BadValue, "n_recurrent_layers", "input, recurrent and output layers, %d + %d + %d, are not the %d of the model", first, looped, last, layers)
		return out
	}
	if mode, ok := r.Text("recurrent_kv_cache_mode"); ok && mode != "per_loop" {
		passes = 1
	}
	if n := r.times("n_recurrent_loops", passes, looped); n > maxLayers {
		r.fail(problem.BadValue, "n_recurrent_loops", "more than %d layers over all passes", maxLayers)
		return out
	}
	for i := range out {
		out[i] = 1
		if i >= first && i < first+looped {
			out[i] = passes
		}
	}
	return out
}

// doryAttention has a gate of its result, and scales of queries and of the gate in the place
// of norms.
func doryAttention(h heads, hidden int) []Param {
	each := queryHeads(h.query, h.key)
	return append(attentionParams("mixer", h, hidden, false, false),
		linear("mixer.g_proj", Attention, each, whole(hidden)),
		Param{Name: "mixer.sqk", Part: Attention, Rows: each}, Param{Name: "mixer.s_gate", Part: Attention, Rows: each},
		Param{Name: "attn_alpha", Part: Attention, Rows: whole(hidden)})
}

// doryMLP has scales of gate and up.
func doryMLP(hidden, width int) []Param {
	inner := sharded(width, "intermediate_size")
	return append(mlpParams("mixer", MLP, hidden, width, true, false),
		Param{Name: "mixer.suv_gate", Part: MLP, Rows: inner}, Param{Name: "mixer.suv_up", Part: MLP, Rows: inner},
		Param{Name: "mlp_alpha", Part: MLP, Rows: whole(hidden)})
}
