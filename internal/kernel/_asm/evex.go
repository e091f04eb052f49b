package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
)

// Neither avo nor Go's assembler knows the instructions of AVX512_BF16. They are written
// as instructions of the same operands that are not used otherwise, and encode puts their
// bytes in the place of those: EVEX, 512 bits, map 0F38, W0.
var unknown = map[string]struct {
	name           string
	prefix, opcode byte
}{
	"VPDPWSSD":  {"VDPBF16PS", 0b10, 0x52},      // acc += a.odd·b.odd, then a.even·b.even
	"VPDPWSSDS": {"VCVTNE2PS2BF16", 0b11, 0x72}, // low half of the first operand, high half of the second
}

var standIn = regexp.MustCompile(`(VPDPWSSDS?)\s+Z(\d+), Z(\d+), Z(\d+)`)

func encode(text []byte) []byte {
	text = bytes.ReplaceAll(text, []byte("AVX512VNNI"), []byte("AVX512_BF16"))
	return standIn.ReplaceAllFunc(text, func(line []byte) []byte {
		m := standIn.FindSubmatch(line)
		op := unknown[string(m[1])]
		rm, v, reg := register(m[2]), register(m[3]), register(m[4])
		not := func(x byte, bit int) byte { return ^x >> bit & 1 }
		b := [6]byte{
			0x62,
			not(reg, 3)<<7 | not(rm, 4)<<6 | not(rm, 3)<<5 | not(reg, 4)<<4 | 0b010,
			(^v&0xf)<<3 | 1<<2 | op.prefix,
			0b10<<5 | not(v, 4)<<3,
			op.opcode,
			0b11<<6 | reg&7<<3 | rm&7,
		}
		return fmt.Appendf(nil, "LONG $0x%02x%02x%02x%02x; WORD $0x%02x%02x // %s Z%d, Z%d, Z%d", b[3], b[2], b[1], b[0], b[5], b[4], op.name, rm, v, reg)
	})
}

func register(digits []byte) byte {
	n, err := strconv.ParseUint(string(digits), 10, 5)
	if err != nil {
		panic(err)
	}
	return byte(n)
}
