package bench

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"headcount/attn"
	"headcount/dtype"
	"headcount/internal/kernel"
)

// A run of one round, on little memory: shapes and counts, no times.
func TestRun(t *testing.T) {
	cases, err := Select(Cases(), []string{"tp 8", "gqa-8", "mha tp 16", "gemv"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Options{Cases: cases, Rounds: 1, Memory: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Cases) != len(cases) || r.Machine.BufferBytes != 4<<20 {
		t.Fatalf("%d results of %d cases, buffer of %d bytes", len(r.Cases), len(cases), r.Machine.BufferBytes)
	}
	for i, c := range r.Cases {
		if c.Name != cases[i].Name() || c.Kept+c.Discarded != 1 || !(c.Median > 0) || c.Share <= 0 || c.Bound == "" {
			t.Errorf("%+v", c)
		}
		if c.BytesRead != c.Predicted.BytesRead || c.Intensity != c.Predicted.Intensity {
			t.Errorf("%s: %d bytes read, %d predicted", c.Name, c.BytesRead, c.Predicted.BytesRead)
		}
		if c.Rows > 0 {
			continue
		}
		want, err := cases[i].Geometry.Intensity(cases[i].TP, cases[i].DType.Bytes())
		if err != nil || math.Abs(c.Intensity-float64(want)) > 1e-9 {
			t.Errorf("%s: %v FLOP/byte, attn says %v (%v)", c.Name, c.Intensity, want, err)
		}
		if c.BytesRead > r.Machine.BufferBytes/2 {
			t.Errorf("%s reads %d bytes of a buffer of %d: the next round would find them in a cache", c.Name, c.BytesRead, r.Machine.BufferBytes)
		}
	}
	for _, p := range []ProbeResult{r.Roof.Stream, r.Roof.Blocks, r.Roof.FMA} {
		if !(p.PerSecond > 0) || p.Kept+p.Discarded != 1 {
			t.Errorf("%+v", p)
		}
	}
	if (r.Roof.Pairs != nil) != kernel.Pairs() {
		t.Errorf("pairs of bfloat16: %+v", r.Roof.Pairs)
	}
	if n := len(r.Musts); n != 3 { // g = 8 in bf16 and in fp8, GEMV
		t.Errorf("%d ratios: %v", n, r.Musts)
	}
}

func TestRunRefuses(t *testing.T) {
	if _, err := Run(t.Context(), Options{Cases: []Case{{Geometry: mha, TP: 3, DType: dtype.BFloat16}}, Rounds: 1, Memory: 4 << 20}); err == nil {
		t.Error("64 heads over 3 ranks")
	}
	for _, memory := range []int64{1, -1, 1 << 20, math.MaxInt64} {
		if _, err := Run(t.Context(), Options{Cases: Cases()[:1], Rounds: 1, Memory: memory}); err == nil {
			t.Errorf("a buffer of %d bytes", memory)
		}
	}
}

// The default cases are the four variants at TP 1, 8 and 16, and what the ratios need.
func TestCases(t *testing.T) {
	byName := map[string]Case{}
	for _, c := range Cases() {
		if _, twice := byName[c.Name()]; twice {
			t.Errorf("two cases are named %s", c.Name())
		}
		byName[c.Name()] = c
	}
	for name, want := range map[string]attn.Geometry{ // what one rank has
		"MHA TP 1":     {QueryHeads: 64, KVHeads: 64, KeyDim: 128, ValueDim: 128},
		"MHA TP 16":    {QueryHeads: 4, KVHeads: 4, KeyDim: 128, ValueDim: 128},
		"GQA-8 TP 8":   {QueryHeads: 8, KVHeads: 1, KeyDim: 128, ValueDim: 128},
		"GQA-8 TP 16":  {QueryHeads: 4, KVHeads: 1, KeyDim: 128, ValueDim: 128},
		"MQA TP 8":     {QueryHeads: 8, KVHeads: 1, KeyDim: 128, ValueDim: 128},
		"MLA TP 16":    {Arch: attn.MLA, QueryHeads: 8, KVHeads: 1, KeyDim: 576, LatentDim: 512},
		"GQA-16 TP 1":  {QueryHeads: 64, KVHeads: 16, KeyDim: 128, ValueDim: 128},
		"MHA TP 1 fp8": {QueryHeads: 64, KVHeads: 64, KeyDim: 128, ValueDim: 128},
	} {
		if got, err := byName[name].Geometry.Rank(byName[name].TP); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}
}

func TestSelect(t *testing.T) {
	for _, tt := range []struct {
		words []string
		want  int
		bad   bool
	}{
		{nil, len(Cases()), false},
		{[]string{"MLA"}, 3, false},
		{[]string{"mla", "mla tp"}, 3, false},
		{[]string{" fp8"}, 3, false},
		{[]string{"gqa"}, 3 + 1 + 2, false},
		{[]string{"gqa-8 tp 1"}, 2, false}, // bf16 and fp8, not TP 16
		{[]string{"gqa-8 tp 16"}, 1, false},
		{[]string{" "}, 0, true},
		{[]string{"("}, 0, true},
		{[]string{"mla", "gqa-9"}, 0, true},
	} {
		if got, err := Select(Cases(), tt.words); len(got) != tt.want || (err != nil) != tt.bad {
			t.Errorf("%q: %d cases, %v", tt.words, len(got), err)
		}
	}
}

// Turns that lost time are discarded; if hardly one is left, the least disturbed are shown.
func TestTiming(t *testing.T) {
	ms := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
	lost := func(took, lost float64) sample { return sample{ms(took), ms(lost), ms(lost)} }
	w := &work{samples: []sample{lost(10, 0), lost(40, 30), lost(12, 0.1), lost(11, 0), lost(30, 20)}}
	if got := w.timing(); got != (Timing{Median: 0.011, P10: 0.0102, P90: 0.0118, Kept: 3, Discarded: 2}) {
		t.Errorf("%+v", got)
	}
	w = &work{samples: []sample{lost(40, 30), lost(10, 0), lost(30, 3), lost(50, 45)}}
	if got := w.timing(); got.Median != 0.030 || got.Kept != 1 || got.Discarded != 3 || !got.Disturbed {
		t.Errorf("%+v", got)
	}
	if got := (&work{}).timing(); got != (Timing{}) {
		t.Errorf("%+v without a turn", got)
	}
}

// Only what was waited for and missing is lost, and missing is what no turn can help.
func TestLost(t *testing.T) {
	for _, tt := range []struct {
		name            string
		waited, missing time.Duration // of 1000
		least           time.Duration // missing in the best turn
		want            float64
	}{
		{"all threads ran", 0, 0, 0, 0},
		{"a thread of the runtime waited meanwhile", 900, 0, 0, 0},
		{"one thread had its CPU half of the time", 500, 500, 0, 0.5},
		{"one had less to do", 0, 400, 0, 0},
		{"one always has less to do", 900, 35, 30, 0.005},
		{"every turn was disturbed", 600, 600, 400, 0.55},
		{"clocks that are read at two times", 1, -1, -1, 0},
	} {
		s := sample{1000, tt.waited, tt.missing}
		w := &work{samples: []sample{s, {1000, 0, tt.least}}}
		if got := s.lost(w.unevenness()); math.Abs(max(got, 0)-tt.want) > 1e-9 {
			t.Errorf("%s: %v lost, want %v", tt.name, got, tt.want)
		}
	}
}

func TestLastLevelCache(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]string{"index0": "48K\n", "index2": "2048K\n", "index3": "491520K\n", "index4": "nonsense"} {
		write(t, filepath.Join(dir, name, "size"), size)
	}
	if n, ok := lastLevelCache(dir); n != 480<<20 || !ok {
		t.Errorf("%d, %v, want 480 MiB", n, ok)
	}
	if _, ok := lastLevelCache(filepath.Join(dir, "nowhere")); ok {
		t.Error("a cache of no description")
	}
}

func TestTicks(t *testing.T) {
	before := parseTicks("cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 1 2 3\n")
	after := parseTicks("cpu  40 0 20 120 0 0 0 20 0 0\n")
	if share := after.since(before); share == nil || *share != 20.0/100 {
		t.Errorf("%v stolen, want 20 of 100 ticks", share)
	}
	for _, text := range []string{"", "cpu", "intr 1 2 3 4 5 6 7 8 9"} {
		if share := parseTicks(text).since(ticks{}); share != nil {
			t.Errorf("%q: %v stolen", text, *share)
		}
	}
}

// The buffer is numbers of moderate size in every format of a cache.
func TestBuffer(t *testing.T) {
	b := &bench{}
	if err := b.fill(1 << 20); err != nil {
		t.Fatal(err)
	}
	defer b.pool.Close()
	for _, d := range []dtype.Type{dtype.BFloat16, dtype.Float16, dtype.Float8E4M3, dtype.Float8E5M2, dtype.Float32} {
		x := make([]float32, len(b.buffer)/int(d.Bytes()))
		d.Decode(x, b.buffer)
		if slices.ContainsFunc(x, func(v float32) bool {
			abs := math.Abs(float64(v))
			return !(abs < 2.1) || d.Bytes() > 1 && abs < 0x1p-14 // the least normal float16
		}) {
			t.Errorf("%v: a number that is not one, large or denormal", d)
		}
	}
}

func TestThisMachine(t *testing.T) {
	m := thisMachine()
	if m.Threads < 1 || m.Kernels != kernel.Path() || m.Processor == "" || m.bufferFor() < leastMemory {
		t.Errorf("%+v, buffer %v", m, m.bufferFor())
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
