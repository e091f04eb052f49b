package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// floats writes the products in float32, of lines of float32 and of bfloat16, which are
// widened as they are read. Several lines are worked on at once: an element is broadcast
// once for all of them, and as many places of memory are read side by side, which is what
// a processor prefetches best.
func floats() {
	for _, s := range []isa{avx512, avx2} {
		for _, rows := range []int{1, 2, 4, 8} {
			if rows == 8 && !s.wide() {
				continue // not enough registers
			}
			for _, bf16 := range []bool{true, false} {
				f := float{isa: s, rows: rows, bf16: bf16}
				f.lines = f.most()
				scoreFloats(f)
				f.lines = 1
				valueStreams(f)
			}
		}
	}
	for _, bf16 := range []bool{true, false} {
		for _, chunks := range []int{1, 2} {
			valueChunks(float{avx512, 8, chunks, bf16})
		}
	}
}

// float is one kernel: its rows, how many lines it works on, and their format.
type float struct {
	isa
	rows, lines int
	bf16        bool
}

// most is the lines for which there are registers: 16 sums of 32, or 8 of 16.
func (f float) most() int { return min(4, 16/f.halves()/f.halves()/f.rows) }

func (f float) name(what string) string {
	format := "F32"
	if f.bf16 {
		format = "BF16"
	}
	return fmt.Sprintf("%s%dx%d%s%s", what, f.rows, f.lines, format, f.isa.name)
}

// depth is how many elements of a row one line meets.
func (f float) depth() int {
	if f.bf16 {
		return 2
	}
	return 1
}

// parts is how many sums a row and line have under way, to hide an instruction's latency.
func (f float) parts() int { return max(1, min(2, 8/(f.rows*f.lines*f.halves()))) }

// acc are the registers of a row's sums of a line, in one of their parts.
func (f float) acc(row, line, part int) []reg.VecPhysical {
	i := ((part*f.rows+row)*f.lines + line) * f.halves()
	return f.v[i : i+f.halves()]
}

// sums is how many registers are sums.
func (f float) sums() int { return f.parts() * f.rows * f.lines * f.halves() }

// mask is the register that keeps the upper half of a double word.
func (f float) mask() reg.VecPhysical { return f.v[len(f.v)-1] }

func (f float) prepare() {
	if f.bf16 {
		VPBROADCASTD(shared("upper", U32(0xffff0000)), f.mask())
	}
}

// widen loads a line as float32: elements of even depth, and of odd.
func (f float) widen(m Mem, even, odd []reg.VecPhysical) {
	for i := range even {
		at := m
		at.Disp += i * f.bytes
		if !f.bf16 {
			VMOVUPS(at, even[i])
			continue
		}
		VMOVUPS(at, odd[i])
		VPSLLD(Imm(16), odd[i], even[i])
		f.and(f.mask(), odd[i], odd[i])
	}
}

// step adds the products of one line from each place: element(row, depth) is what they meet
// of a row. Where registers are few it takes the places one by one.
func (f float) step(places []Mem, depth int, element func(row, d int) Mem) {
	together := len(places)
	if !f.wide() {
		together = 1
	}
	free := f.v[f.sums():]
	h := f.halves()
	for first := 0; first < len(places); first += together {
		even, odd, tmp := free[:together*h], free[together*h:2*together*h], free[2*together*h]
		for i, m := range places[first : first+together] {
			f.widen(m, even[i*h:(i+1)*h], odd[i*h:(i+1)*h])
		}
		for d, x := range [][]reg.VecPhysical{even, odd}[:f.depth()] {
			for row := range f.rows {
				VBROADCASTSS(element(row, d), tmp)
				for i := range together {
					for j, acc := range f.acc(row, first+i, (depth+d)%f.parts()) {
						VFMADD231PS(tmp, x[i*h+j], acc)
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

// far is how many lines before it is read a line is fetched, in the tile that is being read.
const far = 16

func scoreFloats(f float) {
	const turn = 4 // lines of a turn of the loop over a tile
	name := f.name("scores")
	TEXT(name, NOSPLIT, "func(dst, q *float32, base *byte, at, ahead *int, width int)")
	Doc(fmt.Sprintf("%s is %d rows of queries by %d tiles of keys.", name, f.rows, f.lines))
	Pragma("noescape")
	f.prepare()
	q, stride, at, ahead := load("q"), load("width"), load("at"), load("ahead")
	turns, tmp := GP64(), GP64()
	MOVQ(stride, turns)
	SHRQ(Imm(uint64(1+f.depth())), turns) // turn lines of so much depth each
	SHLQ(Imm(2), stride)
	queries := strided(q, stride, f.rows)
	keys := make([]reg.GPVirtual, f.lines)
	for i := range keys {
		keys[i] = GP64()
		MOVQ(Mem{Base: at, Disp: 8 * i}, keys[i])
		ADDQ(param("base"), keys[i])
		touch(ahead, tmp, i, far)
	}
	for i := range f.sums() {
		f.zero(f.v[i])
	}
	Label("turn")
	for i := range turn {
		places := make([]Mem, f.lines)
		for j, k := range keys {
			places[j] = Mem{Base: k, Disp: 64 * i}
			PREFETCHT0(Mem{Base: k, Disp: 64 * (i + far)}) // past the keys are the tile's values
		}
		f.step(places, i*f.depth(), func(row, d int) Mem { return queries.at(row, 4*(i*f.depth()+d)) })
	}
	ADDQ(Imm(uint64(4*turn*f.depth())), q)
	for _, k := range keys {
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
	TEXT(name, NOSPLIT, "func(acc, alpha, p *float32, base *byte, at *int, width int)")
	Doc(fmt.Sprintf("%s is %d rows by all values of %d tiles.", name, f.rows, tiles))
	Pragma("noescape")
	f.prepare()
	acc, stride, alpha, p, at := load("acc"), load("width"), load("alpha"), load("p"), load("at")
	chunks, near := GP64(), GP64()
	MOVQ(stride, chunks)
	SHRQ(Imm(4), chunks)
	SHLQ(Imm(2), stride)
	sums := strided(acc, stride, f.rows)
	values := make([]reg.GPVirtual, tiles)
	for i := range values {
		values[i] = GP64()
		MOVQ(Mem{Base: at, Disp: 8 * i}, values[i])
		ADDQ(param("base"), values[i])
	}
	chunk := 64 * 16 / f.depth()
	MOVQ(U32(64*far), near)
	factor := f.v[f.sums()]
	Label("chunk")
	CMPQ(chunks, Imm(uint64(64*far/chunk)))
	JG(LabelRef("more"))
	XORQ(near, near) // past the last chunk is another head
	Label("more")
	for row := range f.rows {
		VBROADCASTSS(Mem{Base: alpha, Disp: 4 * row}, factor)
		for i, r := range f.acc(row, 0, 0) {
			VMULPS(sums.at(row, i*f.bytes), factor, r)
		}
	}
	for i := f.rows * f.halves(); i < f.sums(); i++ {
		f.zero(f.v[i])
	}
	for i := range 16 / f.depth() {
		for tile, v := range values {
			PREFETCHT0(Mem{Base: v, Index: near, Scale: 1, Disp: 64 * i})
			f.step([]Mem{{Base: v, Disp: 64 * i}}, tile, func(row, d int) Mem {
				return Mem{Base: p, Disp: 512*row + 64*tile + 4*(i*f.depth()+d)}
			})
		}
	}
	for row := range f.rows {
		for i, sum := range f.total(row, 0) {
			VMOVUPS(sum, sums.at(row, i*f.bytes))
		}
	}
	ADDQ(Imm(64), acc)
	for _, v := range values {
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
		f.step(places, 0, func(row, d int) Mem { return Mem{Base: p, Disp: 512*row + 4*(i*f.depth()+d)} })
	}
	ADDQ(Imm(64), p)
	ADDQ(Imm(8), at)
	DECQ(n)
	JNZ(LabelRef("tile"))
	for row := range f.rows {
		for line := range f.lines {
			VMOVUPS(f.acc(row, line, 0)[0], sums.at(row, 64*line))
		}
	}
	VZEROUPPER()
	RET()
}
