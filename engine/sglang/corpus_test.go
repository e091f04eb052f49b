package sglang

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headcount/attn"
	"headcount/checkpoint"
	"headcount/engine"
	"headcount/hw"
	"headcount/internal/golden"
	"headcount/internal/shared"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
)

// goldenGPUs are the accelerators behind the rows' names.
var goldenGPUs = map[string]string{
	"H100": "h100-sxm-80gb", "H200": "h200-sxm-141gb", "B200": "b200-sxm-180gb", "A100": "a100-sxm-80gb",
	"RTX4090": "rtx-4090-24gb", "L40S": "l40s-48gb", "T4": "t4-16gb",
}

// rowJob is a golden row as a question to the engine.
func rowJob(t *testing.T, row *golden.SGLangRow, m *model.Model) engine.Job {
	l := &row.Layout
	gpu, err := hw.Lookup(goldenGPUs[row.GPU])
	if err != nil {
		t.Fatal(err)
	}
	return engine.Job{
		Model:  m,
		GPU:    gpu,
		Layout: layout.Layout{TP: l.TP, PP: l.PP, DP: l.DP, DCP: l.DCP, DPAttention: l.DPAttn},
		Options: &engine.Options{
			DType: l.DType, KVCacheDType: l.KVCacheDType, PageSize: l.PageSize, MaxModelLen: l.ContextLength,
			MemFractionStatic: l.MemFractionStatic, MaxRunningRequests: l.MaxRunningRequests, MaxTotalTokens: l.MaxTotalTokens,
			ChunkedPrefillSize: l.ChunkedPrefillSize, AttentionBackend: l.AttentionBackend,
			SpeculativeAlgorithm: l.SpeculativeAlgorithm, SpeculativeSteps: l.SpeculativeSteps,
			SpeculativeTopK: l.SpeculativeTopK, SpeculativeDraftTokens: l.SpeculativeTokens,
			DisableRadixCache: l.Args.DisableRadixCache, DisableOverlap: l.Args.DisableOverlap,
			SWAFullTokensRatio: l.Args.SWAFullTokensRatio, DisableHybridSWA: l.Args.DisableHybridSWA,
			MaxMambaCacheSize: l.Args.MaxMambaCacheSize, MambaFullRatio: l.Args.MambaFullMemoryRatio,
			MambaRadixStrategy: l.Args.MambaRadixStrategy, DisableCUDAGraph: l.Args.DisableCUDAGraph, EnableMultimodal: l.Args.EnableMultimodal,
			MemoryBeginGiB: l.BeginGiB, MemoryEndGiB: l.EndGiB,
		},
	}
}

// corpusModels reads configs once each, without the families of package model: this
// engine's reading of a config stands on its own.
type corpusModels struct {
	dir    string
	models map[string]*model.Model
}

func (c *corpusModels) get(t *testing.T, row *golden.SGLangRow) *model.Model {
	if m, ok := c.models[row.File]; ok {
		return m
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(c.dir, "configs", name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return data
	}
	src, err := checkpoint.FromBytes(row.ModelID, checkpoint.Files{
		Config: read(row.File), HFQuant: read(strings.TrimSuffix(row.File, ".json") + ".hf_quant.json"),
	})
	if err != nil {
		t.Errorf("%s: %v", row.File, err)
		c.models[row.File] = nil
		return nil
	}
	m := &model.Model{Name: row.ModelID, Config: model.NewConfig(src), ModelType: textOf(src.Config, "model_type")}
	archs, _ := src.Config.Get("architectures")
	if list := archs.List(); len(list) > 0 {
		m.Architecture, _ = list[0].Text()
	}
	c.models[row.File] = m
	return m
}

func textOf(o *checkpoint.Object, key string) string {
	v, _ := o.Get(key)
	s, _ := v.Text()
	return s
}

// TestGoldenRows plans every golden row from its config and compares what binds.
func TestGoldenRows(t *testing.T) {
	corpus := corpusModels{shared.Dir(t), map[string]*model.Model{}}
	c := newScore()
	var misses []string
	for row, err := range golden.SGLang() {
		if err != nil {
			t.Fatal(err)
		}
		if only := os.Getenv("HEADCOUNT_ROW"); only != "" && !strings.Contains(row.ID, only) {
			continue
		}
		m := corpus.get(t, row)
		if m == nil {
			continue
		}
		a := &answer{}
		refusal := a.plan(rowJob(t, row, m))
		switch {
		case row.Error != nil && row.OracleLimit:
		case row.Error != nil:
			if !c.compare(row.ID, "refused", refusal != nil, true) {
				misses = append(misses, fmt.Sprintf("%s: not refused: %s: %.100s", row.ID, row.Error.Class, row.Error.Message))
			}
		case refusal != nil:
			c.compare(row.ID, "planned", refusal, "")
		default:
			c.compare(row.ID, "planned", "", "")
			compareAnswer(c, row, a)
		}
	}
	_ = misses
	c.report(t)
}

// compareAnswer compares the fields that bind (shared/spec/report.md) and some that led
// to them.
func compareAnswer(c *score, row *golden.SGLangRow, a *answer) {
	g := row.Resolved
	f, s := &a.flags, &a.setup
	c.compare(row.ID, "attention_arch", a.Model.AttentionArch, strings.Replace(g.AttentionArch, "SSM", attn.MHA.String(), 1))
	c.compare(row.ID, "kv_heads_per_rank", a.Ranks[0].KVHeads, kvHeadsOf(g))
	c.compare(row.ID, "head_dim", a.Model.HeadDim, g.HeadDim)
	c.compare(row.ID, "v_head_dim", a.Resolved.VHeadDim, g.VHeadDim)
	c.compare(row.ID, "context_len", a.Resolved.ContextLen, g.ContextLen)
	c.compare(row.ID, "mem_fraction_static", a.Fraction, g.MemFractionStatic)
	c.compare(row.ID, "page_size", a.Resolved.PageSize, g.PageSize)
	c.compare(row.ID, "chunked_prefill_size", a.Resolved.ChunkedPrefillSize, g.ChunkedPrefillSize)
	c.compare(row.ID, "kv_cache_dtype", a.Resolved.KVCacheDType, g.KVCacheDType)
	c.compare(row.ID, "dtype", a.Resolved.DType, g.DType)
	c.compare(row.ID, "layers", s.stages[0].effective, g.Layers)
	c.compare(row.ID, "is_multimodal", f.multimodal, g.IsMultimodal)
	prefill, decode := f.phases()
	c.compare(row.ID, "backends", prefill+" "+decode, g.PrefillBackend+" "+g.DecodeBackend)
	c.compare(row.ID, "is_hybrid_swa", s.sliding != nil || s.dsv4 != nil, g.IsHybridSWA)
	c.compare(row.ID, "radix/overlap", fmt.Sprint(s.noRadix, s.noOverlap), fmt.Sprint(g.DisableRadixCache, g.DisableOverlap))
	if s.sliding != nil {
		window := int64(0)
		if g.SlidingWindow != nil {
			window = max(*g.SlidingWindow, 0)
		}
		c.compare(row.ID, "window", s.window, window)
		c.compare(row.ID, "swa/full layers", [2]int64{s.stages[0].sliding, s.stages[0].layers}, [2]int64{g.SWALayers, g.FullLayers})
	}
	if m := g.Mamba; m != nil && s.state != nil {
		c.compare(row.ID, "state_layers", s.state.layers, m.Layers)
		c.compare(row.ID, "state_bytes_per_req", s.state.slot(s.state.layers), m.BytesPerReq)
	} else {
		c.compare(row.ID, "state model", s.state != nil, m != nil)
	}
	comparePools(c, row, s, &a.sizing)
	for _, want := range row.Log {
		if row.PoolError == nil {
			c.compare(row.ID, "Log", slices.Contains(a.Log, want), true)
		}
	}
}

func kvHeadsOf(g *golden.SGLangResolved) int64 {
	if g.UseMLA {
		return 1
	}
	return g.KVHeads
}

var _ = problem.New
