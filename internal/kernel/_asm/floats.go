package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// floats writes the products in float32, of lines of float32 and of bfloat16, which are
// widened as they are read: for the few rows that memory cannot keep busy anyhow, and for
// processors without products of pairs.
func floats() {
	for _, s := range []isa{avx512, avx2} {
		for _, rows := range []int{1, 2, 4, 8} {
			if rows == 8 && !s.wide() {
				continue // not enough registers
			}
			for _, bf16 := range []bool{true, false} {
				scoreFloats(float{s, rows, bf16})
				valueFloats(float{s, rows, bf16})
			}
		}
	}
}

// float is one kernel: its rows, and the format of its lines.
type float struct {
	isa
	rows int
	bf16 bool
}

func (f float) String() string {
	format := "F32"
	if f.bf16 {
		format = "BF16"
	}
	return fmt.Sprintf("%d%s%s", f.rows, format, f.name)
}

// depth is how many elements of a row one line meets.
func (f float) depth() int {
	if f.bf16 {
		return 2
	}
	return 1
}

// parts is how many sums a row has under way, to hide an instruction's latency.
func (f float) parts() int { return max(1, min(4, 8/(f.rows*f.halves()))) }

// acc are the registers of a row's sums, in one of its parts.
func (f float) acc(row, part int) []reg.VecPhysical {
	i := (part*f.rows + row) * f.halves()
	return f.v[i : i+f.halves()]
}

// free is the first register that is no sum.
func (f float) free() int { return f.parts() * f.rows * f.halves() }

// mask is the register that keeps the upper half of a double word.
func (f float) mask() reg.VecPhysical { return f.v[len(f.v)-1] }

func (f float) prepare() {
	if f.bf16 {
		VPBROADCASTD(shared("upper", U32(0xffff0000)), f.mask())
	}
}

// line adds the products of one line: element(row, depth) is what it meets of a row, part
// the part that its first depth goes to.
func (f float) line(m Mem, part int, element func(row, depth int) Mem) {
	h := f.halves()
	even, odd, tmp := f.v[f.free():f.free()+h], f.v[f.free()+h:f.free()+2*h], f.v[f.free()+2*h]
	for i := range h {
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
	for d, x := range [][]reg.VecPhysical{even, odd}[:f.depth()] {
		for row := range f.rows {
			f.multiplyAdd(element(row, d), x, f.acc(row, (part+d)%f.parts()), tmp)
		}
	}
}

// total adds a row's parts into the first.
func (f float) total(row int) []reg.VecPhysical {
	sum := f.acc(row, 0)
	for part := 1; part < f.parts(); part++ {
		for i, r := range f.acc(row, part) {
			VADDPS(r, sum[i], sum[i])
		}
	}
	return sum
}

// turn is the lines of one turn of a loop over a tile's keys.
const turn = 4

func scoreFloats(f float) {
	TEXT("scores"+f.String(), NOSPLIT, "func(dst, q *float32, base *byte, at, ahead *int, n, width int)")
	Doc(fmt.Sprintf("scores%v is %d rows of queries by n tiles of keys; rows of dst are Run apart.", f, f.rows))
	Pragma("noescape")
	f.prepare()
	dst, stride, at, ahead, n := load("dst"), load("width"), load("at"), load("ahead"), load("n")
	SHLQ(Imm(2), stride)
	q, k, next, lines := GP64(), GP64(), GP64(), GP64()
	queries := strided(q, stride, f.rows)
	Label("tile")
	MOVQ(param("q"), q)
	MOVQ(Mem{Base: at}, k)
	ADDQ(param("base"), k)
	MOVQ(Mem{Base: ahead}, next)
	ADDQ(param("base"), next)
	MOVQ(param("width"), lines)
	SHRQ(Imm(uint64(1+f.depth())), lines) // turn lines of so much depth each
	for i := range f.free() {
		f.zero(f.v[i])
	}
	Label("turn")
	for i := range turn {
		PREFETCHT0(Mem{Base: next, Disp: 64 * i})
		f.line(Mem{Base: k, Disp: 64 * i}, i*f.depth(), func(row, d int) Mem { return queries.at(row, 4*(i*f.depth()+d)) })
	}
	ADDQ(Imm(uint64(4*turn*f.depth())), q)
	ADDQ(U32(64*turn), k)
	ADDQ(U32(64*turn), next)
	DECQ(lines)
	JNZ(LabelRef("turn"))
	for row := range f.rows {
		for i, sum := range f.total(row) {
			VMOVUPS(sum, Mem{Base: dst, Disp: 512*row + i*f.bytes})
		}
	}
	ADDQ(Imm(64), dst)
	ADDQ(Imm(8), at)
	ADDQ(Imm(8), ahead)
	DECQ(n)
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

func valueFloats(f float) {
	TEXT("values"+f.String(), NOSPLIT, "func(acc, alpha, p *float32, base *byte, at, ahead *int, n, width int)")
	Doc(fmt.Sprintf("values%v is %d rows by one chunk of the values of n tiles.", f, f.rows))
	Pragma("noescape")
	f.prepare()
	acc, stride, alpha := load("acc"), load("width"), load("alpha")
	SHLQ(Imm(2), stride)
	sums := strided(acc, stride, f.rows)
	tmp := f.v[f.free()]
	for row := range f.rows {
		VBROADCASTSS(Mem{Base: alpha, Disp: 4 * row}, tmp)
		for i, r := range f.acc(row, 0) {
			VMULPS(sums.at(row, i*f.bytes), tmp, r)
		}
	}
	for i := f.rows * f.halves(); i < f.free(); i++ {
		f.zero(f.v[i])
	}
	p, base, at, ahead, n := load("p"), load("base"), load("at"), load("ahead"), load("n")
	v, next := GP64(), GP64()
	Label("tile")
	MOVQ(Mem{Base: at}, v)
	ADDQ(base, v)
	MOVQ(Mem{Base: ahead}, next)
	ADDQ(base, next)
	for i := range 16 / f.depth() {
		PREFETCHT0(Mem{Base: next, Disp: 64 * i})
		f.line(Mem{Base: v, Disp: 64 * i}, i*f.depth(), func(row, d int) Mem { return Mem{Base: p, Disp: 512*row + 4*(i*f.depth()+d)} })
	}
	ADDQ(Imm(64), p)
	ADDQ(Imm(8), at)
	ADDQ(Imm(8), ahead)
	DECQ(n)
	JNZ(LabelRef("tile"))
	for row := range f.rows {
		for i, sum := range f.total(row) {
			VMOVUPS(sum, sums.at(row, i*f.bytes))
		}
	}
	VZEROUPPER()
	RET()
}
