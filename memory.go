package headcount

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"headcount/activation"
	"headcount/engine"
	"headcount/hw"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
	"headcount/vram"
)

// weigh makes the bill of each pipeline stage's ranks. The one that leaves least is the
// report's: it binds.
func (r *Report) weigh(gpu *hw.Accelerator, m *model.Model, res *engine.Result, req *Request) {
	load := vram.Load{
		Version: vram.ParseVersion(r.Engine.Version), Device: DeviceOf(gpu), Fraction: res.Fraction, FreeBytes: req.FreeMemory,
		TP: r.Layout.TP, PP: r.Layout.PP, Hidden: m.HiddenSize, Vocab: m.VocabSize, ElemBytes: res.Model.DType.Bytes(),
		BatchedTokens: int64(res.Resolved.MaxNumBatchedTokens), Sequences: int64(res.Resolved.MaxNumSeqs),
		Towers: res.Startup.Towers, Item: res.Startup.Item, Pixels: res.Startup.Pixels, Encoder: res.Startup.Encoder, Experts: m.ExpertsPerToken > 0,
		Compiled: res.Startup.Compiled, Graphs: res.Startup.Graphs,
	}
	for stage := range res.Ranks {
		rank := &res.Ranks[stage]
		load.Stage, load.WeightsBytes = stage, loaded(rank)
		bill := vram.SGLang
		if r.Engine.Name == "vllm" {
			profile(&load, m, r.Layout, res)
			bill = vram.VLLM
		}
		mem := bill(&load)
		if r.Memory == nil || mem.Left() < r.Memory.Left() {
			r.Memory = mem
		}
		if len(res.Ranks) > 1 {
			r.Stages = append(r.Stages, mem)
		}
	}
}

// DeviceOf is what memory depends on of an accelerator.
func DeviceOf(gpu *hw.Accelerator) vram.Device {
	total, _ := gpu.TotalBytes()
	linked := slices.ContainsFunc([]string{"-sxm-", "gb200", "gh200", "-nvl-"}, func(part string) bool { return strings.Contains(gpu.ID, part) })
	return vram.Device{TotalBytes: total, L2Bytes: gpu.L2Bytes, SMs: gpu.SMs, Capability: gpu.Capability, Linked: linked}
}

// loaded is what a rank's parameters and buffers take, nil where that is not known.
func loaded(rank *engine.Rank) *int64 {
	if rank.WeightBytes == nil || rank.BufferBytes == nil || *rank.BufferBytes == 0 {
		return rank.WeightBytes
	}
	n := *rank.WeightBytes + *rank.BufferBytes
	return &n
}

// profile fills in what vLLM's profiling pass holds on a stage.
func profile(load *vram.Load, m *model.Model, l layout.Layout, res *engine.Result) {
	up := &res.Startup
	span := up.Spans[load.Stage]
	peak := activation.Of(m, span, activation.Pass{Layout: l, DType: res.Model.DType, Tokens: load.BatchedTokens,
		Context: up.Context, Grid: up.Grid, Compiled: up.Compiled, Packed: up.Packed, Wrapped: up.Wrapped, Ragged: up.Ragged})
	load.Layers = span.End - span.Start
	load.Forward, load.ForwardAt, load.Workspace = peak.Forward, string(peak.At), peak.Kept
	if up.Loading != nil {
		load.Loading = up.Loading[load.Stage]
	}
	load.States = slices.ContainsFunc(m.Layers[span.Start:span.End], func(l *model.Layer) bool {
		return len(l.Caches) > 0 && l.Caches[0].Kind == model.Recurrent
	})
	load.Samples = up.Samples && load.Stage == len(up.Spans)-1
}

const freeField = "free_memory_bytes"

// checkFree refuses what vLLM refuses as it starts: less free than it is to take
// (vllm/v1/worker/utils.py, request_memory). What the process took itself is gone by then.
func (r *Report) checkFree(gpu *hw.Accelerator) error {
	m := r.Memory
	if m.FreeBytes == 0 || r.Engine.Name != "vllm" {
		return nil
	}
	load := vram.Load{TP: r.Layout.TP, PP: r.Layout.PP, Device: DeviceOf(gpu)}
	free := float64(m.FreeBytes - load.Context().P50)
	if free >= float64(m.TakenBytes) {
		return nil
	}
	err := problem.New(problem.DoesNotFit, freeField, m.FreeBytes, "of %.1f GiB free %.1f are left once the process is there, less than the %.1f GiB that %s of the device are", gib(m.FreeBytes), max(free, 0)/gibi, gib(m.TakenBytes), decimals(m.Fraction, 4)).By("vllm")
	if f := math.Floor(100*free/float64(m.TotalBytes)) / 100; f > 0 {
		err = err.WithHint("--gpu-memory-utilization=%s", decimals(f, 2))
	}
	return err
}

// checkDevice holds what is said of a device to what it has.
func (req *Request) checkDevice(gpu *hw.Accelerator) error {
	if most := gpu.MemoryBytes; most > 0 && req.FreeMemory > most {
		return problem.New(problem.BadValue, freeField, req.FreeMemory, "more than the %.1f GiB that the driver says the %s has", gib(most), gpu.Name).
			WithHint("what is free on one device; leave it out for a device that is empty")
	}
	return nil
}

// poolEstimated is the note of a pool that was not given.
const poolEstimated = "pool-estimated"

// estimatePool plans once more with the middle of the pool's band.
func (r *Report) estimatePool(eng engine.Engine, job engine.Job) error {
	band := r.Memory.KVBytes
	if band.P50 == 0 {
		return problem.New(problem.DoesNotFit, "kv_bytes", nil, "nothing is left for the KV cache: weights and reserves exceed the device by %.1f GiB a rank", r.Memory.Shortage()/(1<<30)).
			WithHint("raise the tensor or pipeline parallel size, or take a larger device").By(eng.Name())
	}
	opts := *job.Options
	opts.KVCacheMemory = band.P50
	job.Options = &opts
	res, err := eng.Plan(job)
	r.Ranks, r.KVCache, r.Log = res.Ranks, res.KVCache, res.Log
	r.Model.MaxModelLen = res.Model.MaxModelLen // the pool's, if it was to be as long as fits
	r.estimateTokens(band)
	r.note(poolEstimated, "info", fmt.Sprintf("the pool is an estimate, %.1f GiB a rank within %.1f to %.1f: tokens and log line move with it; --kv-cache-memory fixes it",
		gib(band.P50), gib(band.P10), gib(band.P90)))
	return err
}

// estimateTokens is what the ends of the pool's band hold. A pool's tokens and requests grow
// with it, but for whole blocks.
func (r *Report) estimateTokens(band *vram.Band) {
	tokens := r.KVCache.Tokens
	if tokens == nil {
		tokens = r.KVCache.MaxTotalNumTokens
	}
	if tokens != nil {
		r.Memory.Tokens = band.Of(float64(*tokens))
		r.Memory.Tokens.P10, r.Memory.Tokens.P90 = math.Floor(r.Memory.Tokens.P10), math.Floor(r.Memory.Tokens.P90)
	}
	if n := r.requests(); n != nil {
		r.Memory.MaxConcurrency = band.Of(*n)
	}
}

// cachesNothing reports whether vLLM has no layer to make a pool for; SGLang makes one for
// encoders too.
func (r *Report) cachesNothing() bool {
	return r.Engine.Name == "vllm" && !slices.ContainsFunc(r.Ranks, func(rank engine.Rank) bool { return len(rank.Layers) > 0 })
}

// doubtPool warns of a pool that was given and that the device cannot have left.
func (r *Report) doubtPool() {
	if r.KVCache.AvailableBytes == nil {
		return
	}
	if given, most := *r.KVCache.AvailableBytes+r.StateBytes(), r.Memory.KVBytes.P90; given > most {
		r.note("pool-exceeds-device", "warning", fmt.Sprintf("a pool of %.1f GiB is more than the device has left beside the weights: at most %.1f GiB by our estimate", gib(given), gib(most)))
	}
}
