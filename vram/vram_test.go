package vram

import (
	"math"
	"strings"
	"testing"
)

// A bill of absurd sizes is absurd, and never negative.
func TestBillsDoNotWrap(t *testing.T) {
	weights := int64(math.MaxInt64)
	for _, l := range []Load{
		{TP: 1, PP: 1, WeightsBytes: &weights, Samples: true},
		{TP: 1, PP: 1, WeightsBytes: &weights, Device: Device{TotalBytes: 1 << 50}, Fraction: 1},
		{Version: Version{0, 33, 0}, TP: 8, PP: 2, Stage: 1, WeightsBytes: &weights, Device: Device{TotalBytes: 80 << 30, L2Bytes: 1 << 50}, Fraction: 0.9,
			Hidden: 1 << 31, Vocab: 1 << 31, ElemBytes: 4, BatchedTokens: 1 << 40, Sequences: 1 << 40, Forward: math.MaxInt64, Workspace: math.MaxInt64,
			Samples: true, Towers: true, Item: 1 << 40, Pixels: 1 << 40, Compiled: true, Graphs: true, FreeBytes: 1},
	} {
		for _, m := range []*Memory{VLLM(&l), SGLang(&l)} {
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
	const e, r, h, v, tokens, forward = 2, 256, 4096, 128_256, 8192, 1 << 30
	m := VLLM(&Load{Version: Version{0, 33, 0}, Device: Device{TotalBytes: 80 << 30}, Fraction: 0.9, WeightsBytes: &weights, TP: 1, PP: 1,
		Hidden: h, Vocab: v, ElemBytes: e, BatchedTokens: tokens, Sequences: r, Samples: true, Forward: forward})
	if got := m.Term("activation").P50; got != max(r*v*(e+12)+(tokens+r)*h*e, forward) {
		t.Errorf("activation: %d bytes", got)
	}
	left := int64(72<<30) - weights
	for _, term := range m.Terms {
		left -= term.P50
	}
	if m.KVBytes.P50 != left || m.Shortage() != 0 || int64(m.Left()) != left {
		t.Errorf("%d bytes left, %g short; want %d", m.KVBytes.P50, m.Shortage(), left)
	}
}

// The sampler's pass as each release runs it, on Llama-3.1-8B, 1024 rows of 8192 tokens; the
// peaks that public logs print, which before 0.29 hold cuBLAS's workspace, 32 MiB.
func TestSamplerByRelease(t *testing.T) {
	for _, tt := range []struct {
		version string
		want    float64 // GiB
	}{
		{"0.11.0", (1024.0*128_256*38 + (8192+2*1024)*4096*2 + 32<<20) / (1.0 << 30)},                 // 4.76 in a log
		{"0.19.0", (1024.0*128_256*14 + (8192+2*1024)*4096*2 + 132*128_256*4 + 32<<20) / (1.0 << 30)}, // 1.89 in 18 logs
		{"0.33.0", (1024.0*128_256*14 + (8192+1024)*4096*2) / (1.0 << 30)},
	} {
		m := VLLM(&Load{Version: ParseVersion(tt.version), Device: Device{TotalBytes: 80 << 30, SMs: 132, Capability: [2]int{9, 0}}, Fraction: 0.9, TP: 1, PP: 1,
			Hidden: 4096, Vocab: 128_256, ElemBytes: 2, BatchedTokens: 8192, Sequences: 1024, Samples: true})
		if got := float64(m.Term("activation").P50) / (1 << 30); math.Abs(got-tt.want) > 1e-6 {
			t.Errorf("%s: %.4f GiB, want %.4f", tt.version, got, tt.want)
		}
	}
}

// Every line of the table of distributions is read, and is in order.
func TestDistributions(t *testing.T) {
	lines := 0
	for line := range strings.Lines(empirical) {
		if !strings.HasPrefix(line, "#") {
			lines++
		}
	}
	if n := len(distributions()); n != lines {
		t.Errorf("%d distributions of %d lines", n, lines)
	}
	for c, d := range distributions() {
		if d.P10 < 0 || d.P10 > d.P50 || d.P50 > d.P90 || d.P90 > 8<<30 {
			t.Errorf("%v: %+v", c, d.Band)
		}
	}
}
