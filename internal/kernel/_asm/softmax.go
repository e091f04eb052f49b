package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const run = 128 // kernel.Run

// softmax writes the pass from scores to weights.
func softmax() {
	weights(avx512, false)
	weights(avx512, true)
	weights(avx2, false)
	combine(avx512)
	combine(avx2)
}

// Registers that hold the same through a softmax.
type softmaxRegisters struct {
	isa
	scale, infinity, least, top  reg.VecPhysical
	lo, hi, column, step         reg.VecPhysical
	tmp, tmp2, tmp3, peak, total reg.VecPhysical
}

func weights(s isa, pairs bool) {
	name, to := "softmax"+s.name, ""
	if pairs {
		name, to = "softmaxPairs"+s.name, "p *uint16, "
	}
	TEXT(name, NOSPLIT, "func("+to+"s, max, sum, alpha *float32, see *int32, rows int, scale float32)")
	Doc(name + " is one softmax pass over rows of Run scores.")
	Pragma("noescape")
	v := s.v
	r := softmaxRegisters{s, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12]}
	VBROADCASTSS(param("scale"), r.scale)
	VPBROADCASTD(shared("minusInfinity", U32(0xff800000)), r.infinity)
	VPBROADCASTD(shared("lanes", U32(uint32(s.lanes()))), r.step)
	if !s.wide() {
		VPBROADCASTD(shared("lanes8", U32(8)), r.step)
	}
	s.constant("least", -126, r.least)
	scores, max, sum, alpha, see, rows := load("s"), load("max"), load("sum"), load("alpha"), load("see"), load("rows")
	var p reg.GPVirtual
	if pairs {
		p = load("p")
	}
	Label("row")
	VPBROADCASTD(Mem{Base: see}, r.lo)
	VPBROADCASTD(Mem{Base: see, Disp: 4}, r.hi)
	VMOVDQU(iota(), r.column.AsY())
	if s.wide() {
		VMOVDQU32(iota(), r.column)
	}
	VMOVAPS(r.infinity, r.peak)
	for i := range run / s.lanes() {
		r.logit(Mem{Base: scores, Disp: i * s.bytes})
	}
	s.reduce(r.peak, r.tmp, func(a, b, dst Op) { VMAXPS(a, b, dst) })
	VMAXSS(Mem{Base: max}, r.peak.AsX(), r.peak.AsX())
	// A row that sees nothing keeps -Inf, but differences from it are those from 0.
	VMOVSS(Mem{Base: max}, r.tmp3.AsX())
	VMOVSS(r.peak.AsX(), Mem{Base: max})
	VUCOMISS(r.infinity.AsX(), r.peak.AsX())
	JP(LabelRef("seen"))
	JNE(LabelRef("seen"))
	s.zero(r.peak)
	Label("seen")
	VBROADCASTSS(r.peak.AsX(), r.top)
	VBROADCASTSS(r.tmp3.AsX(), r.tmp3)
	r.power(r.tmp3)
	VMOVSS(r.tmp3.AsX(), Mem{Base: alpha})
	VMULSS(Mem{Base: sum}, r.tmp3.AsX(), r.peak.AsX())
	s.zero(r.total)
	for i := range run / s.lanes() {
		at := Mem{Base: scores, Disp: i * s.bytes}
		x := r.tmp3
		if pairs && i%2 == 1 {
			x = v[15]
		}
		VMOVUPS(at, x)
		r.power(x)
		VADDPS(x, r.total, r.total)
		switch {
		case !pairs:
			VMOVUPS(x, at)
		case i%2 == 1:
			VPDPWSSDS(r.tmp3, x, v[16])
			VMOVUPS(v[16], Mem{Base: p, Disp: i / 2 * 64})
		}
	}
	s.reduce(r.total, r.tmp, func(a, b, dst Op) { VADDPS(a, b, dst) })
	VADDSS(r.peak.AsX(), r.total.AsX(), r.total.AsX())
	VMOVSS(r.total.AsX(), Mem{Base: sum})
	ADDQ(U32(4*run), scores)
	if pairs {
		ADDQ(U32(2*run), p)
	}
	ADDQ(Imm(4), max)
	ADDQ(Imm(4), sum)
	ADDQ(Imm(4), alpha)
	ADDQ(Imm(8), see)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// logit scales the scores of one register and hides those outside [lo, hi).
func (r softmaxRegisters) logit(at Mem) {
	VMULPS(at, r.scale, r.tmp)
	if r.wide() {
		VPCMPD(Imm(2), r.column, r.lo, reg.K1)         // lo ≤ column
		VPCMPD(Imm(6), r.column, r.hi, reg.K1, reg.K1) // hi > column
		VBLENDMPS(r.tmp, r.infinity, reg.K1, r.tmp)
	} else {
		VPCMPGTD(r.column, r.lo, r.tmp2) // lo > column
		VPCMPGTD(r.column, r.hi, r.tmp3) // hi > column
		VPANDN(r.tmp3, r.tmp2, r.tmp2)
		VBLENDVPS(r.tmp2, r.tmp, r.infinity, r.tmp)
	}
	VPADDD(r.step, r.column, r.column)
	VMOVUPS(r.tmp, at)
	VMAXPS(r.tmp, r.peak, r.peak)
}

// power makes x 2^(x-top), or 0 where that would be denormal; what is not a number stays so.
func (r softmaxRegisters) power(x reg.VecPhysical) {
	VSUBPS(r.top, x, x)
	if r.wide() {
		VCMPPS(Imm(5), r.least, x, reg.K1) // not x < least
		VRNDSCALEPS(Imm(0), x, r.tmp)
	} else {
		VCMPPS(Imm(5), r.least, x, r.lo)
		VROUNDPS(Imm(8), x, r.tmp)
	}
	VSUBPS(r.tmp, x, x)
	y := r.tmp2
	VBROADCASTSS(shared("exp2c6", F32(0.00015461448)), y)
	for _, c := range []struct {
		name string
		x    float32
	}{{"exp2c5", 0.0013390867}, {"exp2c4", 0.009618057}, {"exp2c3", 0.05550357}, {"exp2c2", 0.2402265}, {"exp2c1", 0.6931472}, {"exp2c0", 1}} {
		m := shared(c.name, F32(c.x))
		if r.wide() {
			VFMADD213PS_BCST(m, x, y)
		} else {
			VBROADCASTSS(m, r.hi)
			VFMADD213PS(r.hi, x, y)
		}
	}
	if r.wide() {
		VSCALEFPS_Z(r.tmp, y, reg.K1, x)
		return
	}
	VCVTPS2DQ(r.tmp, r.tmp)
	VPSLLD(Imm(23), r.tmp, r.tmp)
	VPADDD(r.tmp, y, y)
	VANDPS(r.lo, y, x)
}

var iotaData Mem

// iota is 0, 1, 2, … in memory.
func iota() Mem {
	if iotaData.Symbol.Name == "" {
		iotaData = GLOBL("iota", RODATA|NOPTR)
		for i := range 16 {
			DATA(4*i, U32(uint32(i)))
		}
	}
	return iotaData
}

func combine(s isa) {
	TEXT("combine"+s.name, NOSPLIT, "func(dst, src, w *float32, rows, width int)")
	Doc("combine" + s.name + " adds weighted rows; width is a multiple of 16.")
	Pragma("noescape")
	dst, src, w, rows, n := load("dst"), load("src"), load("w"), load("rows"), GP64()
	Label("row")
	VBROADCASTSS(Mem{Base: w}, s.v[0])
	MOVQ(param("width"), n)
	SHRQ(Imm(4), n)
	Label("line")
	for i := range s.halves() {
		VMOVUPS(Mem{Base: dst, Disp: i * s.bytes}, s.v[1])
		VFMADD231PS(Mem{Base: src, Disp: i * s.bytes}, s.v[0], s.v[1])
		VMOVUPS(s.v[1], Mem{Base: dst, Disp: i * s.bytes})
	}
	ADDQ(Imm(64), dst)
	ADDQ(Imm(64), src)
	DECQ(n)
	JNZ(LabelRef("line"))
	ADDQ(Imm(4), w)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
