// Package llamacpp is what llama.cpp, and so Ollama, keeps for a model's cache: for each
// layer a row of keys and a row of values a cell, in a format of its own, and for recurrent
// layers their states in float32. headcount checks its logs; it does not plan for it.
package llamacpp

import "headcount/model"

// A Format is how the elements of a row are stored: in blocks of so many, of so many bytes
// (ggml-common.h).
type Format struct{ Elems, Bytes int64 }

var formats = map[string]Format{
	"f32": {1, 4}, "f16": {1, 2}, "bf16": {1, 2},
	"q8_0": {32, 34}, "q5_1": {32, 24}, "q5_0": {32, 22}, "q4_1": {32, 20}, "q4_0": {32, 18}, "iq4_nl": {32, 18},
}

// FormatOf is the format of a name, "f16" or "q8_0".
func FormatOf(name string) (Format, bool) {
	f, ok := formats[name]
	return f, ok
}

// Row is the bytes of so many elements; a last block that is not full takes its whole size.
func (f Format) Row(elems int64) int64 { return (elems + f.Elems - 1) / f.Elems * f.Bytes }

// A Cache is layers that share cells: elements of keys and of values of each.
type Cache struct{ Keys, Values []int64 }

// Layers is how many there are.
func (c Cache) Layers() int { return len(c.Keys) }

// Bytes is what so many cells take of keys and of values.
func (c Cache) Bytes(cells int64, k, v Format) (keys, values int64) {
	for i := range c.Keys {
		keys += cells * k.Row(c.Keys[i])
		values += cells * v.Row(c.Values[i])
	}
	return keys, values
}

// Caches are those of a model: of layers that keep every token, and of those that keep a
// window, which have cells of their own in builds since the middle of 2025. expanded keeps
// latents as keys and values of all heads, as older builds and files do.
func Caches(m *model.Model, expanded bool) (full, window Cache) {
	for _, layer := range m.Layers {
		for _, c := range layer.Caches {
			g := c.Attn
			switch c.Kind {
			case model.Latent:
				if expanded && c.Expanded.KVHeads > 0 {
					g = c.Expanded
				}
				full.add(int64(g.KVHeads), int64(g.KeyDim), int64(g.ValueDim))
			case model.Full:
				full.add(int64(g.KVHeads), int64(g.KeyDim), int64(g.ValueDim))
			case model.Sliding, model.Chunked:
				window.add(int64(g.KVHeads), int64(g.KeyDim), int64(g.ValueDim))
			}
		}
	}
	return full, window
}

func (c *Cache) add(heads, key, value int64) {
	c.Keys = append(c.Keys, heads*key)
	c.Values = append(c.Values, heads*value)
}

// And is both caches as one, of layers that share cells.
func (c Cache) And(o Cache) Cache {
	return Cache{append(append([]int64{}, c.Keys...), o.Keys...), append(append([]int64{}, c.Values...), o.Values...)}
}

// States are the bytes that one sequence's states take, of all recurrent layers: the inputs
// that convolutions keep (R in its log) and the states proper (S), in float32.
func States(m *model.Model) (conv, state int64, layers int) {
	for _, layer := range m.Layers {
		for _, c := range layer.Caches {
			if c.Kind != model.Recurrent {
				continue
			}
			s := c.State
			inner, channels := int64(s.Inner), int64(s.Inner)
			switch s.Mixer {
			case model.Mamba2:
				channels += 2 * int64(s.Groups) * int64(s.StateSize)
				state += 4 * int64(s.Heads) * int64(s.HeadDim) * int64(s.StateSize)
			case model.GatedDeltaNet, model.KDA:
				channels = 2*int64(s.Groups)*int64(s.StateSize) + int64(s.Heads)*int64(s.HeadDim)
				state += 4 * int64(s.Heads) * int64(s.HeadDim) * int64(s.StateSize)
			case model.Mamba1:
				state += 4 * inner * int64(s.StateSize)
			}
			conv += 4 * int64(max(s.Kernel-1, 0)) * channels
			layers++
		}
	}
	return conv, state, layers
}
