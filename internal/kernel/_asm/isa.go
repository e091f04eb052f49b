package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is one width of registers: a line of 64 bytes is 64/bytes of them.
type isa struct {
	name  string
	bytes int
	v     []reg.VecPhysical
}

var (
	avx512 = isa{"AVX512", 64, z[:]}
	avx2   = isa{"AVX2", 32, []reg.VecPhysical{
		reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15}}
)

func (s isa) wide() bool { return s.bytes == 64 }

// halves is the registers of a line.
func (s isa) halves() int { return 64 / s.bytes }

// lanes is the float32s of a register.
func (s isa) lanes() int { return s.bytes / 4 }

func (s isa) zero(r reg.VecPhysical) {
	if s.wide() {
		VPXORD(r, r, r)
	} else {
		VPXOR(r, r, r)
	}
}

func (s isa) and(a Op, b, dst reg.VecPhysical) {
	if s.wide() {
		VPANDD(a, b, dst)
	} else {
		VPAND(a, b, dst)
	}
}

// reduce folds the lanes of a register into its lowest by an instruction of two operands.
func (s isa) reduce(r, tmp reg.VecPhysical, op func(a, b, dst Op)) {
	x, y := r.AsX(), tmp.AsX()
	if s.wide() {
		VEXTRACTF64X4(Imm(1), r, tmp.AsY())
		op(tmp.AsY(), r.AsY(), r.AsY())
	}
	VEXTRACTF128(Imm(1), r.AsY(), y)
	op(y, x, x)
	VPERMILPS(Imm(0b01_00_11_10), x, y)
	op(y, x, x)
	VPERMILPS(Imm(0b10_11_00_01), x, y)
	op(y, x, x)
}

// constant is a float32 that a register is filled with.
func (s isa) constant(name string, x float32, r reg.VecPhysical) {
	VBROADCASTSS(shared(name, F32(x)), r)
}

var constants = map[string]Mem{}

// shared is a constant of the file, made at its first use.
func shared(name string, x Constant) Mem {
	m, ok := constants[name]
	if !ok {
		m = ConstData(name, x)
		constants[name] = m
	}
	return m
}

// param is a parameter as an operand in memory, for when registers are few.
func param(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}
