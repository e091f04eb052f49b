package verify_test

import (
	"bytes"
	"strings"
	"testing"

	"headcount"
)

// TestDoctored changes one number of a log that agrees and wants it named: by the check that
// fails, and by the cause, where another setting would have printed it.
func TestDoctored(t *testing.T) {
	for _, tt := range []struct {
		log, old, new string
		check         string // the first that differs
		cause         string // part of it; "" for none
	}{
		// 512 blocks of 128 tokens; one rank of one would have had 256.
		{"gqa8-tp2", "65,536 tokens, Maximum concurrency for 4,096 tokens per request: 16.00x", "32,768 tokens, Maximum concurrency for 4,096 tokens per request: 8.00x",
			"tokens", "the tensor parallel size is 1"},
		{"gqa8-tp2", "65,536 tokens, Maximum", "65,535 tokens, Maximum", "tokens", ""},
		{"gqa8-tp2", "request: 16.00x", "request: 15.99x", "max_concurrency", ""},
		{"gqa8-tp2", "(0.25/", "(0.35/", "available_bytes", ""},
		{"gqa8-tp2", "'kv_cache_memory_bytes': 268435456", "'kv_cache_memory_bytes': 368435456", "available_bytes", ""},
		{"gqa8-tp2", "tensor_parallel_size=2", "tensor_parallel_size=1", "tokens", "the tensor parallel size is 2"},
		{"fp8-kv", "kv_cache_dtype=fp8", "kv_cache_dtype=auto", "tokens", "the cache is stored as fp8"},
		{"mla-v2-tp2", "CPU KV cache size: 77,664", "CPU KV cache size: 77,648", "tokens", ""},
		{"gemma3-hybrid", "99,273 tokens, Maximum concurrency for 8,192 tokens per request: 12.12x", "43,648 tokens, Maximum concurrency for 8,192 tokens per request: 5.33x",
			"tokens", "the hybrid cache manager is off"},
		// 2,048 blocks ÷ 6 groups = 341, × 128 tokens.
		{"gemma3-hybrid", "99,273 tokens, Maximum", "43,648 tokens, Maximum", "tokens", "the log's formula is that of vLLM 0.20.0"},
		{"gemma3-hybrid-32k", "185,897 tokens, Maximum concurrency for 32,768 tokens per request: 5.67x", "111,662 tokens, Maximum concurrency for 32,768 tokens per request: 3.41x",
			"tokens", "a step takes 8192 tokens"},
		{"qwen3-next", "176,343 tokens, Maximum concurrency for 8,192 tokens per request: 21.53x", "209,408 tokens, Maximum concurrency for 8,192 tokens per request: 25.56x",
			"tokens", "prefix caching is off"},
		{"qwen3-next", "block size to 640", "block size to 656", "block_size", ""},
		{"pool-too-small", "length is 16256", "length is 16384", "estimated_max_model_len", ""},
		{"pool-too-small", "(0.06 GiB KV", "(0.16 GiB KV", "needed_bytes", ""},
		{"heads-not-divisible-tp2", "'tensor_parallel_size': 2", "'tensor_parallel_size': 1", "refusal", ""},
	} {
		log := read(t, "testdata/live/"+tt.log+".log")
		if !bytes.Contains(log, []byte(tt.old)) {
			t.Fatalf("%s does not say %q", tt.log, tt.old)
		}
		o := only(t, bytes.ReplaceAll(log, []byte(tt.old), []byte(tt.new)))
		r := verified(t, o, headcount.Request{Config: read(t, "testdata/live/"+tt.log+".json")})
		failed, cause := "none", ""
		for _, c := range r.Checks {
			if !c.Agrees {
				failed, cause = c.Name, text(c.Cause)
				break
			}
		}
		if failed != tt.check || tt.cause == "" && cause != "none" || !strings.Contains(cause, tt.cause) {
			t.Errorf("%s, %q instead of %q: %s fails, %q; want %s, %q", tt.log, tt.new, tt.old, failed, cause, tt.check, tt.cause)
		}
		if r.Agrees() || r.Expected() {
			t.Errorf("%s, %q: all agree", tt.log, tt.new)
		}
	}
}

// TestDoctoredModel plans another model than the one that started: one whose request is
// larger than the pool that was given differs as well.
func TestDoctoredModel(t *testing.T) {
	o := only(t, read(t, "testdata/live/gqa8-tp2.log"))
	for _, model := range []string{"llama-3-70b", "deepseek-v3"} {
		r := verified(t, o, headcount.Request{Model: model})
		if r.Agrees() || len(r.Checks) == 0 || r.Checks[len(r.Checks)-1].Name != "refusal" {
			t.Errorf("%s: checks %+v, want a refusal that did not come", model, r.Checks)
		}
	}
}
