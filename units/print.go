package units

import (
	"math"
	"strconv"
	"strings"
)

// Group prints n with a comma after every three digits, as Python's format code "," does:
// "1,337,216".
func Group(n int64) string {
	var buf [26]byte
	return string(AppendGroup(buf[:0], n))
}

// AppendGroup appends what [Group] prints to dst.
func AppendGroup(dst []byte, n int64) []byte {
	magnitude := uint64(n)
	if n < 0 {
		dst = append(dst, '-')
		magnitude = -magnitude // also right for the smallest int64
	}
	var buf [26]byte
	at := len(buf)
	for digits := 0; ; digits++ {
		if digits > 0 && digits%3 == 0 {
			at--
			buf[at] = ','
		}
		at--
		buf[at] = byte('0' + magnitude%10)
		if magnitude /= 10; magnitude == 0 {
			return append(dst, buf[at:]...)
		}
	}
}

// Fixed prints x with so many decimals as Python's format code ".2f" does: the exact
// binary value, halves to even; "inf" and "nan" in lower case.
func Fixed(x float64, decimals int) string {
	if s, special := notFinite(x); special {
		return s
	}
	return strconv.FormatFloat(x, 'f', decimals, 64)
}

// FormatGiB prints a size as vLLM does in its log: n / 2^30, rounded to two decimals and
// then printed as Python prints a float, "20.0" or "17.98" (vllm/utils/mem_utils.py,
// format_gib).
func FormatGiB(n Bytes) string {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(float64(n)/float64(GiB), 'f', 2, 64), 64)
	return PythonFloat(rounded)
}

// PythonFloat prints x as Python's repr does: the shortest digits that read back as x,
// with ".0" after a whole number and an exponent below 1e-4 and from 1e16 up.
func PythonFloat(x float64) string {
	if s, special := notFinite(x); special {
		return s
	}
	if a := math.Abs(x); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(x, 'e', -1, 64)
	}
	s := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// notFinite is Python's word for an infinity or a NaN.
func notFinite(x float64) (string, bool) {
	switch {
	case math.IsNaN(x):
		return "nan", true
	case math.IsInf(x, 1):
		return "inf", true
	case math.IsInf(x, -1):
		return "-inf", true
	}
	return "", false
}

// Plural is a count with its noun: "1 head", "8 heads".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
