package agree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"headcount"
	"headcount/engine"
	"headcount/internal/golden"
	"headcount/internal/scorecard"
	"headcount/layout"
	"headcount/problem"
)

// vllmRequest is a row's question in our words; the model is the row's file.
func vllmRequest(row *golden.VLLMRow) headcount.Request {
	l := row.Layout
	req := headcount.Request{Model: row.File, GPU: golden.GPUs[row.GPU]}
	req.Layout = layout.Layout{TP: l.TP, PP: l.PP, DCP: l.DCP, EP: l.EP}
	req.Options = engine.Options{
		DType: l.DType, KVCacheDType: l.KVCacheDType, BlockSize: l.BlockSize, MaxModelLen: l.MaxModelLen, MaxNumBatched: l.MaxNumBatched,
		EnablePrefixCaching: l.PrefixCaching, DisableHybridKVCacheManager: l.DisableHybrid,
	}
	if l.Spec != nil {
		req.Speculative = &engine.Speculative{Method: l.Spec.Method, Tokens: l.Spec.Tokens}
	}
	return req
}

// VLLM plans a row of vLLM's and holds the report to it.
func VLLM(r *scorecard.Row, planner *headcount.Planner, row *golden.VLLMRow) {
	req := vllmRequest(row)
	req.KVCacheMemory = 777_777_777_777 // the largest of the rows' pools
	report, err := planner.Plan(context.Background(), req)
	if err != nil && row.Error == nil {
		r.Check("answered", err, nil)
		return
	}
	if row.Error != nil {
		checkRefusal(r, report, req.Layout.TP, row.Error)
		return
	}
	if report.Error != nil && len(report.Ranks) == 0 {
		r.Check("answered", report.Error, nil)
		return
	}
	checkResolved(r, report, row.Resolved)
	for i, runs := range row.Specs {
		if i < len(report.Ranks) {
			checkRuns(r, report.Ranks[i].Layers, runs)
		}
	}
	r.Check("stages", len(report.Ranks), max(1, len(row.Specs)))
	for i, w := range row.Weights {
		if i < len(report.Ranks) {
			checkWeights(r, report, i, w)
		}
	}
	r.Check("groups", printGroups(report.KVCache.Groups), printGoldenGroups(row.Groups))
	for _, result := range row.Results {
		checkResult(r, planner, req, result)
	}
}

// WantsCode reports whether the plan of a row says that the checkpoint's own config class is
// needed, or lacks a field for which that may have a default. The engine says so too, unless
// it is told to trust that code; what an oracle answers with a stand-in for the class is then
// no answer about the checkpoint.
func WantsCode(planner *headcount.Planner, row *golden.VLLMRow) bool {
	report, err := planner.Plan(context.Background(), vllmRequest(row))
	var refusal *problem.Error
	if report != nil {
		refusal = report.Error
	}
	errors.As(err, &refusal)
	return refusal != nil && (refusal.Field == "auto_map" || refusal.Code == problem.MissingField)
}

func checkResolved(r *scorecard.Row, report *headcount.Report, want *golden.VLLMResolved) {
	m, got := report.Model, report.Resolved
	r.Check("query_heads", m.QueryHeads, want.QueryHeads)
	r.Check("max_model_len", m.MaxModelLen, want.MaxModelLen)
	r.Check("attention_arch", m.AttentionArch == "MLA", want.UseMLA)
	r.Check("rank_q_heads", report.Ranks[0].QueryHeads, want.RankQHeads)
	r.Check("rank_kv_heads", report.Ranks[0].KVHeads, want.RankKVHeads)
	r.Check("max_num_batched_tokens", got.MaxNumBatchedTokens, want.MaxNumBatchedTokens)
	r.Check("max_num_seqs", got.MaxNumSeqs, want.MaxNumSeqs)
	r.Check("max_in_flight_tokens", got.MaxInFlightTokens, want.MaxInFlightTokens)
	r.Check("async_scheduling", deref(got.AsyncScheduling), want.AsyncScheduling)
	r.Check("chunked_prefill", deref(got.ChunkedPrefill), want.ChunkedPrefill)
	r.Check("prefix_caching", deref(got.PrefixCaching), want.PrefixCaching)
	r.Check("mamba_cache_mode", got.MambaCacheMode, want.MambaCacheMode)
	r.Check("cache_dtype", got.CacheDType, want.CacheDType)
	r.Check("attention_backends", got.AttentionBackends, want.AttentionBackends)
	r.Check("dtype", got.DType, want.DType)
	r.Check("quant", deref(got.Quant), deref(want.Quant))
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// reportKinds are the report's names of the engine's spec classes.
var reportKinds = map[string]string{
	"FullAttentionSpec": "full_attention", "SinkFullAttentionSpec": "full_attention", "SlidingWindowSpec": "sliding_window",
	"ChunkedLocalAttentionSpec": "chunked_local", "MLAAttentionSpec": "mla", "SlidingWindowMLASpec": "sliding_window_mla", "CircularBufferSpec": "circular_buffer",
	"MambaSpec": "mamba", "CrossAttentionSpec": "cross_attention", "EncoderOnlyAttentionSpec": "encoder_only",
}

// indexKeyRow is an index key of 128 elements with its scale, which DeepSeek-V4's indexers
// cache without naming their role.
const indexKeyRow = 132

// checkRuns compares the caches of a stage, layer by layer.
func checkRuns(r *scorecard.Row, got []*engine.Run, want []golden.VLLMSpec) {
	var have, wanted []string
	for _, run := range got {
		line := fmt.Sprintln(run.Kind, run.KVHeads, run.KeyDim, run.ValueDim, run.DType, run.BlockSize, run.PageSize, run.PageUnpadded, deref(run.Window))
		if run.Kind == "mamba" {
			line = fmt.Sprintln(run.Kind, run.BlockSize, run.PageSize, run.PageUnpadded, run.StateShapes, run.StateDTypes)
		}
		have = append(have, slices.Repeat([]string{line}, run.Layers)...)
	}
	for s := range golden.Unroll(want) {
		kind := reportKinds[s.Kind]
		if s.Role == "indexer" || s.Kind == "MLAAttentionSpec" && s.HeadSize == indexKeyRow {
			kind = "indexer"
		}
		line := fmt.Sprintln(kind, s.KVHeads, s.HeadSize, s.HeadSizeV, s.DType, s.BlockSize, s.PageSize, s.PageUnpadded, cmp.Or(s.Window, s.ChunkSize))
		if kind == "mamba" {
			line = fmt.Sprintln(kind, s.BlockSize, s.PageSize, s.PageUnpadded, s.Shapes, s.DTypes)
		}
		wanted = append(wanted, line)
	}
	r.Check("layers", len(have), len(wanted))
	for i := range min(len(have), len(wanted)) {
		if have[i] != wanted[i] {
			r.Check("layer", fmt.Sprint(i, " ", have[i]), fmt.Sprint(i, " ", wanted[i]))
			return
		}
	}
	r.Check("layer", "", "")
}

// checkWeights compares a stage's parameters and buffers. What the report says it does not
// know is counted by the reason it gives.
func checkWeights(r *scorecard.Row, report *headcount.Report, stage int, want golden.VLLMWeights) {
	got := &report.Ranks[stage]
	if got.Parameters == nil {
		r.Unknown("weights", noteOf(report, "weights-not-known"))
	} else {
		r.Check("parameters", *got.Parameters, want.Params)
		r.Check("weight_bytes", *got.WeightBytes, want.Bytes)
	}
	if got.BufferBytes == nil {
		r.Unknown("buffers", noteOf(report, "weights-not-known"))
	} else {
		r.Check("buffer_bytes", *got.BufferBytes, want.BufferBytes)
	}
}

// noteOf is the text of a report's note.
func noteOf(report *headcount.Report, id string) string {
	for _, n := range report.Notes {
		if n.ID == id {
			return n.Text
		}
	}
	return "no reason given"
}

func printGroups(groups []engine.Group) string {
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "%s %d %d %d; ", g.Kind, g.Layers, g.BlockSize, g.PageSize)
	}
	return b.String()
}

func printGoldenGroups(groups []golden.VLLMGroup) string {
	out := make([]engine.Group, len(groups))
	for i, g := range groups {
		out[i] = engine.Group{Kind: g.Kind, Layers: g.Layers, BlockSize: int(g.BlockSize), PageSize: g.PageSize}
	}
	return printGroups(out)
}

func checkResult(r *scorecard.Row, planner *headcount.Planner, req headcount.Request, want golden.VLLMResult) {
	req.KVCacheMemory = want.Available
	report, err := planner.Plan(context.Background(), req)
	if want.Error != nil {
		checkRefusal(r, report, req.Layout.TP, want.Error)
		return
	}
	if err != nil || report.Error != nil {
		r.Check("answered", report.Error, nil)
		return
	}
	kv := report.KVCache
	r.Check("num_blocks", deref(kv.NumBlocks), want.NumBlocks)
	if len(report.KVCache.Groups) > 0 {
		r.Check("block_size", kv.BlockSize, want.BlockSize)
	}
	r.Check("tokens", deref(kv.Tokens), want.Tokens)
	r.Check("max_concurrency", deref(kv.MaxConcurrency), want.MaxConcurrency)
	r.Check("scheduler_block_size", deref(kv.SchedulerBlockSize), want.SchedulerBlockSize)
	r.Check("hash_block_size", deref(kv.HashBlockSize), want.HashBlockSize)
	r.Check("kv_tp_replicas", deref(kv.KVTPReplicas), want.KVTPReplicas)
	r.Check("log", report.Log, want.Log)
	for i, w := range want.Workers {
		if i < len(report.Ranks) {
			r.Check("bytes_per_block", deref(report.Ranks[i].BytesPerBlock), w.BytesPerBlock)
			r.Check("num_blocks_alone", deref(report.Ranks[i].NumBlocks), w.NumBlocksAlone)
		}
	}
}

// A cause is what the engine's message says went wrong, in the report's codes.
type cause struct {
	message *regexp.Regexp
	code    problem.Code
	number  bool // the first group is the offending dimension; where ranks share heads, by which they are divided, the second
}

// architectureCode stands for either code of an architecture that the engine does not
// serve: unsupported, or unknown to everybody.
const architectureCode problem.Code = "unsupported or unknown_architecture"

var causes = []cause{
	{regexp.MustCompile(`Total number of attention heads \((\d+)\) must be divisible`), problem.NotDivisible, true},
	{regexp.MustCompile(`^(\d+) is not divisible by (\d+)$`), problem.NotDivisible, true},
	{regexp.MustCompile(`is not divisible by weight quantization block`), problem.NotDivisible, false},
	{regexp.MustCompile(`Decode context parallelism for GQA|exceeds the maximum supp|must be divisible by dcp_size`), problem.IllegalLayout, false},
	{regexp.MustCompile(`Number of experts in the model must be greater than 0`), problem.IllegalLayout, false},
	{regexp.MustCompile(`Pipeline parallelism is not supported`), problem.IllegalLayout, false},
	{regexp.MustCompile(`Model architectures? .*(not supported for now|was supported in vLLM)`), architectureCode, false},
	{regexp.MustCompile(`Unknown quantization method|No valid attention backend|No valid MLA prefill backend|DCP for FlashMLA sparse|FlashAttention does not support fp8`), problem.Unsupported, false},
	{regexp.MustCompile(`is greater than the derived max_model_len`), problem.BadValue, false},
	{regexp.MustCompile(`KV cache is needed|No available memory for the cache blocks`), problem.DoesNotFit, false},
	{regexp.MustCompile(`Failed to promote local KV cache specs`), problem.Unsupported, false},
}

var estimate = regexp.MustCompile(`estimated maximum model length is (\d+)`)

// checkRefusal wants a refusal, with the engine's cause where it names one.
func checkRefusal(r *scorecard.Row, report *headcount.Report, tp int, want *golden.VLLMError) {
	r.Check("refused", report.Error != nil, true)
	if report.Error == nil {
		return
	}
	got := report.Error
	for _, c := range causes {
		found := c.message.FindStringSubmatch(want.Message)
		if found == nil {
			continue
		}
		if want := c.code; want != architectureCode {
			r.Check("refusal code", got.Code, want)
		} else {
			r.Check("refusal code", got.Code == problem.Unsupported || got.Code == problem.UnknownArchitecture, true)
		}
		if c.number {
			dimension := found[1]
			if dimension == strconv.Itoa(tp) {
				dimension = found[2]
			}
			r.Check("refused dimension", got.Value, dimension)
		}
		break
	}
	if found := estimate.FindStringSubmatch(want.Message); found != nil {
		r.Check("estimated_max_model_len", got.EstimatedMaxModelLen, found[1])
	}
}
