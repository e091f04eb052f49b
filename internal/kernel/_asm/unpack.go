package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// unpack writes the conversions of whole lines, and what turns keys into values.
func unpack() {
	unpackBytes()
	unpackHalves()
	transposePairs()
	vendor()
}

func unpackBytes() {
	TEXT("unpackBytesAVX512", NOSPLIT, "func(dst, src, ahead, table *byte, lines int)")
	Doc("unpackBytesAVX512 makes two lines of bfloat16 of each line of an 8-bit format. The table is the lower",
		"and then the upper bytes of the 128 codes without a sign.")
	Pragma("noescape")
	dst, src, ahead, table, lines := load("dst"), load("src"), load("ahead"), load("table"), load("lines")
	for i := range 4 {
		VMOVDQU64(Mem{Base: table, Disp: 64 * i}, z[i])
	}
	VPBROADCASTD(shared("signs", U32(0x80808080)), z[4])
	Label("line")
	PREFETCHT0(Mem{Base: ahead})
	VMOVDQU64(Mem{Base: src}, z[5])
	VMOVDQA64(z[5], z[6])
	VMOVDQA64(z[5], z[7])
	VPERMI2B(z[1], z[0], z[6])
	VPERMI2B(z[3], z[2], z[7])
	VPTERNLOGD(U8(0xf8), z[4], z[5], z[7]) // upper | code & sign
	VPUNPCKLBW(z[7], z[6], z[8])
	VPUNPCKHBW(z[7], z[6], z[9])
	VMOVDQU64(z[8], Mem{Base: dst})
	VMOVDQU64(z[9], Mem{Base: dst, Disp: 64})
	ADDQ(Imm(64), src)
	ADDQ(Imm(64), ahead)
	ADDQ(U32(128), dst)
	DECQ(lines)
	JNZ(LabelRef("line"))
	VZEROUPPER()
	RET()
}

func unpackHalves() {
	TEXT("unpackHalvesAVX512", NOSPLIT, "func(dst, src, ahead *byte, lines int)")
	Doc("unpackHalvesAVX512 makes two lines of float32 of each line of float16.")
	Pragma("noescape")
	dst, src, ahead, lines := load("dst"), load("src"), load("ahead"), load("lines")
	Label("line")
	PREFETCHT0(Mem{Base: ahead})
	VMOVDQU64(Mem{Base: src}, z[0])
	VPSRLD(Imm(16), z[0], z[1])
	VPMOVDW(z[0], reg.Y0)
	VPMOVDW(z[1], reg.Y1)
	VCVTPH2PS(reg.Y0, z[0])
	VCVTPH2PS(reg.Y1, z[1])
	VMOVUPS(z[0], Mem{Base: dst})
	VMOVUPS(z[1], Mem{Base: dst, Disp: 64})
	ADDQ(Imm(64), src)
	ADDQ(Imm(64), ahead)
	ADDQ(U32(128), dst)
	DECQ(lines)
	JNZ(LabelRef("line"))
	VZEROUPPER()
	RET()
}

// transposePairs turns 8 lines at a time: double word t of line p is dims 2p and 2p+1 of
// token t, and becomes, with its neighbours, double word d of line j: tokens 2j and 2j+1
// of dim d. That is a swap of words in each quad word, and quad words of 8 by 8.
func transposePairs() {
	TEXT("transposePairsAVX512", NOSPLIT, "func(dst, src *byte, chunks int)")
	Doc("transposePairsAVX512 turns chunks of 16 tokens by 16 dims of bfloat16.")
	Pragma("noescape")
	dst, src, chunks := load("dst"), load("src"), load("chunks")
	swap := z[31]
	VBROADCASTI32X4(swapWords(), swap)
	Label("chunk")
	for p := range 8 {
		VMOVDQU64(Mem{Base: src, Disp: 64 * p}, z[p])
		VPSHUFB(swap, z[p], z[p])
	}
	for k := range 4 {
		VPUNPCKLQDQ(z[2*k+1], z[2*k], z[8+k])  // even quad words of two lines
		VPUNPCKHQDQ(z[2*k+1], z[2*k], z[12+k]) // odd
	}
	for odd := range 2 {
		in := z[8+4*odd:]
		VSHUFI64X2(U8(0x88), in[1], in[0], z[16])
		VSHUFI64X2(U8(0xdd), in[1], in[0], z[17])
		VSHUFI64X2(U8(0x88), in[3], in[2], z[18])
		VSHUFI64X2(U8(0xdd), in[3], in[2], z[19])
		for lane, order := range []struct {
			imm  uint8
			from int
		}{{0x88, 16}, {0x88, 17}, {0xdd, 16}, {0xdd, 17}} {
			VSHUFI64X2(U8(order.imm), z[order.from+2], z[order.from], z[20])
			VMOVDQU64(z[20], Mem{Base: dst, Disp: 64 * (2*lane + odd)})
		}
	}
	ADDQ(U32(512), src)
	ADDQ(U32(512), dst)
	DECQ(chunks)
	JNZ(LabelRef("chunk"))
	VZEROUPPER()
	RET()
}

func swapWords() Mem {
	m := GLOBL("swapWords", RODATA|NOPTR)
	for i, b := range []uint8{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15} {
		DATA(i, U8(b))
	}
	return m
}

func vendor() {
	TEXT("vendor", NOSPLIT, "func() uint32")
	Doc("vendor is the first four letters of the processor's maker.")
	XORL(reg.EAX, reg.EAX)
	CPUID()
	Store(reg.EBX, ReturnIndex(0))
	RET()
}
