package roofline_test

import (
	"fmt"

	"headcount/attn"
	"headcount/dtype"
	"headcount/hw"
	"headcount/roofline"
	"headcount/units"
)

func ExampleRidge() {
	fmt.Println(roofline.Ridge(989.4e12, 3.35e12)) // H100 SXM, bf16
	// Output: 295 FLOP/byte
}

func ExampleOf() {
	for _, name := range []string{"h100", "m3-ultra"} {
		gpu, _ := hw.Lookup(name)
		fmt.Println(roofline.Of(gpu))
	}
	// Output:
	// 295 FLOP/byte true
	// 0 FLOP/byte false
}

// Llama-3-70B's attention is far below the ridge of an H100, DeepSeek-V3's on one rank
// close to it.
func ExampleRoof_Place() {
	gpu, _ := hw.Lookup("h100")
	roof := roofline.For(gpu, dtype.BFloat16)
	for _, g := range []attn.Geometry{
		{QueryHeads: 64, KVHeads: 8, KeyDim: 128, ValueDim: 128},
		{Arch: attn.MLA, QueryHeads: 128, KVHeads: 1, KeyDim: 512 + 64, LatentDim: 512},
	} {
		i, _ := g.Intensity(1, 2)
		p := roof.Place(i)
		fmt.Printf("%s: %v, %s %% of the ridge, bound by %s\n", g.Variant(), p.Intensity, units.Digits(100*p.Share, 2), p.Bound)
	}
	// Output:
	// GQA-8: 8 FLOP/byte, 2.7 % of the ridge, bound by bandwidth
	// MLA: 242 FLOP/byte, 82 % of the ridge, bound by bandwidth
}

// One decode step of Llama-3-70B on one of 8 ranks, 32 sequences of 8,192 tokens.
func ExampleRoof_Seconds() {
	gpu, _ := hw.Lookup("h100")
	layer, _ := roofline.Decode(attn.Geometry{QueryHeads: 64, KVHeads: 8, KeyDim: 128, ValueDim: 128}, 8, 2, 32*8192)
	seconds, _ := roofline.For(gpu, dtype.BFloat16).Seconds(layer)
	fmt.Printf("%v a layer, at least %.2f ms over 80 layers\n", layer.Bytes, 80*1000*seconds)
	// Output: 128 MiB a layer, at least 3.21 ms over 80 layers
}

func ExampleDecode() {
	c, _ := roofline.Decode(attn.Geometry{QueryHeads: 64, KVHeads: 8, KeyDim: 128, ValueDim: 128}, 1, 2, 8192)
	fmt.Println(c.FLOP, c.Bytes, c.Intensity())
	// Output: 268.4 MFLOP 32 MiB 8 FLOP/byte
}
