package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// probe writes the yardsticks: reading memory, and arithmetic on registers alone.
func probe() {
	for _, s := range []isa{avx512, avx2} {
		read(s)
		arithmetic("fmaPeak", s, VFMADD231PSFunc)
	}
	arithmetic("dotPeak", avx512, func(a, b, acc reg.VecPhysical) { VPDPWSSD(a, b, acc) })
}

// VFMADD231PSFunc is a multiply-add of registers.
func VFMADD231PSFunc(a, b, acc reg.VecPhysical) { VFMADD231PS(a, b, acc) }

const streams = 4

func read(s isa) {
	TEXT("read"+s.name, NOSPLIT, "func(b *byte, stream int) uint64")
	Doc(fmt.Sprintf("read%s folds %d streams of the given bytes each, a multiple of 256.", s.name, streams))
	Pragma("noescape")
	b, stride := load("b"), load("stream")
	n := GP64()
	MOVQ(stride, n)
	SHRQ(Imm(8), n)
	r := strided(b, stride, streams)
	for i := range 8 {
		s.zero(s.v[i])
	}
	Label("turn")
	for i := range streams {
		PREFETCHT0(r.at(i, 2048))
		PREFETCHT0(r.at(i, 2048+64))
		PREFETCHT0(r.at(i, 2048+128))
		PREFETCHT0(r.at(i, 2048+192))
		for j := range 256 / s.bytes {
			VPADDQ(r.at(i, j*s.bytes), s.v[j%8], s.v[j%8])
		}
	}
	ADDQ(U32(256), b)
	DECQ(n)
	JNZ(LabelRef("turn"))
	for i := 1; i < 8; i++ {
		VPADDQ(s.v[i], s.v[0], s.v[0])
	}
	sum := GP64()
	VMOVQ(reg.X0, sum)
	Store(sum, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

const chains = 12 // of instructions that wait for themselves alone

func arithmetic(name string, s isa, op func(a, b, acc reg.VecPhysical)) {
	TEXT(name+s.name, NOSPLIT, "func(turns int)")
	Doc(fmt.Sprintf("%s%s is %d instructions a turn.", name, s.name, chains))
	Pragma("noescape")
	turns := load("turns")
	for i := range chains + 2 {
		s.zero(s.v[i])
	}
	Label("turn")
	for i := range chains {
		op(s.v[chains], s.v[chains+1], s.v[i])
	}
	DECQ(turns)
	JNZ(LabelRef("turn"))
	VZEROUPPER()
	RET()
}
