package bench

import (
	"math/rand/v2"

	"headcount/internal/kernel"
	"headcount/roofline"
	"headcount/units"
)

// A roof is the probes of what this machine can do at most, on all threads at once.
type roof struct {
	stream, blocks, fma, pairs *work // pairs is nil where kernels do not use them
	bytes                      int64 // that a turn of stream and blocks reads
	pairsFLOP, fmaFLOP         int64 // of a turn of all threads
}

// probeTime is how long a turn of the arithmetic probes takes, roughly.
const probeTime = 2e-3

func newRoof(b *bench) *roof {
	r := &roof{bytes: b.window()}
	r.stream = &work{bytes: r.bytes, run: b.onAll(func(worker int, window []byte) {
		kernel.Read(share(window, worker, b.machine.Threads))
	})}
	order := rand.New(rand.NewPCG(1, 2)).Perm(int(r.bytes) / bufferLayout.BlockBytes())
	r.blocks = &work{bytes: r.bytes, run: b.onAll(func(worker int, window []byte) {
		size := bufferLayout.BlockBytes()
		for _, i := range share(order, worker, b.machine.Threads) {
			kernel.Read(window[i*size : (i+1)*size])
		}
	})}
	if kernel.Pairs() {
		r.pairs, r.pairsFLOP = b.arithmetic(kernel.DotPeak)
	}
	r.fma, r.fmaFLOP = b.arithmetic(kernel.FMAPeak)
	return r
}

// arithmetic is a work that runs peak on all threads for about probeTime, and its FLOP.
func (b *bench) arithmetic(peak func(iterations int) int64) (*work, int64) {
	n := 1000
	flop := peak(n)
	for {
		w := &work{run: b.onAll(func(int, []byte) { peak(n) })}
		for range few {
			b.turn(w) // reads nothing, and cannot fail
		}
		if w.fastest().Seconds() > probeTime/2 || n > 1<<40 {
			w.samples = nil
			return w, flop * int64(b.machine.Threads)
		}
		n, flop = 2*n, 2*flop
	}
}

// onAll is a work's function that runs do on every thread.
func (b *bench) onAll(do func(worker int, window []byte)) func(window []byte) error {
	return func(window []byte) error {
		b.errand = func(worker int) { do(worker, window) }
		b.team.Run(b.machine.Threads)
		return nil
	}
}

// share is a worker's part of xs.
func share[T any](xs []T, worker, workers int) []T {
	return xs[len(xs)*worker/workers : len(xs)*(worker+1)/workers]
}

func (r *roof) works() []*work {
	all := []*work{r.stream, r.blocks, r.fma}
	if r.pairs != nil {
		all = append(all, r.pairs)
	}
	return all
}

// under is the roof over work that multiplies pairs of bfloat16, or float32s.
func (r *roof) under(pairs bool) roofline.Roof {
	over := roofline.Roof{Bandwidth: units.BytesPerSec(perSecond(r.bytes, r.stream.timing().Median))}
	over.Peak = units.FLOPPerSec(perSecond(r.fmaFLOP, r.fma.timing().Median))
	if pairs && r.pairs != nil {
		over.Peak = units.FLOPPerSec(perSecond(r.pairsFLOP, r.pairs.timing().Median))
	}
	return over
}

// perSecond is n / seconds, 0 for no time.
func perSecond(n int64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}
