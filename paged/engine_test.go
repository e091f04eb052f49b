package paged_test

import (
	"fmt"
	"testing"

	"headcount/attn"
	"headcount/dtype"
	"headcount/engine"
	"headcount/engine/vllm"
	"headcount/hw"
	"headcount/internal/modeltest"
	"headcount/layout"
	"headcount/paged"
)

// The four variants: Llama-3-70B's attention with as many KV heads as it could have, and
// DeepSeek-V3's latent.
var variants = []struct {
	name     string
	geometry attn.Geometry
	layers   int
	config   string
}{
	{"MHA", attn.Geometry{QueryHeads: 64, KVHeads: 64, KeyDim: 128, ValueDim: 128}, 80, llama(64)},
	{"GQA-8", attn.Geometry{QueryHeads: 64, KVHeads: 8, KeyDim: 128, ValueDim: 128}, 80, llama(8)},
	{"MQA", attn.Geometry{QueryHeads: 64, KVHeads: 1, KeyDim: 128, ValueDim: 128}, 80, llama(1)},
	{"MLA", attn.Geometry{Arch: attn.MLA, QueryHeads: 128, KVHeads: 1, KeyDim: 512 + 64, LatentDim: 512}, 61, `{
		"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "torch_dtype": "bfloat16", "hidden_size": 7168,
		"num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512, "q_lora_rank": 1536,
		"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 18432, "vocab_size": 129280,
		"n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_group": 8,
		"topk_group": 4, "first_k_dense_replace": 3, "max_position_embeddings": 4096}`},
}

// llama is Llama-3-70B's config with another number of KV heads.
func llama(kvHeads int) string {
	return fmt.Sprintf(`{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "hidden_size": 8192,
		"num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": %d, "intermediate_size": 28672,
		"vocab_size": 128256, "max_position_embeddings": 8192}`, kvHeads)
}

// plan asks vLLM's rules, for a pool of so many bytes a rank.
func plan(t *testing.T, config, cache string, tp int, pool int64) *engine.Result {
	t.Helper()
	m := modeltest.Resolve(t, config)
	gpu, err := hw.Lookup("h100-sxm-80gb")
	if err != nil {
		t.Fatal(err)
	}
	result, err := vllm.Engine{}.Plan(engine.Job{Model: m, GPU: gpu, Layout: layout.Layout{TP: tp},
		Options: &engine.Options{KVCacheMemory: pool, KVCacheDType: cache, MaxModelLen: 1024}})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// What a pool holds, what attn says of the geometry and what vLLM will allocate for the
// model are the same numbers, at the engine's block size.
func TestBytesAreTheEngines(t *testing.T) {
	const budget = 7 << 30 // bytes a rank, not a multiple of any block
	for _, v := range variants {
		for _, tp := range []int{1, 2, 8, 16} {
			for _, cache := range []struct {
				flag string
				t    dtype.Type
			}{{"auto", dtype.BFloat16}, {"fp8", dtype.Float8E4M3}} {
				t.Run(fmt.Sprintf("%s/tp=%d/%s", v.name, tp, cache.flag), func(t *testing.T) {
					result := plan(t, v.config, cache.flag, tp, budget)
					rank := &result.Ranks[0]
					share, err := v.geometry.Rank(tp)
					if err != nil {
						t.Fatal(err)
					}
					layers := make([]paged.Layout, v.layers)
					for i := range layers {
						layers[i] = paged.Layout{Geometry: share, DType: cache.t, BlockSize: result.KVCache.BlockSize}
					}
					pool, err := paged.NewPool(layers, 3)
					if err != nil {
						t.Fatal(err)
					}
					defer pool.Close()
					st := pool.Stats()

					perToken, err := v.geometry.BytesPerToken(tp, cache.t.Bytes())
					if err != nil {
						t.Fatal(err)
					}
					for i, b := range st.BytesPerToken {
						if b != perToken {
							t.Fatalf("layer %d: %d bytes a token, attn says %d", i, b, perToken)
						}
					}
					if want := result.Ranks[0].BytesPerToken; int64(len(st.BytesPerToken))*int64(perToken) != want {
						t.Errorf("%d layers of %d bytes a token, vLLM says %d in all", len(st.BytesPerToken), perToken, want)
					}
					if len(rank.Layers) != 1 || int64(layers[0].BlockBytes()) != rank.Layers[0].PageSize {
						t.Errorf("block of %d bytes a layer, vLLM says %+v", layers[0].BlockBytes(), rank.Layers)
					}
					if int64(st.BlockBytes) != *rank.BytesPerBlock {
						t.Errorf("block of %d bytes, vLLM says %d", st.BlockBytes, *rank.BytesPerBlock)
					}
					if st.Bytes != 3*st.BlockBytes {
						t.Errorf("3 blocks of %d bytes took %d", st.BlockBytes, st.Bytes)
					}
					blocks, err := paged.BlocksIn(budget, layers)
					if err != nil || int64(blocks) != *result.KVCache.NumBlocks {
						t.Errorf("%d blocks in %d bytes (%v), vLLM says %d", blocks, budget, err, *result.KVCache.NumBlocks)
					}
					if share.KVHeads != rank.KVHeads && v.geometry.Arch != attn.MLA || share.QueryHeads != rank.QueryHeads {
						t.Errorf("%d and %d heads, vLLM says %d and %d", share.QueryHeads, share.KVHeads, rank.QueryHeads, rank.KVHeads)
					}
				})
			}
		}
	}
}
