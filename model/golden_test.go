package model_test

import (
	"fmt"
	"slices"
	"testing"

	"headcount/internal/corpus"
	"headcount/internal/golden"
	"headcount/internal/scorecard"
	"headcount/model"
)

// forGolden resolves the config of each golden row that the engine built, and checks what
// it came to.
func forGolden(t *testing.T, misses string, check func(*scorecard.Row, *golden.VLLMRow, *model.Model)) {
	configs := corpus.Load(t)
	card := scorecard.New()
	for row, err := range golden.VLLM() {
		if err != nil {
			t.Fatal(err)
		}
		if row.Specs == nil {
			continue
		}
		src, _, err := configs.Source(t.Context(), row.File)
		if err != nil {
			t.Fatal(err)
		}
		r := card.Row(row.ID, row.Resolved.TextModelType)
		m, err := model.Resolve(src)
		if err != nil {
			r.Check("error", err, nil)
		} else {
			check(r, row, m)
		}
		r.Done()
	}
	card.Judge(t, misses)
}

// TestGoldenView holds the whole-model values against what the engine reads from a config.
func TestGoldenView(t *testing.T) {
	forGolden(t, "testdata/misses_view.txt", func(r *scorecard.Row, row *golden.VLLMRow, m *model.Model) {
		want := row.Resolved
		r.Check("layers", len(m.Layers), want.Layers)
		r.Check("query_heads", m.QueryHeads, want.QueryHeads)
		r.Check("kv_heads", m.KVHeads, want.KVHeads)
		r.Check("head_dim", m.HeadDim, want.HeadSize)
		r.Check("hidden_size", m.HiddenSize, want.HiddenSize)
		r.Check("vocab_size", m.VocabSize, want.VocabSize)
	})
}

// TestGoldenCaches holds each layer's caches against the specs that vLLM built: kind,
// heads of a rank, widths, window and the shapes of a recurrent state, in order. Whether a
// decoder caches that is told to look in both directions is the engine's class to say
// (engine/vllm, asked).
func TestGoldenCaches(t *testing.T) {
	forGolden(t, "testdata/misses_caches.txt", func(r *scorecard.Row, row *golden.VLLMRow, m *model.Model) {
		if causal, said := m.Config.Bool("is_causal"); said && !causal {
			return
		}
		r.Check("caches", compareCaches(row, m), "")
	})
}

// compareCaches says where the caches of a row's config first differ, "" if nowhere.
func compareCaches(row *golden.VLLMRow, m *model.Model) string {
	stages := row.Resolved.PPLayers
	if stages == nil {
		stages = [][2]int{{0, len(m.Layers)}}
	}
	tokens := 0
	if row.Layout.Spec != nil {
		tokens = row.Layout.Spec.Tokens
	}
	for i, specs := range row.Specs {
		if stages[i][1] > len(m.Layers) {
			return fmt.Sprintf("%d layers, stage %d ends at %d", len(m.Layers), i, stages[i][1])
		}
		got := ownCaches(m.Layers[stages[i][0]:stages[i][1]])
		n := 0
		for want := range golden.Unroll(specs) {
			if want.Draft {
				continue
			}
			if n >= len(got) {
				return fmt.Sprintf("stage %d: %d caches, and %s", i, n, describe(want))
			}
			c := got[n]
			if c.Kind == model.Latent && kinds[want.Kind] == model.Full {
				c = expanded(c)
			}
			if g := describeCache(c, row.Layout.TP, tokens); g != describe(want) {
				return fmt.Sprintf("stage %d cache %d: %s, want %s", i, n, g, describe(want))
			}
			n++
		}
		if n != len(got) {
			return fmt.Sprintf("stage %d: %d caches, want %d", i, len(got), n)
		}
	}
	return ""
}

// expanded is a latent as an engine keeps it that expands it: with values as wide as keys.
func expanded(c model.Cache) model.Cache {
	c.Kind, c.Attn = model.Full, c.Expanded
	c.Attn.ValueDim = max(c.Attn.KeyDim, c.Attn.ValueDim)
	return c
}

// ownCaches drops what layers read but do not keep.
func ownCaches(layers []*model.Layer) []model.Cache {
	var out []model.Cache
	for _, l := range layers {
		for _, c := range l.Caches {
			if !slices.Contains([]model.Kind{model.EncoderOnly, model.Shared, model.None}, c.Kind) {
				out = append(out, c)
			}
		}
	}
	return out
}

// kinds are vLLM's spec classes by kind; an indexer is a latent of its own width there.
var kinds = map[string]model.Kind{
	"FullAttentionSpec": model.Full, "SlidingWindowSpec": model.Sliding, "ChunkedLocalAttentionSpec": model.Chunked,
	"MLAAttentionSpec": model.Latent, "SlidingWindowMLASpec": model.SlidingLatent, "MambaSpec": model.Recurrent,
	"CrossAttentionSpec": model.Cross,
}

func describe(s *golden.VLLMSpec) string {
	if s.Kind == "MambaSpec" {
		return fmt.Sprintf("%s %v", model.Recurrent, s.Shapes)
	}
	kind, value := kinds[s.Kind], s.HeadSizeV
	if kind == model.Latent || kind == model.SlidingLatent {
		value = 0
	} else if value == 0 {
		value = s.HeadSize
	}
	return fmt.Sprintf("%s %d × (%d + %d) window %d", kind, s.KVHeads, s.HeadSize, value, s.Window+s.ChunkSize)
}

// describeCache is what one of tp ranks holds of a cache, with tokens of speculation.
func describeCache(c model.Cache, tp, tokens int) string {
	if c.Kind == model.Recurrent {
		return fmt.Sprintf("%s %v", c.Kind, stateShapes(c.State, tp, tokens))
	}
	g := c.Attn
	if c.Kind == model.Indexer { // a latent to vLLM, with a scale of 4 bytes to 128 elements
		return fmt.Sprintf("%s 1 × (%d + 0) window 0", model.Latent, g.KeyDim+g.KeyDim/128*4)
	}
	return fmt.Sprintf("%s %d × (%d + %d) window %d", c.Kind, max(1, g.KVHeads/tp), g.KeyDim, g.ValueDim, c.Window)
}

// stateShapes are a rank's state tensors as vLLM shapes them (mamba_utils.py).
func stateShapes(s model.State, tp, tokens int) [][]int {
	groups := s.Groups
	if groups%tp != 0 {
		groups = tp
	}
	conv := func(width int) []int { return []int{s.Kernel - 1 + tokens, width / tp} }
	switch s.Mixer {
	case model.Mamba1:
		return [][]int{{s.Kernel - 1, s.Inner / tp}, {s.Inner / tp, s.StateSize}}
	case model.Mamba2:
		return [][]int{conv(s.Inner + 2*groups*s.StateSize), {s.Heads / tp, s.HeadDim, s.StateSize}}
	case model.GatedDeltaNet, model.KDA:
		return [][]int{conv(2*s.Groups*s.StateSize + s.Heads*s.HeadDim), {s.Heads / tp, s.HeadDim, s.StateSize}}
	case model.ShortConv:
		return [][]int{conv(s.Inner)}
	case model.LinearAttention:
		return [][]int{{s.Heads / tp, s.HeadDim, s.StateSize}}
	}
	return nil
}
