package bootlog

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"headcount/internal/series"
	"headcount/vram"
)

// A Tally is how far off plans are, one line a measure.
type Tally struct {
	Weights   []float64 // share of what was printed
	Peaks     []float64 // GiB
	Pools     []float64 // share of the card
	SGLang    []float64 // share of the card
	Inside    int       // starts whose pool is between P10 and P90, each fitted without its model
	Intervals int
	Lines     []string // one a start

	Residuals []series.Residual // of pools, GiB
}

// Measure compares each start with its plan. A pool is compared where GPU, model, layout,
// fraction and version are stated; weights where the row's own checkpoint is known.
func Measure(starts []Start, samples []Sample) *Tally {
	t := &Tally{}
	for i := range starts {
		s := &starts[i]
		m := s.bill()
		card := float64(m.TotalBytes) / gib
		var line []string
		ours := loaded(m)
		if logged := s.Weights; logged > 0 && s.Own && !math.IsNaN(ours) {
			t.Weights = append(t.Weights, math.Abs(ours-logged)/logged)
			line = append(line, fmt.Sprintf("weights %.2f, %.2f printed", ours, logged))
		}
		if s.Peak > 0 && s.Version != "" {
			peak := s.widest()
			t.Peaks = append(t.Peaks, math.Abs(peak-s.Peak))
			line = append(line, fmt.Sprintf("peak %.3f, %.2f printed", peak, s.Peak))
		}
		pool, ok := s.pool()
		if weights, known := s.weights(); ok && known {
			elsewhere := slices.DeleteFunc(slices.Clone(starts), func(o Start) bool { return o.Name == s.Name })
			fitted := Fit(slices.DeleteFunc(slices.Clone(samples), func(o Sample) bool { return o.Model == s.Name }))
			fitted = append(fitted, fitted.Unexplained(elsewhere)...)
			low, middle, high := s.predict(weights, fitted)
			off := math.Abs(middle-pool) / card
			if s.Engine == "sglang" {
				t.SGLang = append(t.SGLang, off)
			} else {
				t.Pools = append(t.Pools, off)
			}
			t.Intervals++
			if pool >= low && pool <= high {
				t.Inside++
			}
			t.Residuals = append(t.Residuals, series.Residual{Label: s.label(), Low: low - middle, Off: pool - middle, High: high - middle})
			line = append(line, fmt.Sprintf("pool %.2f (%.2f to %.2f), %.2f printed", middle, low, high, pool))
		}
		if len(line) > 0 {
			t.Lines = append(t.Lines, fmt.Sprintf("%s row %d, %s %s on %s: %s", s.Engine, s.Line, s.Version, s.Model, s.GPU, strings.Join(line, "; ")))
		}
	}
	return t
}

// label is the start in a few words.
func (s *Start) label() string {
	name, _, _ := strings.Cut(s.Model[strings.LastIndexByte(s.Model, '/')+1:], " (")
	engine := s.Version
	if s.Engine == "sglang" {
		engine = "SGLang " + strings.TrimSpace(engine)
	}
	engine, _, _ = strings.Cut(engine, ".dev")
	return fmt.Sprintf("%s, %s, %s", name, s.GPU, engine)
}

// widest is the torch peak that a log prints, GiB: what the pass adds, the workspace with it.
// Of several stages it is the one nearest to what was printed.
func (s *Start) widest() float64 {
	best := math.Inf(1)
	for _, m := range append(s.Report.Stages, s.Report.Memory) {
		n := int64(0)
		for _, name := range []string{"activation", "workspace", "encoder_outputs"} {
			if t := m.Term(name); t != nil {
				n += t.P50
			}
		}
		if peak := float64(n) / gib; math.Abs(peak-s.Peak) < math.Abs(best-s.Peak) {
			best = peak
		}
	}
	return best
}

// logged is what the row says that loading took, GiB.
func (s *Start) logged() float64 {
	if s.Engine == "sglang" {
		return s.SGWeights
	}
	return s.Weights
}

// predict is the pool by weights of so many GiB and distributions that were fitted elsewhere.
func (s *Start) predict(weights float64, f Fitted) (low, middle, high float64) {
	m := s.bill()
	middle = float64(m.TakenBytes)/gib - weights - known(m)
	var down, up float64
	for i := range m.Terms {
		term := &m.Terms[i]
		if term.Basis != vram.Empirical {
			continue
		}
		p10, p50, p90 := float64(term.P10)/gib, float64(term.P50)/gib, float64(term.P90)/gib
		if d, ok := f.of(term.Name, term.Class); ok {
			share := 1.0
			if here, ok := vram.Distribution(term.Name, term.Class); ok && here.P50 > 0 {
				share = float64(term.P50) / float64(here.P50) // of what a plan scales
			}
			p10, p50, p90 = d.P10*share, d.P50*share, d.P90*share
		}
		middle -= p50
		down, up = down+(p90-p50)*(p90-p50), up+(p50-p10)*(p50-p10)
	}
	return middle - math.Sqrt(down), middle, middle + math.Sqrt(up)
}

// WithinOnePerCent is the share of starts whose weights are.
func (t *Tally) WithinOnePerCent() float64 {
	within := 0
	for _, off := range t.Weights {
		if off <= 0.01 {
			within++
		}
	}
	return float64(within) / float64(max(len(t.Weights), 1))
}

// String is the score.
func (t *Tally) String() string {
	var b strings.Builder
	measure := func(name string, v []float64, unit string, scale float64) {
		if len(v) > 0 {
			fmt.Fprintf(&b, "%s: %d starts, median %.3f %s, P90 %.3f\n", name, len(v), percentile(v, 0.5)*scale, unit, percentile(v, 0.9)*scale)
		}
	}
	measure("Model loading took", t.Weights, "% off", 100)
	fmt.Fprintf(&b, "    %.0f %% of them within 1 %%\n", 100*t.WithinOnePerCent())
	measure("peak activation", t.Peaks, "GiB off", 1)
	measure("available KV cache memory", t.Pools, "% of the card off", 100)
	measure("SGLang's pool", t.SGLang, "% of the card off", 100)
	fmt.Fprintf(&b, "intervals, fitted without the model: %d of %d starts inside P10 to P90, %.0f %%\n", t.Inside, t.Intervals, 100*float64(t.Inside)/float64(max(t.Intervals, 1)))
	return b.String()
}
