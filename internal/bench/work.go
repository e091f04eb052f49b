package bench

import (
	"cmp"
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
	took    time.Duration
	waited  time.Duration // of the process's threads for a CPU; 0 where that is not known
	missing time.Duration // of CPU time, had all threads been at it all the time
}

// turn times one turn of w over the next window of the buffer.
func (b *bench) turn(w *work) error {
	const page = 4096
	n := int(w.bytes+page-1) / page * page
	if b.at+n > len(b.buffer) {
		b.at = 0
	}
	window := b.buffer[b.at : b.at+int(w.bytes)]
	b.at += n
	before, start := now(), time.Now()
	err := w.run(window)
	took, after := time.Since(start), now()
	w.samples = append(w.samples, sample{took, after.waited - before.waited, time.Duration(b.machine.Threads)*took - (after.cpu - before.cpu)})
	return err
}

const (
	tolerated = 0.02 // of a turn, lost: the scheduler's own work
	uneven    = 0.05 // of a turn, missing because threads do not end at one time, at most
)

// unevenness is the share of a turn that is missing because threads that are done before the
// others have nothing to do: that of the turn that misses least.
func (w *work) unevenness() float64 {
	least := uneven
	for _, s := range w.samples {
		least = min(least, s.share(s.missing))
	}
	return max(least, 0)
}

// lost is the share of a turn that waiting for a CPU cost: what was waited for and missing.
// Threads of the runtime that have no part in the work may wait while all CPUs do it.
func (s sample) lost(unevenness float64) float64 {
	return min(s.share(s.waited), s.share(s.missing)-unevenness)
}

func (s sample) share(d time.Duration) float64 { return float64(d) / float64(max(s.took, 1)) }

// A clock is what the system says of this process so far.
type clock struct {
	known  bool
	cpu    time.Duration // used by all threads
	waited time.Duration // by all threads on run queues
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
// that lost least are shown, and counted as discarded.
func (w *work) timing() Timing {
	even := w.unevenness()
	samples := slices.SortedFunc(slices.Values(w.samples), func(a, b sample) int { return cmp.Compare(a.lost(even), b.lost(even)) })
	kept := 0
	for kept < len(samples) && samples[kept].lost(even) <= tolerated {
		kept++
	}
	t := Timing{Kept: kept, Discarded: len(samples) - kept, Disturbed: kept < min(few, len(samples))}
	took := make([]float64, 0, len(samples))
	for _, s := range samples[:min(max(kept, few), len(samples))] {
		took = append(took, s.took.Seconds())
	}
	slices.Sort(took)
	t.Median, t.P10, t.P90 = quantile(took, 0.5), quantile(took, 0.1), quantile(took, 0.9)
	return t
}

// fastest is the time of the fastest turn.
func (w *work) fastest() time.Duration {
	return slices.MinFunc(w.samples, func(a, b sample) int { return cmp.Compare(a.took, b.took) }).took
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
