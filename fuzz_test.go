package headcount_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"headcount"
	"headcount/engine"
	"headcount/internal/corpus"
	"headcount/layout"
	"headcount/problem"
)

// FuzzPlanConfig plans any config on any layout with any flags: an answer that is sound, or
// one problem, the same each time. Its seeds are the configs that golden rows speak of.
func FuzzPlanConfig(f *testing.F) {
	n := byte(0)
	configs := corpus.Load(f)
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		files := configs[name]
		if len(files.Config) == 0 || len(files.Config) > 4<<10 {
			continue // long lists are for the tests of their family
		}
		f.Add(files.Config, []byte{n, n >> 1, n >> 2, n >> 3, n, n * 7, n * 11, n * 13})
		n++
	}
	f.Fuzz(func(t *testing.T, config, flags []byte) {
		req := requestOf(config, flags)
		r, err := headcount.Plan(context.Background(), req)
		sound(t, r, err)
		again, _ := headcount.Plan(context.Background(), req)
		first, _ := json.Marshal(r)
		second, _ := json.Marshal(again)
		if !bytes.Equal(first, second) {
			t.Errorf("two answers:\n%s\n%s", first, second)
		}
	})
}

// requestOf takes a layout and flags from bytes, a byte each; what is missing is zero.
func requestOf(config, flags []byte) headcount.Request {
	next := func() byte {
		if len(flags) == 0 {
			return 0
		}
		b := flags[0]
		flags = flags[1:]
		return b
	}
	size := func() int { return []int{0, 1, 2, 3, 4, 8, 16, 64}[next()%8] }
	switches := next()
	on := func(bit int) bool { return switches>>bit&1 == 1 }
	req := headcount.Request{
		Config: config, Engine: []string{"vllm", "sglang"}[switches&1],
		Layout: layout.Layout{TP: size(), PP: size(), DP: size(), DCP: size(), EP: on(1), DPAttention: on(2)},
	}
	req.Options = engine.Options{
		KVCacheMemory: int64(1) << (next() % 63), BlockSize: 1 << (next() % 12) &^ 1, PageSize: 1 << (next() % 12) &^ 1,
		MaxModelLen: int64(next())*int64(next())*32 - 1, MaxNumSeqs: int(next()), MaxNumBatched: int(next()) * 64,
		KVCacheDType: []string{"", "fp8", "bfloat16", "fp8_e5m2"}[next()%4], DType: []string{"", "float32", "float16", "bfloat16"}[next()%4],
		DisableHybridKVCacheManager: on(3), EnforceEager: on(4), DisableRadixCache: on(5), MambaCacheMode: []string{"", "none", "align", "all"}[next()%4],
		ConcurrencyAt: []int64{1, 1 << 20},
	}
	if on(6) {
		req.Speculative = &engine.Speculative{Method: "mtp", Tokens: int(next() % 9)}
		req.SpeculativeAlgorithm, req.SpeculativeSteps, req.SpeculativeTopK = "NEXTN", int(next()%9), int(next()%9)
	}
	if on(7) {
		req.GPU = []string{"h100", "l4", "b200", "cpu", "mi300x", "v100"}[next()%6]
	}
	return req
}

// FuzzParseRequest reads any line of a file of requests: a Request that encodes and reads
// as itself, or one problem.
func FuzzParseRequest(f *testing.F) {
	for _, line := range []string{
		`{"id": 1, "model": "llama-3-70b", "tensor_parallel_size": 8, "kv_cache_memory_bytes": 42949672960}`,
		`{"config": {"model_type": "llama"}, "engine": "sglang", "enable_dp_attention": true, "mem_fraction_static": 0.83}`,
		`{"accelerator": {"memory_bytes": 85899345920, "compute_capability": "9.0"}, "concurrency_at": [8192, 131072]}`,
		`{"speculative": {"method": "mtp", "num_speculative_tokens": 1}, "enable_prefix_caching": null, "hf_overrides": {}}`,
		`{"tensor_paralel_size": "8"}`, `{"` + strings.Repeat("x", 2000) + `": 1}`, `[]`, `nul`, "{\"model\": \"\xff\"}",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		req, err := headcount.ParseRequest(line)
		if err != nil {
			e, ok := errors.AsType[*problem.Error](err)
			if !ok {
				t.Fatalf("%T %v", err, err)
			}
			sound(t, &headcount.Report{Error: e}, nil)
			return
		}
		written, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		again, err := headcount.ParseRequest(written)
		if err != nil {
			t.Fatalf("%s does not read: %v", written, err)
		}
		if rewritten, _ := json.Marshal(again); !bytes.Equal(written, rewritten) {
			t.Errorf("%s reads as %s", written, rewritten)
		}
	})
}
