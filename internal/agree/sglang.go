// Package agree holds reports to what running the engines gave, field by field.
package agree

import (
	"context"
	"slices"
	"strings"

	"headcount"
	"headcount/internal/golden"
	"headcount/internal/scorecard"
)

// sglangRequest is a row's question in our words; the model is the row's file.
func sglangRequest(row *golden.SGLangRow) headcount.Request {
	l := &row.Layout
	req := headcount.Request{Model: row.File, Engine: "sglang", GPU: golden.GPUs[row.GPU], Layout: l.Parallel(), Options: l.Options()}
	if l.DraftID != "" {
		req.SpeculativeDraftModel = strings.ReplaceAll(l.DraftID, "/", "--") + ".json"
	}
	return req
}

// SGLang plans a row of SGLang's and holds the report to it.
func SGLang(r *scorecard.Row, planner *headcount.Planner, row *golden.SGLangRow) {
	report, err := planner.Plan(context.Background(), sglangRequest(row))
	if row.Error != nil {
		r.Check("refused", report.Error != nil, true)
		return
	}
	if err != nil || report.Error != nil {
		r.Check("answered", report.Error, nil)
		return
	}
	want, pool, kv := row.Resolved, row.Pool, report.KVCache
	heads := want.KVHeads
	if want.UseMLA {
		heads = 1
	}
	r.Check("attention_arch", report.Model.AttentionArch == "MLA", want.AttentionArch == "MLA")
	r.Check("kv_heads_per_rank", report.Ranks[0].KVHeads, heads)
	r.Check("head_dim", report.Model.HeadDim, want.HeadDim)
	r.Check("v_head_dim", report.Resolved.VHeadDim, want.VHeadDim)
	r.Check("context_len", report.Resolved.ContextLen, want.ContextLen)
	r.Check("mem_fraction_static", report.Resolved.MemFractionStatic, want.MemFractionStatic)
	r.Check("page_size", report.Resolved.PageSize, want.PageSize)
	r.Check("chunked_prefill_size", report.Resolved.ChunkedPrefillSize, want.ChunkedPrefillSize)
	r.Check("kv_cache_dtype", report.Resolved.KVCacheDType, want.KVCacheDType)
	r.Check("num_effective_layers", report.Resolved.NumEffectiveLayers, want.Layers)
	if pool.CellSize != nil {
		r.Check("cell_size", deref(kv.CellSize), *pool.CellSize)
	}
	r.Check("available_bytes", deref(kv.AvailableBytes), pool.Available)
	r.Check("max_total_num_tokens", deref(kv.MaxTotalNumTokens), pool.Tokens)
	r.Check("full_tokens", deref(kv.FullTokens), deref(pool.FullTokens))
	r.Check("swa_tokens", deref(kv.SWATokens), deref(pool.SWATokens))
	r.Check("mamba_slots", deref(kv.MambaSlots), pool.Slots)
	r.Check("max_running_requests", deref(kv.MaxRunningRequests), pool.MaxRunning)
	r.Check("max_req_len", deref(kv.MaxReqLen), pool.MaxReqLen)
	if m := want.Mamba; m != nil {
		r.Check("state_bytes_per_request", deref(kv.StateBytesPerReq), m.BytesPerReq)
	}
	for _, line := range row.Log {
		if row.PoolError == nil {
			r.Check("log", slices.Contains(report.Log, line), true)
		}
	}
	r.Check("summary_line", len(report.Log) > 0 && strings.HasPrefix(report.Log[len(report.Log)-1], row.Summary), true)
}
