package sglang

import (
	"math"
	"strings"
	"testing"

	"headcount/checkpoint"
	"headcount/engine"
	"headcount/layout"
	"headcount/problem"
)

// TestRefusals plans what the engine would not start with, and what it would have to say.
func TestRefusals(t *testing.T) {
	readings := engine.Options{MemoryBeginGiB: 78.66, MemoryEndGiB: 41.37}
	with := func(change func(*engine.Options)) engine.Options { o := readings; change(&o); return o }
	replace := func(config, old, new string) string {
		if !strings.Contains(config, old) {
			t.Fatalf("no %q in the config", old)
		}
		return strings.Replace(config, old, new, 1)
	}
	for _, tt := range []struct {
		name   string
		config string
		layout layout.Layout
		opts   engine.Options
		code   problem.Code
		field  string
	}{
		{"attention ranks", llama, layout.Layout{TP: 8, DP: 3, DPAttention: true}, readings, problem.IllegalLayout, "data_parallel_size"},
		{"context ranks", llama, layout.Layout{TP: 8, DCP: 3}, readings, problem.IllegalLayout, "decode_context_parallel_size"},
		{"pages in a chunk", llama, layout.Layout{}, with(func(o *engine.Options) { o.PageSize, o.ChunkedPrefillSize = 48, 1024 }), problem.BadValue, "chunked_prefill_size"},
		{"fraction above one", llama, layout.Layout{}, with(func(o *engine.Options) { o.MemFractionStatic = 1.5 }), problem.BadValue, "mem_fraction_static"},
		{"fraction not a number", llama, layout.Layout{}, with(func(o *engine.Options) { o.MemFractionStatic = math.NaN() }), problem.BadValue, "mem_fraction_static"},
		{"end above begin", llama, layout.Layout{}, engine.Options{MemoryBeginGiB: 40, MemoryEndGiB: 41}, problem.BadValue, "memory_end_gib"},
		{"begin not a number", llama, layout.Layout{}, engine.Options{MemoryBeginGiB: math.NaN(), MemoryEndGiB: 41}, problem.BadValue, "memory_begin_gib"},
		{"end alone", llama, layout.Layout{}, engine.Options{MemoryEndGiB: 41}, problem.BadValue, "memory_begin_gib"},
		{"weights above the fraction", llama, layout.Layout{}, engine.Options{MemoryBeginGiB: 78.66, MemoryEndGiB: 1}, problem.DoesNotFit, "mem_fraction_static"},
		{"pool below a page", llama, layout.Layout{}, engine.Options{KVCacheMemory: 1000}, problem.DoesNotFit, "mem_fraction_static"},
		{"window ratio", gptOSS, layout.Layout{}, with(func(o *engine.Options) { o.SWAFullTokensRatio = 1.5 }), problem.BadValue, "swa_full_tokens_ratio"},
		{"window ratio not a number", gptOSS, layout.Layout{}, with(func(o *engine.Options) { o.SWAFullTokensRatio = math.NaN() }), problem.BadValue, "swa_full_tokens_ratio"},
		{"state ratio", qwen3Next, layout.Layout{}, with(func(o *engine.Options) { o.MambaFullRatio = math.Inf(1) }), problem.BadValue, "mamba_full_memory_ratio"},
		{"state ranks", qwen3Next, layout.Layout{TP: 64}, readings, problem.NotDivisible, "num_heads"},
		{"no state slot", qwen3Next, layout.Layout{}, engine.Options{KVCacheMemory: 1 << 20}, problem.DoesNotFit, "max_mamba_cache_size"},
		{"stages", qwen3Next, layout.Layout{PP: 2}, readings, problem.Unsupported, "pipeline_parallel_size"},
		{"longer than the model", llama, layout.Layout{}, with(func(o *engine.Options) { o.MaxModelLen = 1 << 20 }), problem.BadValue, "max_model_len"},
		{"cache dtype", llama, layout.Layout{}, with(func(o *engine.Options) { o.KVCacheDType = "int4" }), problem.BadValue, "kv_cache_dtype"},
		{"a Blackwell cache", llama, layout.Layout{}, with(func(o *engine.Options) { o.KVCacheDType = "nvfp4" }), problem.Unsupported, "kv_cache_dtype"},
		{"drafting", llama, layout.Layout{}, with(func(o *engine.Options) { o.SpeculativeAlgorithm = "MEDUSA" }), problem.BadValue, "speculative_algorithm"},
		{"a draft", llama, layout.Layout{}, with(func(o *engine.Options) { o.SpeculativeAlgorithm = "DFLASH" }), problem.MissingField, "speculative_draft_model_path"},
		{"no architecture", replace(llama, `"architectures": ["LlamaForCausalLM"],`, ""), layout.Layout{}, readings, problem.MissingField, "architectures"},
		{"another architecture", replace(llama, "LlamaForCausalLM", "LlamaForCausalML"), layout.Layout{}, readings, problem.UnknownArchitecture, "architectures"},
		{"another model type", replace(llama, `"llama"`, `"lama"`), layout.Layout{}, readings, problem.UnknownArchitecture, "model_type"},
		{"no heads", replace(llama, `"num_attention_heads": 64`, `"num_attention_heads": 0`), layout.Layout{}, readings, problem.BadValue, "num_attention_heads"},
		{"negative layers", replace(llama, `"num_hidden_layers": 80`, `"num_hidden_layers": -1`), layout.Layout{}, readings, problem.BadValue, "num_hidden_layers"},
		{"too many layers", replace(llama, `"num_hidden_layers": 80`, `"num_hidden_layers": 2147483648`), layout.Layout{}, readings, problem.BadValue, "num_hidden_layers"},
		{"no latent", replace(deepseekV3, `"kv_lora_rank": 512`, `"kv_lora_rank": null`), layout.Layout{}, readings, problem.MissingField, "kv_lora_rank"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Engine{}.Plan(engine.Job{Model: parse(t, tt.config), Layout: tt.layout, Options: &tt.opts})
			p, ok := err.(*problem.Error)
			if !ok || p.Code != tt.code || p.Field != tt.field {
				t.Fatalf("Plan: %+v, want %s of %s", err, tt.code, tt.field)
			}
		})
	}
}

// FuzzPlan holds that whatever a config and flags claim, an answer comes back: sizes that
// are not negative, or a problem.
func FuzzPlan(f *testing.F) {
	for _, config := range []string{llama, deepseekV3, gptOSS, qwen3Next,
		`{"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"], "compress_ratios": [0, 4, 128], "head_dim": 512, "index_head_dim": 128, "sliding_window": 128}`,
		`{"model_type": "falcon_h1", "architectures": ["FalconH1ForCausalLM"], "mamba_d_ssm": 3072}`,
		`{"model_type": "zaya", "architectures": ["ZayaForCausalLM"]}`,
		`{"d_model": 768, "n_layer": 2147483647, "ssm_cfg": {}}`} {
		f.Add([]byte(config), 8, 1, 1, 1, 1, 8192, 0, 0.0, 78.66, 41.37, 0.0, "", "")
		f.Add([]byte(config), 4, 2, 2, 2, 1<<31, -1, math.MaxInt, 0.999999, 1e300, 1e299, 1e-300, "EAGLE", "mxfp8")
		f.Add([]byte(config), 16, 1, 16, 1, 7, 1, 1, math.SmallestNonzeroFloat64, 1.0, 1.0, 1.0, "NGRAM", "fp4_mx_block16")
	}
	f.Fuzz(func(t *testing.T, config []byte, tp, pp, dp, dcp, page, chunk, requests int, fraction, begin, end, ratio float64, spec, kv string) {
		src, err := checkpoint.FromBytes("fuzz", checkpoint.Files{Config: config})
		if err != nil {
			return
		}
		opts := &engine.Options{PageSize: page, ChunkedPrefillSize: chunk, MaxRunningRequests: requests, MemFractionStatic: fraction,
			MemoryBeginGiB: begin, MemoryEndGiB: end, SWAFullTokensRatio: ratio, MambaFullRatio: ratio, SpeculativeAlgorithm: spec,
			SpeculativeSteps: page, SpeculativeTopK: dcp, SpeculativeDraftTokens: requests, KVCacheDType: kv, MaxMambaCacheSize: requests,
			MaxTotalTokens: int64(requests), ConcurrencyAt: []int64{1, math.MaxInt64, -1}, DisableRadixCache: tp%2 == 0}
		l := layout.Layout{TP: tp, PP: pp, DP: dp, DCP: dcp, DPAttention: dp > 1}
		res, err := Engine{}.Plan(engine.Job{Model: bare("fuzz", src), Layout: l, Options: opts})
		if res == nil {
			t.Fatal("no result")
		}
		if _, ok := err.(*problem.Error); err != nil && !ok {
			t.Fatalf("%T is no problem", err)
		}
		if err != nil {
			return
		}
		c := &res.KVCache
		for _, n := range []*int64{c.Tokens, c.MaxTotalNumTokens, c.AvailableBytes, c.MaxRunningRequests, c.FullTokens, c.SWATokens, c.MambaSlots} {
			if n != nil && *n < 0 {
				t.Errorf("a size of %d", *n)
			}
		}
		for _, p := range c.Pools {
			if p.KBytes < 0 || p.VBytes < 0 {
				t.Errorf("pool %s of %d and %d bytes", p.Name, p.KBytes, p.VBytes)
			}
		}
		for _, r := range res.Ranks {
			for _, run := range r.Layers {
				if run.PageSize < 0 || run.Layers <= 0 {
					t.Errorf("run %+v", run)
				}
			}
		}
	})
}
