package units

import (
	"math"
	"math/big"
	"strings"
	"testing"
)

func TestBytesString(t *testing.T) {
	for _, tt := range []struct {
		b    Bytes
		want string
	}{
		{0, "0 B"},
		{1, "1 B"},
		{656, "656 B"}, // fp8_ds_mla, one token of one layer
		{1023, "1023 B"},
		{1024, "1 KiB"},
		{131072, "128 KiB"},
		{2 * 80 * 1 * 128 * 2, "40 KiB"},    // Llama-3-70B, TP 8
		{61 * 576 * 2, "68.6 KiB"},          // DeepSeek-V3: 68.625
		{5 * GiB / 2, "2.5 GiB"},            // exact: no trailing zero
		{35 * GiB / 2, "17.5 GiB"},          // exact
		{51*GiB + 1, "51.0 GiB"},            // rounded: keeps its zero
		{GiB + GiB/4, "1.25 GiB"},           // two decimals below 10
		{GiB + GiB/3, "1.33 GiB"},           //
		{MiB + MiB/100, "1.01 MiB"},         // a zero inside the fraction
		{10*KiB - 4, "10.0 KiB"},            // 9.996 rounds up into the next digit
		{MiB - 1, "1.00 MiB"},               // 1023.999 KiB
		{2000 * GiB, "2000 GiB"},            // no TiB: capacities stay comparable
		{-128 * KiB, "-128 KiB"},            //
		{math.MaxInt64, "8589934592.0 GiB"}, // 2^33 GiB less one byte
		{math.MinInt64, "-8589934592 GiB"},  // -2^33 GiB
		{7919 * GiB / 100, "79.2 GiB"},      //
		{102396 * MiB / 100, "1.00 GiB"},    //
	} {
		if got := tt.b.String(); got != tt.want {
			t.Errorf("Bytes(%d) = %q, want %q", int64(tt.b), got, tt.want)
		}
	}
}

func TestRates(t *testing.T) {
	for _, tt := range []struct {
		got, want string
	}{
		{BytesPerSec(3.35e12).String(), "3.35 TB/s"},
		{BytesPerSec(864e9).String(), "864 GB/s"},
		{BytesPerSec(936.2e9).String(), "936.2 GB/s"},
		{BytesPerSec(999.96e9).String(), "1 TB/s"},
		{BytesPerSec(0).String(), "0 B/s"},
		{FLOPPerSec(989.4e12).String(), "989.4 TFLOP/s"},
		{FLOPPerSec(1978.9e12).String(), "1.979 PFLOP/s"},
		{FLOP(4 * 64 * 128 * 8192 * 80).String(), "21.47 GFLOP"},
		{FLOP(12).String(), "12 FLOP"},
		{FLOP(-2000).String(), "-2 kFLOP"},
		{Intensity(8).String(), "8 FLOP/byte"},
		{Intensity(2 * 16 * (2*512 + 64) / (2. * 576)).String(), "30.2 FLOP/byte"},
		{Intensity(989.4 / 3.35).String(), "295 FLOP/byte"},
		{Intensity(0.5).String(), "0.5 FLOP/byte"},
		{Intensity(12345).String(), "12345 FLOP/byte"},
		{Intensity(math.NaN()).String(), "NaN FLOP/byte"},
		{BytesPerSec(math.Inf(1)).String(), "+Inf B/s"},
		{BytesPerSec(1e300).String()[:1], "1"},
		{Digits(1e-300, 3), "0"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestMul(t *testing.T) {
	for _, tt := range []struct {
		xs   []int64
		want int64
		ok   bool
	}{
		{nil, 1, true},
		{[]int64{2, 80, 8, 128, 2}, 2 * 80 * 8 * 128 * 2, true},
		{[]int64{1 << 32, 1 << 30}, 1 << 62, true},
		{[]int64{1 << 32, 1 << 31}, 0, false},
		{[]int64{math.MaxInt64, 2, 0}, 0, true}, // zero wins
		{[]int64{-1, math.MinInt64}, 0, false},
		{[]int64{math.MinInt64, -1}, 0, false},
		{[]int64{math.MinInt64, 1}, math.MinInt64, true},
		{[]int64{-3, 5}, -15, true},
	} {
		if got, ok := Mul(tt.xs...); got != tt.want || ok != tt.ok {
			t.Errorf("Mul(%d) = %d, %t, want %d, %t", tt.xs, got, ok, tt.want, tt.ok)
		}
	}
}

func FuzzMul(f *testing.F) {
	f.Add(int64(math.MinInt64), int64(-1), int64(1))
	f.Add(int64(3037000500), int64(3037000500), int64(1))
	f.Fuzz(func(t *testing.T, a, b, c int64) {
		product, sum := new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), new(big.Int).Add(big.NewInt(a), big.NewInt(b))
		if got, ok := Mul(a, b); ok != product.IsInt64() || ok && got != product.Int64() {
			t.Errorf("Mul(%d, %d) = %d, %t, want %v", a, b, got, ok, product)
		}
		if got, ok := Add(a, b); ok != sum.IsInt64() || ok && got != sum.Int64() {
			t.Errorf("Add(%d, %d) = %d, %t, want %v", a, b, got, ok, sum)
		}
		product.Mul(product, big.NewInt(c))
		if got, ok := Mul(a, b, c); ok && got != product.Int64() {
			t.Errorf("Mul(%d, %d, %d) = %d, want %v", a, b, c, got, product)
		}
	})
}

func TestGroup(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 8192: "8,192", 131072: "131,072", 1048576: "1,048,576", 1337216: "1,337,216",
		-1: "-1", -1000: "-1,000", -123456: "-123,456",
		math.MaxInt64: "9,223,372,036,854,775,807", math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		if got := Group(n); got != want {
			t.Errorf("Group(%d) = %q, want %q", n, got, want)
		}
	}
	if got := string(AppendGroup([]byte("size: "), 1337216)); got != "size: 1,337,216" {
		t.Errorf("AppendGroup = %q", got)
	}
}

// The expected values are CPython's: print(f"{round(n / 2**30, 2)}").
func TestFormatGiB(t *testing.T) {
	for _, tt := range []struct {
		n    Bytes
		want string
	}{
		{20 * GiB, "20.0"},
		{0, "0.0"},
		{1798 * GiB / 100, "17.98"},
		{GiB + GiB/8, "1.12"},      // 1.125 is exact: half to even
		{GiB + 3*GiB/8, "1.38"},    // 1.375: half to even is 1.38
		{3 * GiB / 2, "1.5"},       //
		{-GiB / 1024, "-0.0"},      // -0.0009 keeps its sign
		{-94 * GiB / 100, "-0.94"}, // a log line of a card that was too small
		{math.MaxInt64, "8589934592.0"},
	} {
		if got := FormatGiB(tt.n); got != tt.want {
			t.Errorf("FormatGiB(%d) = %q, want %q", int64(tt.n), got, tt.want)
		}
	}
}

func TestPythonFloat(t *testing.T) {
	for _, tt := range []struct {
		x                float64
		repr, twoDecimal string
	}{
		{0, "0.0", "0.00"},
		{0.83, "0.83", "0.83"},
		{163.234375, "163.234375", "163.23"},
		{2.5, "2.5", "2.50"},
		{0.125, "0.125", "0.12"}, // exact binary half: to even
		{0.375, "0.375", "0.38"},
		{2.675, "2.675", "2.67"}, // below the half in binary
		{1e15, "1000000000000000.0", "1000000000000000.00"},
		{1e16, "1e+16", "10000000000000000.00"},
		{0.0001, "0.0001", "0.00"},
		{0.00001, "1e-05", "0.00"},
		{math.Inf(1), "inf", "inf"},
		{math.Inf(-1), "-inf", "-inf"},
		{math.NaN(), "nan", "nan"},
	} {
		if got := PythonFloat(tt.x); got != tt.repr {
			t.Errorf("PythonFloat(%v) = %q, want %q", tt.x, got, tt.repr)
		}
		if got := Fixed(tt.x, 2); got != tt.twoDecimal {
			t.Errorf("Fixed(%v, 2) = %q, want %q", tt.x, got, tt.twoDecimal)
		}
	}
}

func TestParseTokens(t *testing.T) {
	for s, want := range map[string]int64{
		"8192": 8192, "1": 1, "8k": 8 * 1024, "8K": 8 * 1024, "128k": 128 * 1024, "1m": 1 << 20, "1M": 1 << 20,
		"auto": Auto, "AUTO": Auto, "-1": Auto, " 32k ": 32 * 1024, "1.5k": 1536, "0.5m": 1 << 19, "4 k": 4096,
		"25.6k": 26214, // 26214.4
	} {
		if got, err := ParseTokens(s); got != want || err != nil {
			t.Errorf("ParseTokens(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "k", "0", "0k", "0.0001k", "-2", "-8k", "8kb", "8g", "eight", "8..1k", "8.", ".5k", "1.2.3k", "8 192", "8,192", "1e3",
		"+8", "0x10", "9223372036854775808", "8796093022208m", "99999999999999999999999", "1.0000000000k", "８k", "8k\x00",
		strings.Repeat("9", 4096),
	} {
		if got, err := ParseTokens(s); err == nil {
			t.Errorf("ParseTokens(%.40q) = %d, want an error", s, got)
		} else if len(err.Error()) > 160 {
			t.Errorf("ParseTokens(%.40q): error of %d bytes", s, len(err.Error()))
		}
	}
}

func TestParseBytes(t *testing.T) {
	for s, want := range map[string]Bytes{
		"0": 0, "1234": 1234, "1234B": 1234, "1234b": 1234,
		"40GiB": 40 * GiB, "40gib": 40 * GiB, "40 GiB": 40 * GiB, "40G": 40 * GiB,
		"40GB": 40e9, "40gb": 40e9, "40g": 40e9, // vLLM's lower-case letter is decimal
		"512MiB": 512 * MiB, "512M": 512 * MiB, "512MB": 512e6, "4k": 4000, "4K": 4096, "1TiB": 1 << 40, "1t": 1e12,
		"1.5GiB": 3 * GiB / 2, "25.6g": 25.6e9, "79.19GiB": 85029615042, // 79.19 · 2^30 = 85029615042.56
		"8388607TiB": 8388607 << 40,
	} {
		if got, err := ParseBytes(s); got != want || err != nil {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "GiB", "-1", "-40GiB", "auto", "40GiBs", "40iB", "40Gi", "40Gb/s", "40pb", "1_000", "1,234", "NaN", "inf",
		"8388608TiB", "9223372036854775808", strings.Repeat("1", 1000) + "g",
	} {
		if got, err := ParseBytes(s); err == nil {
			t.Errorf("ParseBytes(%.40q) = %d, want an error", s, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"8k", "128k", "1m", "auto", "40GiB", "40g", "1.5GiB", "9223372036854775807", "0.000000001t"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseTokens(s); err == nil && n < 1 && n != Auto {
			t.Errorf("ParseTokens(%q) = %d", s, n)
		}
		if b, err := ParseBytes(s); err == nil && b < 0 {
			t.Errorf("ParseBytes(%q) = %d", s, b)
		}
	})
}

// A number in a report is printed without garbage.
func TestAllocations(t *testing.T) {
	sink := ""
	for name, f := range map[string]func(){
		"Group": func() { sink = Group(1337216) },
		"Bytes": func() { sink = Bytes(70272).String() },
	} {
		if n := testing.AllocsPerRun(100, f); n > 1 {
			t.Errorf("%s allocates %v times, want once", name, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = Mul(2, 80, 8, 128, 2) }); n > 0 {
		t.Errorf("Mul allocates %v times", n)
	}
	_ = sink
}

func BenchmarkGroup(b *testing.B) {
	var buf [32]byte
	for b.Loop() {
		AppendGroup(buf[:0], 1337216)
	}
}

func TestPlural(t *testing.T) {
	for n, want := range map[int]string{0: "0 heads", 1: "1 head", 2: "2 heads"} {
		if got := Plural(n, "head"); got != want {
			t.Errorf("Plural(%d) = %q, want %q", n, got, want)
		}
	}
}
