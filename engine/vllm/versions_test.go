package vllm

import (
	"slices"
	"testing"

	"headcount/checkpoint"
	"headcount/engine"
	"headcount/hw"
	"headcount/layout"
	"headcount/model"
)

// Llama-3-8B: 32 layers × 8 heads × 2 × 128 × 2 B = 131,072 B a token.
const llama8B = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
	"num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
	"max_position_embeddings": 8192, "torch_dtype": "bfloat16"}`

const deepSeekV3 = `{"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168,
	"num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
	"qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256, "torch_dtype": "bfloat16"}`

// planned is the plan of a config by a version on a GPU.
func planned(t *testing.T, version, config, gpu string, l layout.Layout, opt engine.Options) *engine.Result {
	t.Helper()
	src, err := checkpoint.FromBytes("config.json", checkpoint.Files{Config: []byte(config)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Resolve(src)
	if err != nil {
		t.Fatal(err)
	}
	device, err := hw.Lookup(gpu)
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(version)
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Plan(engine.Job{Model: m, Layout: l, GPU: device, Options: &opt})
	if err != nil {
		t.Fatalf("%s on %s: %v", version, gpu, err)
	}
	return r
}

func TestVersions(t *testing.T) {
	for _, tt := range []struct {
		version      string
		gpu          string
		tokens, seqs int // of a step
		fraction     float64
		latents      int // block size of DeepSeek-V3's
	}{
		{"0.8.5", "h100-sxm-80gb", 8192, 1024, 0.9, 64},
		{"0.8.5", "a100-sxm-80gb", 8192, 1024, 0.9, 16},
		{"0.9.2", "a100-sxm-80gb", 2048, 256, 0.9, 16},
		{"0.10.0", "b200-sxm-180gb", 8192, 1024, 0.9, 16},
		{"0.10.2", "b200-sxm-180gb", 8192, 1024, 0.9, 128},
		{"0.17.1", "b200-sxm-180gb", 8192, 1024, 0.9, 64},
		{"0.17.1", "h100-sxm-80gb", 8192, 1024, 0.9, 64},
		{"0.18.1", "h100-sxm-80gb", 8192, 1024, 0.9, 16},
		{"0.20.0", "h100-sxm-80gb", 8192, 1024, 0.92, 16},
		{"0.27.1", "b200-sxm-180gb", 8192, 1024, 0.92, 32},
		{"0.28.0", "b200-sxm-180gb", 16384, 1024, 0.92, 32},
		{"v0.33", "l4-24gb", 2048, 256, 0.92, 16},
		{"", "h100-sxm-80gb", 8192, 1024, 0.92, 16},
	} {
		r := planned(t, tt.version, deepSeekV3, tt.gpu, layout.Layout{TP: 8}, engine.Options{})
		got := r.Resolved
		if got.MaxNumBatchedTokens != tt.tokens || got.MaxNumSeqs != tt.seqs || r.Fraction != tt.fraction || r.KVCache.BlockSize != tt.latents {
			t.Errorf("%s on %s: %d tokens, %d requests a step, %g of the memory, blocks of %d; want %d, %d, %g, %d", tt.version, tt.gpu,
				got.MaxNumBatchedTokens, got.MaxNumSeqs, r.Fraction, r.KVCache.BlockSize, tt.tokens, tt.seqs, tt.fraction, tt.latents)
		}
	}
}

// One pool of 40 GiB is 20,480 blocks of 16 tokens, 327,680 tokens: 40 requests of 8,192, or
// 20,480/63 = 325.08 of 1,000, each of which takes 63 blocks.
func TestVersionsLog(t *testing.T) {
	for _, tt := range []struct {
		version string
		length  int64
		want    []string
	}{
		{"0.8.5", 8192, []string{"GPU KV cache size: 327,680 tokens", "Maximum concurrency for 8,192 tokens per request: 40.00x"}},
		{"0.8.5", 1000, []string{"GPU KV cache size: 327,680 tokens", "Maximum concurrency for 1,000 tokens per request: 327.68x"}},
		{"0.19.1", 1000, []string{"GPU KV cache size: 327,680 tokens", "Maximum concurrency for 1,000 tokens per request: 325.08x"}},
		{"0.20.1", 1000, []string{"GPU KV cache size: 325,079 tokens", "Maximum concurrency for 1,000 tokens per request: 325.08x"}},
		{"0.28.0", 1000, []string{"GPU KV cache size: 325,079 tokens, Maximum concurrency for 1,000 tokens per request: 325.08x"}},
	} {
		r := planned(t, tt.version, llama8B, "h100-sxm-80gb", layout.Layout{}, engine.Options{KVCacheMemory: 40 << 30, MaxModelLen: tt.length})
		if !slices.Equal(r.Log, tt.want) {
			t.Errorf("%s logs %q, want %q", tt.version, r.Log, tt.want)
		}
	}
}

func TestUnknownVersions(t *testing.T) {
	for _, asked := range []string{"0.7.3", "0.34.0", "1.0", "0", "x.y", "0.-1"} {
		if _, err := New(asked); err == nil {
			t.Errorf("New(%q): no error", asked)
		}
	}
}
