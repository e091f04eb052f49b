package sglang

import (
	"testing"

	"headcount/engine"
	"headcount/hw"
	"headcount/layout"
)

// BenchmarkPlan plans models that were read before, as a sweep does.
func BenchmarkPlan(b *testing.B) {
	gpu, err := hw.Lookup("h100-sxm-80gb")
	if err != nil {
		b.Fatal(err)
	}
	for _, shape := range []struct{ name, config string }{
		{"uniform", llama}, {"latent", deepseekV3}, {"window", gptOSS}, {"state", qwen3Next},
	} {
		job := engine.Job{Model: parse(b, shape.config), GPU: gpu, Layout: layout.Layout{TP: 8},
			Options: &engine.Options{MemoryBeginGiB: 78.66, MemoryEndGiB: 41.37}}
		b.Run(shape.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (Engine{}).Plan(job); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
