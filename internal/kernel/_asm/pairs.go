package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var z = [32]reg.VecPhysical{
	reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
	reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
}

// load brings a parameter into a register of its own.
func load(name string) reg.GPVirtual {
	r := GP64()
	Load(Param(name), r)
	return r
}

// rows addresses up to 8 rows that lie one stride apart.
type rows struct {
	base          reg.Register
	s, s3, s5, s7 reg.Register
}

func strided(base, stride reg.GPVirtual, n int) rows {
	r := rows{base: base, s: stride}
	if n > 3 {
		s3 := GP64()
		LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, s3)
		r.s3 = s3
	}
	if n > 4 {
		s5, s7 := GP64(), GP64()
		LEAQ(Mem{Base: stride, Index: stride, Scale: 4}, s5)
		LEAQ(Mem{Base: s5, Index: stride, Scale: 2}, s7)
		r.s5, r.s7 = s5, s7
	}
	return r
}

// at is the place disp bytes into a row.
func (r rows) at(row, disp int) Mem {
	m := Mem{Base: r.base, Disp: disp}
	switch row {
	case 1, 2, 4:
		m.Index, m.Scale = r.s, uint8(row)
	case 3, 6:
		m.Index, m.Scale = r.s3, uint8(row/3)
	case 5:
		m.Index, m.Scale = r.s5, 1
	case 7:
		m.Index, m.Scale = r.s7, 1
	}
	return m
}

// pairs writes the products of bfloat16 pairs. Both are 8 rows by 2 lines of accumulators:
// a line is loaded once for 8 rows, an element broadcast once for 2 lines, and there are
// enough sums under way to hide an instruction's latency.
func pairs() {
	scorePairs()
	valuePairs(1)
	valuePairs(2)
}

// step adds the products of 8 rows' elements and some lines: accumulator row·len(lines)+i.
func step(lines []Mem, element func(row int) Mem) {
	n := len(lines)
	for i, m := range lines {
		VMOVUPS(m, z[24+i])
	}
	for row := range 8 {
		b := z[26+row%4]
		VPBROADCASTD(element(row), b)
		for i := range n {
			VPDPWSSD(b, z[24+i], z[row*n+i])
		}
	}
}

func scorePairs() {
	TEXT("scorePairsAVX512", NOSPLIT, "func(dst *float32, q *uint16, k0, k1, ahead0, ahead1 *byte, width int)")
	Doc("scorePairsAVX512 is 8 rows of queries by 2 tiles of keys; rows of dst are Run apart.")
	Pragma("noescape")
	q, stride := load("q"), load("width")
	k0, k1, ahead0, ahead1 := load("k0"), load("k1"), load("ahead0"), load("ahead1")
	lines := GP64()
	MOVQ(stride, lines)
	SHRQ(Imm(2), lines) // of 2 depth, 2 a turn
	ADDQ(stride, stride)
	queries := strided(q, stride, 8)
	for _, p := range []reg.Register{ahead0, ahead1} {
		PREFETCHT0(Mem{Base: p})
		PREFETCHT0(Mem{Base: p, Disp: 64})
	}
	for i := range 16 {
		VPXORD(z[i], z[i], z[i])
	}
	Label("turn")
	for i := range 2 {
		step([]Mem{{Base: k0, Disp: 64 * i}, {Base: k1, Disp: 64 * i}}, func(row int) Mem { return queries.at(row, 4*i) })
	}
	ADDQ(Imm(8), q)
	ADDQ(U32(128), k0)
	ADDQ(U32(128), k1)
	DECQ(lines)
	JNZ(LabelRef("turn"))
	dst := load("dst")
	for row := range 8 {
		VMOVUPS(z[2*row], Mem{Base: dst, Disp: 512 * row})
		VMOVUPS(z[2*row+1], Mem{Base: dst, Disp: 512*row + 64})
	}
	VZEROUPPER()
	RET()
}

func valuePairs(chunks int) {
	TEXT(fmt.Sprintf("valuePairs%dAVX512", chunks), NOSPLIT, "func(acc, alpha *float32, p *uint16, base *byte, at *int, n, width int)")
	Doc(fmt.Sprintf("valuePairs%dAVX512 is 8 rows by %d chunks of the values of n tiles.", chunks, chunks))
	Pragma("noescape")
	acc, stride, alpha := load("acc"), load("width"), load("alpha")
	SHLQ(Imm(2), stride)
	sums := strided(acc, stride, 8)
	for row := range 8 {
		VBROADCASTSS(Mem{Base: alpha, Disp: 4 * row}, z[31])
		for c := range chunks {
			VMULPS(sums.at(row, 64*c), z[31], z[row*chunks+c])
		}
	}
	p, base, at, n := load("p"), load("base"), load("at"), load("n")
	v := GP64()
	Label("tile")
	MOVQ(Mem{Base: at}, v)
	ADDQ(base, v)
	for i := range 8 {
		var lines []Mem
		for c := range chunks {
			lines = append(lines, Mem{Base: v, Disp: 512*c + 64*i})
		}
		step(lines, func(row int) Mem { return Mem{Base: p, Disp: 256*row + 4*i} })
	}
	ADDQ(Imm(32), p)
	ADDQ(Imm(8), at)
	DECQ(n)
	JNZ(LabelRef("tile"))
	for row := range 8 {
		for c := range chunks {
			VMOVUPS(z[row*chunks+c], sums.at(row, 64*c))
		}
	}
	VZEROUPPER()
	RET()
}
