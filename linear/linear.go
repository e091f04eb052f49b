// Package linear multiplies the weights of one rank, in bfloat16, by the vectors of a decode
// step: the projections around decode attention, whose weights are read once a step.
package linear

import (
	"encoding/binary"
	"math"
	"sync/atomic"

	"headcount/internal/kernel"
	"headcount/internal/team"
	"headcount/problem"
	"headcount/units"
)

// Matrix is weights as a checkpoint has them: [Rows, Cols] of bfloat16, little endian, with
// nothing between rows. Data that begins on a line of 64 bytes, and Cols that are a multiple
// of 32, are faster.
type Matrix struct {
	Rows, Cols int
	Data       []byte
}

// Multiplier is the workers of products and their scratch memory. One goroutine uses it at
// a time. Once it has seen its widest matrix a product allocates nothing.
type Multiplier struct {
	team *team.Team
	next atomic.Int64

	// One call's work.
	w      Matrix
	x, y   []float32
	spread []float32
	rows   int             // of an item
	sums   [][line]float32 // of each worker
}

// line is the float32s of a line of the cache, of which workers share none.
const line = 16

// New starts a multiplier of so many workers, or of as many as there are processors for 0,
// which [Multiplier.Close] ends.
func New(workers int) *Multiplier {
	m := &Multiplier{}
	m.team = team.New(max(workers, 0), m.work)
	m.sums = make([][line]float32, m.team.Size())
	return m
}

// Close ends the workers; the Multiplier must not be used after it.
func (m *Multiplier) Close() { m.team.Close() }

// itemBytes is about how much of a matrix a worker takes at a time.
const itemBytes = 1 << 20

// Mul computes y = W·x, y of [Rows] and x of [Cols]. x stays float32. Each element is a sum
// of float32s within
//
//	(Cols + 1) · 2⁻²⁴ · Σ |w·x|
//
// of exact, and the same bit for bit whatever the number of workers, on one kind of
// processor. What is wrong with a call is a [*problem.Error], and nothing has been written.
func (m *Multiplier) Mul(y []float32, w Matrix, x []float32) error {
	if err := check(y, w, x); err != nil {
		return err
	}
	if w.Rows == 0 {
		return nil
	}
	if cap(m.spread) < len(x) {
		m.spread = make([]float32, len(x))
	}
	m.spread = m.spread[:len(x)/columns*columns]
	kernel.Spread(m.spread, x)
	m.w, m.x, m.y = w, x, y
	m.rows = max(itemBytes/max(2*w.Cols, 1)/kernel.RowsAtOnce, 1) * kernel.RowsAtOnce
	m.next.Store(0)
	m.team.Run((w.Rows + m.rows - 1) / m.rows)
	m.w, m.x, m.y = Matrix{}, nil, nil
	return nil
}

// columns is how many elements of a row kernels take at a time.
const columns = kernel.RowColumns

func check(y []float32, w Matrix, x []float32) error {
	switch {
	case w.Rows < 0:
		return problem.New(problem.BadValue, "rows", w.Rows, "negative")
	case w.Cols < 0:
		return problem.New(problem.BadValue, "cols", w.Cols, "negative")
	}
	if n, ok := units.Mul(2, int64(w.Rows), int64(w.Cols)); !ok || n != int64(len(w.Data)) {
		return problem.New(problem.BadValue, "w", nil, "%d bytes, want 2 × [%d, %d]", len(w.Data), w.Rows, w.Cols)
	}
	for _, f := range [...]struct {
		name       string
		have, want int
	}{{"y", len(y), w.Rows}, {"x", len(x), w.Cols}} {
		if f.have != f.want {
			return problem.New(problem.BadValue, f.name, nil, "%d elements, want [%d]", f.have, f.want)
		}
	}
	return nil
}

// work takes items of rows until there are none.
func (m *Multiplier) work(worker int) {
	for {
		first := (int(m.next.Add(1)) - 1) * m.rows
		if first >= m.w.Rows {
			return
		}
		m.item((*[kernel.RowsAtOnce]float32)(m.sums[worker][:]), first, min(m.rows, m.w.Rows-first))
	}
}

// item multiplies some rows: a quarter of them each in one stream, so that where a row ends
// the next one of its stream begins, and has been fetched. Rows that are no multiple of 4
// are multiplied one by one at the end.
func (m *Multiplier) item(sums *[kernel.RowsAtOnce]float32, first, rows int) {
	quarter := rows / kernel.RowsAtOnce
	width := 2 * m.w.Cols
	for i := range quarter {
		kernel.Dots(sums, m.w.Data[(first+i)*width:], quarter*width, m.spread)
		for stream, sum := range sums {
			row := first + stream*quarter + i
			m.y[row] = sum + m.rest(row)
		}
	}
	for row := first + quarter*kernel.RowsAtOnce; row < first+rows; row++ {
		kernel.Dots(sums, m.w.Data[row*width:], 0, m.spread)
		m.y[row] = sums[0] + m.rest(row)
	}
}

// rest is the product of a row's columns after the last whole line.
func (m *Multiplier) rest(row int) (sum float32) {
	for col := len(m.spread); col < m.w.Cols; col++ {
		w := binary.LittleEndian.Uint16(m.w.Data[2*(row*m.w.Cols+col):])
		sum += math.Float32frombits(uint32(w)<<16) * m.x[col]
	}
	return sum
}
