package vram

import (
	"math"
	"testing"
)

// A bill of absurd sizes is absurd, and never negative.
func TestBillsDoNotWrap(t *testing.T) {
	weights := int64(math.MaxInt64)
	for _, l := range []Load{
		{TP: 1, PP: 1, WeightsBytes: &weights},
		{TP: 1, PP: 1, WeightsBytes: &weights, TotalBytes: 1 << 50, Fraction: 1},
		{TP: 8, PP: 2, WeightsBytes: &weights, TotalBytes: 80 << 30, Fraction: 0.9, Hidden: 1 << 31, Vocab: 1 << 31, MLPWidth: 1 << 31, ExpertWidth: 1 << 31,
			ExpertsPerToken: 1 << 31, ElemBytes: 4, BatchedTokens: 1 << 40, Sequences: 1 << 40, L2Bytes: 1 << 50, Layers: 10_000},
	} {
		for _, m := range []*Memory{VLLM(l), SGLang(l)} {
			for _, term := range m.Terms {
				if term.P10 < 0 || term.P10 > term.P50 || term.P50 > term.P90 {
					t.Errorf("%s of %+v: %+v", term.Name, l, term.Band)
				}
			}
			if *m.KVBytes != (Band{}) || m.Shortage() < float64(weights)-(1<<51) {
				t.Errorf("%+v leaves %+v, %g short", l, *m.KVBytes, m.Shortage())
			}
		}
	}
}

// What is left is what the engine takes less the weights and every term.
func TestBillAddsUp(t *testing.T) {
	weights := int64(16 << 30)
	m := VLLM(Load{TotalBytes: 80 << 30, Fraction: 0.9, WeightsBytes: &weights, TP: 1, PP: 1, Layers: 32, Hidden: 4096, Vocab: 128_256, MLPWidth: 14_336, ElemBytes: 2, BatchedTokens: 8192, Sequences: 256})
	const requested, e, r, h, v, tokens = 72<<30 + 1, 2, 256, 4096, 128_256, 8192
	if got := m.Terms[0].P50; got != max(r*v*(e+12)+(tokens+r)*h*e, tokens*e*(3*14_336+3*h)) {
		t.Errorf("activation: %d bytes", got)
	}
	left := int64(requested) - weights
	for _, term := range m.Terms {
		left -= term.P50
	}
	if m.KVBytes.P50 != left || m.Shortage() != 0 {
		t.Errorf("%d bytes left, %g short; want %d", m.KVBytes.P50, m.Shortage(), left)
	}
}
