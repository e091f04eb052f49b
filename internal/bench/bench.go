// Package bench measures decode attention on this machine, beside the machine's own roof
// and beside what attn and roofline predict.
package bench

import (
	"context"
	"runtime"
	"time"

	"headcount/internal/kernel"
	"headcount/internal/team"
	"headcount/paged"
	"headcount/problem"
	"headcount/units"
)

// Options say what to measure, and for how long.
type Options struct {
	Cases  []Case
	Rounds int           // of every case; 0: as many as Budget allows, at most enough
	Budget time.Duration // for all rounds together, when Rounds is 0
	Memory int64         // bytes of the buffer that rounds take turns on; 0: twice the last-level cache, within what is free
}

// enough rounds that were not disturbed.
const enough = 25

// Run measures. Every round takes the probes of the roof and then each case, so that both
// see the same machine.
func Run(ctx context.Context, opt Options) (*Report, error) {
	b, err := newBench(opt)
	if err != nil {
		return nil, err
	}
	defer b.close()
	works := append(b.roof.works(), b.works()...)
	before := steal()
	start := time.Now()
	for round := 0; ; round++ {
		for _, w := range works {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := b.turn(w); err != nil {
				return nil, err
			}
		}
		if round == 0 { // the first touches memory and wakes the processor
			for _, w := range works {
				w.samples = w.samples[:0]
			}
			continue
		}
		if opt.Rounds > 0 && round >= opt.Rounds || opt.Rounds == 0 && (time.Since(start) > opt.Budget || settled(works)) {
			break
		}
	}
	return b.report(steal().since(before)), nil
}

// settled reports whether every work has enough rounds.
func settled(works []*work) bool {
	for _, w := range works {
		if w.timing().Kept < enough {
			return false
		}
	}
	return true
}

// A bench is cases and probes over one buffer.
type bench struct {
	pool    *paged.Pool
	buffer  []byte
	at      int // where the next turn's window begins
	machine Machine
	team    *team.Team
	errand  func(worker int) // of the team
	roof    *roof
	cases   []*measured
}

// measured is a case under measurement.
type measured struct {
	Case
	task
	work *work
}

func newBench(opt Options) (*bench, error) {
	b := &bench{machine: thisMachine()}
	size := opt.Memory
	if size == 0 {
		size = b.machine.bufferFor()
	}
	if free, ok := freeMemory(); size < leastMemory || ok && size > free {
		return nil, problem.New(problem.BadValue, "--memory", size, "not between %s and the %s that are free", units.Bytes(leastMemory), units.Bytes(free))
	}
	if err := b.fill(size); err != nil {
		return nil, err
	}
	b.team = team.New(b.machine.Threads, func(worker int) { b.errand(worker) })
	b.roof = newRoof(b)
	for _, c := range opt.Cases {
		t, err := newTask(c, b.window())
		if err != nil {
			b.close()
			return nil, err
		}
		b.cases = append(b.cases, &measured{c, t, &work{bytes: t.bytes(), run: t.run}})
	}
	return b, nil
}

func (b *bench) close() {
	for _, c := range b.cases {
		c.close()
	}
	b.team.Close()
	b.pool.Close()
}

func (b *bench) works() []*work {
	var all []*work
	for _, c := range b.cases {
		all = append(all, c.work)
	}
	return all
}

// window is how much of the buffer a turn reads at least: 64 MiB, less where there are no
// vector instructions and a turn would take seconds, or where memory is short.
func (b *bench) window() int64 {
	most := int64(len(b.buffer) / 4)
	if kernel.Path() == "go" {
		return min(2<<20, most)
	}
	return min(64<<20, most)
}

// fill makes the buffer, of blocks of a pool, so that it is the memory that sequences are
// in. What is written are numbers of moderate size in every format, none of them denormal in
// 16 bits or 32, which processors are slow with and caches do not hold: odd bytes are 0x3c to
// 0x3f, even ones up to 0x3f, both with or without the sign.
func (b *bench) fill(size int64) error {
	layers := []paged.Layout{bufferLayout}
	blocks, err := paged.BlocksIn(units.Bytes(size), layers)
	if err != nil {
		return err
	}
	if b.pool, err = paged.NewPool(layers, blocks); err != nil {
		return err
	}
	all, err := b.pool.Blocks(0)
	if err != nil {
		return err
	}
	b.buffer = all.Data
	state := uint64(1)
	for i := 0; i+8 <= len(b.buffer); i += 8 {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		putWord(b.buffer[i:], state&0x83bf83bf83bf83bf|0x3c003c003c003c00)
	}
	b.machine.BufferBytes = int64(len(b.buffer))
	b.machine.HugePages = b.pool.Stats().HugePages
	runtime.GC()
	return nil
}
