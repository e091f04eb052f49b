package headcount_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"headcount"
	"headcount/engine"
	"headcount/hw"
	"headcount/layout"
	"headcount/units"
)

// The table of reference numbers that the design keeps, asked of the whole program: each
// value is what a Report says, written so that a reader can redo it. Package attn holds the
// same table as arithmetic of attention layers, and the crossover of MLA and GQA.

const (
	bf16 = 2 // bytes an element
	gib  = 1 << 30
)

// answer plans a request that must be answered.
func answer(t *testing.T, req headcount.Request) *headcount.Report {
	t.Helper()
	r, err := headcount.Plan(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	if r.Error != nil {
		t.Fatalf("refused: %v", r.Error)
	}
	return r
}

// asLlama70B is Llama-3-70B's geometry with another number of KV heads.
func asLlama70B(kvHeads int) json.RawMessage {
	return fmt.Appendf(nil, `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
		"num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": %d,
		"intermediate_size": 28672, "vocab_size": 128256, "max_position_embeddings": 8192}`, kvHeads)
}

// deepSeekV3 is DeepSeek-V3 as a request, its weights not quantised, so that no block of
// the quantisation binds the tensor parallel size.
func deepSeekV3(tp int) headcount.Request {
	return headcount.Request{Model: "deepseek-v3", Layout: layout.Layout{TP: tp}, HFOverrides: json.RawMessage(`{"quantization_config": null}`)}
}

func TestReferenceBytesPerToken(t *testing.T) {
	llama70B := func(kvHeads, tp int) headcount.Request {
		return headcount.Request{Config: asLlama70B(kvHeads), Layout: layout.Layout{TP: tp}}
	}
	for _, tt := range []struct {
		name string
		req  headcount.Request
		want int64 // bytes a token, on one rank
	}{
		{"Llama-3-70B as MHA", llama70B(64, 1), 2 * 80 * 64 * 128 * bf16},
		{"Llama-3-70B", llama70B(8, 1), 2 * 80 * 8 * 128 * bf16},
		{"Llama-3-70B of the catalogue", headcount.Request{Model: "llama-3-70b"}, 327_680},
		{"Llama-3-70B, a rank of 8", llama70B(8, 8), 2 * 80 * 1 * 128 * bf16},
		{"as MQA, a rank of 8", llama70B(1, 8), 40_960},
		{"Llama-3-8B, a rank of 8", headcount.Request{Model: "llama-3-8b", Layout: layout.Layout{TP: 8}}, 2 * 32 * 1 * 128 * bf16},
		{"Llama-3-8B, a rank of 16: two ranks hold each KV head", headcount.Request{Model: "llama-3-8b", Layout: layout.Layout{TP: 16}}, 2 * 32 * 1 * 128 * bf16},
		{"DeepSeek-V3", deepSeekV3(1), 61 * (512 + 64) * bf16},
		{"DeepSeek-V3, a rank of 2", deepSeekV3(2), 70_272},
		{"DeepSeek-V3, a rank of 4", deepSeekV3(4), 70_272},
		{"DeepSeek-V3, a rank of 8", deepSeekV3(8), 70_272},
		{"DeepSeek-V3, a rank of 16", deepSeekV3(16), 70_272},
		{"DeepSeek-V3, a rank of 32", deepSeekV3(32), 70_272},
		{"DeepSeek-V3, a rank of 64", deepSeekV3(64), 70_272},
		{"Qwen3-32B: head_dim as declared, not 5120 / 64", headcount.Request{Model: "Qwen/Qwen3-32B"}, 2 * 64 * 8 * 128 * bf16},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, engine := range []string{"vllm", "sglang"} {
				tt.req.Engine = engine
				r := answer(t, tt.req)
				if got := r.Ranks[0].BytesPerToken; got != tt.want {
					t.Errorf("%s: %d bytes a token, want %d", engine, got, tt.want)
				}
			}
		})
	}
	if got := int64(2*80*64*128*bf16) * 8192; got != 20*gib {
		t.Errorf("8,192 tokens of MHA: %d bytes, want 20 GiB", got)
	}
	if got := int64(327_680) * 8192; got != 5*gib/2 {
		t.Errorf("8,192 tokens of GQA-8: %d bytes, want 2.5 GiB", got)
	}
}

func TestReferenceHeads(t *testing.T) {
	qwen := answer(t, headcount.Request{Model: "Qwen/Qwen3-32B"})
	if qwen.Model.HeadDim != 128 || qwen.Model.Provenance["head_dim"] != "head_dim" {
		t.Errorf("Qwen3-32B: head_dim %d from %q, want 128 as declared", qwen.Model.HeadDim, qwen.Model.Provenance["head_dim"])
	}
	if got := qwen.Ranks[0].BytesPerToken; got != 256<<10 {
		t.Errorf("Qwen3-32B: %d bytes a token, want 256 KiB", got)
	}
	for tp, want := range map[int]int{1: 1, 8: 1, 16: 2, 32: 4} {
		r := answer(t, headcount.Request{Model: "llama-3-8b", Layout: layout.Layout{TP: tp}})
		if got := r.Ranks[0].KVReplication; got != want {
			t.Errorf("Llama-3-8B at TP %d: KV heads held %d times, want %d", tp, got, want)
		}
	}
	page := answer(t, headcount.Request{Model: "llama-3-70b", Layout: layout.Layout{TP: 8}, Options: engine.Options{BlockSize: 16}})
	if got := page.Ranks[0].Layers[0].PageSize; got != 16*2*1*128*bf16 {
		t.Errorf("a page of 16 tokens: %d bytes, want 8,192", got)
	}
}

// W_K and W_V have a row of hidden_size for each element of the cache.
func TestReferenceProjections(t *testing.T) {
	mha := answer(t, headcount.Request{Config: asLlama70B(64)})
	gqa := answer(t, headcount.Request{Config: asLlama70B(8)})
	saved := *mha.Model.Parameters - *gqa.Model.Parameters
	if want := int64(80 * (2*8192*8192 - 2*8192*1024)); saved != want { // 134.2 M and 16.8 M a layer
		t.Errorf("GQA-8 has %d parameters fewer than MHA, want %d", saved, want)
	}
	if got := units.Digits(float64(saved)/1e9, 2); got != "9.4" {
		t.Errorf("saved: %s B parameters, want 9.4", got)
	}
	if got := units.Bytes(*mha.Ranks[0].WeightBytes - *gqa.Ranks[0].WeightBytes).String(); got != "17.5 GiB" {
		t.Errorf("saved: %s, want 17.5 GiB", got)
	}
}

func TestReferenceCapacity(t *testing.T) {
	in := func(pool int64, block int, r headcount.Request) headcount.Request {
		r.Options = engine.Options{KVCacheMemory: pool, BlockSize: block, MaxModelLen: 8192} // a length that every block divides
		return r
	}
	llama := headcount.Request{Model: "llama-3-70b", Layout: layout.Layout{TP: 8}}
	const cell, latent = 40_960, 70_272 // bytes a token on a rank
	const chapter = 507 * gib / 10      // 50.7 GiB
	for _, tt := range []struct {
		name string
		req  headcount.Request
		want int64 // tokens
	}{
		{"GQA-8 in 40 GiB", in(40*gib, 16, llama), 40 * gib / (16 * cell) * 16},
		{"GQA-8 in 40 GiB, as printed", in(40*gib, 0, llama), 1_048_576},
		{"MLA in 40 GiB, pages of 64", in(40*gib, 64, deepSeekV3(8)), 40 * gib / (64 * latent) * 64},
		{"MLA in 40 GiB, as printed", in(40*gib, 64, headcount.Request{Model: "deepseek-v3", Layout: layout.Layout{TP: 8}}), 611_136},
		{"MLA in 40 GiB, pages of 16 as on an H100", in(40*gib, 0, deepSeekV3(8)), 40 * gib / (16 * latent) * 16},
	} {
		if got := *answer(t, tt.req).KVCache.Tokens; got != tt.want {
			t.Errorf("%s: %d tokens, want %d", tt.name, got, tt.want)
		}
	}
	for _, tt := range []struct {
		kvHeads int
		want    float64 // requests of 8,192 tokens
	}{{64, 20}, {8, 162}} {
		r := answer(t, in(chapter, 0, headcount.Request{Config: asLlama70B(tt.kvHeads), Layout: layout.Layout{TP: 8}}))
		if got := math.Floor(*r.KVCache.MaxConcurrency); got != tt.want {
			t.Errorf("%s: %g requests of 8,192 tokens in 50.7 GiB, want %g", r.Model.Variant, got, tt.want)
		}
	}
	ones := in(40*gib, 0, deepSeekV3(8))
	ones.Engine, ones.PageSize = "sglang", 1
	if got := *answer(t, ones).KVCache.MaxTotalNumTokens; got != 40*gib/latent { // 611,191.8: the chapter rounds up
		t.Errorf("MLA in 40 GiB, SGLang's pages of 1: %d tokens, want 611,191", got)
	}
}

// fp8_ds_mla is 512 bytes of latent, four float32 scales and 64 rope elements in bf16.
func TestReferenceFP8Latent(t *testing.T) {
	r := answer(t, headcount.Request{Model: "deepseek-ai/DeepSeek-V3.2", GPU: "h100", Layout: layout.Layout{TP: 8}, Options: engine.Options{KVCacheDType: "fp8", KVCacheMemory: 40 * gib}})
	if got := r.Resolved.CacheDType; got != "fp8_ds_mla" {
		t.Fatalf("fp8 of a sparse latent is stored as %q, want fp8_ds_mla", got)
	}
	for _, run := range r.Ranks[0].Layers {
		if want := int64(run.BlockSize) * (512*1 + 4*4 + 64*bf16); run.Kind == "mla" && run.PageSize != want {
			t.Errorf("a latent page of %d tokens: %d bytes, want %d", run.BlockSize, run.PageSize, want)
		}
	}
}

func TestReferenceIntensity(t *testing.T) {
	const ridge = 989.4e12 / 3.35e12 // FLOP/byte of an H100 SXM
	const mla = 2 * (2*512 + 64) / (bf16 * (512 + 64.))
	for _, tt := range []struct {
		name  string
		req   headcount.Request
		want  float64 // FLOP/byte
		share string  // per cent of the ridge
	}{
		{"MHA", headcount.Request{Config: asLlama70B(64), Layout: layout.Layout{TP: 8}}, 1, "0.34"},
		{"GQA-8", headcount.Request{Config: asLlama70B(8), Layout: layout.Layout{TP: 4}}, 8, "2.7"},
		{"GQA-8, a rank of 8: as many ranks as KV heads", headcount.Request{Config: asLlama70B(8), Layout: layout.Layout{TP: 8}}, 8, "2.7"},
		{"MQA", headcount.Request{Config: asLlama70B(1)}, 64, "22"},
		{"MLA", deepSeekV3(1), 128 * mla, "82"},
		{"MLA, a rank of 8", deepSeekV3(8), 16 * mla, "10"},
		{"MLA, a rank of 16", deepSeekV3(16), 8 * mla, "5.1"},
	} {
		tt.req.GPU, tt.req.KVCacheMemory = "h100", 40*gib
		tt.req.MaxModelLen = 8192
		roof := answer(t, tt.req).Roofline
		if *roof.Ridge != math.Round(ridge*10)/10 {
			t.Errorf("%s: ridge %g FLOP/byte, want %.1f", tt.name, *roof.Ridge, ridge)
		}
		point := roof.Layers[0]
		if math.Abs(point.Intensity-tt.want) > 1e-9 || point.Bound != "bandwidth" {
			t.Errorf("%s: %g FLOP/byte, bound by %s; want %g, by bandwidth", tt.name, point.Intensity, point.Bound, tt.want)
		}
		if got := units.Digits(100**point.ShareOfRidge, 2); got != tt.share {
			t.Errorf("%s: %s %% of the ridge, want %s %%", tt.name, got, tt.share)
		}
	}
	h100, err := hw.Lookup("h100")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := h100.Ridge(); math.Abs(float64(got)-ridge) > 1e-9 {
		t.Errorf("ridge of an H100: %v, want %g", got, ridge)
	}
}

// An hf_quant_config.json given beside a catalogue model counts as the checkpoint's own.
func TestQuantConfigBesideAName(t *testing.T) {
	req := headcount.Request{Model: "llama-3-8b", HFQuantConfig: json.RawMessage(`{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}`)}
	r, err := headcount.Plan(context.Background(), req)
	if err != nil || r.Error != nil {
		t.Fatal(err, r.Error)
	}
	if r.Model.Quantization == nil || *r.Model.Quantization != "modelopt" || r.Ranks[0].BytesPerToken != 2*32*8*128*1 {
		t.Errorf("quantisation %v, %d B a token, want modelopt and one byte an element", r.Model.Quantization, r.Ranks[0].BytesPerToken)
	}
}
