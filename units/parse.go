package units

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// Auto is the length that [ParseTokens] returns for "auto": as long as fits.
const Auto int64 = -1

// ParseTokens reads a length in tokens: "8192", "8k", "128K", "1m", or "auto" for [Auto].
// A k is 1,024 tokens and an m 1,048,576, in either case, because context lengths are
// powers of two: 8k means 8,192. vLLM's own --max-model-len takes a lower-case k for
// 1,000; give the number of tokens where that matters. A fraction is taken, "1.5k", and
// cut to whole tokens. A length of 0 is an error.
func ParseTokens(s string) (int64, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	if text == "auto" || text == "-1" {
		return Auto, nil
	}
	n, err := parse(text, func(suffix string) uint64 {
		switch suffix {
		case "":
			return 1
		case "k":
			return 1 << 10
		case "m":
			return 1 << 20
		}
		return 0
	})
	if err == nil && n == 0 {
		err = errors.New("less than one token")
	}
	if err != nil {
		return 0, fmt.Errorf("%.40q: %w; write 8192, 8k, 128k, 1m or auto", s, err)
	}
	return n, nil
}

// ParseBytes reads a size: "1234" or "1234B" in bytes, "40GiB" in units of 1,024 and
// "40GB" of 1,000, for K, M, G and T in either case. A bare letter is vLLM's: "40G" is 40
// GiB and "40g" 40 GB (vllm/utils/argparse_utils.py, human_readable_int). A fraction is
// taken, "1.5GiB", and cut to whole bytes.
func ParseBytes(s string) (Bytes, error) {
	n, err := parse(strings.TrimSpace(s), byteUnit)
	if err != nil {
		return 0, fmt.Errorf("%.40q: %w; write 42949672960, 40GiB or 40GB", s, err)
	}
	return Bytes(n), nil
}

// byteUnit is the bytes of a suffix, 0 for one that is none.
func byteUnit(suffix string) uint64 {
	if suffix == "" || strings.EqualFold(suffix, "b") {
		return 1
	}
	power := 1 + strings.IndexByte("kmgt", suffix[0]|0x20)
	if power == 0 {
		return 0
	}
	base := uint64(1000)
	switch rest := suffix[1:]; {
	case strings.EqualFold(rest, "ib"), rest == "" && suffix[0] < 'a':
		base = 1024
	case rest != "" && !strings.EqualFold(rest, "b"):
		return 0
	}
	unit := uint64(1)
	for range power {
		unit *= base
	}
	return unit
}

var errTooLarge = errors.New("too large")

// maxDecimals bounds the digits after the point of a number that is typed.
const maxDecimals = 9

// parse reads decimal digits, perhaps a point and more digits, perhaps a space, and a
// suffix, and returns the number times unit(suffix), cut to a whole number.
func parse(s string, unit func(suffix string) uint64) (int64, error) {
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || s[end] == '.') {
		end++
	}
	whole, fraction, _ := strings.Cut(s[:end], ".")
	by := unit(strings.TrimLeft(s[end:], " "))
	if whole == "" || strings.HasSuffix(s[:end], ".") || strings.Contains(fraction, ".") || by == 0 {
		return 0, errors.New("not a number with a unit")
	}
	if len(fraction) > maxDecimals {
		return 0, fmt.Errorf("more than %d decimals", maxDecimals)
	}
	digits, scale := uint64(0), uint64(1)
	for i, c := range []byte(whole + fraction) {
		hi, lo := bits.Mul64(digits, 10)
		next, carry := bits.Add64(lo, uint64(c-'0'), 0)
		if hi+carry > 0 {
			return 0, errTooLarge
		}
		digits = next
		if i >= len(whole) {
			scale *= 10
		}
	}
	hi, lo := bits.Mul64(digits, by)
	if hi >= scale {
		return 0, errTooLarge
	}
	n, _ := bits.Div64(hi, lo, scale)
	if n > math.MaxInt64 {
		return 0, errTooLarge
	}
	return int64(n), nil
}
