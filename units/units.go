// Package units holds the quantities of a plan, each with its unit in its type: bytes,
// floating-point operations, their rates and their quotient. It prints them as the field
// does, binary for memory (KiB, MiB, GiB) and decimal for rates (GB/s, TFLOP/s), reads the
// sizes and lengths that people type, and multiplies without overflowing in silence.
//
// The package imports nothing of headcount; every other package may import it.
package units

import (
	"math"
	"strconv"
)

// Bytes is a size in bytes. String prints KiB, MiB or GiB: Bytes(131072) is "128 KiB".
type Bytes int64

// The binary multiples in which memory is printed.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
)

// FLOP is a count of floating-point operations. A multiply-add counts two.
type FLOP int64

// Intensity is an arithmetic intensity in FLOP per byte read.
type Intensity float64

// FLOPPerSec is a rate of computing in FLOP/s.
type FLOPPerSec float64

// BytesPerSec is a bandwidth in bytes per second.
type BytesPerSec float64

// Per returns the intensity of f operations on b bytes. Without bytes it is not finite.
func (f FLOP) Per(b Bytes) Intensity { return Intensity(float64(f) / float64(b)) }

// Per returns the intensity at which a peak and a bandwidth take the same time: the ridge
// point of a device that has both. Without a bandwidth it is not finite.
func (r FLOPPerSec) Per(bw BytesPerSec) Intensity { return Intensity(float64(r) / float64(bw)) }

// String prints the largest of B, KiB, MiB and GiB that leaves at least 1: one decimal
// from 10 up, two below. A fraction that is exact loses its trailing zeros, so "2.5 GiB"
// is exactly that and "51.0 GiB" is rounded.
func (b Bytes) String() string {
	var buf [32]byte
	return string(b.append(buf[:0]))
}

func (b Bytes) append(dst []byte) []byte {
	size := uint64(b)
	if b < 0 {
		dst = append(dst, '-')
		size = -size // also right for the smallest int64
	}
	units := [...]string{" B", " KiB", " MiB", " GiB"}
	shift, unit := uint(0), 0
	for unit < len(units)-1 && size>>shift >= 1024 {
		shift, unit = shift+10, unit+1
	}
	whole, fraction, digits, exact := round(size, shift)
	if whole == 1024 && unit < len(units)-1 { // 1023.97 KiB is 1.00 MiB
		unit++
		whole, fraction, digits, exact = 1, 0, 2, false
	}
	dst = strconv.AppendUint(dst, whole, 10)
	dst = appendFraction(dst, fraction, digits, exact)
	return append(dst, units[unit]...)
}

// round splits size / 2^shift into a whole part and a fraction of so many decimal digits,
// half away from zero, and says whether nothing was lost.
func round(size uint64, shift uint) (whole, fraction uint64, digits int, exact bool) {
	whole = size >> shift
	digits, scale := 1, uint64(10)
	if whole < 10 {
		digits, scale = 2, 100
	}
	rest := (size - whole<<shift) * scale // below 2^30 · 100
	fraction = rest >> shift
	exact = fraction<<shift == rest
	if shift > 0 && rest-fraction<<shift >= 1<<(shift-1) {
		fraction++
	}
	if fraction == scale {
		whole, fraction = whole+1, 0
		if whole == 10 {
			digits = 1 // 9.996 is 10.0
		}
	}
	return whole, fraction, digits, exact
}

// appendFraction writes "." and the digits; an exact fraction without its trailing zeros.
func appendFraction(dst []byte, fraction uint64, digits int, exact bool) []byte {
	for exact && digits > 0 && fraction%10 == 0 {
		fraction, digits = fraction/10, digits-1
	}
	if digits == 0 {
		return dst
	}
	dst = append(dst, '.')
	if digits == 2 && fraction < 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendUint(dst, fraction, 10)
}

// String prints the count with a decimal prefix and up to four digits: "21.47 GFLOP".
func (f FLOP) String() string { return decimal(float64(f), "FLOP") }

// String prints the rate with a decimal prefix and up to four digits: "989.4 TFLOP/s".
func (r FLOPPerSec) String() string { return decimal(float64(r), "FLOP/s") }

// String prints the bandwidth with a decimal prefix and up to four digits: "3.35 TB/s".
func (r BytesPerSec) String() string { return decimal(float64(r), "B/s") }

// String prints up to three digits: "8 FLOP/byte", "30.2 FLOP/byte", "295 FLOP/byte".
func (i Intensity) String() string { return Digits(float64(i), 3) + " FLOP/byte" }

// decimal prints v with the decimal prefix that leaves a number from 1 to below 1000.
func decimal(v float64, unit string) string {
	prefixes := [...]string{" ", " k", " M", " G", " T", " P", " E"}
	p := 0
	// 999.95 would print as 1000 of the smaller prefix.
	for p < len(prefixes)-1 && math.Abs(v) >= 999.95 && !math.IsInf(v, 0) {
		v, p = v/1000, p+1
	}
	return Digits(v, 4) + prefixes[p] + unit
}

// Digits prints v with at most n significant digits, without an exponent and without
// trailing zeros: Digits(295.3, 3) is "295". Digits left of the point are never dropped.
func Digits(v float64, n int) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	decimals := min(max(n-1-int(math.Floor(math.Log10(math.Abs(v)))), 0), 17)
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if decimals == 0 {
		return s
	}
	for s[len(s)-1] == '0' {
		s = s[:len(s)-1]
	}
	if s[len(s)-1] == '.' {
		s = s[:len(s)-1]
	}
	return s
}

// Mul returns the product of xs, or false if it does not fit an int64. A zero among xs
// makes the product 0, whatever the others are; the empty product is 1.
func Mul(xs ...int64) (int64, bool) {
	product, ok := int64(1), true
	for _, x := range xs {
		if x == 0 {
			return 0, true
		}
		if !ok {
			continue
		}
		next := product * x
		if next/x != product || product == math.MinInt64 && x == -1 {
			ok = false
			continue
		}
		product = next
	}
	if !ok {
		return 0, false
	}
	return product, true
}

// Add returns the sum of xs, or false if a partial sum does not fit an int64.
func Add(xs ...int64) (int64, bool) {
	var sum int64
	for _, x := range xs {
		next := sum + x
		if (next > sum) != (x > 0) && x != 0 {
			return 0, false
		}
		sum = next
	}
	return sum, true
}
