package units_test

import (
	"fmt"

	"headcount/units"
)

func ExampleBytes_String() {
	fmt.Println(units.Bytes(2 * 80 * 8 * 128 * 2)) // one token of Llama-3-70B
	fmt.Println(units.Bytes(61 * (512 + 64) * 2))  // one token of DeepSeek-V3
	fmt.Println(5 * units.GiB / 2)
	// Output:
	// 320 KiB
	// 68.6 KiB
	// 2.5 GiB
}

func ExampleFLOP_String() {
	fmt.Println(units.FLOP(4 * 64 * 128 * 8192)) // one layer, one decode step, 8,192 tokens cached
	// Output: 268.4 MFLOP
}

func ExampleFLOPPerSec_String() {
	fmt.Println(units.FLOPPerSec(989.4e12))
	// Output: 989.4 TFLOP/s
}

func ExampleBytesPerSec_String() {
	fmt.Println(units.BytesPerSec(3.35e12), "and", units.BytesPerSec(300e9))
	// Output: 3.35 TB/s and 300 GB/s
}

func ExampleIntensity_String() {
	fmt.Println(units.Intensity(989.4e12 / 3.35e12))
	// Output: 295 FLOP/byte
}

func ExampleFLOP_Per() {
	fmt.Println(units.FLOP(2 * 8 * (128 + 128)).Per(1 * (128 + 128) * 2)) // 8 query heads on a KV head, bf16
	// Output: 8 FLOP/byte
}

func ExampleFLOPPerSec_Per() {
	h100, bandwidth := units.FLOPPerSec(989.4e12), units.BytesPerSec(3.35e12)
	fmt.Println(h100.Per(bandwidth))
	// Output: 295 FLOP/byte
}

func ExampleDigits() {
	fmt.Println(units.Digits(2.7088, 2), units.Digits(30.2222, 3), units.Digits(16384, 3))
	// Output: 2.7 30.2 16384
}

func ExampleMul() {
	fmt.Println(units.Mul(2, 80, 8, 128, 2))
	fmt.Println(units.Mul(1<<40, 1<<40))
	// Output:
	// 327680 true
	// 0 false
}

func ExampleAdd() {
	fmt.Println(units.Add(512, 64))
	// Output: 576 true
}

func ExampleGroup() {
	fmt.Println(units.Group(1337216))
	// Output: 1,337,216
}

func ExampleAppendGroup() {
	fmt.Printf("%s tokens\n", units.AppendGroup([]byte("GPU KV cache size: "), 1048576))
	// Output: GPU KV cache size: 1,048,576 tokens
}

func ExampleFixed() {
	fmt.Println(units.Fixed(1337216./8192, 2) + "x")
	// Output: 163.23x
}

func ExampleFormatGiB() {
	fmt.Println(units.FormatGiB(20*units.GiB), units.FormatGiB(19305777561))
	// Output: 20.0 17.98
}

func ExamplePythonFloat() {
	fmt.Println(units.PythonFloat(1), units.PythonFloat(0.83), units.PythonFloat(1e16))
	// Output: 1.0 0.83 1e+16
}

func ExampleParseTokens() {
	for _, s := range []string{"8k", "128k", "1m", "auto"} {
		n, _ := units.ParseTokens(s)
		fmt.Println(n)
	}
	_, err := units.ParseTokens("8 thousand")
	fmt.Println(err)
	// Output:
	// 8192
	// 131072
	// 1048576
	// -1
	// "8 thousand": not a number with a unit; write 8192, 8k, 128k, 1m or auto
}

func ExampleParseBytes() {
	for _, s := range []string{"40GiB", "40GB", "1234"} {
		n, _ := units.ParseBytes(s)
		fmt.Println(int64(n))
	}
	// Output:
	// 42949672960
	// 40000000000
	// 1234
}
