package sglang

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	dtypes "headcount/dtype"
	"headcount/internal/golden"
)

// A score counts, per field, the rows that agree.
type score struct {
	fields map[string]*[2]int // right, compared
	misses map[string][]string
}

func newScore() *score { return &score{map[string]*[2]int{}, map[string][]string{}} }

func (c *score) compare(row, field string, got, want any) bool {
	n := c.fields[field]
	if n == nil {
		n = new([2]int)
		c.fields[field] = n
	}
	n[1]++
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		c.misses[field] = append(c.misses[field], fmt.Sprintf("%s: %s = %s, want %s", row, field, g, w))
		return false
	}
	n[0]++
	return true
}

// missesShown is how many misses of a field a failing test prints.
const missesShown = 60

// report logs the score and fails the test on any miss.
func (c *score) report(t *testing.T) {
	t.Helper()
	names := make([]string, 0, len(c.fields))
	for f := range c.fields {
		names = append(names, f)
	}
	sort.Strings(names)
	for _, f := range names {
		n := c.fields[f]
		t.Logf("%-22s %5d of %5d", f, n[0], n[1])
	}
	for _, f := range names {
		for i, m := range c.misses[f] {
			if i == missesShown {
				t.Errorf("... and %d more of %s", len(c.misses[f])-i, f)
				break
			}
			t.Error(m)
		}
	}
}

// TestPoolsFromResolved holds the arithmetic of pools to the golden rows, from what the
// engine had resolved: no config is read.
func TestPoolsFromResolved(t *testing.T) {
	c := newScore()
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
		z, refusal := s.size(budget{begin: row.Layout.BeginGiB, end: row.Layout.EndGiB})
		if refusal != nil {
			c.compare(row.ID, "refused", refusal, nil)
			continue
		}
		comparePools(c, row, s, &z)
	}
	if len(c.fields) == 0 {
		t.Fatal("no golden rows")
	}
	for why, n := range skipped {
		t.Logf("%5d rows skipped: %s", n, why)
	}
	c.report(t)
}

// comparePools compares all that a row says of its pools.
func comparePools(c *score, row *golden.SGLangRow, s *setup, z *sizing) {
	p := row.Pool
	if p.CellSize != nil {
		c.compare(row.ID, "cell_size", z.cell, *p.CellSize)
	}
	if p.PerFullToken != nil {
		c.compare(row.ID, "bytes_per_full_token", z.cell, *p.PerFullToken)
	}
	c.compare(row.ID, "available_bytes", z.available, p.Available)
	if len(p.Stages) > 0 && len(s.stages) == 1 {
		// Only stage 0 is known: take the others' capacity from the row.
		least := p.Stages[0].Tokens
		c.compare(row.ID, "stage_tokens", z.tokens, least)
		for _, st := range p.Stages {
			least = min(least, st.Tokens)
		}
		if s.split(z, least) != nil || s.concurrency(z) != nil {
			return
		}
	}
	c.compare(row.ID, "max_total_num_tokens", z.tokens, p.Tokens)
	if p.FullTokens != nil {
		c.compare(row.ID, "full_tokens", z.full, *p.FullTokens)
		c.compare(row.ID, "swa_tokens", z.window, *p.SWATokens)
	}
	if s.dsv4 != nil {
		c.compare(row.ID, "dsv4_pools", []int64{z.c4, z.c128, z.c4State, z.c128State}, []int64{p.C4Tokens, p.C128Tokens, p.C4State, p.C128State})
	}
	if s.state != nil {
		c.compare(row.ID, "mamba_slots", z.slots, p.Slots)
		c.compare(row.ID, "mamba_slots_per_request", s.state.perReq, p.SlotsPerReq)
	}
	c.compare(row.ID, "max_running_requests", z.running, p.MaxRunning)
	c.compare(row.ID, "logical_tokens", z.logical, p.Logical)
	c.compare(row.ID, "max_req_len", z.maxReqLen, p.MaxReqLen)
	if p.ReqToToken != nil {
		c.compare(row.ID, "req_to_token", s.reqToToken(z), p.ReqToToken)
	}
	pools := s.pools(z, nil)
	if p.KVPool != nil {
		compareBytes(c, row, pools)
	}
	lines := s.lines(z, pools, nil)
	c.compare(row.ID, "summary_line", lines[len(lines)-1], row.Summary)
	for _, want := range row.Log {
		if row.PoolError == nil && !slices.Contains(lines, want) {
			c.compare(row.ID, "log", "\n"+strings.Join(lines, "\n"), "\n"+want)
		} else {
			c.compare(row.ID, "log", want, want)
		}
	}
}

func compareBytes(c *score, row *golden.SGLangRow, pools []pool) {
	kv := row.Pool.KVPool
	whole := func(p *golden.SGLangKVPool) [2]int64 { return [2]int64{p.KBytes + p.KVBytes, p.VBytes} }
	if kv.SWA != nil {
		c.compare(row.ID, "full_pool_bytes", [2]int64{pools[0].k, pools[0].v}, whole(kv.Full))
		c.compare(row.ID, "swa_pool_bytes", [2]int64{pools[1].k, pools[1].v}, whole(kv.SWA))
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
	c.compare(row.ID, "kv_pool_bytes", sum, whole(kv))
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
