package paged

import (
	"math"

	"headcount/attn"
	"headcount/dtype"
	"headcount/internal/kernel"
)

// worker is one worker of an [Attention] and its scratch memory, which grows to the
// largest unit it has seen.
type worker struct {
	a     *Attention
	part  part          // of a unit that has one part, or what several become
	q     []float32     // [rows, keys]
	pairs []uint16      // the same in bfloat16
	s     []float32     // [rows, Run]: scores, then weights
	p     []uint16      // [rows, Run]: weights in bfloat16
	sees  []visible     // [rows]
	see   []kernel.Span // [rows]: the same within a run
	lines []byte        // a run's tiles in a format that kernels multiply
	turn  []byte        // a run's values, turned from a latent
	at    [2][2][kernel.RunTiles]int
	bytes int64 // of cache read
}

var formats = [...]kernel.Format{
	dtype.BFloat16: kernel.BF16, dtype.Float16: kernel.F16, dtype.Float32: kernel.F32,
	dtype.Float8E4M3: kernel.E4M3, dtype.Float8E5M2: kernel.E5M2,
}

// visible is the tokens [first, last) of a rank that a row sees.
type visible struct{ first, last int }

// work takes items until there are none.
func (a *Attention) work(i int) {
	w := &a.workers[i]
	for {
		n := int(a.next.Add(1)) - 1
		if n >= len(a.items) {
			return
		}
		it := a.items[n]
		u := &a.units[it.unit]
		if u.parts == 1 {
			w.attend(u, w.scratch(u.rows), u.first, u.last)
			w.finish(u, w.part)
			continue
		}
		start := u.first + it.part*itemTokens
		w.attend(u, a.parts[u.part+it.part], start, min(start+itemTokens, u.last))
		if a.left[it.unit].Add(-1) == 0 {
			w.finish(u, w.join(u))
		}
	}
}

// scratch is the worker's own part, for some rows.
func (w *worker) scratch(rows int) part {
	n := padRows(rows)
	if len(w.part.state.Max) != n {
		grow(&w.part.acc, n*w.a.values)
		grow(&w.part.state.Max, n)
		grow(&w.part.state.Sum, n)
		grow(&w.part.state.Alpha, n)
	}
	return w.part
}

// grow makes s n long, and keeps its memory when that suffices.
func grow[T any](s *[]T, n int) {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	*s = (*s)[:n]
}

// attend computes a part: the unit's rows over tokens [start, end), start at a tile.
func (w *worker) attend(u *unit, p part, start, end int) {
	rows := w.load(u)
	p = p.of(rows, w.a.values)
	clear(p.acc)
	clear(p.state.Sum)
	for r := range p.state.Max {
		p.state.Max[r] = float32(math.Inf(-1))
	}
	for t := start; t < end; t += kernel.Run {
		w.run(u, p, t, end)
	}
}

// of is the part's leading rows.
func (p part) of(rows, width int) part {
	return part{kernel.State{Max: p.state.Max[:rows], Sum: p.state.Sum[:rows], Alpha: p.state.Alpha[:rows]}, p.acc[:rows*width]}
}

// usesPairs reports whether a unit's products are those of bfloat16 pairs: where an
// instruction has them, rows enough to gain, and keys that are bfloat16 or become it.
func (a *Attention) usesPairs(u *unit) bool {
	return u.rows > kernel.PairRows/2 && kernel.Pairs() && a.lineFormat(u) == kernel.BF16
}

// fewRows is up to how many rows 8-bit elements are widened as they are multiplied. For
// more it is less work to do it once for all.
const fewRows = 8

// lineFormat is that of the lines that a unit's kernels are given.
func (a *Attention) lineFormat(u *unit) kernel.Format {
	stored := formats[a.cfg.Layout.DType]
	if a.cfg.Layout.lines() && stored.Size() == 1 && a.g.Arch == attn.MHA && u.rows <= fewRows && kernel.Bytes() && !kernel.Pairs() {
		return stored
	}
	if a.cfg.Layout.lines() && (stored == kernel.BF16 || stored.Size() == 1) {
		return kernel.BF16
	}
	return kernel.F32
}

// load brings the unit's queries together and says how many rows kernels take: those of
// the unit, or for products of pairs a multiple of 8.
func (w *worker) load(u *unit) int {
	a, g, rows := w.a, w.a.g, u.rows
	grow(&w.sees, padRows(rows))
	for r := range w.sees {
		w.sees[r] = visible{}
		if r < rows {
			w.sees[r].first, w.sees[r].last = a.sees(u, r)
		}
	}
	grow(&w.q, rows*a.keys)
	for r := range rows {
		n := copy(w.q[r*a.keys:], a.q[a.row(u, r)*g.KeyDim:][:g.KeyDim])
		clear(w.q[r*a.keys+n : (r+1)*a.keys])
	}
	if a.usesPairs(u) {
		rows = padRows(rows)
		grow(&w.pairs, rows*a.keys)
		for i, x := range w.q {
			w.pairs[i] = dtype.RoundBFloat16(x)
		}
		clear(w.pairs[len(w.q):])
		grow(&w.p, rows*kernel.Run)
	}
	grow(&w.s, rows*kernel.Run)
	grow(&w.see, rows)
	return rows
}

// row is a unit's row among the batch's [query tokens, query heads].
func (a *Attention) row(u *unit, r int) int {
	group := a.g.GroupSize()
	return (u.query+(u.row0+r)/group)*a.g.QueryHeads + u.head*group + (u.row0+r)%group
}

// run adds one run's tokens, those from t on and before end.
func (w *worker) run(u *unit, p part, t, end int) {
	a := w.a
	for r := range w.see {
		v := w.sees[r]
		w.see[r] = kernel.Span{Lo: column(v.first - t), Hi: column(min(v.last, end) - t)}
	}
	keys, values := w.tiles(u, t, end)
	if a.usesPairs(u) {
		kernel.ScoresPairs(w.s, w.pairs, keys, a.keys)
		scale := w.logits()
		kernel.SoftmaxPairs(w.p, w.s, p.state, w.see, scale)
		kernel.ValuesPairs(p.acc, p.state.Alpha, w.p, values, a.values)
		return
	}
	kernel.Scores(w.s, w.q, keys, a.keys)
	scale := w.logits()
	kernel.Softmax(w.s, p.state, w.see, scale)
	kernel.Values(p.acc, p.state.Alpha, w.s, values, a.values)
}

// column is a token's column of a run.
func column(t int) int32 { return int32(min(max(t, 0), kernel.Run)) }

// logits bends the scores where there is a cap, and is what scales them to powers of two.
func (w *worker) logits() float32 {
	limit := w.a.cfg.SoftCap
	if limit == 0 {
		return w.a.scale
	}
	kernel.Cap(w.s, w.a.scale, limit)
	return math.Log2E
}

// tiles are the keys and values of the run at t, read from the cache or made of it.
func (w *worker) tiles(u *unit, t, end int) (keys, values kernel.Tiles) {
	a, l := w.a, w.a.cfg.Layout
	n := w.find(u, 0, t, end)
	w.bytes += int64((min(end-t, kernel.Run) + kernel.Lanes - 1) / kernel.Lanes * l.tileBytes())
	keys = kernel.Tiles{Data: a.batch.Blocks.Data, At: w.at[0][0][:n], Format: formats[l.DType]}
	values = kernel.Tiles{Data: a.batch.Blocks.Data, At: w.at[0][1][:n], Format: formats[l.DType]}
	if a.lineFormat(u) != formats[l.DType] || !l.lines() {
		w.unpack(u, &keys, &values, t, end)
	} else if next := t + kernel.Run; next < end {
		w.find(u, 1, next, end)
		keys.Ahead, values.Ahead = w.at[1][0][:n], w.at[1][1][:n]
	}
	if a.g.Arch == attn.MLA {
		values = w.turned(keys)
	}
	return keys, values
}

// find looks up where the tiles of the run at t begin, into one of two lists, and says how
// many a kernel is given; the last stands for those that are not there.
func (w *worker) find(u *unit, list, t, end int) int {
	a, l := w.a, w.a.cfg.Layout
	keys, values := &w.at[list][0], &w.at[list][1]
	n := 0
	for ; n < kernel.RunTiles && t < end; n++ {
		block := int(a.batch.Tables[u.seq][t/l.BlockSize])
		keys[n] = block*a.batch.Blocks.Stride + l.tile(u.head, t%l.BlockSize)
		values[n] = keys[n] + l.keyBytes()
		t += kernel.Lanes
	}
	for i := n; i < kernel.RunTiles; i++ {
		keys[i], values[i] = keys[n-1], values[n-1]
	}
	return (n + kernel.TileStep - 1) / kernel.TileStep * kernel.TileStep
}

// unpack makes lines of tiles that kernels cannot multiply as they are stored.
func (w *worker) unpack(u *unit, keys, values *kernel.Tiles, t, end int) {
	a, l := w.a, w.a.cfg.Layout
	ahead := keys.At
	if next := t + kernel.Run; next < end {
		w.find(u, 1, next, end)
		ahead = w.at[1][0][:len(keys.At)]
	}
	format := a.lineFormat(u)
	k := kernel.Lanes * a.keys * format.Size()
	size := k
	if a.g.Arch == attn.MHA {
		size += kernel.Lanes * a.values * format.Size()
	}
	grow(&w.lines, len(keys.At)*size)
	for i, at := range keys.At {
		src, dst := keys.Data[at:at+l.tileBytes()], w.lines[i*size:(i+1)*size]
		if l.lines() {
			kernel.Unpack(dst, format, src, keys.Data[ahead[i]:ahead[i]+l.tileBytes()], keys.Format)
		} else {
			l.unpackRows(dst, src, a.keys)
		}
		keys.At[i], values.At[i] = i*size, i*size+k
	}
	keys.Data, values.Data = w.lines, w.lines
	keys.Format, values.Format = format, format
}

// turned is a run's values where they are the leading dims of its keys.
func (w *worker) turned(keys kernel.Tiles) kernel.Tiles {
	size := kernel.Lanes * w.a.values * keys.Format.Size()
	grow(&w.turn, len(keys.At)*size)
	at := w.at[0][1][:len(keys.At)]
	for i, key := range keys.At {
		kernel.Transpose(w.turn[i*size:(i+1)*size], keys.Data[key:], w.a.values, keys.Format)
		at[i] = i * size
	}
	return kernel.Tiles{Data: w.turn, At: at, Format: keys.Format}
}
