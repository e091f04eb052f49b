package bench

import (
	"slices"
	"time"
)

// A work is something that is timed, turn by turn.
type work struct {
	bytes   int64 // of the buffer that a turn reads; each turn's are others
	run     func(window []byte) error
	samples []sample
}

// A sample is one turn.
type sample struct {
	took   time.Duration
	waited time.Duration // of the process's threads for a CPU; 0 where that is not known
}

// tolerated is the share of a turn that threads may have waited for a CPU: the scheduler's
// own work, not another process's.
const tolerated = 0.01

func (s sample) disturbed() bool { return float64(s.waited) > tolerated*float64(s.took) }

// turn times one turn of w over the next window of the buffer.
func (b *bench) turn(w *work) error {
	const page = 4096
	n := int(w.bytes+page-1) / page * page
	if b.at+n > len(b.buffer) {
		b.at = 0
	}
	window := b.buffer[b.at : b.at+int(w.bytes)]
	b.at += n
	before, _ := waited()
	start := time.Now()
	err := w.run(window)
	took := time.Since(start)
	after, _ := waited()
	w.samples = append(w.samples, sample{took, max(after-before, 0)})
	return err
}

// A Timing is how long the turns of a work took, in seconds, of those that were kept.
type Timing struct {
	Median    float64 `json:"median_seconds"`
	P10       float64 `json:"p10_seconds"`
	P90       float64 `json:"p90_seconds"`
	Kept      int     `json:"rounds_kept"`
	Discarded int     `json:"rounds_discarded"` // the process waited for a CPU
	Disturbed bool    `json:"disturbed"`        // too few were left: these are the ones that waited least
}

// few is below how many undisturbed turns the least disturbed ones are taken as well.
const few = 3

// timing discards the turns that were disturbed. Where fewer than few would be left, those
// that waited least are shown, and counted as discarded.
func (w *work) timing() Timing {
	samples := slices.SortedFunc(slices.Values(w.samples), func(a, b sample) int {
		return int(a.waited*1000/max(a.took, 1) - b.waited*1000/max(b.took, 1))
	})
	kept := 0
	for kept < len(samples) && !samples[kept].disturbed() {
		kept++
	}
	t := Timing{Kept: kept, Discarded: len(samples) - kept, Disturbed: kept < few}
	took := make([]float64, 0, len(samples))
	for _, s := range samples[:min(max(kept, few), len(samples))] {
		took = append(took, s.took.Seconds())
	}
	slices.Sort(took)
	t.Median, t.P10, t.P90 = quantile(took, 0.5), quantile(took, 0.1), quantile(took, 0.9)
	return t
}

// quantile of rising xs, 0 of none.
func quantile(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	at := q * float64(len(xs)-1)
	low := int(at)
	high := min(low+1, len(xs)-1)
	return xs[low] + (at-float64(low))*(xs[high]-xs[low])
}
