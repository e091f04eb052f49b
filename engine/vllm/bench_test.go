package vllm

import (
	"testing"

	"headcount/checkpoint"
	"headcount/engine"
	"headcount/hw"
	"headcount/layout"
	"headcount/model"
)

// benchmarkConfigs are a homogeneous model and two whose layers differ.
var benchmarkConfigs = []struct {
	name, config string
	tp           int
}{
	{"Llama-3-70B", `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80,
		"num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,
		"max_position_embeddings": 8192, "torch_dtype": "bfloat16"}`, 8},
	{"Gemma-3-27B", `{"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_size": 5376, "num_hidden_layers": 62,
		"num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "intermediate_size": 21504, "vocab_size": 262208,
		"max_position_embeddings": 131072, "sliding_window": 1024, "torch_dtype": "bfloat16"}`, 8},
	{"Qwen3-Next-80B", `{"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48,
		"num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "num_experts": 512, "num_experts_per_tok": 10,
		"moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "vocab_size": 151936,
		"max_position_embeddings": 262144, "linear_num_value_heads": 32, "linear_num_key_heads": 16, "torch_dtype": "bfloat16"}`, 4},
}

func BenchmarkPlan(b *testing.B) {
	gpu, err := hw.Lookup("h100-sxm-80gb")
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range benchmarkConfigs {
		src, err := checkpoint.FromBytes(c.name, checkpoint.Files{Config: []byte(c.config)})
		if err != nil {
			b.Fatal(err)
		}
		m, err := model.Resolve(src)
		if err != nil {
			b.Fatal(err)
		}
		job := engine.Job{Model: m, GPU: gpu, Layout: layout.Layout{TP: c.tp}, Options: &engine.Options{KVCacheMemory: 40 << 30}}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (Engine{}).Plan(job); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
