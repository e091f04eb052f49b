package headcount_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"headcount"
	"headcount/checkpoint"
	"headcount/engine"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
)

// A config comes from a stranger and a request from a program with a bug. Each gets a number
// that is right or a [*problem.Error] of one line that names the field, its value, what is
// wrong and, where a remedy is known, the remedy.

// sound holds what is true of every answer, whatever was asked.
func sound(t *testing.T, r *headcount.Report, err error) {
	t.Helper()
	if r == nil {
		t.Fatal("no report")
	}
	if err != nil {
		e, ok := errors.AsType[*problem.Error](err)
		if !ok || r.Error == nil || e.RefusedBy != "" {
			t.Fatalf("%T %v, the report has %v", err, err, r.Error)
		}
	}
	if e := r.Error; e != nil {
		if e.Message == "" || e.Code == "" || len(e.Message) > 1024 || strings.ContainsFunc(e.Message+e.Hint, func(c rune) bool { return c < ' ' }) {
			t.Fatalf("not one line with a code: %+v", e)
		}
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatalf("the report does not encode: %v", err)
	}
	if r.Error == nil {
		noNegative(t, data)
		within(t, r)
	}
}

// noNegative holds that no number of a report is below zero. SGLang's -1 for prefills that
// are not cut is the one exception.
func noNegative(t *testing.T, report []byte) {
	t.Helper()
	var v any
	if err := json.Unmarshal(report, &v); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, v := range v {
				walk(path+"."+key, v)
			}
		case []any:
			for i, v := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), v)
			}
		case float64:
			if v < 0 && path != ".resolved.chunked_prefill_size" {
				t.Errorf("%s = %g", path, v)
			}
		}
	}
	walk("", v)
}

// within holds that the tokens of a pool fit into it, where every cache of the model keeps
// every token, on one stage and without tokens divided over ranks.
func within(t *testing.T, r *headcount.Report) {
	t.Helper()
	pool, tokens := r.KVCache.AvailableBytes, r.KVCache.Tokens
	if pool == nil || tokens == nil || len(r.Ranks) != 1 || r.Layout.DCP > 1 {
		return
	}
	for _, run := range r.Ranks[0].Layers {
		if run.Kind != model.Full && run.Kind != model.Latent {
			return
		}
	}
	if used := float64(*tokens) * float64(r.Ranks[0].BytesPerToken); used > float64(*pool)*(1+1e-9) {
		t.Errorf("%d tokens of %d bytes in a pool of %d", *tokens, r.Ranks[0].BytesPerToken, *pool)
	}
}

// wrong plans a request that must have a problem, and returns it.
func wrong(t *testing.T, req headcount.Request) *problem.Error {
	t.Helper()
	r, err := headcount.Plan(context.Background(), req)
	sound(t, r, err)
	if r.Error == nil {
		t.Fatalf("answered: %s per token, %d tokens", fmt.Sprint(r.KVCache.BytesPerToken), orZero(r.KVCache.Tokens))
	}
	return r.Error
}

// blames holds that a problem is of this field and its value, and names a remedy if the
// input itself is at fault.
func blames(t *testing.T, e *problem.Error, code problem.Code, field string, value any) {
	t.Helper()
	if e.Code != code || e.Field != field || value != nil && fmt.Sprint(e.Value) != fmt.Sprint(value) {
		t.Errorf("%s of %q = %v (%v); want %s of %q = %v", e.Code, e.Field, e.Value, e, code, field, value)
	}
	if e.RefusedBy == "" && e.Hint == "" && e.Code != problem.Unreadable {
		t.Errorf("no hint beside %v", e)
	}
}

// decoderWith is a plain decoder with fields of its own: raw JSON by key.
func decoderWith(fields map[string]string) json.RawMessage {
	all := map[string]string{
		"architectures": `["LlamaForCausalLM"]`, "model_type": `"llama"`, "torch_dtype": `"bfloat16"`,
		"num_hidden_layers": "32", "hidden_size": "4096", "num_attention_heads": "32", "num_key_value_heads": "8",
		"intermediate_size": "14336", "vocab_size": "128256", "max_position_embeddings": "8192",
	}
	for key, value := range fields {
		all[key] = value
	}
	var b strings.Builder
	b.WriteByte('{')
	for key, value := range all {
		if value == "" {
			continue // left out
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q: %s", key, value)
	}
	b.WriteByte('}')
	return json.RawMessage(b.String())
}

// sizes are the fields of a plain decoder that are whole numbers above zero.
var sizes = []string{"num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size"}

func TestWrongSizes(t *testing.T) {
	for _, field := range slices.Concat(sizes, []string{"max_position_embeddings", "head_dim"}) {
		for _, tt := range []struct{ value, shown string }{
			{`"32"`, `"32"`}, {"2.5", "2.5"}, {"-8", "-8"}, {"9223372036854775808", ""}, {"4611686018427387904", ""}, {"1e30", ""},
			{"1" + strings.Repeat("0", 400), ""}, {"true", "true"}, {`{"a": 1}`, ""}, {`"thirty-two"`, ""}, {`""`, ""}, {"Infinity", ""}, {"NaN", ""}, {"-Infinity", ""},
		} {
			t.Run(field+" "+tt.value[:min(len(tt.value), 24)], func(t *testing.T) {
				e := wrong(t, headcount.Request{Config: decoderWith(map[string]string{field: tt.value})})
				if e.Field != field || e.Code != problem.BadValue || !strings.HasPrefix(e.Message, field+" = "+tt.shown) {
					t.Errorf("%s: %v, want a bad value of %s", e.Code, e, field)
				}
			})
		}
	}
	for _, field := range sizes {
		e := wrong(t, headcount.Request{Config: decoderWith(map[string]string{field: "0"})})
		blames(t, e, problem.BadValue, field, 0)
	}
}

// What is absurd is refused before any product of it can wrap.
func TestAbsurdSizes(t *testing.T) {
	for _, tt := range []struct {
		fields map[string]string
		code   problem.Code
	}{
		{map[string]string{"num_hidden_layers": "100000"}, problem.BadValue},
		{map[string]string{"num_hidden_layers": "2147483648"}, problem.BadValue},
		{map[string]string{"hidden_size": "2147483648"}, problem.BadValue},
		{map[string]string{"num_attention_heads": "2147483648", "num_key_value_heads": "2147483648", "head_dim": "128"}, problem.BadValue},
		{map[string]string{"num_hidden_layers": "10000", "hidden_size": "2147483648", "num_attention_heads": "1048576", "num_key_value_heads": "1048576", "head_dim": "2147483648"}, problem.BadValue},
		{map[string]string{"head_dim": "2147483648"}, problem.DoesNotFit},
		{map[string]string{"max_position_embeddings": "2147483648"}, problem.DoesNotFit},
	} {
		for _, name := range []string{"vllm", "sglang"} {
			req := headcount.Request{Config: decoderWith(tt.fields), Engine: name, Options: engine.Options{KVCacheMemory: 1 << 30}}
			r, err := headcount.Plan(context.Background(), req)
			sound(t, r, err)
			if name == "vllm" && (r.Error == nil || r.Error.Code != tt.code) {
				t.Errorf("%v: %v, want %s", tt.fields, r.Error, tt.code)
			}
		}
	}
}

func TestMissingAndNullFields(t *testing.T) {
	r := answer(t, headcount.Request{Config: decoderWith(map[string]string{"num_key_value_heads": "null"})})
	if r.Model.KVHeads != 32 || r.Model.Provenance["kv_heads"] != "num_attention_heads" {
		t.Errorf("no KV heads given: %d from %q, want all 32", r.Model.KVHeads, r.Model.Provenance["kv_heads"])
	}
	r = answer(t, headcount.Request{Config: decoderWith(map[string]string{"num_hidden_layers": "", "head_dim": "null"})})
	if got := r.Model.Provenance["layers"]; r.Model.Layers != 32 || got != "num_hidden_layers (default of llama)" {
		t.Errorf("no layers given: %d from %q, want the class's default", r.Model.Layers, got)
	}
	if r.Model.HeadDim != 128 || r.Model.Provenance["head_dim"] != "hidden_size / num_attention_heads" {
		t.Errorf("head_dim null: %d from %q", r.Model.HeadDim, r.Model.Provenance["head_dim"])
	}
	for _, field := range []string{"num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size"} {
		e := wrong(t, headcount.Request{Config: decoderWith(map[string]string{field: "null"})})
		blames(t, e, problem.MissingField, field, "null")
	}
	e := wrong(t, headcount.Request{Config: json.RawMessage(`{}`)})
	blames(t, e, problem.MissingField, "model_type", nil)
	e = wrong(t, headcount.Request{})
	blames(t, e, problem.MissingField, "model", nil)
}

func TestNotAConfig(t *testing.T) {
	deep := strings.Repeat(`{"a": `, 65) + "1" + strings.Repeat("}", 65)
	wide := `{"model_type": "llama", "a": [` + strings.Repeat("0,", 1<<17) + `0]}`
	for _, tt := range []struct{ name, config, message string }{
		{"nothing", "   ", "empty, not JSON"},
		{"a list", "[1]", "a list is not an object"},
		{"a number", "32", "a number is not an object"},
		{"a page", "<!DOCTYPE html>", "an HTML or XML page, not JSON"},
		{"a pointer", "version https://git-lfs.github.com/spec/v1", "a Git LFS pointer, not JSON"},
		{"cut off", `{"model_type": "llama", "num_hid`, "line 1, column"},
		{"two objects", `{} {}`, "text after the end"},
		{"not UTF-8", "{\"model_type\": \"\xff\"}", "not UTF-8"},
		{"nested too deep", deep, "nested deeper than"},
		{"too many values", wide, "more than 131072 values"},
		{"too large", `{"a": "` + strings.Repeat("x", checkpoint.MaxBytes) + `"}`, fmt.Sprintf("larger than %d bytes", checkpoint.MaxBytes)},
	} {
		e := wrong(t, headcount.Request{Config: json.RawMessage(tt.config)})
		if e.Code != problem.Unreadable || !strings.Contains(e.Message, tt.message) {
			t.Errorf("%s: %s, %v; want %q", tt.name, e.Code, e, tt.message)
		}
	}
}

// What says how weights are quantised is an object; anything else would end the engine.
func TestQuantizationConfigIsAnObject(t *testing.T) {
	for _, value := range []string{"[1]", `"fp8"`, "4"} {
		e := wrong(t, headcount.Request{Config: decoderWith(map[string]string{"quantization_config": value})})
		if e.Code != problem.BadValue || e.Field != "quantization_config" {
			t.Errorf("%s: %s of %s", value, e.Code, e.Field)
		}
	}
}

// Of two equal keys the last counts, as in Python, and a note says so.
func TestDuplicateKeys(t *testing.T) {
	config := strings.Replace(string(decoderWith(nil)), "{", `{"num_key_value_heads": 1, `, 1)
	r := answer(t, headcount.Request{Config: json.RawMessage(config)})
	if r.Model.KVHeads != 8 {
		t.Errorf("%d KV heads, want the last", r.Model.KVHeads)
	}
	noted("duplicate-key")(t, headcount.Request{}, r)
}

func TestUnknownArchitectures(t *testing.T) {
	fields := map[string]string{"architectures": `["LlamaForCausalLN"]`, "model_type": `"lama"`}
	e := wrong(t, headcount.Request{Config: decoderWith(fields)})
	blames(t, e, problem.UnknownArchitecture, "architectures", "LlamaForCausalLN")
	if !strings.Contains(e.Hint, "LlamaForCausalLM") {
		t.Errorf("hint %q does not name the nearest", e.Hint)
	}
	r, err := headcount.Plan(context.Background(), headcount.Request{Config: decoderWith(fields), AssumeArchitecture: "LlamaForCausalLM"})
	sound(t, r, err)
	if r.Model.Layers != 32 || r.Model.Architecture != "LlamaForCausalLM" { // the engine still does not know the model_type
		t.Errorf("assumed: %+v, %v", r.Model, r.Error)
	}
	for _, arch := range []string{`"LlamaForCausalLM"`, `[]`, `[1]`, `[null]`, `{}`, `[""]`, `["` + strings.Repeat("X", 100_000) + `"]`} {
		r, err := headcount.Plan(context.Background(), headcount.Request{Config: decoderWith(map[string]string{"architectures": arch})})
		sound(t, r, err)
	}
}

// Fields of layers that differ: lists, windows, states.
func TestWrongLayers(t *testing.T) {
	full := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`"full_attention", `, n), ", ") + "]"
	}
	gemma3 := func(key, value string) json.RawMessage {
		return decoderWith(map[string]string{"architectures": `["Gemma3ForCausalLM"]`, "model_type": `"gemma3_text"`, "head_dim": "128", "sliding_window": "1024", key: value})
	}
	nemotronH := func(key, value string) json.RawMessage {
		return decoderWith(map[string]string{"architectures": `["NemotronHForCausalLM"]`, "model_type": `"nemotron_h"`, "head_dim": "128", "num_hidden_layers": "4",
			"hybrid_override_pattern": `"M-M*"`, "mamba_num_heads": "64", "mamba_head_dim": "64", "ssm_state_size": "128", "n_groups": "8", "conv_kernel": "4", "expand": "2", key: value})
	}
	qwen3Next := func(key, value string) json.RawMessage {
		return decoderWith(map[string]string{"architectures": `["Qwen3NextForCausalLM"]`, "model_type": `"qwen3_next"`, "head_dim": "256", "num_hidden_layers": "8", "num_experts": "8",
			"num_experts_per_tok": "2", "moe_intermediate_size": "512", "shared_expert_intermediate_size": "512", "linear_num_value_heads": "32", "linear_num_key_heads": "16",
			"linear_key_head_dim": "128", "linear_value_head_dim": "128", "linear_conv_kernel_dim": "4", "full_attention_interval": "4", key: value})
	}
	mamba := func(key, value string) json.RawMessage {
		return decoderWith(map[string]string{"architectures": `["MambaForCausalLM"]`, "model_type": `"mamba"`, "state_size": "16", "conv_kernel": "4", "expand": "2", "intermediate_size": "8192", key: value})
	}
	for _, tt := range []struct {
		name, field string
		config      json.RawMessage
	}{
		{"a list too short", "layer_types", gemma3("layer_types", full(31))},
		{"a list too long", "layer_types", gemma3("layer_types", full(33))},
		{"an empty list", "layer_types", gemma3("layer_types", "[]")},
		{"an unknown kind", "layer_types", gemma3("layer_types", strings.Replace(full(32), "full_attention", "quantum_attention", 1))},
		{"a number for a kind", "layer_types", gemma3("layer_types", strings.Replace(full(32), `"full_attention"`, "7", 1))},
		{"a window of text", "sliding_window", gemma3("sliding_window", `"wide"`)},
		{"a negative window", "sliding_window", gemma3("sliding_window", "-4096")},
		{"a fraction of a window", "sliding_window", gemma3("sliding_window", "0.5")},
		{"a window of 2^63", "sliding_window", gemma3("sliding_window", "9223372036854775808")},
		{"a pattern of unknown letters", "hybrid_override_pattern", nemotronH("hybrid_override_pattern", `"M-MX"`)},
		{"a pattern that is a number", "hybrid_override_pattern", nemotronH("hybrid_override_pattern", "4")},
		{"a state of no size", "ssm_state_size", nemotronH("ssm_state_size", "0")},
		{"a state of negative size", "ssm_state_size", nemotronH("ssm_state_size", "-128")},
		{"no groups", "n_groups", nemotronH("n_groups", "0")},
		{"negative heads of a state", "mamba_num_heads", nemotronH("mamba_num_heads", "-64")},
		{"a negative convolution", "conv_kernel", nemotronH("conv_kernel", "-4")},
		{"no value heads", "linear_num_value_heads", qwen3Next("linear_num_value_heads", "0")},
		{"negative key heads", "linear_num_key_heads", qwen3Next("linear_num_key_heads", "-16")},
		{"a key width of 2^62", "linear_key_head_dim", qwen3Next("linear_key_head_dim", "4611686018427387904")},
		{"an interval of no layers", "full_attention_interval", qwen3Next("full_attention_interval", "0")},
		{"a negative state", "state_size", mamba("state_size", "-16")},
		{"no state", "state_size", mamba("state_size", "0")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := wrong(t, headcount.Request{Config: tt.config})
			if e.Field != tt.field || e.Value == nil {
				t.Errorf("%s of %q = %v: %v; want it of %s and its value", e.Code, e.Field, e.Value, e, tt.field)
			}
		})
	}
	for _, tt := range []struct {
		name   string
		config json.RawMessage
	}{
		{"a window beyond the context", gemma3("sliding_window", "1000000")},
		{"a window of 1", gemma3("sliding_window", "1")},
		{"a pattern of no attention", nemotronH("hybrid_override_pattern", `"MMMM"`)},
		{"a pattern of nothing but MLPs", nemotronH("hybrid_override_pattern", `"----"`)},
		{"a state as large as can be", mamba("state_size", "2147483648")},
	} {
		for _, name := range []string{"vllm", "sglang"} {
			r, err := headcount.Plan(context.Background(), headcount.Request{Config: tt.config, Engine: name, Options: engine.Options{KVCacheMemory: 1 << 34}})
			sound(t, r, err)
		}
	}
}

func TestWrongFlags(t *testing.T) {
	count := []int64{-1, -2, 1 << 41, math.MaxInt64}
	tests := []struct {
		field string
		json  string // with %s for the value
		wrong []any
	}{
		{"gpu_memory_utilization", "%v", []any{2, -1, 1.5, 1e300}},
		{"mem_fraction_static", "%v", []any{2, -1}},
		{"memory_begin_gib", "%v", []any{-1, 1e300}},
		{"max_model_len", "%v", []any{-2, math.MinInt64}},
		{"kv_cache_memory_bytes", "%v", []any{-1, math.MinInt64}},
		{"chunked_prefill_size", "%v", []any{-2, 1 << 41}},
		{"concurrency_at", "[8192, %v]", []any{0, -1}},
	}
	for _, field := range []string{"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "decode_context_parallel_size", "block_size", "page_size",
		"max_num_seqs", "max_num_batched_tokens", "num_gpu_blocks_override", "max_running_requests", "max_total_tokens", "max_mamba_cache_size",
		"cp_kv_cache_interleave_size", "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens"} {
		tests = append(tests, struct {
			field, json string
			wrong       []any
		}{field, "%v", []any{count[0], count[1], count[2], count[3]}})
	}
	for _, tt := range tests {
		for _, value := range tt.wrong {
			for _, name := range []string{"vllm", "sglang"} {
				line := fmt.Sprintf(`{"model": "llama-3-8b", "engine": %q, %q: %s}`, name, tt.field, fmt.Sprintf(tt.json, value))
				req, err := headcount.ParseRequest([]byte(line))
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				e := wrong(t, req)
				if e.Code != problem.BadValue || e.Field != tt.field {
					t.Errorf("%s: %s of %q, %v", line, e.Code, e.Field, e)
				}
			}
		}
	}
	lengths := headcount.Request{Model: "llama-3-8b", Options: engine.Options{ConcurrencyAt: make([]int64, 10_000)}}
	blames(t, wrong(t, lengths), problem.BadValue, "concurrency_at", 10_000)
}

// Sizes that are legal and large give right numbers or the engine's refusal.
func TestLargeFlags(t *testing.T) {
	for _, tt := range []struct {
		name string
		opt  engine.Options
		l    layout.Layout
	}{
		{"a pool of 2^62 bytes", engine.Options{KVCacheMemory: 1 << 62}, layout.Layout{}},
		{"a pool of 2^63 - 1 bytes", engine.Options{KVCacheMemory: math.MaxInt64}, layout.Layout{TP: 8}},
		{"a pool of one byte", engine.Options{KVCacheMemory: 1}, layout.Layout{}},
		{"a length of 2^60", engine.Options{MaxModelLen: 1 << 60, KVCacheMemory: 1 << 40}, layout.Layout{}},
		{"a length of 1", engine.Options{MaxModelLen: 1, KVCacheMemory: 1 << 40}, layout.Layout{}},
		{"2^40 blocks", engine.Options{NumGPUBlocksOverride: 1 << 40}, layout.Layout{}},
		{"blocks of 2^40 tokens", engine.Options{BlockSize: 1 << 40, PageSize: 1 << 40, KVCacheMemory: 1 << 40}, layout.Layout{}},
		{"blocks of 7 tokens", engine.Options{BlockSize: 7, PageSize: 7, KVCacheMemory: 1 << 40}, layout.Layout{}},
		{"steps of 2^40 tokens", engine.Options{MaxNumBatched: 1 << 40, ChunkedPrefillSize: 1 << 40, KVCacheMemory: 1 << 40}, layout.Layout{}},
		{"2^40 sequences in steps of 2^40 tokens", engine.Options{MaxNumSeqs: 1 << 40, MaxNumBatched: 1 << 40, MaxRunningRequests: 1 << 40, MaxMambaCacheSize: 1 << 40, KVCacheMemory: 1 << 40}, layout.Layout{}},
		{"lengths of 2^62", engine.Options{ConcurrencyAt: []int64{1, 1 << 62, math.MaxInt64}, KVCacheMemory: 1 << 40}, layout.Layout{}},
		{"65,536 ranks of each kind", engine.Options{KVCacheMemory: 1 << 40}, layout.Layout{TP: 65_536, PP: 1024, DP: 65_536, DCP: 65_536, EP: true, DPAttention: true}},
		{"1,024 stages", engine.Options{KVCacheMemory: 1 << 40}, layout.Layout{PP: 1024}},
		{"2^40 draft tokens", engine.Options{Speculative: &engine.Speculative{Method: "mtp", Tokens: 1 << 40}, SpeculativeAlgorithm: "NEXTN", SpeculativeSteps: 1 << 40, KVCacheMemory: 1 << 40}, layout.Layout{}},
		{"a fraction of nearly nothing", engine.Options{GPUMemoryUtilization: 1e-300, MemFractionStatic: 1e-300}, layout.Layout{}},
		{"all of the memory", engine.Options{GPUMemoryUtilization: 1, MemFractionStatic: 1}, layout.Layout{}},
		{"readings of SGLang the wrong way round", engine.Options{MemoryBeginGiB: 1, MemoryEndGiB: 2}, layout.Layout{}},
	} {
		for _, name := range []string{"vllm", "sglang"} {
			for _, m := range []string{"llama-3-8b", "deepseek-v3", "gpt-oss-20b", "Qwen/Qwen3.5-27B", "deepseek-v4-flash", "openai/whisper-large-v3-turbo"} {
				for _, gpu := range []string{"", "h100"} {
					t.Run(tt.name+" "+name+" "+m+" "+gpu, func(t *testing.T) {
						r, err := headcount.Plan(context.Background(), headcount.Request{Model: m, Engine: name, GPU: gpu, Layout: tt.l, Options: tt.opt})
						sound(t, r, err)
					})
				}
			}
		}
	}
}

func TestWrongAccelerators(t *testing.T) {
	for _, tt := range []struct{ accelerator, field string }{
		{`{}`, "memory_bytes"},
		{`{"memory_bytes": 0}`, "memory_bytes"},
		{`{"memory_bytes": -1}`, "memory_bytes"},
		{`{"memory_bytes": 9223372036854775807}`, "memory_bytes"},
		{`{"memory_bytes": 1e30}`, "memory_bytes"},
		{`{"memory_bytes": "80 GB"}`, "memory_bytes"},
		{`{"memory_mib": 4611686018427387904}`, "memory_mib"},
		{`{"memory_bytes": 1000, "usable_memory_bytes": 2000}`, "usable_memory_bytes"},
		{`{"memory_bytes": 85899345920, "memory_bandwidth_bytes_per_second": -1}`, "memory_bandwidth_bytes_per_second"},
		{`{"memory_bytes": 85899345920, "memory_bandwidth_bytes_per_second": 1e300}`, "memory_bandwidth_bytes_per_second"},
		{`{"memory_bytes": 85899345920, "peak_flop_per_second": {"bf16": 1e-300}}`, "peak_flop_per_second.bf16"},
		{`{"memory_bytes": 85899345920, "streaming_multiprocessors": -4}`, "streaming_multiprocessors"},
		{`{"memory_bytes": 85899345920, "compute_capability": "nine"}`, "compute_capability"},
		{`{"memory_bytes": 85899345920, "compute_capability": "-9.0"}`, "compute_capability"},
		{`{"memory_bytes": 85899345920, "id": "a\nb"}`, "id"},
		{`{"memory_bytes": 85899345920, "memory": 1}`, "memory"},
	} {
		_, err := headcount.ParseRequest([]byte(`{"model": "llama-3-8b", "accelerator": ` + tt.accelerator + `}`))
		e, ok := errors.AsType[*problem.Error](err)
		if !ok || !strings.HasSuffix(e.Field, tt.field) {
			t.Errorf("%s: %v, want a problem of %s", tt.accelerator, err, tt.field)
		}
	}
	for _, accelerator := range []string{
		`{"memory_bytes": 1}`, `{"memory_bytes": 1, "vendor": "nvidia"}`, `{"memory_bytes": 1125899906842624, "vendor": "nvidia", "compute_capability": "99.99"}`,
		`{"memory_bytes": 85899345920, "vendor": "nvidia", "compute_capability": "0.0", "memory_bandwidth_bytes_per_second": 1e20, "peak_flop_per_second": {"bf16": 1}}`,
		`{"memory_bytes": 85899345920, "vendor": "nvidia", "memory_bandwidth_bytes_per_second": 1, "peak_flop_per_second": {"bf16": 1e20}, "l2_bytes": 1125899906842624}`,
		`{"memory_bytes": 85899345920, "vendor": "somebody"}`,
	} {
		for _, name := range []string{"vllm", "sglang"} {
			req, err := headcount.ParseRequest([]byte(`{"model": "llama-3-8b", "engine": "` + name + `", "accelerator": ` + accelerator + `}`))
			if err != nil {
				t.Fatalf("%s: %v", accelerator, err)
			}
			r, err := headcount.Plan(context.Background(), req)
			sound(t, r, err)
		}
	}
}

func TestWrongSideFiles(t *testing.T) {
	for _, tt := range []struct {
		name string
		req  headcount.Request
	}{
		{"hf_overrides that is a list", headcount.Request{Model: "llama-3-8b", HFOverrides: json.RawMessage(`[1]`)}},
		{"hf_overrides that is cut off", headcount.Request{Model: "llama-3-8b", HFOverrides: json.RawMessage(`{"a": `)}},
		{"an override of a wrong size", headcount.Request{Model: "llama-3-8b", HFOverrides: json.RawMessage(`{"num_hidden_layers": -1}`)}},
		{"an override of a wrong kind", headcount.Request{Model: "Qwen/Qwen3.5-27B", HFOverrides: json.RawMessage(`{"text_config": 7}`)}},
		{"hf_quant_config that is a list", headcount.Request{Config: decoderWith(nil), HFQuantConfig: json.RawMessage(`[1]`)}},
		{"params that lack everything", headcount.Request{Params: json.RawMessage(`{"dim": 4096}`)}},
		{"a draft that is a list", headcount.Request{Model: "llama-3-8b", DraftConfig: json.RawMessage(`[1]`)}},
		{"a draft of no architecture", headcount.Request{Model: "llama-3-8b", DraftConfig: json.RawMessage(`{"a": 1}`)}},
		{"a draft of a wrong size", headcount.Request{Model: "llama-3-8b", DraftConfig: decoderWith(map[string]string{"num_hidden_layers": "-1"})}},
		{"a draft that is not known", headcount.Request{Model: "llama-3-8b", Options: engine.Options{Speculative: &engine.Speculative{Method: "eagle", Tokens: 1, Model: "no-such-draft"}}}},
		{"a model that is not known", headcount.Request{Model: strings.Repeat("x", 100_000)}},
		{"a device that is not known", headcount.Request{Model: "llama-3-8b", GPU: strings.Repeat("x", 100_000)}},
		{"an engine that is not known", headcount.Request{Model: "llama-3-8b", Engine: "vlm"}},
		{"a release that is not known", headcount.Request{Model: "llama-3-8b", Engine: "vllm@99.0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if e := wrong(t, tt.req); e.Field == "" && e.Code != problem.Unreadable {
				t.Errorf("%s, %v: no field", e.Code, e)
			}
		})
	}
}

func TestParseRequestRefuses(t *testing.T) {
	for _, tt := range []struct{ line, message string }{
		{``, "not a JSON object"},
		{`[]`, "not a JSON object"},
		{`{"model": "llama-3-8b"} x`, "text after the end"},
		{`{"model": 7}`, "model: a JSON number, want a string"},
		{`{"tensor_parallel_size": "8"}`, "tensor_parallel_size: a JSON string, want a whole number"},
		{`{"tensor_parallel_size": 8.5}`, "tensor_parallel_size: a JSON number 8.5, want a whole number"},
		{`{"tensor_parallel_size": 9223372036854775808}`, "tensor_parallel_size: a JSON number 9223372036854775808, want a whole number"},
		{`{"gpu_memory_utilization": NaN}`, "invalid character 'N'"},
		{`{"tensor_paralel_size": 8}`, "tensor_paralel_size: not a field of a request"},
		{`{"id": "` + strings.Repeat("x", headcount.MaxRequestBytes) + `"}`, "exceeds the cap"},
	} {
		_, err := headcount.ParseRequest([]byte(tt.line))
		e, ok := errors.AsType[*problem.Error](err)
		if !ok || !strings.Contains(e.Message, tt.message) {
			t.Errorf("%.60s: %v, want %q", tt.line, err, tt.message)
		}
	}
	_, err := headcount.ParseRequest([]byte(`{"tensor_paralel_size": 8}`))
	if e, ok := errors.AsType[*problem.Error](err); !ok || !strings.Contains(e.Hint, "tensor_parallel_size") {
		t.Errorf("a mistyped field: %+v, want the nearest in the hint", err)
	}
}

// A family reads lists and objects of its own: what is no list is refused by its name, and a
// depth beyond reason is refused before it is built.
func TestWrongFieldsOfFamilies(t *testing.T) {
	with := func(more map[string]string, key, value string) json.RawMessage {
		fields := map[string]string{"head_dim": "128", "num_hidden_layers": "4", key: value}
		for key, value := range more {
			if fields[key] == "" {
				fields[key] = value
			}
		}
		return decoderWith(fields)
	}
	minimax := map[string]string{"architectures": `["MiniMaxM3SparseForCausalLM"]`, "model_type": `"minimax_m3_text"`,
		"num_local_experts": "8", "num_experts_per_tok": "2", "dense_intermediate_size": "8192"}
	sparse := func(config string) json.RawMessage { return with(minimax, "sparse_attention_config", config) }
	step5 := map[string]string{"architectures": `["Step5ForCausalLM"]`, "model_type": `"step5"`, "num_attention_groups": "8", "moe_num_experts": "8", "moe_top_k": "2",
		"moe_intermediate_size": "1024", "share_expert_dim": "1024", "sliding_window": "512", "sparse_config": `{"num_provider_groups": 8, "sparse_indexer_num_heads": 16}`}
	qwen3Next := map[string]string{"architectures": `["Qwen3NextForCausalLM"]`, "model_type": `"qwen3_next"`}
	for _, tt := range []struct {
		name, field string
		config      json.RawMessage
	}{
		{"a number for a list", "sparse_attention_config.sparse_attention_freq", sparse(`{"sparse_num_index_heads": 8, "sparse_index_dim": 128, "sparse_attention_freq": 1}`)},
		{"a list of text", "sparse_attention_config.sparse_attention_freq", sparse(`{"sparse_num_index_heads": 8, "sparse_index_dim": 128, "sparse_attention_freq": ["yes"]}`)},
		{"an index without width", "sparse_attention_config.sparse_index_dim", sparse(`{"sparse_num_index_heads": 8, "sparse_attention_freq": [1, 1, 1, 1]}`)},
		{"an index without heads", "sparse_attention_config.sparse_num_index_heads", sparse(`{"sparse_index_dim": 128, "sparse_attention_freq": [1, 1, 1, 1]}`)},
		{"2^31 MTP layers", "num_mtp_modules", with(minimax, "num_mtp_modules", "2147483647")},
		{"2^31 MTP layers with types", "num_nextn_predict_layers", with(step5, "num_nextn_predict_layers", "2147483647")},
		{"2^31 MTP layers of a default", "num_nextn_predict_layers", with(qwen3Next, "num_nextn_predict_layers", "2147483647")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if e := wrong(t, headcount.Request{Config: tt.config}); e.Field != tt.field {
				t.Errorf("%s of %q: %v; want it of %s", e.Code, e.Field, e, tt.field)
			}
		})
	}
	for _, list := range []string{"null", "[]", "[0, 1]", "[1, 1, 1, 1, 1, 1, 1, 1]"} {
		config := sparse(`{"sparse_num_index_heads": 8, "sparse_index_dim": 128, "sparse_attention_freq": ` + list + `}`)
		if _, err := (&headcount.Planner{}).Model(context.Background(), headcount.Request{Config: config}); err != nil {
			t.Errorf("%s: %v", list, err)
		}
	}
}

// Whatever the numbers, an answer is sound: drawn configs of a few families on drawn
// layouts and flags.
func TestDrawnConfigs(t *testing.T) {
	const seed, draws = 7, 5_000
	rng := rand.New(rand.NewPCG(seed, seed))
	pick := func(values ...int) int { return values[rng.IntN(len(values))] }
	number := func() string {
		if rng.IntN(40) == 0 {
			return []string{"0", "-1", "null", `"8"`, "8.0", "1.5", "2147483648", "true"}[rng.IntN(8)]
		}
		return fmt.Sprint(pick(1, 2, 3, 4, 8, 12, 16, 28, 32, 40, 64, 80, 96, 128, 256, 512, 576, 4096, 8192, 1<<20))
	}
	families := []map[string]string{
		{"architectures": `["LlamaForCausalLM"]`, "model_type": `"llama"`},
		{"architectures": `["Qwen3ForCausalLM"]`, "model_type": `"qwen3"`},
		{"architectures": `["MistralForCausalLM"]`, "model_type": `"mistral"`, "sliding_window": "4096"},
		{"architectures": `["Gemma3ForCausalLM"]`, "model_type": `"gemma3_text"`, "sliding_window": "512"},
		{"architectures": `["DeepseekV3ForCausalLM"]`, "model_type": `"deepseek_v3"`},
		{"architectures": `["NemotronHForCausalLM"]`, "model_type": `"nemotron_h"`, "hybrid_override_pattern": `"M-M*M-M*"`, "num_hidden_layers": "8"},
		{"architectures": `["Qwen3NextForCausalLM"]`, "model_type": `"qwen3_next"`},
		{"architectures": `["GptOssForCausalLM"]`, "model_type": `"gpt_oss"`},
	}
	keys := []string{"num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size", "vocab_size",
		"kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "n_routed_experts", "num_experts", "moe_intermediate_size", "sliding_window",
		"mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel", "linear_num_key_heads", "linear_num_value_heads", "linear_conv_kernel_dim"}
	answered := 0
	for i := range draws {
		fields := map[string]string{"num_hidden_layers": fmt.Sprint(pick(1, 2, 7, 48)), "head_dim": fmt.Sprint(pick(64, 128, 256))}
		for key, value := range families[rng.IntN(len(families))] {
			fields[key] = value
		}
		for range rng.IntN(6) {
			fields[keys[rng.IntN(len(keys))]] = number()
		}
		req := headcount.Request{
			Config: decoderWith(fields), Engine: []string{"vllm", "sglang"}[rng.IntN(2)],
			Layout: layout.Layout{TP: pick(0, 1, 1, 2, 4, 8, 16, 3), PP: pick(0, 1, 1, 1, 2, 5), DP: pick(0, 1, 1, 2), DCP: pick(0, 1, 1, 1, 2), EP: rng.IntN(8) == 0, DPAttention: rng.IntN(8) == 0},
			Options: engine.Options{
				KVCacheMemory: []int64{0, 1, 1 << 20, 1 << 30, 12_345_678_901, 40 << 30, 1 << 45}[rng.IntN(7)], BlockSize: pick(0, 0, 0, 16, 32, 64, 256, 7), PageSize: pick(0, 0, 0, 1, 64),
				MaxModelLen: int64(pick(0, 0, 0, -1, 1, 1000, 8192)), KVCacheDType: []string{"", "", "fp8", "bfloat16", "fp8_e5m2"}[rng.IntN(5)],
				MaxNumSeqs: pick(0, 0, 1, 100), ConcurrencyAt: []int64{1, 5000}, DisableHybridKVCacheManager: rng.IntN(8) == 0,
			},
		}
		if rng.IntN(4) == 0 {
			req.GPU = []string{"h100", "l4", "b200", "cpu", "mi300x"}[rng.IntN(5)]
		}
		r, err := headcount.Plan(context.Background(), req)
		sound(t, r, err)
		if r.Error == nil {
			answered++
		}
		if t.Failed() {
			line, _ := json.Marshal(req)
			t.Fatalf("seed %d, draw %d: %s", seed, i, line)
		}
	}
	if answered < draws/8 {
		t.Errorf("%d of %d draws were answered: the draws ask nothing", answered, draws)
	}
}
