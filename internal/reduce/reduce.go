// Package reduce cuts a checkpoint's config down to the keys that planning reads. The
// catalogue is made by it, and a test holds reduced and full files to one plan.
package reduce

import (
	"context"

	"headcount"
	"headcount/checkpoint"
	"headcount/engine"
	"headcount/layout"
)

// Requests are plans that together read every key that any plan of a model reads: both
// engines, layouts with and without each kind of parallelism, quantised caches,
// speculation, a device of each generation.
func Requests() []headcount.Request {
	base := []headcount.Request{
		{},
		{Layout: layout.Layout{TP: 2}, Options: engine.Options{KVCacheDType: "fp8"}},
		{Layout: layout.Layout{TP: 1, PP: 2}},
		{Layout: layout.Layout{TP: 8, DCP: 8}},
		{Layout: layout.Layout{TP: 8, EP: true}},
		{Options: engine.Options{MaxModelLen: 1024}},
		{Options: engine.Options{DisableHybridKVCacheManager: true}},
		{Options: engine.Options{Speculative: &engine.Speculative{Method: "mtp", Tokens: 1}}},
		{Layout: layout.Layout{TP: 8, DP: 8, DPAttention: true}},
		{Options: engine.Options{SpeculativeAlgorithm: "EAGLE", SpeculativeSteps: 3, SpeculativeTopK: 1, SpeculativeDraftTokens: 4}},
		{Options: engine.Options{KVCacheDType: "fp8_e4m3", DisableRadixCache: true, MaxRunningRequests: 64}},
	}
	var all []headcount.Request
	for _, name := range []string{"vllm", "sglang"} {
		for _, gpu := range []string{"h100", "b200", "a100", ""} {
			for _, req := range base {
				req.Engine, req.GPU = name, gpu
				req.KVCacheMemory = 40 << 30
				all = append(all, req)
			}
		}
	}
	return all
}

// Source is src without the keys that none of [Requests] reads.
func Source(ctx context.Context, src *checkpoint.Source) *checkpoint.Source {
	reduced := checkpoint.Record(src)
	p := headcount.Planner{Resolver: only{src}}
	for _, req := range Requests() {
		req.Model = src.Name
		p.Plan(ctx, req) // a refusal has read what it needs as well
	}
	return reduced()
}

// only is a Resolver of one checkpoint.
type only struct{ src *checkpoint.Source }

func (o only) Source(context.Context, string) (*checkpoint.Source, bool, error) {
	return o.src, true, nil
}
