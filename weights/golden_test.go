package weights_test

import (
	"errors"
	"strings"
	"testing"

	"headcount/dtype"
	"headcount/internal/corpus"
	"headcount/internal/golden"
	"headcount/internal/scorecard"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
	"headcount/weights"
)

// TestGolden holds parameters, bytes and buffers of every pipeline stage against what the
// engine built. Of a quantised checkpoint and of one with towers it wants no number rather
// than a wrong one.
func TestGolden(t *testing.T) {
	configs := corpus.Load(t)
	card := scorecard.New()
	unknown := map[string]int{}
	for row, err := range golden.VLLM() {
		if err != nil {
			t.Fatal(err)
		}
		if len(row.Weights) == 0 {
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
			r.Done()
			continue
		}
		b := build(row, m)
		stages, err := weights.Stages(m, b)
		if e, ok := errors.AsType[*problem.Error](err); ok && e.Code == problem.NotKnown && (row.Resolved.Quant != nil || m.Towers) {
			unknown[e.Message]++
		} else {
			compare(r, stages, err, row.Weights)
			if err == nil && row.Resolved.Quant != nil && !row.Resolved.IsMultimodal { // the engine's names tell no tower from a text model
				compareParts(r, stages, row.Weights)
			}
		}
		if buffers, ok := weights.Buffers(m, b); ok {
			for i, w := range row.Weights {
				r.Check("buffer_bytes", buffers[i], w.BufferBytes)
			}
		}
		r.Done()
	}
	for why, n := range unknown {
		t.Logf("%4d rows: %s", n, why)
	}
	card.Judge(t, "testdata/misses.txt")
}

// compare checks each stage against the engine's.
func compare(r *scorecard.Row, stages []weights.Stage, err error, want []golden.VLLMWeights) {
	if err != nil {
		r.Check("weights", err, nil)
		return
	}
	for i, w := range want {
		r.Check("parameters", stages[i].Parameters, w.Params)
		r.Check("weight_bytes", stages[i].Bytes, w.Bytes)
		p := stages[i].ByPart
		r.Check("sum of parts", p.Embedding+p.LMHead+p.Attention+p.MLP+p.MoEExperts+p.MoERouter+p.MoEShared+p.Norm+p.Vision+p.Other, w.Bytes)
	}
}

// compareParts checks what each part of a quantised checkpoint takes.
func compareParts(r *scorecard.Row, stages []weights.Stage, want []golden.VLLMWeights) {
	for i, w := range want {
		p := stages[i].ByPart
		for name, got := range map[string]int64{"embedding": p.Embedding, "lm_head": p.LMHead, "attention": p.Attention, "mlp": p.MLP,
			"moe_experts": p.MoEExperts, "moe_router": p.MoERouter, "moe_shared": p.MoEShared, "norm": p.Norm} {
			r.Check(name, got, w.BytesBy[name])
		}
	}
}

// build is what the row's engine builds of the row's config.
func build(row *golden.VLLMRow, m *model.Model) weights.Build {
	b := weights.Build{
		Layout: layout.Layout{TP: row.Layout.TP, PP: row.Layout.PP, EP: row.Layout.EP},
		Spans:  []layout.Span{{End: len(m.Layers)}},
		ByPlan: strings.HasPrefix(row.Resolved.ModelClass, "Transformers"),
		NoHead: strings.Contains(row.Resolved.ModelClass, "Embedding"),
	}
	b.FusedKDA = row.Resolved.ModelClass == "KimiK3ForConditionalGeneration" && row.GPU != "A100"
	if row.Resolved.PPLayers != nil {
		b.Spans = nil
		for _, s := range row.Resolved.PPLayers {
			b.Spans = append(b.Spans, layout.Span{Start: s[0], End: s[1]})
		}
	}
	b.DType, _ = dtype.Parse(row.Resolved.DType)
	b.GPTOSSExperts = weights.Padding{Divided: 128, Whole: 256}
	switch row.GPU {
	case "H100":
		b.GPTOSSExperts = weights.Padding{Divided: 64}
	case "B200":
		b.Experts.Divided = 128
	}
	return b
}
