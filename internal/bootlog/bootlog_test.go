package bootlog

import (
	"os"
	"path/filepath"
	"testing"

	"headcount/internal/shared"
)

// TestPublicStarts compares plans with what public starts printed, and prints the score: the
// weights, the peak of the profiling pass, the pool, and how often the pool's interval, fitted
// to the starts of all other models, holds what was printed.
func TestPublicStarts(t *testing.T) {
	dir := shared.Dir(t)
	starts, err := Starts(dir)
	if err != nil {
		t.Fatal(err)
	}
	samples, err := All(dir, starts)
	if err != nil {
		t.Fatal(err)
	}
	tally := Measure(starts, samples)
	t.Logf("\n%s", tally)
	if testing.Verbose() {
		for _, line := range tally.Lines {
			t.Log(line)
		}
	}
	for _, c := range []struct {
		name        string
		off         []float64
		median, p90 float64
	}{
		{"peak activation, GiB", tally.Peaks, 0.02, 0.1},
		{"available KV cache memory, share of the card", tally.Pools, 0.007, 0.02},
		{"SGLang's pool, share of the card", tally.SGLang, 0.007, 0.02},
	} {
		if len(c.off) == 0 {
			t.Errorf("%s: no start", c.name)
			continue
		}
		if m, p := percentile(c.off, 0.5), percentile(c.off, 0.9); m > c.median || p > c.p90 {
			t.Errorf("%s: median %.4f, P90 %.4f off; want %g and %g at most", c.name, m, p, c.median, c.p90)
		}
	}
	if got := tally.WithinOnePerCent(); got < 0.9 {
		t.Errorf("weights: %.0f %% of %d starts within 1 %%, want 90", 100*got, len(tally.Weights))
	}
	if got := float64(tally.Inside) / float64(max(tally.Intervals, 1)); got < 0.8 {
		t.Errorf("%.0f %% of %d starts inside their interval, want 80", 100*got, tally.Intervals)
	}
}

// The embedded table is what the program writes from the logs.
func TestTableIsFitted(t *testing.T) {
	dir := shared.Dir(t)
	starts, err := Starts(dir)
	if err != nil {
		t.Fatal(err)
	}
	samples, err := All(dir, starts)
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join(shared.Root(), "vram", "empirical.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	fitted := Fit(samples)
	if want := append(fitted, fitted.Unexplained(starts)...).Table(); string(have) != want {
		t.Errorf("vram/empirical.tsv is not what tools/memfit writes now:\n%s", want)
	}
}

// A row's device is found by what people call it; how many there are is read beside it.
func TestAccelerator(t *testing.T) {
	for _, tt := range []struct {
		gpu  string
		want string
		n    int
	}{
		{"H100-80GB x2", "h100-sxm-80gb", 2},
		{"8x H100 80GB HBM3", "h100-sxm-80gb", 8},
		{"RTX PRO 6000 Blackwell x8", "rtx-pro-6000-96gb", 8},
		{"RTX 5090 32GB x1", "rtx-5090-32gb", 1},
		{"A100", "a100-sxm-80gb", 0},
		{"DGX Spark x2", "", 2},
		{"", "", 0},
	} {
		r := Row{GPU: tt.gpu}
		gpu, n := r.Accelerator()
		id := ""
		if gpu != nil {
			id = gpu.ID
		}
		if id != tt.want || n != tt.n {
			t.Errorf("%q: %q × %d, want %q × %d", tt.gpu, id, n, tt.want, tt.n)
		}
	}
}

// Percentiles lie between values; the interval of few values is wider than theirs.
func TestSpread(t *testing.T) {
	if got := percentile([]float64{4, 1, 3, 2}, 0.5); got != 2.5 {
		t.Errorf("median %g, want 2.5", got)
	}
	few, _, _ := spread([]float64{1, 1.1})
	many, _, _ := spread([]float64{1, 1.1, 1, 1.1, 1, 1.1, 1, 1.1, 1, 1.1})
	if !(few < many && many < 1.05) {
		t.Errorf("low ends %g of two values, %g of ten", few, many)
	}
}
