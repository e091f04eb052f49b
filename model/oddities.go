package model

import (
	"fmt"
	"slices"
)

// An Oddity is something legal in a config that is seldom meant: engines take it in a way of
// their own, and a plan follows them.
type Oddity struct {
	ID   string // a name that does not change
	Text string
}

// odd notes an oddity, the first of its ID.
func (r *reader) odd(id, format string, args ...any) {
	if !slices.ContainsFunc(r.oddities, func(o Oddity) bool { return o.ID == id }) {
		r.oddities = append(r.oddities, Oddity{id, fmt.Sprintf(format, args...)})
	}
}

// patterns are fields that say which layers, counted from 1, attend to every token: those whose
// number is a multiple. layer_types says it of each.
var patterns = []string{"sliding_window_pattern", "full_attention_interval"}

// disagrees is the first layer of which a pattern and the file's layer_types say different
// things; ok is false where there is none, or not both.
func (r *reader) disagrees(pattern string) (layer int, ok bool) {
	every, given := r.Raw().Get(pattern)
	n, whole := every.Int()
	types, _ := r.Raw().Get("layer_types")
	if !given || !whole || n < 1 {
		return 0, false
	}
	for i, v := range types.List() {
		kind, _ := v.Text()
		if (kind == "full_attention") != (int64(i+1)%n == 0) {
			return i, true
		}
	}
	return 0, false
}

// inspect looks for what any family may have.
func (r *reader) inspect(m *Model) {
	windowed, attends, keeps := 0, false, false
	for _, l := range distinct(m.Layers) {
		attends = attends || l.Attends()
		for i := range l.Caches {
			windowed = max(windowed, l.Caches[i].Window)
			keeps = keeps || l.Caches[i].Kind == Recurrent
		}
	}
	if n, ok := r.Int("sliding_window"); ok && n == 0 && windowed == 0 {
		r.odd("window-zero", "sliding_window is 0: no layer has a window")
	}
	if length, ok := r.Int("max_position_embeddings"); ok && length > 0 && int64(windowed) > length {
		r.odd("window-beyond-context", "a window of %d tokens and %d positions: no token ever leaves it", windowed, length)
	}
	for _, key := range patterns {
		if layer, ok := r.disagrees(key); ok {
			r.odd("pattern-beside-list", "%s and layer_types disagree on layer %d: the layers shown are what engines make of the two", key, layer)
		}
	}
	if !attends && len(m.Layers) > 0 {
		text := "no layer attends, and none keeps anything between steps"
		if keeps {
			text = "no layer attends: tokens take no cache, requests take states"
		}
		r.odd("no-attention", "%s", text)
	}
	m.Oddities = slices.Clip(r.oddities)
}
