package sglang

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	dtypes "headcount/dtype"
	"headcount/internal/golden"
	"headcount/internal/scorecard"
)

// TestPoolsFromResolved holds the arithmetic of pools to the golden rows, from what the
// engine had resolved: no config is read.
func TestPoolsFromResolved(t *testing.T) {
	card := scorecard.New()
	skipped := map[string]int{}
	for row, err := range golden.SGLang() {
		if err != nil {
			t.Fatal(err)
		}
		if row.Resolved == nil {
			continue
		}
		s, why := resolvedSetup(row)
		if why != "" {
			skipped[why]++
			continue
		}
		r := card.Row(row.ID, row.Pool.Configurator)
		z, refusal := s.size(budget{begin: row.Layout.BeginGiB, end: row.Layout.EndGiB})
		if refusal != nil {
			r.Check("sized", refusal, nil)
		} else {
			comparePools(r, row, s, &z)
		}
		r.Done()
	}
	for why, n := range skipped {
		t.Logf("%5d rows skipped: %s", n, why)
	}
	card.Judge(t, "testdata/misses.txt")
}

// comparePools compares all that a row says of its pools.
func comparePools(r *scorecard.Row, row *golden.SGLangRow, s *setup, z *sizing) {
	p := row.Pool
	if p.CellSize != nil {
		r.Check("cell_size", z.cell, *p.CellSize)
	}
	if p.PerFullToken != nil {
		r.Check("bytes_per_full_token", z.cell, *p.PerFullToken)
	}
	r.Check("available_bytes", z.available, p.Available)
	if len(p.Stages) > 0 && len(s.stages) == 1 {
		// Only stage 0 is known: take the others' capacity from the row.
		least := p.Stages[0].Tokens
		r.Check("stage_tokens", z.tokens, least)
		for _, st := range p.Stages {
			least = min(least, st.Tokens)
		}
		if s.split(z, least) != nil || s.concurrency(z) != nil {
			return
		}
	}
	r.Check("max_total_num_tokens", z.tokens, p.Tokens)
	if p.FullTokens != nil {
		r.Check("full_tokens", z.full, *p.FullTokens)
		r.Check("swa_tokens", z.window, *p.SWATokens)
	}
	if s.dsv4 != nil {
		r.Check("dsv4_pools", []int64{z.c4, z.c128, z.c4State, z.c128State}, []int64{p.C4Tokens, p.C128Tokens, p.C4State, p.C128State})
	}
	if s.state != nil {
		r.Check("mamba_slots", z.slots, p.Slots)
		r.Check("mamba_slots_per_request", s.state.perReq, p.SlotsPerReq)
	}
	r.Check("max_running_requests", z.running, p.MaxRunning)
	r.Check("logical_tokens", z.logical, p.Logical)
	r.Check("max_req_len", z.maxReqLen, p.MaxReqLen)
	if p.ReqToToken != nil {
		r.Check("req_to_token", s.reqToToken(z), p.ReqToToken)
	}
	pools := s.pools(z, nil)
	if p.KVPool != nil {
		compareBytes(r, row, pools)
	}
	lines := s.lines(z, pools, nil)
	r.Check("summary_line", lines[len(lines)-1], row.Summary)
	for _, want := range row.Log {
		if row.PoolError == nil {
			got := strings.Join(lines, "\n")
			if slices.Contains(lines, want) {
				got = want
			}
			r.Check("log", got, want)
		}
	}
}

func compareBytes(r *scorecard.Row, row *golden.SGLangRow, pools []pool) {
	kv := row.Pool.KVPool
	whole := func(p *golden.SGLangKVPool) [2]int64 { return [2]int64{p.KBytes + p.KVBytes, p.VBytes} }
	if kv.SWA != nil {
		r.Check("full_pool_bytes", [2]int64{pools[0].k, pools[0].v}, whole(kv.Full))
		r.Check("swa_pool_bytes", [2]int64{pools[1].k, pools[1].v}, whole(kv.SWA))
		return
	}
	if kv.Class == "DeepSeekV4TokenToKVPool" {
		return
	}
	var sum [2]int64
	for _, p := range pools {
		sum[0] += p.k
		sum[1] += p.v
	}
	r.Check("kv_pool_bytes", sum, whole(kv))
}

// resolvedSetup is the setup of a row, from its resolved part; why says what that part
// does not tell.
func resolvedSetup(row *golden.SGLangRow) (s *setup, why string) {
	r, l := row.Resolved, &row.Layout
	pp := max(l.PP, 1)
	s = &setup{
		ranks: int64(l.TP * pp), attnDP: r.AttnDP, dcp: r.DCP,
		fraction: r.MemFractionStatic, page: r.PageSize, chunk: r.ChunkedPrefillSize, maxPrefill: r.MaxPrefillTokens,
		maxRunning: r.MaxRunningRequests, maxTokens: l.MaxTotalTokens, context: r.ContextLen,
		swaRatio: r.SWAFullTokensRatio, noRadix: r.DisableRadixCache, noOverlap: r.DisableOverlap,
		reserveMiB: int64(r.MMReservation * 1024),
		store:      resolvedStore(r),
	}
	if r.IsMultimodal && r.MMTransport == "" {
		s.reserveMiB = 100 // rows made before the oracle wrote it down
		if strings.HasPrefix(r.ModelType, "qwen3_vl") && strings.HasPrefix(row.GPU, "H") {
			s.reserveMiB = 1024
		}
	}
	if r.SlidingWindow != nil {
		s.window = *r.SlidingWindow
	}
	st := stage{start: r.StartLayer, end: r.EndLayer, layers: r.Layers, index: r.IndexLayers, states: 0}
	s.priced = rowOf(r.KVHeads, r.HeadDim, r.VHeadDim)
	s.held = s.priced
	if r.UseMLA {
		s.priced = latentRow(r.MLACacheDim)
		s.held = s.priced
	}
	if r.IsDSA {
		s.index = indexer{row: r.IndexHeadDim + r.IndexHeadDim/128*4, pool: max(1, r.PageSize/64)}
	}
	switch row.Pool.Configurator {
	case "DSV4PoolConfigurator":
		return s, "DeepSeek-V4: compress_ratios are in the config alone"
	case "DefaultPoolConfigurator":
	default:
		if r.UseMLA {
			return s, "hybrid MLA: the window's latent is in the config alone"
		}
		plain := max(1, r.KVHeads) // priced without DCP
		if r.DCP > 1 {
			var total int64
			if json.Unmarshal(r.TotalKVHeads, &total) != nil {
				return s, "no KV head count"
			}
			plain = max(1, total/r.AttnTP)
		}
		s.priced.heads = plain
		s.held.value = r.HeadDim
		s.sliding = &sliding{priced: rowOf(r.SWAKVHeads, r.SWAHeadDim, r.SWAVHeadDim), held: rowOf(r.KVHeads, r.HeadDim, r.HeadDim)}
		if compressed[r.Architecture] {
			s.held.value = r.VHeadDim
			s.sliding.held = s.sliding.priced
		}
		st.layers, st.sliding = r.FullLayers, r.SWALayers
	}
	if m := r.Mamba; m != nil {
		if pp > 1 {
			return s, "pipeline of a state model: its layers are in the config alone"
		}
		s.state = resolvedState(r, row)
		st.states = m.Layers
		if s.sliding == nil {
			st.layers = m.FullLayers
			if !r.UseMLA {
				s.held.value = r.HeadDim
			}
		}
	}
	if strings.HasPrefix(r.Architecture, "MiniMaxM3Sparse") || strings.HasPrefix(r.Architecture, "Qwen4Exp") {
		return s, "sparse attention: its index layers are in the config alone"
	}
	if d := r.Spec; d != nil {
		s.draft = draft{on: true, tokens: d.DraftTokens, steps: d.Steps, topK: d.TopK}
		if d.DFlashDraftLayers != nil {
			return s, "DFLASH: the draft's heads are in its config alone"
		}
		if d.DraftLayers != nil {
			s.draft.layers = *d.DraftLayers
		}
		if d.DraftSWALayers != nil {
			s.draft.sliding = min(*d.DraftSWALayers, s.draft.layers)
		}
	}
	s.stages = []stage{st}
	if pp > 1 && s.sliding == nil {
		s.stages = s.stages[:0]
		for _, g := range row.Pool.Stages {
			s.stages = append(s.stages, stage{start: g.Start, end: g.End, layers: (g.End - g.Start) * (r.Layers / (r.EndLayer - r.StartLayer)), index: r.IndexLayers})
		}
		if r.IsDSA {
			s.stages = []stage{st} // which layers have an indexer is in the config alone
		}
	}
	return s, ""
}

// compressed are the architectures whose window pool has heads of its own.
var compressed = map[string]bool{
	"MiMoV2ForCausalLM": true, "MiMoV2FlashForCausalLM": true, "Gemma4ForCausalLM": true, "Gemma4ForConditionalGeneration": true,
	"EmbeddingGemma2Model": true, "InklingForConditionalGeneration": true, "Gemma4UnifiedForConditionalGeneration": true, "DiffusionGemmaForBlockDiffusion": true,
}

func rowOf(heads, key, value int64) row { return row{heads: heads, key: key, value: value} }
func latentRow(n int64) row             { return row{latent: n} }

func resolvedState(r *golden.SGLangResolved, row *golden.SGLangRow) *state {
	m := r.Mamba
	t := &state{layers: m.Layers, ratio: m.Ratio, slots: int64(row.Layout.Args.MaxMambaCacheSize), perReq: 1}
	size := func(dtype string) int64 { d, _ := dtypes.Parse(dtype); return d.Bytes() }
	for _, shape := range m.ConvShapes {
		t.conv += mul(int64(shape[0]), int64(shape[1]), size(m.ConvDType))
	}
	t.temporal = size(m.TemporalDType)
	for _, n := range m.TemporalShape {
		t.temporal *= int64(n)
	}
	for _, shape := range m.ConvShapes {
		t.taps = int64(min(shape[0], shape[1]))
		t.channels += int64(max(shape[0], shape[1])) * size(m.ConvDType)
	}
	if !r.DisableRadixCache {
		t.perReq = 3
		if m.ExtraBuffer {
			t.perReq = 4
			if !r.DisableOverlap {
				t.perReq = 5
			}
		}
	}
	return t
}

func resolvedStore(r *golden.SGLangResolved) store {
	d, ok := dtypes.Parse(r.KVCacheDType)
	s := store{name: r.KVCacheDType, bytes: 1}
	if ok {
		s.bytes = d.Bytes()
	}
	switch r.KVCacheDTypeFlag {
	case "mxfp8":
		s.format = mxfp8
	case "nvfp4":
		s.format = nvfp4
	case "fp4_mx_block16":
		s.format = fp4Block
	}
	return s
}
