package checkpoint

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"
)

// MarshalJSON writes the object as [Object.AppendJSON] does. encoding/json refuses the
// result when it holds NaN or Infinity, which JSON does not have.
func (o *Object) MarshalJSON() ([]byte, error) { return o.AppendJSON(nil), nil }

// MarshalJSON writes the value as [Value.AppendJSON] does.
func (v Value) MarshalJSON() ([]byte, error) { return v.AppendJSON(nil), nil }

// AppendJSON appends the object on one line without spaces, its keys in order; null if o
// is nil. [Parse] reads back an equal object.
func (o *Object) AppendJSON(dst []byte) []byte {
	if o == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '{')
	for i, key := range o.keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendText(dst, key), ':')
		dst = o.values[i].AppendJSON(dst)
	}
	return append(dst, '}')
}

// AppendJSON appends the value as Python's json module writes it, save for spaces and for
// text beyond ASCII, which stays as it is: NaN, Infinity and -Infinity are bare words, a
// float has a point or an exponent, and an integer beyond int64 keeps its digits.
func (v Value) AppendJSON(dst []byte) []byte {
	switch v.kind {
	case Bool:
		return strconv.AppendBool(dst, v.bits != 0)
	case Int:
		return strconv.AppendInt(dst, int64(v.bits), 10)
	case Float:
		if v.text != "" {
			return append(dst, v.text...)
		}
		return appendFloat(dst, math.Float64frombits(v.bits))
	case String:
		return appendText(dst, v.text)
	case List:
		dst = append(dst, '[')
		for i, element := range v.node.values {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = element.AppendJSON(dst)
		}
		return append(dst, ']')
	case Dict:
		return v.node.AppendJSON(dst)
	}
	return append(dst, "null"...)
}

// appendFloat writes the shortest digits that read back as x, in the form of Python's
// repr: an exponent below 1e-4 and from 1e16 on.
func appendFloat(dst []byte, x float64) []byte {
	switch abs := math.Abs(x); {
	case math.IsNaN(x):
		return append(dst, "NaN"...)
	case math.IsInf(x, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(x, -1):
		return append(dst, "-Infinity"...)
	case abs != 0 && (abs < 1e-4 || abs >= 1e16):
		return strconv.AppendFloat(dst, x, 'e', -1, 64)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, x, 'f', -1, 64)
	if bytes.IndexByte(dst[start:], '.') < 0 {
		dst = append(dst, ".0"...)
	}
	return dst
}

// appendText writes a quoted string.
func appendText(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
