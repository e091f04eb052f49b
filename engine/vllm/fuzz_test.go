package vllm

import (
	"math"
	"regexp"
	"strconv"
	"testing"

	"headcount/checkpoint"
	"headcount/engine"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
)

// FuzzPlan plans models of any sizes on any layout: an answer or a problem, never a panic
// and never a number below zero.
func FuzzPlan(f *testing.F) {
	for i := range benchmarkConfigs {
		f.Add(benchmarkConfigs[i].config, 8, 2, 1, false, int64(0), int64(1<<30), 0)
	}
	f.Add(llama8B, 16, 64, 2, true, int64(-1), int64(math.MaxInt64), 1<<29)
	f.Add(deepSeekV3, 8, 70, 8, true, int64(1), int64(1), 64)
	f.Fuzz(func(t *testing.T, config string, tp, pp, dcp int, ep bool, length, pool int64, block int) {
		l := layout.Layout{TP: tp, PP: pp, DCP: dcp, EP: ep}
		if l.Normal().Check() != nil {
			return
		}
		plansSanely(t, config, l, engine.Options{KVCacheMemory: pool, MaxModelLen: length, BlockSize: block, ConcurrencyAt: []int64{1, length}})
	})
}

// plansSanely fails t unless a plan is a problem, or has no number below zero.
func plansSanely(t *testing.T, config string, l layout.Layout, opt engine.Options) {
	t.Helper()
	src, err := checkpoint.FromBytes("config.json", checkpoint.Files{Config: []byte(config)})
	if err != nil {
		return
	}
	m, err := model.Resolve(src)
	if err != nil {
		return
	}
	r, err := Engine{}.Plan(engine.Job{Model: m, Layout: l, Options: &opt})
	if err != nil {
		if p, ok := err.(*problem.Error); !ok || p.Message == "" {
			t.Fatalf("%v is no problem", err)
		}
		return
	}
	kv := r.KVCache
	if kv.BytesPerToken < 0 || kv.FixedBytesPerRequest < 0 || kv.NumBlocks != nil && *kv.NumBlocks < 0 || kv.Tokens != nil && *kv.Tokens < 0 {
		t.Errorf("%s: %+v", config, kv)
	}
	for _, rank := range r.Ranks {
		for _, run := range rank.Layers {
			if run.PageSize < 0 || run.Layers < 1 {
				t.Errorf("%s: %+v", config, run)
			}
		}
	}
}

// TestAbsurdSizes puts numbers that no model has into each field of some, one at a time.
func TestAbsurdSizes(t *testing.T) {
	layouts := []layout.Layout{{}, {TP: 8}, {TP: 8, PP: 8, DCP: 8}, {PP: 200}, {TP: 1024, PP: 1024, DCP: 1024, EP: true}}
	options := []engine.Options{
		{KVCacheMemory: 40 << 30, MaxModelLen: -1},
		{KVCacheMemory: math.MaxInt64, BlockSize: 1 << 30, ConcurrencyAt: []int64{math.MaxInt64}},
		{NumGPUBlocksOverride: math.MaxInt64, MaxModelLen: math.MaxInt64, MaxNumBatched: math.MaxInt},
	}
	number := regexp.MustCompile(`": (\d+)`)
	configs := []string{llama8B, deepSeekV3}
	for _, c := range benchmarkConfigs {
		configs = append(configs, c.config)
	}
	for _, config := range configs {
		for _, at := range number.FindAllStringSubmatchIndex(config, -1) {
			for _, n := range []int64{-1, 0, 1, 3, math.MaxInt32, 1 << 31, 1 << 40, 1 << 53, math.MaxInt64} {
				absurd := config[:at[2]] + strconv.FormatInt(n, 10) + config[at[3]:]
				for _, l := range layouts {
					for _, opt := range options {
						plansSanely(t, absurd, l, opt)
					}
				}
			}
		}
	}
}
