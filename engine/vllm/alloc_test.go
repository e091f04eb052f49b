package vllm

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"headcount/dtype"
	"headcount/internal/golden"
)

// specOf reads a golden row's spec. What a row does not say of a spec takes no part in
// planning.
func specOf(t *testing.T, g *golden.VLLMSpec) spec {
	t.Helper()
	s := spec{
		BlockSize: g.BlockSize, KVHeads: g.KVHeads, KeyDim: g.HeadSize, ValueDim: g.HeadSizeV,
		HeadSlots: g.KVHeads, TokensPerState: max(g.TokensPerState, 1), StatesPerToken: 1,
		Padded: g.PagePadded, Alignment: g.Alignment, Window: g.Window, Chunk: g.ChunkSize,
		TPShards: g.MaxTPShards, CacheDType: g.CacheDType, Indexer: g.Role == "indexer", Leader: g.IndexGroupLeader,
		V4: g.ModelVersion != "", TopK: g.TopKWidth, CheckpointBlocks: g.CheckpointBlocks, SpecBlocks: g.SpecBlocks,
	}
	for i, name := range classNames {
		if name == g.Kind {
			s.Class = class(i)
			goto known
		}
	}
	t.Fatalf("class %q", g.Kind)
known:
	if g.QuantMode != "" {
		s.Quant = fp8Tensor
	}
	switch a := g.StrideAlignment.(type) {
	case float64:
		s.StrideBytes = int64(a)
	case string:
		if _, err := fmt.Sscanf(a, "MultipleOf(%d)", &s.StrideTokens); err != nil {
			t.Fatal(err)
		}
	}
	if s.Class == mambaState {
		s.HeadSlots = 1
		for i, shape := range g.Shapes {
			st := &s.States[i]
			st.DType, _ = dtype.Parse(g.DTypes[i])
			st.Rank = uint8(len(shape))
			for k, n := range shape {
				st.Dims[k] = int32(n)
			}
			n, _ := st.bytes()
			s.Content += n
		}
		return s
	}
	s.DType, _ = dtype.Parse(g.DType)
	s.Content = (s.KeyDim + s.ValueDim) * s.DType.Bytes()
	if g.StateContentBytes != 0 {
		s.Content = g.StateContentBytes
	}
	return s
}

// TestAllocator plans each golden row from the specs that the engine gave its layers, and
// compares groups, blocks, tokens, sizes, log lines and refusals with the engine's.
func TestAllocator(t *testing.T) {
	rows, results := 0, 0
	for row, err := range golden.VLLM() {
		if err != nil {
			t.Fatal(err)
		}
		if row.Results == nil && row.Error == nil || row.Specs == nil {
			continue
		}
		rows++
		var c caches
		for stage, runs := range row.Specs {
			for g := range golden.Unroll(runs) {
				s := specOf(t, g)
				if s.page() != g.PageSize || s.unpadded() != g.PageUnpadded {
					t.Errorf("%s: %s page %d, %d, want %d, %d", row.ID, g.Kind, s.page(), s.unpadded(), g.PageSize, g.PageUnpadded)
				}
				if g.StrideAlignmentByte != 0 && s.alignment() != g.StrideAlignmentByte {
					t.Errorf("%s: %s alignment %d, want %d", row.ID, g.Kind, s.alignment(), g.StrideAlignmentByte)
				}
				c.add(&s, stage, 1)
			}
		}
		blockOuter := strings.HasPrefix(row.Resolved.KVLayout, "B") || row.Resolved.KVLayout == "" && c.specs[0].V4
		gs, _, err := c.groups(blockOuter, row.Resolved.DisableHybrid)
		if row.Error != nil {
			if err == nil {
				t.Errorf("%s: groups, want refusal %s", row.ID, row.Error.Message)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", row.ID, err)
			continue
		}
		var got []golden.VLLMGroup
		for i := range gs {
			got = append(got, golden.VLLMGroup{Kind: gs[i].kind(), Layers: int(gs[i].layers), BlockSize: gs[i].spec.BlockSize, PageSize: gs[i].page()})
		}
		if fmt.Sprint(got) != fmt.Sprint(row.Groups) {
			t.Errorf("%s: groups\n got %v\nwant %v", row.ID, got, row.Groups)
			continue
		}
		for i := range row.Results {
			results++
			if msg := checkResult(gs, row, blockOuter, &row.Results[i]); msg != "" {
				t.Errorf("%s: %d bytes: %s", row.ID, row.Results[i].Available, msg)
			}
		}
	}
	t.Logf("%d rows, %d results", rows, results)
	if rows < 2000 {
		t.Errorf("only %d rows of golden data", rows)
	}
}

// checkResult is what differs between our plan and the engine's for one pool.
func checkResult(gs []group, row *golden.VLLMRow, blockOuter bool, want *golden.VLLMResult) string {
	r := row.Resolved
	d := demand{kept: 1, maxLen: r.MaxModelLen, inFlight: r.MaxInFlightTokens, encoder: int64(r.MaxNumBatchedTokens),
		dcp: int64(row.Layout.DCP), align: r.MambaCacheMode == "align"}
	if len(gs) == 0 {
		cache, scheduler, hash := blockSizes(gs, r.BlockSizeWorker, &d, r.PrefixCaching)
		got := golden.VLLMResult{NumBlocks: 1, KVTPReplicas: int(replicas(gs, int64(row.Layout.TP), d.dcp)),
			SchedulerBlockSize: scheduler, HashBlockSize: hash}
		_ = cache
		return diffResult(&got, want)
	}
	bytes := blockBytes(nil, gs, len(row.Specs), blockOuter)
	p := pool{available: want.Available}
	err := checkPages(gs, bytes)
	if err == nil {
		err = d.admit(gs, bytes, p)
	}
	if want.Error != nil {
		if err == nil {
			return "want refusal: " + want.Error.Message
		}
		if want.Error.Class == "ZeroDivisionError" {
			return ""
		}
		msg, _, _ := strings.Cut(want.Error.Message, " Try increasing")
		if err.Error() != "max_model_len = "+fmt.Sprint(d.maxLen)+": "+msg && err.Error() != fmt.Sprintf("decode_context_parallel_size = %d: %s", d.dcp, msg) {
			return fmt.Sprintf("refusal\n got %s\nwant %s", err, msg)
		}
		return ""
	}
	if err != nil {
		return err.Error()
	}
	got := golden.VLLMResult{NumBlocks: math.MaxInt64}
	for _, b := range bytes {
		n := p.blocks(b)
		got.NumBlocks = min(got.NumBlocks, n)
		got.Workers = append(got.Workers, golden.VLLMWorker{NumBlocksAlone: n, BytesPerBlock: b})
	}
	have := d.capacity(gs, got.NumBlocks)
	got.Tokens, got.MaxConcurrency = have.tokens, have.concurrency
	got.KVTPReplicas = int(replicas(gs, int64(row.Layout.TP), d.dcp))
	got.BlockSize, got.SchedulerBlockSize, got.HashBlockSize = blockSizes(gs, r.BlockSizeWorker, &d, r.PrefixCaching)
	got.Log = latest().lines(nil, device{}, have, d.maxLen)
	return diffResult(&got, want)
}

func diffResult(got, want *golden.VLLMResult) string {
	g, w := *got, *want
	g.Available, w.Available = 0, 0
	if len(g.Workers) == 0 {
		w.Workers = nil
	}
	if a, b := fmt.Sprintf("%+v", g), fmt.Sprintf("%+v", w); a != b {
		return "\n got " + a + "\nwant " + b
	}
	return ""
}
