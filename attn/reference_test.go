package attn

import (
	"math"
	"testing"

	"headcount/units"
)

// The table of reference numbers that the design keeps, as far as it is arithmetic of
// attention layers. Every value is written so that a reader can redo it.

const (
	bf16   = 2  // bytes an element
	layers = 80 // of Llama-3-70B
)

// cell is bytes per token on one rank, all of n equal layers, bf16.
func cell(t *testing.T, g Geometry, n int64, tp int) units.Bytes {
	t.Helper()
	b, err := g.BytesPerToken(tp, bf16)
	if err != nil {
		t.Fatal(err)
	}
	return units.Bytes(n) * b
}

func TestReferenceCells(t *testing.T) {
	qwen3_32B := Geometry{QueryHeads: 64, KVHeads: 8, KeyDim: 128, ValueDim: 128} // head_dim as declared, not 5120 / 64 = 80
	for _, tt := range []struct {
		name      string
		got, want units.Bytes
	}{
		{"Llama-3-70B as MHA", cell(t, mha70B, layers, 1), 2_621_440},
		{"the same by hand", cell(t, mha70B, layers, 1), 2 * 80 * 64 * 128 * 2},
		{"as MHA at 8,192 tokens", 8192 * cell(t, mha70B, layers, 1), 20 * units.GiB},
		{"Llama-3-70B", cell(t, llama70B, layers, 1), 327_680},
		{"Llama-3-70B at 8,192 tokens", 8192 * cell(t, llama70B, layers, 1), 5 * units.GiB / 2},
		{"Llama-3-70B, a rank of 8", cell(t, llama70B, layers, 8), 40_960},
		{"as MQA, a rank of 8", cell(t, mqa70B, layers, 8), 40_960},
		{"DeepSeek-V3", cell(t, deepSeekV3, 61, 1), 70_272},
		{"DeepSeek-V3 by hand", cell(t, deepSeekV3, 61, 1), 61 * (512 + 64) * 2},
		{"DeepSeek-V3, a rank of 8", cell(t, deepSeekV3, 61, 8), 70_272},
		{"DeepSeek-V3, a rank of 16", cell(t, deepSeekV3, 61, 16), 70_272},
		{"Qwen3-32B, 64 layers", cell(t, qwen3_32B, 64, 1), 256 * units.KiB},
		{"page of 16 tokens, one layer of Llama-3-70B, a rank of 8", 16 * cell(t, llama70B, 1, 8), 8192},
		{"Llama-3-8B, a rank of 16 as one of 8", cell(t, llama8B, 32, 16), cell(t, llama8B, 32, 8)},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %d bytes, want %d", tt.name, int64(tt.got), int64(tt.want))
		}
	}
	if n, err := llama8B.Replication(16); n != 2 || err != nil {
		t.Errorf("Llama-3-8B over 16 ranks: replication %d, %v, want 2", n, err)
	}
}

// W_K and W_V have a row of hidden_size for each element that a token caches.
func TestReferenceProjections(t *testing.T) {
	const hidden = 8192
	params := func(g Geometry) int64 {
		elems, err := g.ElemsPerToken(1)
		if err != nil {
			t.Fatal(err)
		}
		return hidden * elems
	}
	mha, gqa := params(mha70B), params(llama70B)
	if mha != 2*8192*8192 || gqa != 2*8192*1024 { // 134.2 M and 16.8 M a layer
		t.Errorf("W_K + W_V: %d (MHA), %d (GQA-8), want 134,217,728 and 16,777,216", mha, gqa)
	}
	saved := layers * (mha - gqa)
	if got := units.Digits(float64(saved)/1e9, 2); got != "9.4" {
		t.Errorf("saved: %s B parameters, want 9.4", got)
	}
	if got := units.Bytes(saved * bf16).String(); got != "17.5 GiB" {
		t.Errorf("saved: %s, want 17.5 GiB", got)
	}
}

func TestReferenceIntensity(t *testing.T) {
	for _, tt := range []struct {
		name string
		g    Geometry
		tp   int
		want float64 // FLOP/byte
	}{
		{"MHA", mha70B, 1, 2 * 1. / 2},
		{"GQA-8", llama70B, 1, 2 * 8. / 2},
		{"MQA of 64 heads", mqa70B, 1, 2 * 64. / 2},
		{"GQA-8, a rank of 8: h_kv ≥ TP", llama70B, 8, 8},
		{"GQA-8, a rank of 16: 4 query heads on a replica", llama70B, 16, 4},
		{"MLA", deepSeekV3, 1, 2 * 128 * (2*512 + 64) / (2. * (512 + 64))},
		{"MLA, a rank of 8", deepSeekV3, 8, 2 * 16 * (2*512 + 64) / (2. * (512 + 64))},
		{"MLA, a rank of 16", deepSeekV3, 16, 2 * 8 * (2*512 + 64) / (2. * (512 + 64))},
	} {
		got, err := tt.g.Intensity(tt.tp, bf16)
		if err != nil || float64(got) != tt.want {
			t.Errorf("%s: %v, %v, want %v FLOP/byte", tt.name, got, err, tt.want)
		}
	}
	for tp, want := range map[int]string{1: "242 FLOP/byte", 8: "30.2 FLOP/byte", 16: "15.1 FLOP/byte"} {
		if got, _ := deepSeekV3.Intensity(tp, bf16); got.String() != want {
			t.Errorf("MLA at TP %d: %v, want %s", tp, got, want)
		}
	}
	// fp8_ds_mla: 512 bytes of latent, four float32 scales, 64 elements of rope in bf16.
	const fp8DSMLA = 512*1 + 4*4 + 64*2
	if fp8DSMLA != 656 {
		t.Errorf("fp8_ds_mla is %d bytes a token and layer, want 656", fp8DSMLA)
	}
	flop, err := deepSeekV3.DecodeFLOP(1)
	if got := flop.Per(fp8DSMLA); err != nil || float64(got) != 2*128*(2*512+64)/656. {
		t.Errorf("MLA in fp8_ds_mla: %v, %v", got, err)
	}
}

func TestIntensityRefuses(t *testing.T) {
	for _, b := range []int64{0, -2, math.MaxInt64} {
		if got, err := llama70B.Intensity(1, b); err == nil {
			t.Errorf("Intensity with elements of %v bytes = %v, want an error", b, got)
		}
	}
	if got, err := llama70B.Intensity(3, bf16); err == nil {
		t.Errorf("Intensity over 3 ranks = %v, want an error", got)
	}
	if got, err := qwen2_7B.Intensity(7, bf16); err == nil { // query heads divide, KV heads do not
		t.Errorf("Intensity over 7 ranks = %v, want an error", got)
	}
	if got, err := (Geometry{QueryHeads: 1, KVHeads: 1}).Intensity(1, bf16); err == nil {
		t.Errorf("Intensity of a layer that caches nothing = %v, want an error", got)
	}
	if got, err := (Geometry{QueryHeads: math.MaxInt, KVHeads: 1, KeyDim: 2, ValueDim: 2}).Intensity(1, bf16); err == nil {
		t.Errorf("Intensity of a layer too large to count = %v, want an error", got)
	}
}

// Share of the ridge of an H100 SXM: 989.4 TFLOP/s in bf16 over 3.35 TB/s.
func TestReferenceRidge(t *testing.T) {
	const ridge = 989.4e12 / 3.35e12
	if got := units.Intensity(ridge).String(); got != "295 FLOP/byte" {
		t.Errorf("ridge: %s, want 295 FLOP/byte", got)
	}
	for _, tt := range []struct {
		g    Geometry
		want string // percent
	}{{llama70B, "2.7"}, {deepSeekV3, "82"}} {
		i, err := tt.g.Intensity(1, bf16)
		if got := units.Digits(100*float64(i)/ridge, 2); got != tt.want || err != nil {
			t.Errorf("%s: %s %% of the ridge, %v, want %s %%", tt.g.Variant(), got, err, tt.want)
		}
	}
}

func TestReferenceCapacity(t *testing.T) {
	const pool = 40 * units.GiB // of a rank, TP 8
	gqa, mla := cell(t, llama70B, layers, 8), cell(t, deepSeekV3, 61, 8)
	if got := pool / gqa; got != 1_048_576 {
		t.Errorf("GQA-8: %d tokens, want 1,048,576", got)
	}
	if got := pool / mla; got != 611_191 { // 611,191.8: rounded up in print
		t.Errorf("MLA: %d tokens, want 611,191", got)
	}
	if got := pool / (64 * mla) * 64; got != 611_136 { // whole pages of 64 tokens
		t.Errorf("MLA: %d tokens in pages of 64, want 611,136", got)
	}

	const larger = 507 * units.GiB / 10 // 50.7 GiB of a rank, TP 8
	for _, tt := range []struct {
		g    Geometry
		want units.Bytes // requests of 8,192 tokens
	}{{mha70B, 20}, {llama70B, 162}, {mqa70B, 162}} {
		if got := larger / (8192 * cell(t, tt.g, layers, 8)); got != tt.want {
			t.Errorf("%s: %d requests of 8,192 tokens in 50.7 GiB, want %d", tt.g.Variant(), got, tt.want)
		}
	}
}

func TestCrossoverTP(t *testing.T) {
	gqa, mla := cell(t, llama70B, layers, 1), cell(t, deepSeekV3, 61, 1)
	if got := units.Digits(CrossoverTP(gqa, mla), 3); got != "4.66" { // 327,680 / 70,272
		t.Errorf("CrossoverTP = %s, want 4.66", got)
	}
	// On either side of it the smaller cell is the other one.
	if cell(t, llama70B, layers, 4) < mla || cell(t, llama70B, layers, 8) > mla {
		t.Errorf("at TP 4 and 8 GQA-8 takes %d and %d bytes a token, MLA %d", cell(t, llama70B, layers, 4), cell(t, llama70B, layers, 8), mla)
	}
	if got := CrossoverTP(gqa, 0); got != 0 {
		t.Errorf("CrossoverTP without a latent = %v, want 0", got)
	}
}
