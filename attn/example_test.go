package attn_test

import (
	"fmt"

	"headcount/attn"
	"headcount/units"
)

var (
	llama70B   = attn.Geometry{QueryHeads: 64, KVHeads: 8, KeyDim: 128, ValueDim: 128}
	deepSeekV3 = attn.Geometry{Arch: attn.MLA, QueryHeads: 128, KVHeads: 1, KeyDim: 512 + 64, LatentDim: 512}
)

func ExampleGeometry_Variant() {
	fmt.Println(llama70B.Variant(), deepSeekV3.Variant())
	// Output: GQA-8 MLA
}

func ExampleGeometry_GroupSize() {
	fmt.Println(llama70B.GroupSize())
	// Output: 8
}

func ExampleGeometry_Validate() {
	fmt.Println(attn.Geometry{QueryHeads: 64, KVHeads: 10, KeyDim: 128, ValueDim: 128}.Validate())
	// Output: num_attention_heads = 64: not a multiple of num_key_value_heads 10
}

func ExampleGeometry_QueryHeadsPerRank() {
	_, err := attn.Geometry{QueryHeads: 28, KVHeads: 4, KeyDim: 128, ValueDim: 128}.QueryHeadsPerRank(8)
	fmt.Println(err)
	// Output: num_attention_heads = 28: not divisible by tensor parallel size 8
}

func ExampleGeometry_KVHeadsPerRank() {
	for _, tp := range []int{1, 8, 16} {
		heads, _ := llama70B.KVHeadsPerRank(tp)
		fmt.Println(tp, heads)
	}
	// Output:
	// 1 8
	// 8 1
	// 16 1
}

func ExampleGeometry_Replication() {
	gqa, _ := llama70B.Replication(16)
	mla, _ := deepSeekV3.Replication(16)
	fmt.Println(gqa, mla)
	// Output: 2 16
}

func ExampleGeometry_ElemsPerToken() {
	gqa, _ := llama70B.ElemsPerToken(8)
	mla, _ := deepSeekV3.ElemsPerToken(8)
	fmt.Println(gqa, mla)
	// Output: 256 576
}

// Llama-3-70B on one of 8 ranks: 80 layers, bfloat16.
func ExampleGeometry_BytesPerToken() {
	layer, _ := llama70B.BytesPerToken(8, 2)
	fmt.Println(layer, "a layer,", 80*layer, "in all")
	// Output: 512 B a layer, 40 KiB in all
}

func ExampleGeometry_LegalTP() {
	fmt.Println(attn.Geometry{QueryHeads: 28, KVHeads: 4, KeyDim: 128, ValueDim: 128}.LegalTP(64))
	// Output: [1 2 4 28]
}

func ExampleGeometry_DecodeFLOP() {
	gqa, _ := llama70B.DecodeFLOP(1)
	mla, _ := deepSeekV3.DecodeFLOP(1)
	fmt.Println(int64(gqa), int64(mla))
	// Output: 32768 278528
}

func ExampleGeometry_Intensity() {
	for _, tp := range []int{1, 8, 16} {
		gqa, _ := llama70B.Intensity(tp, 2)
		mla, _ := deepSeekV3.Intensity(tp, 2)
		fmt.Printf("TP %d: %v, %v\n", tp, gqa, mla)
	}
	// Output:
	// TP 1: 8 FLOP/byte, 242 FLOP/byte
	// TP 8: 8 FLOP/byte, 30.2 FLOP/byte
	// TP 16: 4 FLOP/byte, 15.1 FLOP/byte
}

// From five ranks on, Llama-3-70B caches less per rank than DeepSeek-V3.
func ExampleCrossoverTP() {
	gqa, _ := llama70B.BytesPerToken(1, 2)
	mla, _ := deepSeekV3.BytesPerToken(1, 2)
	fmt.Println(units.Digits(attn.CrossoverTP(80*gqa, 61*mla), 3))
	// Output: 4.66
}
