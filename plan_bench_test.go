package headcount_test

import (
	"context"
	"encoding/json"
	"testing"

	"headcount"
	"headcount/engine"
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
