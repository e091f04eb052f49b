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
		stages, err := build(dir, row)
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

// build is what the row's engine builds of the row's config.
func build(dir string, row *golden.VLLMRow) ([]weights.Stage, error) {
	src, err := golden.Source(dir, row.File)
	if err != nil {
		return nil, err
	}
	m, err := model.Resolve(src)
	if err != nil {
		return nil, err
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
		return nil, fmt.Errorf("%d layers, want %d", len(m.Layers), end)
	}
	b.DType, _ = dtype.Parse(row.Resolved.DType)
	if row.GPU == "B200" {
		b.ExpertMultiple = 128
	}
	return weights.Stages(m, b)
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
