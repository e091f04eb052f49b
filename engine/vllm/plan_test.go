package vllm

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headcount/checkpoint"
	"headcount/engine"
	"headcount/hw"
	"headcount/internal/golden"
	"headcount/internal/shared"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
)

// resolve reads one config of the corpus.
func resolve(dir, file string) (*model.Model, error) {
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, "configs", name))
		if err != nil {
			return nil
		}
		return data
	}
	src, err := checkpoint.FromBytes(file, checkpoint.Files{
		Config: read(file), HFQuant: read(strings.TrimSuffix(file, ".json") + ".hf_quant.json"),
	})
	if err != nil {
		return nil, err
	}
	return model.Resolve(src)
}

// jobOf is the golden row's question.
func jobOf(t *testing.T, row *golden.VLLMRow, m *model.Model, opt *engine.Options) engine.Job {
	t.Helper()
	id := map[string]string{"H100": "h100-sxm-80gb", "A100": "a100-sxm-80gb", "B200": "b200-sxm-180gb"}[row.GPU]
	gpu, err := hw.Lookup(id)
	if err != nil {
		t.Fatal(err)
	}
	l := row.Layout
	opt.KVCacheDType, opt.BlockSize, opt.MaxModelLen = l.KVCacheDType, l.BlockSize, l.MaxModelLen
	opt.EnablePrefixCaching, opt.DisableHybridKVCacheManager = l.PrefixCaching, l.DisableHybrid
	if l.Spec != nil {
		opt.Speculative = &engine.Speculative{Method: l.Spec.Method, Tokens: l.Spec.Tokens}
	}
	return engine.Job{Model: m, Layout: layout.Layout{TP: l.TP, PP: l.PP, DCP: l.DCP, EP: l.EP}, GPU: gpu, Options: opt}
}

// A tally counts agreements by field and keeps what differs.
type tally struct {
	ok, all map[string]int
	misses  map[string][]string
}

func (c *tally) check(row *golden.VLLMRow, field string, got, want any) {
	c.all[field]++
	if fmt.Sprint(got) == fmt.Sprint(want) {
		c.ok[field]++
		return
	}
	c.misses[field] = append(c.misses[field], fmt.Sprintf("%s: got %v, want %v", row.ID, got, want))
}

// TestPlan plans every golden row from its config and compares what the engine itself
// decides. Rows whose config no family resolves yet are counted, not judged.
func TestPlan(t *testing.T) {
	dir := shared.Dir(t)
	c := &tally{map[string]int{}, map[string]int{}, map[string][]string{}}
	models := map[string]*model.Model{}
	unresolved := map[string]int{}
	for row, err := range golden.VLLM() {
		if err != nil {
			t.Fatal(err)
		}
		m, seen := models[row.File]
		if !seen {
			var err error
			if m, err = resolve(dir, row.File); err != nil {
				unresolved[err.Error()]++
			}
			models[row.File] = m
		}
		if m == nil {
			c.all["resolved by model"]++
			if row.Error != nil && row.Error.Stage == "config" {
				c.ok["resolved by model"]++
			}
			continue
		}
		c.all["resolved by model"]++
		c.ok["resolved by model"]++
		checkPlan(t, c, row, m)
	}
	fields := slices.Sorted(func(yield func(string) bool) {
		for f := range c.all {
			if !yield(f) {
				return
			}
		}
	})
	show := os.Getenv("SHOW")
	for _, f := range fields {
		t.Logf("%-24s %5d of %5d", f, c.ok[f], c.all[f])
	}
	for f, list := range c.misses {
		for i, m := range list {
			if show == f || show == "" && i < 3 {
				t.Logf("%s: %s", f, m)
			}
		}
	}
	if show == "unresolved" {
		for e, n := range unresolved {
			t.Logf("%d %s", n, e)
		}
	}
}

func checkPlan(t *testing.T, c *tally, row *golden.VLLMRow, m *model.Model) {
	opt := &engine.Options{}
	job := jobOf(t, row, m, opt)
	res, err := Engine{}.Plan(job)
	if row.Resolved != nil {
		r := row.Resolved
		c.check(row, "view", [...]any{res.Model.QueryHeads, res.Model.KVHeads, res.Model.HeadDim, res.Model.AttentionArch},
			[...]any{r.QueryHeads, r.KVHeads, r.HeadSize, map[bool]string{true: "MLA", false: "MHA"}[r.UseMLA]})
		c.check(row, "max_model_len", res.Model.MaxModelLen, r.MaxModelLen)
		c.check(row, "dtype", res.Resolved.DType, r.DType)
		quant := ""
		if r.Quant != nil {
			quant = *r.Quant
		}
		c.check(row, "quant", res.Model.Quantization, quant)
		c.check(row, "batch", [...]any{res.Resolved.MaxNumBatchedTokens, res.Resolved.MaxNumSeqs, res.Resolved.MaxInFlightTokens},
			[...]any{r.MaxNumBatchedTokens, r.MaxNumSeqs, r.MaxInFlightTokens})
		if a := res.Resolved; a.AsyncScheduling != nil {
			c.check(row, "scheduling", [...]any{*a.AsyncScheduling, *a.ChunkedPrefill, *a.PrefixCaching, a.MambaCacheMode},
				[...]any{r.AsyncScheduling, r.ChunkedPrefill, r.PrefixCaching, r.MambaCacheMode})
		}
	}
	if row.Error != nil {
		c.check(row, "refusal "+row.Error.Stage, err != nil, true)
		if err == nil {
			c.misses["refusal "+row.Error.Stage][len(c.misses["refusal "+row.Error.Stage])-1] += ": " + row.Error.Message
		}
		return
	}
	if p, ok := errors.AsType[*problem.Error](err); ok && p.RefusedBy == "" {
		c.check(row, "known", p.Message, "")
		return
	}
	if err != nil && !slices.ContainsFunc(row.Results, func(r golden.VLLMResult) bool { return r.Error != nil }) {
		c.check(row, "plans", err.Error(), "")
		return
	}
	r := row.Resolved
	c.check(row, "cache_dtype", res.Resolved.CacheDType, r.CacheDType)
	c.check(row, "attention_backends", res.Resolved.AttentionBackends, r.AttentionBackends)
	if len(res.Ranks) > 0 {
		c.check(row, "rank heads", [...]any{res.Ranks[0].QueryHeads, res.Ranks[0].KVHeads}, [...]any{r.RankQHeads, r.RankKVHeads})
	}
	for stage, runs := range row.Specs {
		var want, got []string
		for g := range golden.Unroll(runs) {
			want = append(want, goldenSpec(g))
		}
		if stage < len(res.Ranks) {
			for _, run := range res.Ranks[stage].Layers {
				for range run.Layers {
					got = append(got, reportSpec(&run))
				}
			}
		}
		c.check(row, "specs", firstDifference(got, want), "")
	}
	var groups []golden.VLLMGroup
	for _, g := range res.KVCache.Groups {
		groups = append(groups, golden.VLLMGroup{Kind: g.Kind, Layers: g.Layers, BlockSize: int64(g.BlockSize), PageSize: g.PageSize})
	}
	c.check(row, "groups", groups, row.Groups)
	for i := range row.Results {
		want := &row.Results[i]
		o := *opt
		o.KVCacheMemory = want.Available
		job.Options = &o
		res, err := Engine{}.Plan(job)
		if want.Error != nil {
			c.check(row, "pool refusal", err != nil, true)
			continue
		}
		if err != nil {
			c.check(row, "result", err.Error(), "")
			continue
		}
		kv := res.KVCache
		g := golden.VLLMResult{NumBlocks: *kv.NumBlocks, BlockSize: int64(kv.BlockSize), SchedulerBlockSize: int64(*kv.SchedulerBlockSize),
			HashBlockSize: int64(*kv.HashBlockSize), KVTPReplicas: *kv.KVTPReplicas, Log: res.Log}
		if kv.Tokens != nil {
			g.Tokens, g.MaxConcurrency = *kv.Tokens, *kv.MaxConcurrency
			for _, rank := range res.Ranks {
				g.Workers = append(g.Workers, golden.VLLMWorker{NumBlocksAlone: *rank.NumBlocks, BytesPerBlock: *rank.BytesPerBlock})
			}
		} else {
			g.BlockSize = 0
		}
		c.check(row, "result", diffResult(&g, want), "")
	}
}

func goldenSpec(g *golden.VLLMSpec) string {
	role := g.Kind
	if g.Role == "indexer" {
		role += " indexer"
	}
	return fmt.Sprintln(role, g.KVHeads, g.HeadSize, g.HeadSizeV, g.DType, g.BlockSize, g.PageSize, g.PageUnpadded, cmp.Or(g.Window, g.ChunkSize), g.Shapes, g.DTypes)
}

func reportSpec(r *engine.Run) string {
	class := map[model.Kind]string{model.Full: "FullAttentionSpec", model.Sliding: "SlidingWindowSpec", model.Chunked: "ChunkedLocalAttentionSpec",
		model.Latent: "MLAAttentionSpec", model.SlidingLatent: "SlidingWindowMLASpec", model.Indexer: "MLAAttentionSpec indexer",
		model.Recurrent: "MambaSpec", model.Cross: "CrossAttentionSpec"}[r.Kind]
	window := 0
	if r.Window != nil {
		window = *r.Window
	}
	return fmt.Sprintln(class, r.KVHeads, r.KeyDim, r.ValueDim, r.DType, r.BlockSize, r.PageSize, r.PageUnpadded, window, r.StateShapes, r.StateDTypes)
}

// firstDifference says where two lists part.
func firstDifference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w && !(strings.Contains(g, "indexer") && strings.Replace(g, " indexer", "", 1) == w) {
			return fmt.Sprintf("cache %d of %d, %d: %s, want %s", i, len(got), len(want), g, w)
		}
	}
	return ""
}
