package vllm_test

import (
	"fmt"
	"log"

	"headcount/checkpoint"
	"headcount/engine"
	"headcount/engine/vllm"
	"headcount/hw"
	"headcount/layout"
	"headcount/model"
)

// Llama-3-70B over 8 ranks: 80 layers × 1 KV head × 2 × 128 × 2 B = 40 KiB a token, so
// 40 GiB hold 1,048,576 tokens.
func ExampleEngine_Plan() {
	src, err := checkpoint.FromBytes("Llama-3-70B", checkpoint.Files{Config: []byte(`{
		"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
		"hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
		"intermediate_size": 28672, "vocab_size": 128256, "max_position_embeddings": 8192}`)})
	if err != nil {
		log.Fatal(err)
	}
	m, err := model.Resolve(src)
	if err != nil {
		log.Fatal(err)
	}
	gpu, err := hw.Lookup("h100-sxm-80gb")
	if err != nil {
		log.Fatal(err)
	}
	job := engine.Job{Model: m, GPU: gpu, Layout: layout.Layout{TP: 8}, Options: &engine.Options{KVCacheMemory: 40 << 30}}
	result, err := vllm.Engine{}.Plan(job)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Ranks[0].BytesPerToken, "bytes a token,", *result.KVCache.NumBlocks, "blocks of", result.KVCache.BlockSize)
	fmt.Println(result.Log[0])

	job.Layout.TP = 24
	_, err = vllm.Engine{}.Plan(job)
	fmt.Println(err)
	// Output:
	// 40960 bytes a token, 65536 blocks of 16
	// GPU KV cache size: 1,048,576 tokens, Maximum concurrency for 8,192 tokens per request: 128.00x
	// num_attention_heads = 64: not divisible by tensor parallel size 24
}
