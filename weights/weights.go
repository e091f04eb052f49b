// Package weights is what a model's parameters take on each rank, before any kernel
// repacks them. It knows how parameters are split; it knows nothing of the KV cache.
package weights

import (
	"headcount/dtype"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
)

// vocabPadding is the multiple to which embedding rows are padded before they are split
// (vllm vocab_parallel_embedding.py DEFAULT_VOCAB_PADDING_SIZE; SGLang's is the same).
const vocabPadding = 64

// A Stage is the parameters of tensor-parallel rank 0 of one pipeline stage.
type Stage struct {
	Parameters int64
	Bytes      int64
	ByPart     map[model.Part]int64 // bytes
}

// Stages sums the parameters of each pipeline stage. spans are the layers of each stage,
// dt the model's dtype. The error is a [*problem.Error] with code not_divisible that
// names the field whose dimension the tensor-parallel size does not divide, or not_known
// when the parameters are not known from the config.
func Stages(m *model.Model, l layout.Layout, spans []layout.Span, dt dtype.Type) ([]Stage, error) {
	if m.WeightsUnknown != "" {
		return nil, problem.New(problem.NotKnown, "weights", nil, "%s", m.WeightsUnknown)
	}
	l = l.Normal()
	stages := make([]Stage, len(spans))
	for i, span := range spans {
		t := tally{layout: l, dtype: dt, stage: &stages[i]}
		t.stage.ByPart = map[model.Part]int64{}
		for start := span.Start; start < span.End; {
			end := start + 1
			for end < span.End && m.Layers[end] == m.Layers[start] {
				end++
			}
			t.add(m.Layers[start].Params, int64(end-start))
			start = end
		}
		for _, p := range m.Outer {
			if onStage(p.Stage, i, len(spans)) {
				t.add([]model.Param{p}, 1)
			}
		}
		if t.err != nil {
			return nil, t.err
		}
	}
	return stages, nil
}

// onStage reports whether a parameter outside of layers is built on stage i of n.
func onStage(s model.Stage, i, n int) bool {
	switch s {
	case model.FirstStage:
		return i == 0
	case model.LastStage:
		return i == n-1
	case model.BothEnds:
		return i == 0 || i == n-1
	}
	return true
}

// A tally adds parameters to a stage and keeps the first error.
type tally struct {
	layout layout.Layout
	dtype  dtype.Type
	stage  *Stage
	err    *problem.Error
}

func (t *tally) add(params []model.Param, times int64) {
	for _, p := range params {
		elems := t.elements(p) * times
		size := t.dtype
		if p.DType != dtype.Unknown {
			size = p.DType
		}
		t.stage.Parameters += elems
		t.stage.Bytes += elems * size.Bytes()
		t.stage.ByPart[p.Part] += elems * size.Bytes()
	}
}

// elements is what one rank holds of p.
func (t *tally) elements(p model.Param) int64 {
	rows, cols, copies := p.Rows, p.Cols, int64(1)
	if p.Experts > 0 {
		copies = int64(p.Experts)
		if t.layout.EP {
			ranks := int64(t.layout.TP * t.layout.DP)
			copies = (copies + ranks - 1) / ranks // rank 0 is among those that get one more
			rows.Split, cols.Split = model.Whole, model.Whole
		}
	}
	n := t.axis(rows) * copies
	if cols.Size > 0 {
		n *= t.axis(cols)
	}
	return n
}

// axis is the part of one dimension that a rank holds.
func (t *tally) axis(a model.Axis) int64 {
	tp, n := int64(t.layout.TP), int64(a.Size)
	switch a.Split {
	case model.Whole:
		return n
	case model.Heads:
		heads := n / int64(a.Unit)
		if tp >= heads {
			t.divide(a, tp, heads)
			return int64(a.Unit)
		}
		return t.divide(a, heads, tp) * int64(a.Unit)
	case model.Vocab:
		n = (n + vocabPadding - 1) / vocabPadding * vocabPadding
	}
	return t.divide(a, n, tp)
}

// divide is a/b, which must be whole.
func (t *tally) divide(axis model.Axis, a, b int64) int64 {
	if a%b != 0 && t.err == nil {
		size := axis.Size
		if axis.Unit > 0 {
			size /= axis.Unit
		}
		t.err = problem.New(problem.NotDivisible, axis.Field, size, "not divisible by tensor parallel size %d", t.layout.TP)
	}
	return a / b
}
