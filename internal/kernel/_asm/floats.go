package main

import (
	"fmt"
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// floats writes the products in float32, of lines of float32, and of bfloat16 and 8-bit
// formats, which are widened as they are read. Several lines are worked on at once: an
// element is broadcast once for all of them, and as many places of memory are read side by
// side, which is what a processor prefetches best.
func floats() {
	for _, s := range []isa{avx512, avx2} {
		for _, rows := range []int{1, 2, 4, 8} {
			if rows == 8 && !s.wide() {
				continue // not enough registers
			}
			for _, size := range []int{2, 4, 1} {
				if size == 1 && !s.wide() {
					continue // no permutation of bytes
				}
				f := float{isa: s, rows: rows, size: size}
				f.lines = f.most()
				scoreFloats(f)
				f.lines = 1
				valueStreams(f)
			}
		}
	}
	for _, size := range []int{2, 4} {
		for _, chunks := range []int{1, 2} {
			valueChunks(float{avx512, 8, chunks, size})
		}
	}
}

// float is one kernel: its rows, how many lines it works on, and the bytes of an element.
type float struct {
	isa
	rows, lines int
	size        int
}

// most is the lines for which there are registers: 16 sums of 32, or 8 of 16.
func (f float) most() int { return min(4, 16/f.halves()/f.halves()/f.rows) }

func (f float) name(what string) string {
	format := map[int]string{1: "Bytes", 2: "BF16", 4: "F32"}[f.size]
	return fmt.Sprintf("%s%dx%d%s%s", what, f.rows, f.lines, format, f.isa.name)
}

// depth is how many elements of a row one line meets.
func (f float) depth() int { return 4 / f.size }

// together is how many lines are widened before any is multiplied: all of them, where
// there are registers.
func (f float) together(lines int) int {
	if !f.wide() || f.size == 1 && lines > 2 {
		return 1
	}
	return lines
}

// parts is how many sums a row and line have under way, to hide an instruction's latency.
func (f float) parts() int { return max(1, min(2, len(f.v)/2/(f.rows*f.lines*f.halves()))) }

// acc are the registers of a row's sums of a line, in one of their parts.
func (f float) acc(row, line, part int) []reg.VecPhysical {
	i := ((part*f.rows+row)*f.lines + line) * f.halves()
	return f.v[i : i+f.halves()]
}

// sums is how many registers are sums.
func (f float) sums() int { return f.parts() * f.rows * f.lines * f.halves() }

// mask is the register that keeps the upper half of a double word.
func (f float) mask() reg.VecPhysical { return f.v[len(f.v)-1] }

// The registers of an 8-bit format's table, see unpackBytes, and of its sign bits.
func (f float) table(i int) reg.VecPhysical { return f.v[26+i] }
func (f float) signs() reg.VecPhysical      { return f.v[30] }

func (f float) prepare() {
	if f.size < 4 {
		VPBROADCASTD(shared("upper", U32(0xffff0000)), f.mask())
	}
	if f.size == 1 {
		table := load("table")
		for i := range 4 {
			VMOVDQU64(Mem{Base: table, Disp: 64 * i}, f.table(i))
		}
		VPBROADCASTD(shared("signs", U32(0x80808080)), f.signs())
	}
}

// widen loads a line as float32: x[d] are the elements of depth d.
func (f float) widen(m Mem, x [][]reg.VecPhysical) {
	if f.size == 1 {
		code, even, lower, upper := x[0][0], x[1][0], x[3][0], x[2][0]
		VMOVDQU64(m, code)
		VMOVDQA64(code, lower)
		VMOVDQA64(code, upper)
		VPERMI2B(f.table(1), f.table(0), lower)
		VPERMI2B(f.table(3), f.table(2), upper)
		VPTERNLOGD(U8(0xf8), f.signs(), code, upper) // upper | code & sign
		VPUNPCKLBW(upper, lower, even)
		VPUNPCKHBW(upper, lower, lower)
		f.split(even, code, even)
		f.split(lower, upper, lower)
		return
	}
	for i := range x[0] {
		at := m
		at.Disp += i * f.bytes
		if f.size == 4 {
			VMOVUPS(at, x[0][i])
			continue
		}
		VMOVUPS(at, x[1][i])
		f.split(x[1][i], x[0][i], x[1][i])
	}
}

// split makes float32s of pairs of bfloat16.
func (f float) split(pairs, even, odd reg.VecPhysical) {
	VPSLLD(Imm(16), pairs, even)
	f.and(f.mask(), pairs, odd)
}

// step adds the products of one line from each place: element(row, depth) is what they meet
// of a row.
func (f float) step(places []Mem, depth int, element func(row, d int) Mem) {
	together, h := f.together(len(places)), f.halves()
	free := f.v[f.sums():]
	x := make([][]reg.VecPhysical, max(2, f.depth()))
	for d := range x {
		x[d], free = free[:together*h], free[together*h:]
	}
	for first := 0; first < len(places); first += together {
		for i, m := range places[first : first+together] {
			line := make([][]reg.VecPhysical, len(x))
			for d := range x {
				line[d] = x[d][i*h : (i+1)*h]
			}
			f.widen(m, line)
		}
		for d := range f.depth() {
			for row := range f.rows {
				if f.wide() && together == 1 {
					VFMADD231PS_BCST(element(row, d), x[d][0], f.acc(row, first, (depth+d)%f.parts())[0])
					continue
				}
				VBROADCASTSS(element(row, d), free[0])
				for i := range together {
					for j, acc := range f.acc(row, first+i, (depth+d)%f.parts()) {
						VFMADD231PS(free[0], x[d][i*h+j], acc)
					}
				}
			}
		}
	}
}

// total adds the parts of a row's sums into the first.
func (f float) total(row, line int) []reg.VecPhysical {
	sum := f.acc(row, line, 0)
	for part := 1; part < f.parts(); part++ {
		for i, r := range f.acc(row, line, part) {
			VADDPS(r, sum[i], sum[i])
		}
	}
	return sum
}

// touch fetches the first lines of a tile that a later call reads: from there the
// processor fetches by itself.
func touch(ahead, tmp reg.GPVirtual, tile, lines int) {
	MOVQ(Mem{Base: ahead, Disp: 8 * tile}, tmp)
	ADDQ(param("base"), tmp)
	for i := range lines {
		PREFETCHT0(Mem{Base: tmp, Disp: 64 * i})
	}
}

// busy reports whether there is more to compute than to read. Then each line of the tiles
// that a later call reads is fetched meanwhile, into the second-level cache: that is slower
// than what the processor fetches by itself, but goes on while it computes.
func (f float) busy() bool { return f.rows == 8 }

// tilesAt are the tiles of a list of places.
func tilesAt(list reg.GPVirtual, n int) []reg.GPVirtual {
	tiles := make([]reg.GPVirtual, n)
	for i := range tiles {
		tiles[i] = GP64()
		MOVQ(Mem{Base: list, Disp: 8 * i}, tiles[i])
		ADDQ(param("base"), tiles[i])
	}
	return tiles
}

// far is how many lines before it is read a line is fetched, in the tile that is being read.
const far = 16

func scoreFloats(f float) {
	const turn = 4 // lines of a turn of the loop over a tile
	name := f.name("scores")
	TEXT(name, NOSPLIT, "func(dst, q *float32, base *byte, at, ahead *int, width int, table *byte)")
	Doc(fmt.Sprintf("%s is %d rows of queries by %d tiles of keys.", name, f.rows, f.lines))
	Pragma("noescape")
	f.prepare()
	q, stride, at, ahead := load("q"), load("width"), load("at"), load("ahead")
	turns, tmp := GP64(), GP64()
	MOVQ(stride, turns)
	SHRQ(Imm(uint64(bits.Len(uint(turn*f.depth()))-1)), turns)
	SHLQ(Imm(2), stride)
	queries := strided(q, stride, f.rows)
	keys, next := tilesAt(at, f.lines), []reg.GPVirtual(nil)
	if f.busy() {
		next = tilesAt(ahead, f.lines)
	} else {
		for i := range keys {
			touch(ahead, tmp, i, far)
		}
	}
	for i := range f.sums() {
		f.zero(f.v[i])
	}
	Label("turn")
	for i := range turn {
		places := make([]Mem, f.lines)
		for j, k := range keys {
			places[j] = Mem{Base: k, Disp: 64 * i}
			if f.busy() {
				PREFETCHT1(Mem{Base: next[j], Disp: 64 * i})
			} else {
				PREFETCHT0(Mem{Base: k, Disp: 64 * (i + far)}) // past the keys are the tile's values
			}
		}
		f.step(places, i*f.depth(), func(row, d int) Mem { return queries.at(row, 4*(i*f.depth()+d)) })
	}
	ADDQ(Imm(uint64(4*turn*f.depth())), q)
	for _, k := range append(keys, next...) {
		ADDQ(U32(64*turn), k)
	}
	DECQ(turns)
	JNZ(LabelRef("turn"))
	dst := load("dst")
	for row := range f.rows {
		for line := range f.lines {
			for i, sum := range f.total(row, line) {
				VMOVUPS(sum, Mem{Base: dst, Disp: 512*row + 64*line + i*f.bytes})
			}
		}
	}
	VZEROUPPER()
	RET()
}

// valueStreams writes the kernel for values that come from memory: 4 tiles side by side,
// each from its first line to its last.
func valueStreams(f float) {
	const tiles = 4
	name := fmt.Sprintf("stream%s", f.name("Values"))
	TEXT(name, NOSPLIT, "func(acc, alpha, p *float32, base *byte, at, ahead *int, width int, table *byte)")
	Doc(fmt.Sprintf("%s is %d rows by all values of %d tiles.", name, f.rows, tiles))
	Pragma("noescape")
	f.prepare()
	acc, stride, p, at := load("acc"), load("width"), load("p"), load("at")
	chunks, near := GP64(), GP64()
	MOVQ(stride, chunks)
	SHRQ(Imm(4), chunks)
	SHLQ(Imm(2), stride)
	// Rows in fours, so that two strides address them all.
	fours := []rows{strided(acc, stride, min(f.rows, 4))}
	if f.rows > 4 {
		upper := fours[0]
		base := GP64()
		LEAQ(Mem{Base: acc, Index: stride, Scale: 4}, base)
		upper.base = base
		fours = append(fours, upper)
	}
	sums := func(row, disp int) Mem { return fours[row/4].at(row%4, disp) }
	values, next := tilesAt(at, tiles), []reg.GPVirtual(nil)
	if f.busy() {
		next = tilesAt(load("ahead"), tiles)
	}
	chunk := 64 * 16 / f.depth()
	factor := f.v[f.sums()]
	if !f.busy() {
		MOVQ(U32(64*far), near)
	}
	Label("chunk")
	if !f.busy() {
		CMPQ(chunks, Imm(uint64(64*far/chunk)))
		JG(LabelRef("more"))
		XORQ(near, near) // past the last chunk is another head
		Label("more")
	}
	alpha := load("alpha")
	for row := range f.rows {
		VBROADCASTSS(Mem{Base: alpha, Disp: 4 * row}, factor)
		for i, r := range f.acc(row, 0, 0) {
			VMULPS(sums(row, i*f.bytes), factor, r)
		}
	}
	for i := f.rows * f.halves(); i < f.sums(); i++ {
		f.zero(f.v[i])
	}
	for i := range 16 / f.depth() {
		for tile, v := range values {
			if f.busy() {
				PREFETCHT1(Mem{Base: next[tile], Disp: 64 * i})
			} else {
				PREFETCHT0(Mem{Base: v, Index: near, Scale: 1, Disp: 64 * i})
			}
			f.step([]Mem{{Base: v, Disp: 64 * i}}, tile, func(row, d int) Mem {
				return Mem{Base: p, Disp: 512*row + 64*tile + 4*(i*f.depth()+d)}
			})
		}
	}
	for row := range f.rows {
		for i, sum := range f.total(row, 0) {
			VMOVUPS(sum, sums(row, i*f.bytes))
		}
	}
	for _, four := range fours {
		ADDQ(Imm(64), four.base)
	}
	for _, v := range append(values, next...) {
		ADDQ(U32(uint32(chunk)), v)
	}
	DECQ(chunks)
	JNZ(LabelRef("chunk"))
	VZEROUPPER()
	RET()
}

// valueChunks writes the kernel for values that many rows read in turn: some chunks of all
// tiles.
func valueChunks(f float) {
	name := f.name("values")
	TEXT(name, NOSPLIT, "func(acc, alpha, p *float32, base *byte, at *int, n, width int)")
	Doc(fmt.Sprintf("%s is %d rows by %d chunks of the values of n tiles.", name, f.rows, f.lines))
	Pragma("noescape")
	f.prepare()
	acc, stride, alpha := load("acc"), load("width"), load("alpha")
	SHLQ(Imm(2), stride)
	sums := strided(acc, stride, f.rows)
	factor := f.v[f.sums()]
	for row := range f.rows {
		VBROADCASTSS(Mem{Base: alpha, Disp: 4 * row}, factor)
		for line := range f.lines {
			for i, r := range f.acc(row, line, 0) {
				VMULPS(sums.at(row, 64*line+i*f.bytes), factor, r)
			}
		}
	}
	for i := f.rows * f.lines; i < f.sums(); i++ {
		f.zero(f.v[i])
	}
	p, base, at, n := load("p"), load("base"), load("at"), load("n")
	v := GP64()
	chunk := 64 * 16 / f.depth()
	Label("tile")
	MOVQ(Mem{Base: at}, v)
	ADDQ(base, v)
	for i := range 16 / f.depth() {
		places := make([]Mem, f.lines)
		for j := range places {
			places[j] = Mem{Base: v, Disp: chunk*j + 64*i}
		}
		f.step(places, i*f.depth(), func(row, d int) Mem { return Mem{Base: p, Disp: 512*row + 4*(i*f.depth()+d)} })
	}
	ADDQ(Imm(64), p)
	ADDQ(Imm(8), at)
	DECQ(n)
	JNZ(LabelRef("tile"))
	for row := range f.rows {
		for line := range f.lines {
			VMOVUPS(f.total(row, line)[0], sums.at(row, 64*line))
		}
	}
	VZEROUPPER()
	RET()
}
