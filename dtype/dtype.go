// Package dtype names the number formats of weights and caches and says how many bytes
// one element takes.
package dtype

import (
	"fmt"
	"strings"
)

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
	UInt16
	UInt32
	UInt64
)

var names = [...]string{"", "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
	"float8_e8m0fnu", "uint8", "int8", "int16", "int32", "int64", "bool", "uint16", "uint32", "uint64"}

var sizes = [...]int64{0, 8, 4, 2, 2, 1, 1, 1, 1, 1, 2, 4, 8, 1, 2, 4, 8}

// Bytes is the size of one element, 0 for what is not a format. Formats below a byte come
// packed in bytes, as a checkpoint stores them.
func (t Type) Bytes() int64 {
	if int(t) >= len(sizes) {
		return 0
	}
	return sizes[t]
}

// String is PyTorch's name, "bfloat16"; empty for what is not a format.
func (t Type) String() string {
	if int(t) >= len(names) {
		return ""
	}
	return names[t]
}

// MarshalText writes the name.
func (t Type) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what [Parse] reads; empty text is Unknown.
func (t *Type) UnmarshalText(text []byte) error {
	parsed, ok := Parse(string(text))
	if !ok && len(text) > 0 {
		return fmt.Errorf("dtype %.40q: not a number format", text)
	}
	*t = parsed
	return nil
}

// Parse reads PyTorch's name, with or without "torch.", the usual short forms, and the
// names of a safetensors header ("BF16", "F8_E4M3", "I64"), in either case.
func Parse(s string) (Type, bool) {
	s = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "torch.")
	switch s {
	case "bf16":
		return BFloat16, true
	case "fp16", "half", "f16":
		return Float16, true
	case "fp32", "float", "f32":
		return Float32, true
	case "double", "f64", "fp64":
		return Float64, true
	case "fp8_e4m3", "f8_e4m3", "float8_e4m3":
		return Float8E4M3, true
	case "fp8_e5m2", "f8_e5m2":
		return Float8E5M2, true
	case "f8_e8m0", "float8_e8m0":
		return Float8E8M0, true
	}
	if whole, ok := integer(s); ok {
		return whole, true
	}
	for t, n := range names {
		if t > 0 && n == s {
			return Type(t), true
		}
	}
	return Unknown, false
}

// integer reads the short names of integers, "i64" and "u8".
func integer(s string) (Type, bool) {
	switch s {
	case "i8":
		return Int8, true
	case "i16":
		return Int16, true
	case "i32":
		return Int32, true
	case "i64":
		return Int64, true
	case "u8":
		return UInt8, true
	case "u16":
		return UInt16, true
	case "u32":
		return UInt32, true
	case "u64":
		return UInt64, true
	}
	return Unknown, false
}
