package model

import (
	"strings"

	"headcount/dtype"
	"headcount/problem"
)

// domynEdge has norms on both sides of each half of a layer and a norm of keys. Of each layer
// a list says its window, another whether its heads turn (vllm domyn_edge.py).
var domynEdge = family{
	name:          "domyn_edge",
	architectures: []string{"DomynEdgeForCausalLM"},
	types:         []string{"domyn_edge"},
	resolve: func(r *reader) *Model {
		layers, hidden, h := r.layers(), r.size("hidden_size"), r.heads()
		windows, turns := r.domynWindows(layers), r.strings("position_layers", layers)
		if turns == nil && r.err == nil {
			r.fail(problem.MissingField, "position_layers", "missing, and it says which layers have positions")
		}
		if r.err != nil {
			return r.model()
		}
		type kind struct{ window, width int }
		kinds := make([]kind, layers)
		widths := map[int]bool{}
		for i := range kinds {
			kinds[i] = kind{windows[i], r.perLayer(i, "head_dim", h.key)}
			switch turns[i] {
			case "rope":
				widths[kinds[i].width] = true
			case "nope":
			default:
				r.fail(problem.BadValue, "position_layers", "%q of layer %d is neither rope nor nope", turns[i], i)
			}
		}
		m := r.decoder(decoder{
			gated: true, heads: h, names: domynNames, windows: windows, rotary: rotary{none: true},
			norms: []string{"pre_attention_norm", "post_attention_norm", "pre_feedforward_norm", "post_feedforward_norm"},
			form: formPerKind(kinds, func(k kind) *form {
				own := heads{query: h.query, kv: h.kv, key: k.width, value: k.width}
				return &form{caches: []Cache{own.cache(k.window)},
					params: append(attentionParams("self_attn", own, hidden, false, false), norm("self_attn.k_norm", k.width))}
			}),
		})
		for width := range widths {
			m.Ropes = append(m.Ropes, r.ropes(rotary{dtype: dtype.Float32}, width)...)
		}
		return m
	},
}

// domynNames are the checkpoint's names for LLaMA's.
var domynNames = strings.NewReplacer("self_attn.", "attention.", "mlp.", "feedforward.")

// domynWindows are each layer's window, of which window_sizes says how many tokens lie
// before the last.
func (r *reader) domynWindows(layers int) []int {
	list, ok := r.List("window_sizes")
	switch {
	case !ok:
		r.fail(problem.MissingField, "window_sizes", "missing, and it says each layer's window")
	case len(list) < layers:
		r.fail(problem.BadValue, "window_sizes", "%d entries for %d layers", len(list), layers)
	}
	out := make([]int, layers)
	if r.err != nil {
		return out
	}
	for i := range out {
		pair := list[i].List()
		if len(pair) == 0 {
			r.fail(problem.BadValue, "window_sizes", "entry %d is not a list", i)
			return out
		}
		before, ok := pair[0].Int()
		if !ok || before >= maxSize {
			r.fail(problem.BadValue, "window_sizes", "%v of layer %d is not a number of tokens", pair[0].Any(), i)
			return out
		}
		if before > 0 {
			out[i] = int(before) + 1
		}
	}
	return out
}
