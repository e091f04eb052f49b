package roofline

import (
	"errors"
	"math"
	"testing"

	"headcount/attn"
	"headcount/dtype"
	"headcount/hw"
	"headcount/problem"
	"headcount/units"
)

var (
	llama70B   = attn.Geometry{QueryHeads: 64, KVHeads: 8, KeyDim: 128, ValueDim: 128}
	deepSeekV3 = attn.Geometry{Arch: attn.MLA, QueryHeads: 128, KVHeads: 1, KeyDim: 512 + 64, LatentDim: 512}
)

func gpu(t *testing.T, name string) *hw.Accelerator {
	t.Helper()
	a, err := hw.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Llama-3-70B and DeepSeek-V3 under the roof of an H100 SXM, bfloat16.
func TestReference(t *testing.T) {
	roof := For(gpu(t, "h100"), dtype.BFloat16)
	if got := Ridge(roof.Peak, roof.Bandwidth); float64(got) != 989.4e12/3.35e12 {
		t.Errorf("ridge = %v, want 989.4 TFLOP/s ÷ 3.35 TB/s", got)
	}
	for _, tt := range []struct {
		name    string
		g       attn.Geometry
		tp      int
		percent string // of the ridge
	}{
		{"GQA-8", llama70B, 1, "2.7"}, // 8 of 295
		{"GQA-8, a rank of 8", llama70B, 8, "2.7"},
		{"GQA-8, replicated", llama70B, 16, "1.4"}, // 4 of 295
		{"MLA", deepSeekV3, 1, "82"},               // 242 of 295
		{"MLA, a rank of 8", deepSeekV3, 8, "10"},
	} {
		i, err := tt.g.Intensity(tt.tp, 2)
		if err != nil {
			t.Fatal(err)
		}
		p := roof.Place(i)
		if got := units.Digits(100*p.Share, 2); got != tt.percent || p.Bound != Bandwidth || !p.Known() {
			t.Errorf("%s: %s %% of the ridge, bound by %q, want %s %%, bandwidth", tt.name, got, p.Bound, tt.percent)
		}
	}
}

func TestPlace(t *testing.T) {
	roof := Roof{Peak: 1000, Bandwidth: 10} // ridge at 100
	for i, want := range map[units.Intensity]Point{
		0:   {0, 100, 0, Bandwidth},
		50:  {50, 100, 0.5, Bandwidth},
		100: {100, 100, 1, Compute},
		300: {300, 100, 3, Compute},
		-1:  {Intensity: -1, Ridge: 100},
	} {
		if got := roof.Place(i); got != want {
			t.Errorf("Place(%v) = %+v, want %+v", i, got, want)
		}
	}
	if p := roof.Place(units.Intensity(math.NaN())); p.Known() {
		t.Errorf("an intensity that is no number has bound %q", p.Bound)
	}
}

// What is not known has no ridge, no share, no bound.
func TestNotKnown(t *testing.T) {
	for name, roof := range map[string]Roof{
		"no device":      For(nil, dtype.BFloat16),
		"no peak":        For(gpu(t, "m3-ultra"), dtype.BFloat16),
		"no bandwidth":   {Peak: 1e15},
		"no such format": For(gpu(t, "t4"), dtype.BFloat16), // Turing has float16 only
		"neither":        For(gpu(t, "cpu"), dtype.BFloat16),
		"nonsense":       {Peak: units.FLOPPerSec(math.NaN()), Bandwidth: -1},
	} {
		if p := roof.Place(8); p != (Point{Intensity: 8}) || p.Known() {
			t.Errorf("%s: Place(8) = %+v, want the intensity alone", name, p)
		}
	}
	for name, want := range map[string]bool{"h100": true, "t4": true, "m3-ultra": false, "ascend-910b": false, "cpu": false} {
		if ridge, known := Of(gpu(t, name)); known != want || known != (ridge > 0) {
			t.Errorf("Of(%s) = %v, %t, want known %t", name, ridge, known, want)
		}
	}
	if ridge, known := Of(nil); known || ridge != 0 {
		t.Errorf("Of(nil) = %v, %t", ridge, known)
	}
}

func TestDecode(t *testing.T) {
	const tokens = 32 * 8192 // a batch of 32 sequences
	for _, tt := range []struct {
		name string
		g    attn.Geometry
		tp   int
		want Cost
	}{
		{"GQA-8", llama70B, 1, Cost{tokens * 2 * 64 * (128 + 128), tokens * 8 * (128 + 128) * 2}},
		{"GQA-8, a rank of 8", llama70B, 8, Cost{tokens * 2 * 8 * (128 + 128), tokens * 1 * (128 + 128) * 2}},
		{"MLA, a rank of 8", deepSeekV3, 8, Cost{tokens * 2 * 16 * (576 + 512), tokens * 576 * 2}},
	} {
		got, err := Decode(tt.g, tt.tp, 2, tokens)
		if err != nil || got != tt.want {
			t.Errorf("%s: Decode = %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
		if i, _ := tt.g.Intensity(tt.tp, 2); got.Intensity() != i {
			t.Errorf("%s: intensity %v, the layer's is %v", tt.name, got.Intensity(), i)
		}
	}
	for name, decode := range map[string]func() (Cost, error){
		"uneven": func() (Cost, error) { return Decode(llama70B, 3, 2, tokens) },
		"KV heads": func() (Cost, error) {
			return Decode(attn.Geometry{QueryHeads: 28, KVHeads: 4, KeyDim: 128, ValueDim: 128}, 7, 2, 1)
		},
		"negative":      func() (Cost, error) { return Decode(llama70B, 1, 2, -1) },
		"overflow":      func() (Cost, error) { return Decode(llama70B, 1, 2, math.MaxInt64) },
		"zero geometry": func() (Cost, error) { return Decode(attn.Geometry{}, 1, 2, 1) },
	} {
		if c, err := decode(); err == nil {
			t.Errorf("%s: Decode = %+v, want an error", name, c)
		} else if _, ok := errors.AsType[*problem.Error](err); !ok {
			t.Errorf("%s: %v is not a *problem.Error", name, err)
		}
	}
	if got := (Cost{FLOP: 5}).Intensity(); got != 0 {
		t.Errorf("work that reads nothing has intensity %v, want 0", got)
	}
}

func TestSeconds(t *testing.T) {
	roof := Roof{Peak: 1000, Bandwidth: 10}
	for _, tt := range []struct {
		name  string
		roof  Roof
		cost  Cost
		want  float64 // seconds
		known bool
	}{
		{"bound by bandwidth", roof, Cost{FLOP: 1000, Bytes: 100}, 100. / 10, true},
		{"bound by compute", roof, Cost{FLOP: 50000, Bytes: 100}, 50000. / 1000, true},
		{"nothing to do", roof, Cost{}, 0, true},
		{"peak not known", Roof{Bandwidth: 10}, Cost{FLOP: 50000, Bytes: 100}, 100. / 10, true},
		{"bandwidth not known", Roof{Peak: 1000}, Cost{FLOP: 50000, Bytes: 100}, 50000. / 1000, true},
		{"neither known", Roof{}, Cost{FLOP: 50000, Bytes: 100}, 0, false},
	} {
		if got, known := tt.roof.Seconds(tt.cost); got != tt.want || known != tt.known {
			t.Errorf("%s: Seconds = %v, %t, want %v, %t", tt.name, got, known, tt.want, tt.known)
		}
	}
}
