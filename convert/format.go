package convert

import (
	"encoding/binary"
	"math"
	"sync"
)

// A format is how a tensor's elements are stored.
type format struct {
	name  string
	bytes int
	add   func(sum []float32, data []byte, weight float32) // sum += weight · data
	put   func(data []byte, sum []float32)                 // rounded once, to nearest, ties to even
}

var formats = []format{
	{"BF16", 2, addBF16, putBF16},
	{"F16", 2, addF16, putF16},
	{"F32", 4, addF32, putF32},
}

// formatOf is the format of safetensors' name, nil for what heads cannot be pooled in.
func formatOf(dtype string) *format {
	for i := range formats {
		if formats[i].name == dtype {
			return &formats[i]
		}
	}
	return nil
}

func addBF16(sum []float32, data []byte, weight float32) {
	for i := range sum {
		sum[i] += weight * math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[2*i:]))<<16)
	}
}

func addF16(sum []float32, data []byte, weight float32) {
	table := halves()
	for i := range sum {
		sum[i] += weight * table[binary.LittleEndian.Uint16(data[2*i:])]
	}
}

func addF32(sum []float32, data []byte, weight float32) {
	for i := range sum {
		sum[i] += weight * math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
}

func putBF16(data []byte, sum []float32) {
	for i, x := range sum {
		bits := math.Float32bits(x)
		binary.LittleEndian.PutUint16(data[2*i:], uint16((bits+0x7fff+bits>>16&1)>>16))
	}
}

func putF16(data []byte, sum []float32) {
	for i, x := range sum {
		binary.LittleEndian.PutUint16(data[2*i:], half(x))
	}
}

func putF32(data []byte, sum []float32) {
	for i, x := range sum {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(x))
	}
}

// halves are the values of all 65,536 float16s.
var halves = sync.OnceValue(func() *[1 << 16]float32 {
	var table [1 << 16]float32
	for i := range table {
		table[i] = fromHalf(uint16(i))
	}
	return &table
})

// fromHalf is the value of a float16: 1 bit of sign, 5 of exponent, 10 of fraction.
func fromHalf(h uint16) float32 {
	exponent, fraction := int(h>>10&31), float64(h&1023)
	var x float64
	switch exponent {
	case 0:
		x = math.Ldexp(fraction, -24)
	case 31:
		x = math.Inf(1)
		if fraction != 0 {
			x = math.NaN()
		}
	default:
		x = math.Ldexp(1024+fraction, exponent-25)
	}
	return float32(math.Copysign(x, 1-2*float64(h>>15)))
}

// half rounds to the nearest float16, ties to even; beyond 65,504 and half a step is
// infinite.
func half(x float32) uint16 {
	const smallest = 0x1p-14 // of the normal numbers, all of whose steps are 2^-24 or more
	sign := uint16(math.Float32bits(x) >> 16 & 0x8000)
	abs := math.Float32frombits(math.Float32bits(x) &^ (1 << 31))
	switch {
	case abs != abs:
		return sign | 0x7e00
	case abs >= 65520:
		return sign | 0x7c00
	case abs < smallest:
		return sign | uint16(math.RoundToEven(float64(abs)*0x1p24))
	}
	bits := math.Float32bits(abs)
	bits += 0xfff + bits>>13&1 // a carry goes into the exponent, as it should
	return sign | uint16(bits>>13-(127-15)<<10)
}
