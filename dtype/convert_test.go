package dtype

import (
	"math"
	"testing"
)

var floats = []Type{Float32, Float16, BFloat16, Float8E4M3, Float8E5M2}

func TestDecodeKnown(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, tt := range []struct {
		t    Type
		code []byte
		want float32
	}{
		{Float16, []byte{0x00, 0x3c}, 1},
		{Float16, []byte{0xff, 0x7b}, 65504},
		{Float16, []byte{0x01, 0x00}, 1.0 / (1 << 24)},
		{Float16, []byte{0x00, 0xfc}, -inf},
		{BFloat16, []byte{0x80, 0x3f}, 1},
		{BFloat16, []byte{0x80, 0x7f}, inf},
		{Float8E4M3, []byte{0x38}, 1},
		{Float8E4M3, []byte{0x7e}, 448},
		{Float8E4M3, []byte{0x81}, -1.0 / 512},
		{Float8E5M2, []byte{0x3c}, 1},
		{Float8E5M2, []byte{0x7b}, 57344},
		{Float8E5M2, []byte{0x7c}, inf},
		{Float8E5M2, []byte{0x01}, 1.0 / 65536},
	} {
		got := make([]float32, 1)
		if tt.t.Decode(got, tt.code); got[0] != tt.want {
			t.Errorf("%v %x = %v, want %v", tt.t, tt.code, got[0], tt.want)
		}
	}
}

// Every code of the small formats decodes to what encodes to it again, and NaN to NaN.
func TestCodesRoundTrip(t *testing.T) {
	for _, f := range []Type{Float16, BFloat16, Float8E4M3, Float8E5M2} {
		for code := range 1 << (8 * f.Bytes()) {
			src, back, x := []byte{byte(code), byte(code >> 8)}, make([]byte, 2), make([]float32, 1)
			f.Decode(x, src)
			f.Encode(back, x)
			same := back[0] == src[0] && (f.Bytes() == 1 || back[1] == src[1])
			if x[0] != x[0] {
				again := make([]float32, 1)
				f.Decode(again, back)
				same = again[0] != again[0]
			} else if math.IsInf(float64(x[0]), 0) && f == Float8E5M2 {
				same = back[0]&0x7f == 0x7b // saturated
			}
			if !same {
				t.Fatalf("%v: code %x is %v, which encodes to %x", f, src, x[0], back)
			}
		}
	}
}

// Between two neighbours the nearer is taken, and the even one from the middle.
func TestEncodeNearest(t *testing.T) {
	for _, f := range []Type{Float16, BFloat16, Float8E4M3, Float8E5M2} {
		decode := func(code int) float32 {
			x := make([]float32, 1)
			f.Decode(x, []byte{byte(code), byte(code >> 8)})
			return x[0]
		}
		encode := func(x float32) int {
			b := make([]byte, 2)
			f.Encode(b, []float32{x})
			return int(b[0]) | int(b[1])<<8
		}
		for code := range 1<<(8*f.Bytes()-1) - 1 {
			lo, hi := decode(code), decode(code+1)
			if hi != hi || math.IsInf(float64(hi), 0) {
				break
			}
			middle := float32((float64(lo) + float64(hi)) / 2)
			if float64(middle) != (float64(lo)+float64(hi))/2 {
				continue // finer than a float32: bfloat16's denormals
			}
			for x, want := range map[float32]int{
				math.Nextafter32(middle, lo): code, middle: code + code&1, math.Nextafter32(middle, hi): code + 1,
			} {
				if got := encode(x); got != want {
					t.Fatalf("%v: %v between codes %#x and %#x encodes to %#x", f, x, code, code+1, got)
				}
			}
		}
	}
}

func TestEncodeBeyond(t *testing.T) {
	for f, want := range map[Type]float32{
		Float8E4M3: 448, Float8E5M2: 57344, Float16: float32(math.Inf(1)), BFloat16: float32(math.Inf(1)),
	} {
		for _, x := range []float32{math.MaxFloat32, float32(math.Inf(1))} {
			b, got := make([]byte, 2), make([]float32, 1)
			f.Encode(b, []float32{x})
			if f.Decode(got, b); got[0] != want {
				t.Errorf("%v: %v is stored as %v, want %v", f, x, got[0], want)
			}
		}
	}
}

func TestConvertRefuses(t *testing.T) {
	for name, f := range map[string]func(){
		"short source":      func() { BFloat16.Decode(make([]float32, 2), make([]byte, 3)) },
		"short destination": func() { Float8E4M3.Encode(make([]byte, 1), make([]float32, 2)) },
		"an integer":        func() { Int8.Decode(make([]float32, 1), make([]byte, 1)) },
		"no format":         func() { Unknown.Encode(make([]byte, 1), make([]float32, 1)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
	if Int8.Floats() || Unknown.Floats() {
		t.Error("an integer is a float")
	}
	for _, f := range floats {
		if !f.Floats() {
			t.Errorf("%v is no float", f)
		}
	}
}

// The fast ways of float16 agree with the general ones: decoding on every code, encoding on
// every sign, exponent and last kept bit, with what follows below, at and above its half.
func TestHalf(t *testing.T) {
	for top := range 1 << 20 {
		for _, rest := range []uint32{0, 1, 0x7ff, 0x800, 0x801, 0xfff} {
			x := math.Float32frombits(uint32(top)<<12 | rest)
			if got, want := toHalf(x), uint16(float16.encode(x)); got != want {
				t.Fatalf("%x: %#x, want %#x", math.Float32bits(x), got, want)
			}
		}
	}
	for code := range 1 << 16 {
		got, want := half(uint16(code)), float16.decode(uint32(code))
		if got != want && (got == got || want == want) || math.Signbit(float64(got)) != math.Signbit(float64(want)) {
			t.Fatalf("%#x: %v, want %v", code, got, want)
		}
	}
}

// BenchmarkDecode and BenchmarkEncode are per element of 32 Ki that lie in a cache.
func BenchmarkDecode(b *testing.B) {
	for _, f := range floats {
		b.Run(f.String(), func(b *testing.B) {
			dst, src := make([]float32, 1<<15), make([]byte, 4<<15)
			b.SetBytes(int64(len(dst)) * f.Bytes())
			for b.Loop() {
				f.Decode(dst, src)
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, f := range floats {
		b.Run(f.String(), func(b *testing.B) {
			dst, src := make([]byte, 4<<15), make([]float32, 1<<15)
			for i := range src {
				src[i] = float32(i%1000) / 700
			}
			b.SetBytes(int64(len(src)) * f.Bytes())
			for b.Loop() {
				f.Encode(dst, src)
			}
		})
	}
}
