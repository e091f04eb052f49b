package dtype

import (
	"encoding/binary"
	"math"
)

// Floats reports whether [Type.Encode] and [Type.Decode] know the format: the floating
// formats in which caches and weights are kept.
func (t Type) Floats() bool {
	switch t {
	case Float32, Float16, BFloat16, Float8E4M3, Float8E5M2:
		return true
	}
	return false
}

// Decode reads len(dst) little-endian elements of src. Every element of these formats is
// a float32, so nothing is lost. It panics when src is short or the format is not one of
// [Type.Floats].
func (t Type) Decode(dst []float32, src []byte) {
	if int64(len(src)) < int64(len(dst))*t.Bytes() {
		panic("dtype: Decode: source too short")
	}
	switch t {
	case Float32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case BFloat16:
		decodeBFloat16(dst, src)
	case Float16:
		decodeFloat16(dst, src)
	case Float8E4M3:
		for i := range dst {
			dst[i] = e4m3.decode(uint32(src[i]))
		}
	case Float8E5M2:
		for i := range dst {
			dst[i] = e5m2.decode(uint32(src[i]))
		}
	default:
		panic("dtype: Decode: no conversion of " + t.String())
	}
}

// Encode writes src as little-endian elements, each rounded to the nearest, ties to even.
// The 8-bit formats saturate at their largest finite value, as engines store their caches;
// float16 overflows to infinity. A NaN stays one. It panics when dst is short or the format
// is not one of [Type.Floats].
func (t Type) Encode(dst []byte, src []float32) {
	if int64(len(dst)) < int64(len(src))*t.Bytes() {
		panic("dtype: Encode: destination too short")
	}
	switch t {
	case Float32:
		for i, x := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
		}
	case BFloat16:
		encodeBFloat16(dst, src)
	case Float16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], toHalf(x))
		}
	case Float8E4M3:
		for i, x := range src {
			dst[i] = byte(e4m3.encode(x))
		}
	case Float8E5M2:
		for i, x := range src {
			dst[i] = byte(e5m2.encode(x))
		}
	default:
		panic("dtype: Encode: no conversion to " + t.String())
	}
}

// decodeBFloat16 takes four at once, which is three times as fast.
func decodeBFloat16(dst []float32, src []byte) {
	for ; len(dst) >= 4 && len(src) >= 8; dst, src = dst[4:], src[8:] {
		four := binary.LittleEndian.Uint64(src)
		dst[0] = math.Float32frombits(uint32(four << 16))
		dst[1] = math.Float32frombits(uint32(four) &^ 0xffff)
		dst[2] = math.Float32frombits(uint32(four >> 16 &^ 0xffff))
		dst[3] = math.Float32frombits(uint32(four >> 32 &^ 0xffff))
	}
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}

func decodeFloat16(dst []float32, src []byte) {
	for ; len(dst) >= 4 && len(src) >= 8; dst, src = dst[4:], src[8:] {
		four := binary.LittleEndian.Uint64(src)
		dst[0], dst[1] = half(uint16(four)), half(uint16(four>>16))
		dst[2], dst[3] = half(uint16(four>>32)), half(uint16(four>>48))
	}
	for i := range dst {
		dst[i] = half(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

func encodeBFloat16(dst []byte, src []float32) {
	for ; len(src) >= 4 && len(dst) >= 8; src, dst = src[4:], dst[8:] {
		four := uint64(RoundBFloat16(src[0])) | uint64(RoundBFloat16(src[1]))<<16 |
			uint64(RoundBFloat16(src[2]))<<32 | uint64(RoundBFloat16(src[3]))<<48
		binary.LittleEndian.PutUint64(dst, four)
	}
	for i, x := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], RoundBFloat16(x))
	}
}

// RoundBFloat16 returns the bits of the bfloat16 nearest to x, ties to even.
func RoundBFloat16(x float32) uint16 {
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 1<<6 // the payload's low half may be all there is of it
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// half is float16.decode without branches for finite numbers, six times as fast: in a
// float32's place the bits are 2^-112 of the number, a denormal's too.
func half(h uint16) float32 {
	bits := uint32(h&0x7fff) << 13
	if h&0x7c00 == 0x7c00 {
		bits |= 0x7f800000 // infinity or NaN
	} else {
		bits = math.Float32bits(math.Float32frombits(bits) * 0x1p112)
	}
	return math.Float32frombits(bits | uint32(h&0x8000)<<16)
}

// toHalf is float16.encode, faster for numbers that stay normal.
func toHalf(x float32) uint16 {
	bits := math.Float32bits(x)
	if exponent := bits >> 23 & 0xff; exponent-(127-14) > 28 { // not from 2^-14 to below 2^15
		return uint16(float16.encode(x))
	}
	magnitude := bits&^(1<<31) + 0xfff + bits>>13&1 // a carry goes into the exponent, as it should
	return uint16(bits>>16&0x8000 | (magnitude>>13 - (127-15)<<10))
}

// small is a format of at most 16 bits: a sign, an exponent and a fraction.
type small struct {
	fraction int    // bits
	minExp   int    // exponent of the smallest normal number
	largest  uint32 // code of the largest finite number, without its sign
	inf      uint32 // code of infinity, 0 where there is none
	nan      uint32 // code of a NaN
	saturate bool   // what is beyond the largest becomes the largest
	sign     int    // place of the sign bit
}

var (
	float16 = small{fraction: 10, minExp: -14, largest: 0x7bff, inf: 0x7c00, nan: 0x7e00, sign: 15}
	e4m3    = small{fraction: 3, minExp: -6, largest: 0x7e, nan: 0x7f, saturate: true, sign: 7}
	e5m2    = small{fraction: 2, minExp: -14, largest: 0x7b, inf: 0x7c, nan: 0x7e, saturate: true, sign: 7}
)

func (s small) encode(x float32) uint32 {
	bits := math.Float32bits(x)
	sign := bits >> 31 << s.sign
	if x != x {
		return sign | s.nan
	}
	exp, fraction := int(bits>>23&0xff)-127, bits&(1<<23-1)|1<<23 // a denormal's 1 is wrong, and far below every format's smallest
	shift := 23 - s.fraction + max(0, s.minExp-exp)
	if shift > 24 {
		return sign // below half of the smallest
	}
	code := (fraction + 1<<(shift-1) - 1 + fraction>>shift&1) >> shift
	code += uint32(max(0, exp-s.minExp)) << s.fraction
	switch {
	case code <= s.largest:
	case s.saturate:
		code = s.largest
	default:
		code = s.inf
	}
	return sign | code
}

func (s small) decode(code uint32) float32 {
	abs := code &^ (1 << s.sign)
	sign := code >> s.sign << 31
	exp, fraction := int(abs>>s.fraction), abs&(1<<s.fraction-1)
	switch {
	case s.inf != 0 && abs == s.inf:
		return math.Float32frombits(sign | 0x7f800000)
	case abs > s.largest:
		return math.Float32frombits(sign | 0x7fc00000)
	case exp == 0:
		return math.Float32frombits(sign | math.Float32bits(float32(math.Ldexp(float64(fraction), s.minExp-s.fraction))))
	}
	return math.Float32frombits(sign | uint32(exp-1+s.minExp+127)<<23 | fraction<<(23-s.fraction))
}
