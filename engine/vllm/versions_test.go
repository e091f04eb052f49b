package vllm

import (
	"slices"
	"testing"

	"headcount/engine"
	"headcount/hw"
	"headcount/internal/modeltest"
	"headcount/layout"
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
	m := modeltest.Resolve(t, config)
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
		{"0.14.1", "b200-sxm-180gb", 8192, 1024, 0.9, 128},
		{"0.15.0", "b200-sxm-180gb", 8192, 1024, 0.9, 64},
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
		// The first engine: 4 GiB of swap space are 2,048 blocks of 2 MiB.
		{"0.5.0", 8192, []string{"# GPU blocks: 20480, # CPU blocks: 2048"}},
		{"0.6.6", 1000, []string{"# GPU blocks: 20480, # CPU blocks: 2048", "Maximum concurrency for 1000 tokens per request: 327.68x"}},
		{"0.8.5", 8192, []string{"GPU KV cache size: 327,680 tokens", "Maximum concurrency for 8,192 tokens per request: 40.00x"}},
		{"0.8.5", 1000, []string{"GPU KV cache size: 327,680 tokens", "Maximum concurrency for 1,000 tokens per request: 327.68x"}},
		{"0.9.0", 1000, []string{"GPU KV cache size: 327,680 tokens", "Maximum concurrency for 1,000 tokens per request: 327.68x"}},
		{"0.9.1", 1000, []string{"GPU KV cache size: 327,680 tokens", "Maximum concurrency for 1,000 tokens per request: 325.08x"}},
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

// Without absorbing them, DeepSeek-V3's 61 layers cache keys and values of 128 heads over 8
// ranks, 192 wide; before 0.7.1 as wide as 256.
func TestVersionsLatents(t *testing.T) {
	for _, tt := range []struct {
		version string
		opt     engine.Options
		want    int64 // bytes a token and rank
	}{
		{"0.7.0", engine.Options{}, 61 * 2 * 16 * 256 * 2},
		{"0.7.1", engine.Options{}, 61 * (512 + 64) * 2},
		{"", engine.Options{}, 61 * (512 + 64) * 2},
		{"", engine.Options{MLADisable: true}, 61 * 2 * 16 * 192 * 2},
	} {
		r := planned(t, tt.version, deepSeekV3, "h200-sxm-141gb", layout.Layout{TP: 8}, tt.opt)
		if got := r.Ranks[0].BytesPerToken; got != tt.want {
			t.Errorf("%s, %+v: %d bytes a token, want %d", tt.version, tt.opt, got, tt.want)
		}
	}
}

// Qwen3-Next's states: 36 of 48 layers, in three groups beside the one of attention. A request
// of 8,192 tokens takes one block a group of states, two where prefixes are cached.
func TestVersionsStates(t *testing.T) {
	const qwen3Next = `{"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48,
		"num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
		"linear_num_value_heads": 32, "linear_value_head_dim": 128, "full_attention_interval": 4, "num_experts": 512, "num_experts_per_tok": 10,
		"moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "vocab_size": 151936, "max_position_embeddings": 262144, "torch_dtype": "bfloat16"}`
	for _, tt := range []struct {
		version string
		states  int64 // blocks of a request, of all three groups
		prefix  bool
	}{{"0.20.0", 3, false}, {"0.27.1", 3, false}, {"0.28.0", 6, true}, {"0.32.0", 6, true}} {
		r := planned(t, tt.version, qwen3Next, "h100-sxm-80gb", layout.Layout{}, engine.Options{NumGPUBlocksOverride: 1000, MaxModelLen: 8192})
		attention := int64(0)
		for _, g := range r.KVCache.Groups {
			if g.Kind == "FullAttentionSpec" {
				attention = ceil(8192, int64(g.BlockSize))
			}
		}
		want := 1000 / float64(attention+tt.states)
		if got := *r.KVCache.MaxConcurrency; got != want || *r.Resolved.PrefixCaching != tt.prefix {
			t.Errorf("%s: %v requests, prefix caching %v; want %v, %v", tt.version, got, *r.Resolved.PrefixCaching, want, tt.prefix)
		}
	}
}

// A pool of 63 blocks of 16 tokens takes a request of 1,000 before 0.29, which keeps one back.
func TestVersionsNullBlock(t *testing.T) {
	m := modeltest.Resolve(t, llama8B)
	for version, fits := range map[string]bool{"0.8.5": true, "0.28.0": true, "0.29.0": false, "0.33.0": false} {
		e, err := New(version)
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Plan(engine.Job{Model: m, Options: &engine.Options{KVCacheMemory: 63 * 16 * 131072, MaxModelLen: 1000}})
		if (err == nil) != fits {
			t.Errorf("%s: %v, fits: %v", version, err, fits)
		}
	}
}

func TestUnknownVersions(t *testing.T) {
	for _, asked := range []string{"0.4.3", "0.1.dev1+g6804e1b81", "0.34.0", "1.0", "0", "x.y", "0.-1"} {
		if _, err := New(asked); err == nil {
			t.Errorf("New(%q): no error", asked)
		}
	}
}
