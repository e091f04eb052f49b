// Package dtype names the number formats of weights and caches and says how many bits
// one element takes.
package dtype

import "strings"

// Type is a number format. The zero Type is not a format.
type Type uint8

const (
	Unknown Type = iota
	Float64
	Float32
	Float16
	BFloat16
	Float8E4M3
	Float8E5M2
	Float8E8M0
	UInt8
	Int8
	Int16
	Int32
	Int64
	Bool
)

var names = [...]string{"", "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
	"float8_e8m0fnu", "uint8", "int8", "int16", "int32", "int64", "bool"}

var bytes = [...]int64{0, 8, 4, 2, 2, 1, 1, 1, 1, 1, 2, 4, 8, 1}

// Bytes is the size of one element.
func (t Type) Bytes() int64 { return bytes[t] }

// String is PyTorch's name, "bfloat16".
func (t Type) String() string { return names[t] }

// MarshalText writes the name.
func (t Type) MarshalText() ([]byte, error) { return []byte(names[t]), nil }

// Parse reads PyTorch's name, with or without "torch.", and the usual short forms.
func Parse(s string) (Type, bool) {
	s = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "torch.")
	switch s {
	case "bf16":
		return BFloat16, true
	case "fp16", "half", "f16":
		return Float16, true
	case "fp32", "float", "f32":
		return Float32, true
	case "double", "f64":
		return Float64, true
	}
	for t, n := range names {
		if t > 0 && n == s {
			return Type(t), true
		}
	}
	return Unknown, false
}
