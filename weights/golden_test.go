package weights_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"headcount/dtype"
	"headcount/internal/golden"
	"headcount/internal/shared"
	"headcount/layout"
	"headcount/model"
	"headcount/weights"
)

// TestGolden holds parameters and bytes of every pipeline stage against the engine's own.
// Of a quantised checkpoint it wants no number.
func TestGolden(t *testing.T) {
	dir := shared.Dir(t)
	score := golden.NewScore(t, "testdata/misses.txt")
	for row, err := range golden.ReadVLLM(filepath.Join(dir, "golden", "vllm.jsonl")) {
		if err != nil {
			t.Fatal(err)
		}
		if len(row.Weights) == 0 {
			continue
		}
		kind := row.Resolved.TextModelType + "/" + row.Resolved.ModelClass
		if !score.Wants(kind) {
			continue
		}
		m, b, err := build(dir, row)
		var stages []weights.Stage
		if err == nil {
			stages, err = weights.Stages(m, b)
		}
		if row.Resolved.Quant != nil {
			if err == nil {
				t.Errorf("%s: weights of a checkpoint quantised by %s: want an error", row.ID, *row.Resolved.Quant)
			}
			continue
		}
		score.Add(kind, row.ID, compare(stages, err, row.Weights))
	}
	score.Report("weights to the byte", true)
}

// TestGoldenBuffers holds what the engine keeps beside the parameters against its own.
func TestGoldenBuffers(t *testing.T) {
	dir := shared.Dir(t)
	score := golden.NewScore(t, "testdata/buffers_misses.txt")
	for row, err := range golden.ReadVLLM(filepath.Join(dir, "golden", "vllm.jsonl")) {
		if err != nil {
			t.Fatal(err)
		}
		if len(row.Weights) == 0 {
			continue
		}
		kind := row.Resolved.TextModelType + "/" + row.Resolved.ModelClass
		if !score.Wants(kind) {
			continue
		}
		score.Add(kind, row.ID, compareBuffers(dir, row))
	}
	score.Report("buffers to the byte", true)
}

func compareBuffers(dir string, row *golden.VLLMRow) string {
	m, b, err := build(dir, row)
	if err != nil {
		return err.Error()
	}
	got, ok := weights.Buffers(m, b)
	if !ok {
		return "not known"
	}
	for i, w := range row.Weights {
		if got[i] != w.BufferBytes {
			return fmt.Sprintf("stage %d: %d bytes, want %d; %+v", i, got[i], w.BufferBytes, m.Ropes)
		}
	}
	return ""
}

// build is the row's config, and what the row's engine builds of it.
func build(dir string, row *golden.VLLMRow) (*model.Model, weights.Build, error) {
	src, err := golden.Source(dir, row.File)
	if err != nil {
		return nil, weights.Build{}, err
	}
	m, err := model.Resolve(src)
	if err != nil {
		return nil, weights.Build{}, err
	}
	b := weights.Build{
		Layout: layout.Layout{TP: row.Layout.TP, PP: row.Layout.PP, EP: row.Layout.EP},
		Spans:  []layout.Span{{End: len(m.Layers)}},
		ByPlan: strings.HasPrefix(row.Resolved.ModelClass, "Transformers"),
		NoHead: strings.Contains(row.Resolved.ModelClass, "Embedding"),
	}
	if row.Resolved.PPLayers != nil {
		b.Spans = nil
		for _, s := range row.Resolved.PPLayers {
			b.Spans = append(b.Spans, layout.Span{Start: s[0], End: s[1]})
		}
	}
	if end := b.Spans[len(b.Spans)-1].End; end != len(m.Layers) {
		return nil, b, fmt.Errorf("%d layers, want %d", len(m.Layers), end)
	}
	b.DType, _ = dtype.Parse(row.Resolved.DType)
	if row.GPU == "B200" {
		b.ExpertMultiple = 128
	}
	return m, b, nil
}

// compare says where stages first differ from the engine's, "" if nowhere.
func compare(stages []weights.Stage, err error, want []golden.VLLMWeights) string {
	if err != nil {
		return err.Error()
	}
	for i, w := range want {
		if got := stages[i]; got.Parameters != w.Params || got.Bytes != w.Bytes {
			return fmt.Sprintf("stage %d: %d parameters, %d bytes, want %d, %d\n\t%+v\n\t%v", i,
				got.Parameters, got.Bytes, w.Params, w.Bytes, got.ByPart, w.BytesBy)
		}
	}
	return ""
}
