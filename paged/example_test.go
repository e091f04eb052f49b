package paged_test

import (
	"errors"
	"fmt"
	"log"

	"headcount/attn"
	"headcount/dtype"
	"headcount/layout"
	"headcount/paged"
)

// The four variants, as one rank of 8 has them: a pool, a sequence of 256 tokens, and one
// decode step over it. MHA, GQA and MQA are one path with another integer; for MLA keys are
// the latent and queries are absorbed.
func Example() {
	const tokens, tp = 256, 8
	for _, whole := range []attn.Geometry{
		{QueryHeads: 64, KVHeads: 64, KeyDim: 128, ValueDim: 128},
		{QueryHeads: 64, KVHeads: 8, KeyDim: 128, ValueDim: 128},
		{QueryHeads: 64, KVHeads: 1, KeyDim: 128, ValueDim: 128},
		{Arch: attn.MLA, QueryHeads: 128, KVHeads: 1, KeyDim: 512 + 64, LatentDim: 512},
	} {
		g, err := whole.Rank(tp)
		if err != nil {
			log.Fatal(err)
		}
		cache := paged.Layout{Geometry: g, DType: dtype.BFloat16, BlockSize: 16}
		pool, err := paged.NewPool([]paged.Layout{cache}, tokens/16)
		if err != nil {
			log.Fatal(err)
		}
		s := pool.NewSequence(nil)
		if err := s.Append(make([]int32, tokens)...); err != nil {
			log.Fatal(err)
		}
		k, v := make([]float32, tokens*g.KVHeads*g.KeyDim), make([]float32, tokens*g.KVHeads*g.ValueDim)
		if err := s.Put(0, 0, k, v); err != nil { // of the projections, here zeros
			log.Fatal(err)
		}

		attention, err := paged.NewAttention(paged.Config{Layout: cache, Scale: 0.1})
		if err != nil {
			log.Fatal(err)
		}
		blocks, err := pool.Blocks(0)
		if err != nil {
			log.Fatal(err)
		}
		q, out := make([]float32, g.QueryHeads*g.KeyDim), make([]float32, g.QueryHeads*(g.ValueDim+g.LatentDim))
		step := paged.Batch{Blocks: blocks, Tables: [][]int32{s.Table()}, Lengths: []int{s.Len()}}
		if err := attention.Decode(step, q, out, nil); err != nil {
			log.Fatal(err)
		}
		predicted, err := whole.BytesPerToken(tp, dtype.BFloat16.Bytes())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%-6s %7d bytes read by a step, %d × %4d predicted\n", whole.Variant(), attention.BytesRead(), tokens, predicted)
		attention.Close()
		pool.Close()
	}
	// Output:
	// MHA    1048576 bytes read by a step, 256 × 4096 predicted
	// GQA-8   131072 bytes read by a step, 256 ×  512 predicted
	// MQA     131072 bytes read by a step, 256 ×  512 predicted
	// MLA     294912 bytes read by a step, 256 × 1152 predicted
}

// Two requests share the full blocks of an equal beginning; a fork shares all, until one of
// the two writes.
func ExamplePool() {
	cache := paged.Layout{Geometry: attn.Geometry{QueryHeads: 8, KVHeads: 1, KeyDim: 128, ValueDim: 128}, DType: dtype.BFloat16, BlockSize: 16}
	pool, err := paged.NewPool([]paged.Layout{cache}, 6)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	prompt := make([]int32, 40) // token ids

	first := pool.NewSequence(prompt)
	if err := first.Append(prompt[first.Len():]...); err != nil {
		log.Fatal(err)
	}
	// ... a prefill puts the keys and values of its 40 tokens ...
	first.Publish()
	fmt.Println("first: ", first.Len(), "tokens in blocks", first.Table())

	second := pool.NewSequence(prompt)
	fmt.Println("second:", second.Len(), "tokens are there already, in blocks", second.Table())

	fork := first.Fork()
	if err := fork.Append(7); err != nil {
		log.Fatal(err)
	}
	fmt.Println("fork:  ", fork.Len(), "tokens in blocks", fork.Table())

	err = second.Append(make([]int32, 60)...)
	fmt.Println(err)
	fmt.Println(errors.Is(err, paged.ErrNoBlocks), second.Len())

	st := pool.Stats()
	fmt.Println(st.InUse, "of", st.Blocks, "blocks in use,", st.InUseBytes)
	// Output:
	// first:  40 tokens in blocks [0 1 2]
	// second: 32 tokens are there already, in blocks [0 1]
	// fork:   41 tokens in blocks [0 1 3]
	// 4 blocks asked for, 2 free: not enough free blocks
	// true 32
	// 4 of 6 blocks in use, 32 KiB
}

// 8 KV heads over 8 ranks and over 16: a rank of 16 holds what one of 8 does, because each
// KV head is there twice. Decode context parallelism gives each of the two half the tokens.
func ExampleGroup() {
	layer := paged.Config{Layout: paged.Layout{
		Geometry: attn.Geometry{QueryHeads: 64, KVHeads: 8, KeyDim: 128, ValueDim: 128}, DType: dtype.BFloat16, BlockSize: 16,
	}}
	for _, over := range []layout.Layout{{TP: 8}, {TP: 16}, {TP: 16, DCP: 2}} {
		group, err := paged.NewGroup([]paged.Config{layer}, over, 8)
		if err != nil {
			log.Fatal(err)
		}
		s := group.NewSequence(nil)
		if err := s.Append(make([]int32, 128)...); err != nil {
			log.Fatal(err)
		}
		q, out := make([]float32, 64*128), make([]float32, 64*128)
		if err := group.Decode(0, []*paged.GroupSequence{s}, nil, q, out); err != nil {
			log.Fatal(err)
		}
		rank := group.Ranks()[0]
		fmt.Printf("%-14s %d KV head a rank, %v in use, %v read\n", over, rank.KVHeads, rank.InUseBytes, rank.BytesRead)
		group.Close()
	}
	// Output:
	// TP 8           1 KV head a rank, 64 KiB in use, 64 KiB read
	// TP 16          1 KV head a rank, 64 KiB in use, 64 KiB read
	// TP 16 · DCP 2  1 KV head a rank, 32 KiB in use, 32 KiB read
}
