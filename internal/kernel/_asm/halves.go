package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// halves writes the conversions of float16 in order, 32 elements a turn.
func halves() {
	for _, s := range []isa{avx512, avx2} {
		TEXT("fromHalves"+s.name, NOSPLIT, "func(dst *float32, src *byte, turns int)")
		Doc("fromHalves" + s.name + " makes 32 float32s of as many float16s a turn.")
		Pragma("noescape")
		dst, src, turns := load("dst"), load("src"), load("turns")
		Label("turn")
		for i := range 32 / s.lanes() {
			VCVTPH2PS(Mem{Base: src, Disp: i * s.bytes / 2}, s.v[i])
			VMOVUPS(s.v[i], Mem{Base: dst, Disp: i * s.bytes})
		}
		ADDQ(Imm(64), src)
		ADDQ(U32(128), dst)
		DECQ(turns)
		JNZ(LabelRef("turn"))
		VZEROUPPER()
		RET()

		TEXT("toHalves"+s.name, NOSPLIT, "func(dst *byte, src *float32, turns int)")
		Doc("toHalves" + s.name + " rounds 32 float32s to the nearest float16s a turn, ties to even.")
		Pragma("noescape")
		dst, src, turns = load("dst"), load("src"), load("turns")
		Label("turn")
		for i := range 32 / s.lanes() {
			VMOVUPS(Mem{Base: src, Disp: i * s.bytes}, s.v[i])
			VCVTPS2PH(Imm(0), s.v[i], Mem{Base: dst, Disp: i * s.bytes / 2})
		}
		ADDQ(U32(128), src)
		ADDQ(Imm(64), dst)
		DECQ(turns)
		JNZ(LabelRef("turn"))
		VZEROUPPER()
		RET()
	}

	TEXT("convertsHalves", NOSPLIT, "func() bool")
	Doc("convertsHalves reports whether the processor converts float16 (F16C), as its own features say.")
	MOVL(U32(1), reg.EAX)
	XORL(reg.ECX, reg.ECX)
	CPUID()
	SHRL(Imm(29), reg.ECX)
	ANDL(Imm(1), reg.ECX)
	Store(reg.CL, ReturnIndex(0))
	RET()
}
