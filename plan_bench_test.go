package headcount_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"headcount"
	"headcount/engine"
	"headcount/internal/forge"
	"headcount/internal/source"
	"headcount/layout"
)

// BenchmarkPlan is one plan in process, the config already resolved.
func BenchmarkPlan(b *testing.B) {
	for _, bb := range []struct {
		name string
		req  headcount.Request
	}{
		{"vllm/llama-3-70b/pool", headcount.Request{Model: "llama-3-70b", Layout: layout.Layout{TP: 8}, Options: engine.Options{KVCacheMemory: 40 << 30}}},
		{"vllm/llama-3-70b/estimated", headcount.Request{Model: "llama-3-70b", GPU: "h100", Layout: layout.Layout{TP: 8}}},
		{"vllm/gpt-oss-120b/pool", headcount.Request{Model: "gpt-oss-120b", Layout: layout.Layout{TP: 8}, Options: engine.Options{KVCacheMemory: 40 << 30}}},
		{"vllm/nemotron-h/pool", headcount.Request{Model: "nvidia/Nemotron-H-47B-Reasoning-128K", Layout: layout.Layout{TP: 8}, Options: engine.Options{KVCacheMemory: 40 << 30}}},
		{"vllm/deepseek-v4-pro/pool", headcount.Request{Model: "deepseek-ai/DeepSeek-V4-Pro", Layout: layout.Layout{TP: 8}, Options: engine.Options{KVCacheMemory: 40 << 30}}},
		{"sglang/llama-3-70b/pool", headcount.Request{Model: "llama-3-70b", Engine: "sglang", Layout: layout.Layout{TP: 8}, Options: engine.Options{KVCacheMemory: 40 << 30}}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			var p headcount.Planner
			if r, err := p.Plan(context.Background(), bb.req); err != nil || r.Error != nil {
				b.Fatal(err, r.Error)
			}
			b.ReportAllocs()
			for b.Loop() {
				p.Plan(context.Background(), bb.req)
			}
		})
	}
}

// BenchmarkJSON is one line of plan --jobs: a request decoded, planned, encoded.
func BenchmarkJSON(b *testing.B) {
	line := []byte(`{"id":1,"model":"llama-3-70b","tensor_parallel_size":8,"kv_cache_memory_bytes":42949672960}`)
	var p headcount.Planner
	b.ReportAllocs()
	for b.Loop() {
		req, err := headcount.ParseRequest(line)
		if err != nil {
			b.Fatal(err)
		}
		r, err := p.Plan(context.Background(), req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := json.Marshal(r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPlanHeaders is one plan of a checkpoint whose weights its tensor headers tell:
// 61 layers of 256 experts, each of three packed weights with scales and zero points, known.
func BenchmarkPlanHeaders(b *testing.B) {
	folder := b.TempDir()
	config := `{"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 4096, "num_hidden_layers": 61, "num_attention_heads": 64,
		"num_key_value_heads": 8, "head_dim": 128, "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 1536, "vocab_size": 151936,
		"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}`
	if err := os.WriteFile(filepath.Join(folder, "config.json"), []byte(config), 0o644); err != nil {
		b.Fatal(err)
	}
	var shards [][]forge.Tensor
	add := func(list []forge.Tensor, name string, out, in int64) []forge.Tensor {
		return append(list,
			forge.Tensor{Name: name + ".qweight", DType: "I32", Shape: []int64{in / 8, out}, Bytes: in / 8 * out * 4},
			forge.Tensor{Name: name + ".qzeros", DType: "I32", Shape: []int64{in / 128, out / 8}, Bytes: in / 128 * out / 8 * 4},
			forge.Tensor{Name: name + ".scales", DType: "F16", Shape: []int64{in / 128, out}, Bytes: in / 128 * out * 2})
	}
	for i := range 61 {
		layer := fmt.Sprintf("model.layers.%d.", i)
		var list []forge.Tensor
		list = add(list, layer+"self_attn.q_proj", 8192, 4096)
		list = add(list, layer+"self_attn.k_proj", 1024, 4096)
		list = add(list, layer+"self_attn.v_proj", 1024, 4096)
		list = add(list, layer+"self_attn.o_proj", 4096, 8192)
		for e := range 256 {
			expert := fmt.Sprintf("%smlp.experts.%d.", layer, e)
			list = add(list, expert+"gate_proj", 1536, 4096)
			list = add(list, expert+"up_proj", 1536, 4096)
			list = add(list, expert+"down_proj", 4096, 1536)
		}
		shards = append(shards, list)
	}
	if err := forge.Shards(folder, shards); err != nil {
		b.Fatal(err)
	}
	req := headcount.Request{Model: folder, Layout: layout.Layout{TP: 8}, Options: engine.Options{KVCacheMemory: 40 << 30}}
	p := headcount.Planner{Resolver: source.Files{}}
	pinned, err := p.Pin(context.Background(), req)
	if err != nil {
		b.Fatal(err)
	}
	if r, err := pinned.Plan(context.Background(), req); err != nil || r.Error != nil || r.Ranks[0].WeightBytes == nil {
		b.Fatal(err, r.Error, r.Notes)
	}
	b.ReportAllocs()
	for b.Loop() {
		pinned.Plan(context.Background(), req)
	}
}
