package sglang

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"headcount/attn"
	"headcount/engine"
	"headcount/hw"
	"headcount/internal/golden"
	"headcount/internal/scorecard"
	"headcount/internal/shared"
	"headcount/model"
)

// rowJob is a golden row as a question to the engine.
func rowJob(t *testing.T, row *golden.SGLangRow, m *model.Model) engine.Job {
	l := &row.Layout
	gpu, err := hw.Lookup(golden.GPUs[row.GPU])
	if err != nil {
		t.Fatal(err)
	}
	opts := l.Options()
	return engine.Job{Model: m, GPU: gpu, Layout: l.Parallel(), Options: &opts}
}

// corpusModels reads configs once each, without the families of package model: this
// engine's reading of a config stands on its own.
type corpusModels struct {
	dir    string
	models map[string]*model.Model
}

func (c *corpusModels) get(t *testing.T, file, id string) *model.Model {
	if m, ok := c.models[file]; ok {
		return m
	}
	src, err := golden.Source(c.dir, file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	m := bare(id, src)
	c.models[file] = m
	return m
}

// TestGoldenRows plans every golden row from its config and compares what binds, and what
// led to it.
func TestGoldenRows(t *testing.T) {
	corpus := corpusModels{shared.Dir(t), map[string]*model.Model{}}
	card := scorecard.New()
	for row, err := range golden.SGLang() {
		if err != nil {
			t.Fatal(err)
		}
		job := rowJob(t, row, corpus.get(t, row.File, row.ModelID))
		if id := row.Layout.DraftID; id != "" {
			if job.Options.Draft = corpus.get(t, id+".json", id); job.Options.Draft == nil {
				continue // not in the corpus
			}
		}
		if row.OracleLimit {
			continue // what stopped there is the oracle, not the engine
		}
		r := card.Row(row.ID, row.File)
		a := &answer{}
		switch refusal := a.plan(job); {
		case row.Error != nil:
			r.Check("refused", refusal != nil && refusal.RefusedBy == name, true)
		case refusal != nil:
			r.Check("planned", refusal, "")
		default:
			compareAnswer(r, row, a)
		}
		r.Done()
	}
	card.Judge(t, "testdata/misses_rows.txt")
}

// compareAnswer compares the fields that bind (shared/spec/report.md) and some that led
// to them.
func compareAnswer(r *scorecard.Row, row *golden.SGLangRow, a *answer) {
	g := row.Resolved
	f, s := &a.flags, &a.setup
	r.Check("attention_arch", a.Model.AttentionArch, strings.Replace(g.AttentionArch, "SSM", attn.MHA.String(), 1))
	r.Check("kv_heads_per_rank", a.Ranks[0].KVHeads, kvHeadsOf(g))
	r.Check("head_dim", a.Model.HeadDim, g.HeadDim)
	r.Check("v_head_dim", a.Resolved.VHeadDim, g.VHeadDim)
	r.Check("context_len", a.Resolved.ContextLen, g.ContextLen)
	r.Check("mem_fraction_static", a.Fraction, g.MemFractionStatic)
	r.Check("page_size", a.Resolved.PageSize, g.PageSize)
	r.Check("chunked_prefill_size", a.Resolved.ChunkedPrefillSize, g.ChunkedPrefillSize)
	r.Check("kv_cache_dtype", a.Resolved.KVCacheDType, g.KVCacheDType)
	r.Check("dtype", a.Resolved.DType, g.DType)
	r.Check("layers", s.stages[0].effective, g.Layers)
	r.Check("is_multimodal", f.multimodal, g.IsMultimodal)
	prefill, decode := f.phases()
	r.Check("backends", prefill+" "+decode, g.PrefillBackend+" "+g.DecodeBackend)
	r.Check("is_hybrid_swa", s.sliding != nil || s.dsv4 != nil, g.IsHybridSWA)
	r.Check("radix/overlap", fmt.Sprint(s.noRadix, s.noOverlap), fmt.Sprint(g.DisableRadixCache, g.DisableOverlap))
	if s.sliding != nil {
		window := int64(0)
		if g.SlidingWindow != nil {
			window = max(*g.SlidingWindow, 0)
		}
		r.Check("window", s.window, window)
		r.Check("swa/full layers", [2]int64{s.stages[0].sliding, s.stages[0].layers}, [2]int64{g.SWALayers, g.FullLayers})
	}
	if m := g.Mamba; m != nil && s.state != nil {
		r.Check("state_layers", s.state.layers, m.Layers)
		r.Check("state_bytes_per_req", s.state.slot(s.state.layers), m.BytesPerReq)
	} else {
		r.Check("state model", s.state != nil, m != nil)
	}
	comparePools(r, row, s, &a.sizing)
}

func kvHeadsOf(g *golden.SGLangResolved) int64 {
	if g.UseMLA {
		return 1
	}
	return g.KVHeads
}
