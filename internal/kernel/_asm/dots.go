package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dotRows is how many rows of a matrix are under way, each a stream of memory.
const dotRows = 4

// dots writes the products of rows of a bfloat16 matrix with a vector.
func dots() {
	for _, s := range []isa{avx512, avx2} {
		dot(s)
	}
}

// dot is the kernel of one register width. A bfloat16 is the upper half of a float32, so
// that a double word of two of them is the odd one once its lower half is cleared, and the
// even one shifted up: the vector comes with evens and odds apart, a register of each.
func dot(s isa) {
	TEXT("dots"+s.name, NOSPLIT, "func(y *float32, w *byte, stride int, x *float32, turns int)")
	Doc("dots" + s.name + " multiplies 4 rows, stride bytes apart, of so many lines of 64 bytes.")
	Pragma("noescape")
	w, x, turns := load("w"), load("x"), load("turns")
	at := strided(w, load("stride"), dotRows)
	h := s.halves()
	acc := func(row, odd int) reg.VecPhysical { return s.v[2*row+odd] }
	mask, even, odd := s.v[2*dotRows], s.v[2*dotRows+1], s.v[2*dotRows+2]
	xs := s.v[2*dotRows+3:]
	VPBROADCASTD(shared("upper", U32(0xffff0000)), mask)
	for i := range 2 * dotRows {
		s.zero(s.v[i])
	}
	Label("turn")
	for i := range h {
		VMOVUPS(Mem{Base: x, Disp: 2 * i * s.bytes}, xs[0])
		VMOVUPS(Mem{Base: x, Disp: (2*i + 1) * s.bytes}, xs[1])
		for row := range dotRows {
			if i == 0 {
				PREFETCHT0(at.at(row, 2048))
			}
			m := at.at(row, i*s.bytes)
			if s.wide() {
				VPSLLD(Imm(16), m, even)
				VPANDD(m, mask, odd)
			} else {
				VMOVDQU(m, odd.AsY())
				VPSLLD(Imm(16), odd, even)
				VPAND(odd, mask, odd)
			}
			VFMADD231PS(even, xs[0], acc(row, 0))
			VFMADD231PS(odd, xs[1], acc(row, 1))
		}
	}
	ADDQ(U32(64), w)
	ADDQ(U32(128), x)
	DECQ(turns)
	JNZ(LabelRef("turn"))
	y := load("y")
	for row := range dotRows {
		VADDPS(acc(row, 1), acc(row, 0), acc(row, 0))
		sum, tmp := acc(row, 0), acc(row, 1)
		if s.wide() {
			VEXTRACTF64X4(Imm(1), sum, tmp.AsY())
			VADDPS(tmp.AsY(), sum.AsY(), sum.AsY())
		}
		VEXTRACTF128(Imm(1), sum.AsY(), tmp.AsX())
		VADDPS(tmp.AsX(), sum.AsX(), sum.AsX())
		VPERMILPS(Imm(0b01_00_11_10), sum.AsX(), tmp.AsX())
		VADDPS(tmp.AsX(), sum.AsX(), sum.AsX())
		VPERMILPS(Imm(0b10_11_00_01), sum.AsX(), tmp.AsX())
		VADDPS(tmp.AsX(), sum.AsX(), sum.AsX())
		VMOVSS(sum.AsX(), Mem{Base: y, Disp: 4 * row})
	}
	VZEROUPPER()
	RET()
}
