package sglang

import (
	"math"
	"math/bits"
	"strconv"
)

// floorDiv is Python's a // b of two floats: the exact quotient's floor, corrected where
// the division rounded up to it (CPython floatobject.c, float_divmod).
func floorDiv(a, b float64) float64 {
	mod := math.Mod(a, b)
	div := (a - mod) / b
	if mod != 0 && (b < 0) != (mod < 0) {
		div--
	}
	floor := math.Floor(div)
	if div-floor > 0.5 {
		floor++
	}
	return floor
}

// round3 is Python's round(x, 3): correctly rounded in decimal, ties to even.
func round3(x float64) float64 {
	var buf [32]byte
	y, err := strconv.ParseFloat(string(strconv.AppendFloat(buf[:0], x, 'f', 3, 64)), 64)
	if err != nil {
		return x
	}
	return y
}

// truncate is Python's int(x), held inside int64. NaN is 0.
func truncate(x float64) int64 {
	switch {
	case math.IsNaN(x):
		return 0
	case x >= math.MaxInt64:
		return math.MaxInt64
	case x <= math.MinInt64:
		return math.MinInt64
	}
	return int64(x)
}

// mul returns the product of non-negative factors, math.MaxInt64 when it does not fit:
// a size that nothing holds, which the caller then refuses as not fitting.
func mul(xs ...int64) int64 {
	p := int64(1)
	for _, x := range xs {
		if x <= 0 {
			return 0
		}
		hi, lo := bits.Mul64(uint64(p), uint64(x))
		if hi != 0 || lo > math.MaxInt64 {
			p = math.MaxInt64
			continue // a later zero still counts
		}
		p = int64(lo)
	}
	return p
}

// add returns the sum of non-negative terms, math.MaxInt64 when it does not fit.
func add(xs ...int64) int64 {
	s := int64(0)
	for _, x := range xs {
		if s += x; s < 0 {
			return math.MaxInt64
		}
	}
	return s
}

// align rounds n down to a multiple of unit.
func align(n, unit int64) int64 { return n / unit * unit }

// ceilDiv rounds a / b up.
func ceilDiv(a, b int64) int64 {
	if a <= 0 {
		return 0
	}
	return (a-1)/b + 1
}
