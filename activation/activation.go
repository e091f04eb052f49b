// Package activation is what a forward pass of vLLM keeps alive at its widest point: the
// tensors of a step's tokens that exist at the same time on one rank. It knows layers and
// how they are split; it knows nothing of a device.
package activation

import (
	_ "embed"
	"slices"
	"strings"

	"headcount/dtype"
	"headcount/internal/tsv"
	"headcount/layout"
	"headcount/model"
	"headcount/weights"
)

// A Pass is one step through the layers of a rank.
type Pass struct {
	Layout layout.Layout
	DType  dtype.Type // of activations
	Tokens int64      // max_num_batched_tokens

	// Context is the tokens for which latent attention expands keys and values.
	Context int64
	// Grid is the tokens between two exported states of a gated delta net; 0: none exported.
	Grid int64

	Compiled bool // by inductor, piece by piece between attentions; otherwise module by module
	Packed   bool // a product's input is first turned into one byte an element, with a scale per 128
	Wrapped  bool // Transformers' modules run inside of the engine's
	Ragged   bool // experts' rows are gathered in tensors of their own, not in the shared workspace
}

// A Moment is a point of the pass.
type Moment string

// The moments at which a pass can be widest.
const (
	Attention Moment = "attention"
	Mixer     Moment = "mixer" // of a layer that keeps a state
	MLP       Moment = "mlp"
	Experts   Moment = "experts"
)

// A Peak is a pass's widest point on one rank, in bytes.
type Peak struct {
	Forward int64  // alive at once, beside the workspace
	At      Moment // where that is
	Kept    int64  // the workspace that layers share, which the engine never gives back
}

// Of is the peak of a pass through the layers of a span.
func Of(m *model.Model, span layout.Span, p Pass) Peak {
	c := counter{pass: p, habit: habitOf(m), model: m, ranks: max(p.Layout.TP, 1),
		hidden: float64(m.HiddenSize), elem: float64(p.DType.Bytes())}
	if p.Wrapped {
		c.habit = habit{drops: true, adds: true}
	}
	var seen [8]*model.Layer
	n := 0
	for i := span.Start; i < span.End; i++ {
		l := m.Layers[i]
		if slices.Contains(seen[:], l) {
			continue
		}
		if !c.shares && c.asks(l) {
			c.shares, seen = true, [8]*model.Layer{} // layers met before may come again beside it
		}
		seen[n%len(seen)] = l
		n++
		c.layer(l)
	}
	for i := range m.Ropes {
		c.turned(&m.Ropes[i])
	}
	return Peak{Forward: size(max(c.widest, c.early-c.kept)), At: c.at, Kept: size(c.kept)}
}

// turned keeps a copy, in the activations' format, of a table of positions that is held in
// another.
func (c *counter) turned(r *model.Rope) {
	if r.DType != dtype.Unknown && r.DType != c.pass.DType {
		c.kept += float64(weights.Positions(*r)) * float64(r.Dim) * c.elem
	}
}

// most bounds a peak, far above any device.
const most = 1 << 60

// size is x bytes, between 0 and most. Formulas are in float64, which holds every size of a
// device exactly.
func size(x float64) int64 { return int64(min(max(x, 0), most)) }

// A habit is what an architecture's modules hold on to that another's let go.
type habit struct {
	drops bool // the MLP lets go of gate and up before it multiplies down
	adds  bool // a layer adds its residual by itself, not in the norm that follows
	hands bool // and hands it on all the same
}

// passes holds a line for each architecture of vLLM 0.33.0 that has such a habit, sorted: its
// name and flags d, r, h. tools/facts/vllm_passes.py reads them off the engine's sources.
//
//go:embed passes.tsv
var passes string

// habitOf looks a model up, one with towers by the name of its text model.
func habitOf(m *model.Model) habit {
	flags, ok := tsv.Rest(passes, m.Architecture)
	if !ok {
		if _, text := model.ClassNames(m.TextType); text != m.Architecture {
			flags, _ = tsv.Rest(passes, text)
		}
	}
	return habit{drops: strings.Contains(flags, "d"), adds: strings.Contains(flags, "r"), hands: strings.Contains(flags, "h")}
}
