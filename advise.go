package headcount

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"headcount/problem"
	"headcount/units"
	"headcount/vram"
)

// An Advice is a flag that changes what fits, ready to be pasted, and what it does. One
// without a flag says what is the matter.
type Advice struct {
	Flag  string `json:"flag"`
	Value string `json:"value"`
	Why   string `json:"why"`
}

// String is the flag as it is pasted.
func (a Advice) String() string {
	if a.Value == "" {
		return a.Flag
	}
	return a.Flag + "=" + a.Value
}

// Advise says of a plan with a device how to have its pool exactly, and what would make it
// larger; of one that does not fit, how much is missing, and then what would do: the smallest
// tensor and pipeline parallel sizes, the longest context, a smaller cache dtype. It plans
// some more to find out.
func (p *Planner) Advise(ctx context.Context, req Request, r *Report) []Advice {
	if r.Memory == nil || r.Memory.KVBytes == nil {
		return nil
	}
	a := adviser{ctx, p, req, r}
	switch {
	case r.Error != nil && r.Error.Code == problem.DoesNotFit:
		return a.makeFit()
	case r.Error != nil || r.KVCache.AvailableBytes == nil:
		return nil
	}
	return append(a.exactly(), a.more()...)
}

type adviser struct {
	ctx     context.Context
	planner *Planner
	req     Request
	report  *Report
}

// try plans the request with a change; ok tells that it fits.
func (a *adviser) try(change func(*Request)) (r *Report, ok bool) {
	req := a.req
	change(&req)
	r, err := a.planner.Plan(a.ctx, req)
	return r, err == nil && r.Error == nil && r.KVCache.AvailableBytes != nil
}

// makeFit is what would make a plan fit.
func (a *adviser) makeFit() []Advice {
	var out []Advice
	if missing := a.missing(); missing != "" {
		out = append(out, Advice{Why: missing})
	}
	add := func(flag, value string, r *Report) {
		out = append(out, Advice{flag, value, "fits: " + holds(r)})
	}
	l := a.report.Layout
	for tp := 2 * l.TP; tp <= maxAdvised; tp *= 2 {
		if r, ok := a.try(func(q *Request) { q.Layout.TP = tp }); ok {
			add("--tensor-parallel-size", strconv.Itoa(tp), r)
			break
		}
	}
	for pp := 2 * l.PP; pp <= maxAdvised; pp *= 2 {
		if r, ok := a.try(func(q *Request) { q.Layout.PP = pp }); ok {
			add("--pipeline-parallel-size", strconv.Itoa(pp), r)
			break
		}
	}
	if r, ok := a.try(func(q *Request) { q.MaxModelLen = -1 }); ok && r.Model.MaxModelLen < a.report.Model.MaxModelLen {
		add("--max-model-len", strconv.FormatInt(r.Model.MaxModelLen, 10), r)
	}
	if r, ok := a.try(func(q *Request) { q.KVCacheDType = "fp8" }); ok && a.req.KVCacheDType != "fp8" {
		add("--kv-cache-dtype", "fp8", r)
	}
	return out
}

// maxAdvised bounds the ranks that are tried.
const maxAdvised = 64

// missing says how much is, "" where it is not memory.
func (a *adviser) missing() string {
	m, kv := a.report.Memory, &a.report.KVCache
	if a.report.Error.Field == freeField {
		return fmt.Sprintf("%.1f GiB must be free, %.1f more than are", gib(m.TakenBytes), gib(m.TakenBytes-m.FreeBytes))
	}
	short := m.Shortage()
	if short > 0 {
		return fmt.Sprintf("%.1f GiB a rank are missing: weights and reserves take %.1f GiB of the %.1f GiB that the engine may", short/gibi, (float64(m.TakenBytes)+short)/gibi, gib(m.TakenBytes))
	}
	length := a.report.Model.MaxModelLen
	needed := float64(kv.FixedBytesPerRequest) + float64(kv.BytesPerToken)*float64(length)
	if left := m.Left(); needed > left {
		return fmt.Sprintf("%.1f GiB a rank are missing: a request of %s tokens takes %.1f GiB, and %.1f GiB are left", (needed-left)/gibi, units.Group(length), needed/gibi, left/gibi)
	}
	return "" // a flag makes the pool smaller than what is left
}

const gibi = 1 << 30

// holds is what a plan's pool holds.
func holds(r *Report) string {
	pool := fmt.Sprintf("%.1f GiB a rank for the cache", gib(*r.KVCache.AvailableBytes))
	if n := r.requests(); n != nil {
		pool += fmt.Sprintf(", %.1f requests of %s tokens", *n, units.Group(r.Model.MaxModelLen))
	}
	return pool
}

// requests is how many requests of full length the pool holds, nil when that is not known.
func (r *Report) requests() *float64 {
	return r.KVCache.Requests(r.Model.MaxModelLen, r.Model.MaxModelLen)
}

// exactly is the flag that fixes the pool, and the fraction that leaves as much.
func (a *adviser) exactly() []Advice {
	m, pool := a.report.Memory, *a.report.KVCache.AvailableBytes+a.report.StateBytes()
	if a.report.Engine.Name != "vllm" {
		reserved := m.Term("reserved")
		if a.report.PoolEstimated() {
			return []Advice{{"--mem-fraction-static", decimals(m.Fraction, 4), fmt.Sprintf("as it is here: %.1f GiB of what is free stay for activations and graphs", gib(reserved.P50))}}
		}
		begin := float64(reserved.P50) / max(1-m.Fraction, 1e-9)
		return fraction("--mem-fraction-static", 1-(float64(reserved.P50)+m.Left()-float64(pool))/begin, pool)
	}
	f := (float64(m.TakenBytes) - m.Left() + float64(pool)) / float64(m.TotalBytes)
	if !a.report.PoolEstimated() {
		return fraction("--gpu-memory-utilization", f, pool)
	}
	why := fmt.Sprintf("this pool exactly, as --gpu-memory-utilization=%s should leave it", decimals(m.Fraction, 4))
	if t := m.Term("cuda_graphs"); t != nil && vram.HintCountsGraphsTwice(a.report.Engine.Version) {
		why += fmt.Sprintf("; vLLM's own hint, %.1f GiB less, counts graphs twice", gib(t.P50))
	}
	return []Advice{{"--kv-cache-memory", strconv.FormatInt(pool, 10), why}}
}

// fraction is the flag that leaves a pool that was given, nothing where none would.
func fraction(flag string, f float64, pool int64) []Advice {
	if !(f > 0 && f <= 1) {
		return nil
	}
	return []Advice{{flag, decimals(f, 4), fmt.Sprintf("should leave the %.1f GiB that are given", gib(pool))}}
}

func decimals(x float64, n int) string {
	scale := math.Pow10(n)
	return strconv.FormatFloat(math.Round(x*scale)/scale, 'f', -1, 64)
}

// more is the flag that moves the peak of the profiling pass, with what that brings.
func (a *adviser) more() []Advice {
	if a.report.Engine.Name != "vllm" || !a.report.PoolEstimated() {
		return nil
	}
	resolved := &a.report.Resolved
	widest := a.report.Memory.Widest()
	switch widest.Name {
	case "sampler":
		if n := resolved.MaxNumSeqs / 4; n >= least {
			return a.lever("--max-num-seqs", strconv.Itoa(n), widest, func(q *Request) { q.MaxNumSeqs = n })
		}
	case "forward":
		if n := resolved.MaxNumBatchedTokens / 2; n >= least {
			return a.lever("--max-num-batched-tokens", strconv.Itoa(n), widest, func(q *Request) { q.MaxNumBatched = n })
		}
	case "encoder":
		return a.lever("--language-model-only", "", widest, func(q *Request) { q.LanguageModelOnly = true })
	}
	return nil
}

// least is the smallest number that a lever is set to.
const least = 8

// worth is what a lever must free to be named.
const worth = 256 << 20

func (a *adviser) lever(flag, value string, peak vram.Peak, change func(*Request)) []Advice {
	r, ok := a.try(change)
	if !ok {
		return nil
	}
	freed := *r.KVCache.AvailableBytes - *a.report.KVCache.AvailableBytes
	if freed < worth {
		return nil
	}
	why := fmt.Sprintf("the %s pass decides the peak, %.1f GiB: frees %.1f GiB", peak.Name, gib(peak.Bytes), gib(freed))
	if before, after := a.report.requests(), r.requests(); before != nil && after != nil && r.Model.MaxModelLen == a.report.Model.MaxModelLen {
		why += fmt.Sprintf(", %.1f more requests of %s tokens", *after-*before, units.Group(r.Model.MaxModelLen))
	}
	return []Advice{{flag, value, why}}
}
