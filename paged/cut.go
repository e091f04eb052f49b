package paged

import (
	"slices"
	"sync/atomic"

	"headcount/internal/kernel"
)

// How a batch is cut. A unit is some query rows of one sequence and KV head: those that
// read the same keys. An item is a unit's part of the sequence, and what a worker takes.
// Both sizes are fixed, so that a result depends on shapes and never on who computed it.
const (
	unitRows   = 128 // query rows that share a pass over the keys
	itemTokens = 1024
)

// unit is up to unitRows rows: row r is query token (row0+r)/group of the sequence and
// query head head·group + (row0+r)%group.
type unit struct {
	seq, head   int
	query       int // the sequence's first query token, among the batch's
	row0, rows  int
	first, last int // the tokens of this rank that any row sees: [first, last), first at a tile
	part, parts int // its parts
}

type item struct{ unit, part int }

// part is what an item leaves when its unit has several: rows' maxima, sums and weighted
// values.
type part struct {
	state kernel.State
	acc   []float32
}

// cut fills units, items and parts for the batch.
func (a *Attention) cut() {
	a.units, a.items = a.units[:0], a.items[:0]
	group, query, parts, floats := a.g.GroupSize(), 0, 0, 0
	for seq := range a.batch.Tables {
		rows := a.batch.queries(seq) * group
		for head := range a.g.KVHeads {
			for row0 := 0; row0 < rows; row0 += unitRows {
				u := unit{seq: seq, head: head, query: query, row0: row0, rows: min(unitRows, rows-row0)}
				u.first, _ = a.sees(&u, 0)
				_, u.last = a.sees(&u, u.rows-1)
				u.first -= u.first % kernel.Lanes
				u.parts = max(1, (u.last-u.first+itemTokens-1)/itemTokens)
				for p := range u.parts {
					a.items = append(a.items, item{len(a.units), p})
				}
				if u.parts > 1 {
					u.part = parts
					parts += u.parts
					floats += u.parts * padRows(u.rows) * (a.values + 3)
				}
				a.units = append(a.units, u)
			}
		}
		query += a.batch.queries(seq)
	}
	a.place(parts, floats)
}

// place gives the parts their memory, and counts what each unit waits for.
func (a *Attention) place(parts, floats int) {
	a.parts = slices.Grow(a.parts[:0], parts)[:parts]
	a.store = slices.Grow(a.store[:0], floats)[:floats]
	if len(a.left) < len(a.units) {
		a.left = make([]atomic.Int32, 2*len(a.units))
	}
	rest := a.store
	for i, u := range a.units {
		a.left[i].Store(int32(u.parts))
		if u.parts == 1 {
			continue
		}
		for p := range u.parts {
			a.parts[u.part+p], rest = carve(rest, padRows(u.rows), a.values)
		}
	}
}

// carve takes a part of the given shape from the front of memory.
func carve(memory []float32, rows, width int) (part, []float32) {
	take := func(n int) []float32 {
		var s []float32
		s, memory = memory[:n:n], memory[n:]
		return s
	}
	acc := take(rows * width) // first, so that it is on whole lines
	return part{kernel.State{Max: take(rows), Sum: take(rows), Alpha: take(rows)}, acc}, memory
}

// padRows is rows rounded up to what products of pairs take.
func padRows(rows int) int { return (rows + kernel.PairRows - 1) / kernel.PairRows * kernel.PairRows }

// sees is the tokens of this rank that a row of a unit sees, [first, last).
func (a *Attention) sees(u *unit, row int) (first, last int) {
	length, queries := a.batch.Lengths[u.seq], a.batch.queries(u.seq)
	position := length - queries + (u.row0+row)/a.g.GroupSize()
	if a.cfg.Window > 0 {
		first = a.batch.Shard.Local(max(0, position+1-a.cfg.Window))
	}
	return first, a.batch.Shard.Local(position + 1)
}
