package sglang

import (
	"math"
	"strings"

	"headcount/attn"
	"headcount/dtype"
	"headcount/engine"
	"headcount/hw"
	"headcount/layout"
	"headcount/problem"
)

// A device is what the engine asks of a GPU.
type device struct {
	mib          float64 // memory.total of nvidia-smi, MiB
	major, minor int     // compute capability
	assumed      bool    // none was named
	other        bool    // not NVIDIA's: the engine's rules for it are not known here
}

// hopper80 is the device assumed when none is named: H100 SXM 80 GB, the class that the
// engine's own defaults are tuned on.
var hopper80 = device{mib: 81559, major: 9, assumed: true}

func deviceOf(a *hw.Accelerator) device {
	switch {
	case a == nil:
		return hopper80
	case a.Vendor != "nvidia" || a.MemoryMiB <= 0 || a.Capability[0] == 0:
		d := hopper80
		d.assumed, d.other = false, true
		return d
	}
	return device{mib: float64(a.MemoryMiB), major: a.Capability[0], minor: a.Capability[1]}
}

func (d device) sm90() bool      { return d.major == 9 }
func (d device) sm100() bool     { return d.major == 10 }
func (d device) blackwell() bool { return d.major == 10 || d.major == 12 }

// flags are a server's arguments while the engine resolves them, in its order
// (arg_groups/pipeline.py, run_resolution_pipeline).
type flags struct {
	*reading
	dev  device
	opts *engine.Options
	lay  layout.Layout

	attnDP, attnTP int64

	chunk      int64
	maxPrefill int64
	maxRunning int64
	decodeBS   int64 // largest batch of a decode graph
	prefillBS  int64 // largest prefill graph, tokens
	decodeOn   bool  // decode graphs are captured
	prefillOn  bool  // prefill graphs are captured
	fraction   float64
	multimodal bool

	backend         string // attention backend for both phases, unless one of these is set
	prefill, decode string
	page            int64 // 0: unset
	kvDType         string
	dsaPrefill      string
	dsaDecode       string
	noRadix         bool
	noOverlap       bool
	noHybrid        bool
	swaRatio        float64
	stateRatio      float64
	strategy        string // of the states' prefix cache
	reserveMiB      int64
	method          string // of quantisation; "" for none
	dtype           dtype.Type
	spec            specFlags
}

// specFlags are --speculative-*.
type specFlags struct {
	algorithm           string // upper case; "" for none
	steps, topK, tokens int64
}

func (s specFlags) eagle() bool {
	switch s.algorithm {
	case "EAGLE", "EAGLE3", "FROZEN_KV_MTP", "STANDALONE":
		return true
	}
	return false
}

// resolve fills what was not given.
func (f *flags) resolve() *problem.Error {
	for _, step := range []func(*flags) *problem.Error{
		(*flags).parallel, (*flags).graphs, (*flags).tiers, (*flags).staticFraction, (*flags).modelRules,
		(*flags).attentionBackend, (*flags).pageSize, (*flags).dataParallel, (*flags).speculative, (*flags).cacheRules, (*flags).check,
	} {
		if refusal := step(f); refusal != nil {
			return refusal
		}
	}
	return nil
}

// parallel reads the layout: DP attention divides the ranks of tensor parallelism.
func (f *flags) parallel() *problem.Error {
	l := f.lay
	f.attnDP = 1
	if l.DPAttention {
		f.attnDP = int64(l.DP)
	}
	if int64(l.TP)%f.attnDP != 0 {
		return problem.New(problem.IllegalLayout, "data_parallel_size", l.DP,
			"attention ranks do not divide tensor parallel size %d", l.TP).
			WithHint("a --dp-size that divides --tp-size").By(name)
	}
	f.attnTP = int64(l.TP) / f.attnDP
	if int64(l.DCP) > f.attnTP || f.attnTP%int64(l.DCP) != 0 {
		return problem.New(problem.IllegalLayout, "decode_context_parallel_size", l.DCP,
			"does not divide the %d attention ranks", f.attnTP).WithHint("a --dcp-size that divides --tp-size over --dp-size").By(name)
	}
	if x := f.opts.MemFractionStatic; x != 0 && !(x > 0 && x < 1) {
		return problem.New(problem.BadValue, "mem_fraction_static", x, "not between 0 and 1").By(name)
	}
	return nil
}

// graphs decides which phases are captured (cuda_graph_hook.py).
func (f *flags) graphs() *problem.Error {
	f.multimodal = f.modal.listed && (f.modal.byDefault || f.opts.EnableMultimodal)
	f.decodeOn, f.prefillOn = !f.opts.DisableCUDAGraph, !f.opts.DisableCUDAGraph
	if f.entry.window.field == "sliding_window_size" && strings.HasPrefix(f.arch, "Inkling") {
		return nil // captures the whole prefill whatever the layout
	}
	switch {
	case f.lay.PP > 1, f.lay.DCP > 1, f.isV4(), f.multimodal && !f.entry.has(breakable),
		f.delta && f.arch != "Glm5NextForConditionalGeneration":
		f.prefillOn = false
	}
	return nil
}

// tiers are the defaults by the device's memory (memory_hook.py, handle_gpu_memory_settings).
func (f *flags) tiers() *problem.Error {
	few := f.lay.TP < 4
	pick := func(small, large int64) int64 {
		if few {
			return small
		}
		return large
	}
	switch {
	case f.dev.mib < 20*1024:
		f.chunk, f.decodeBS = 2048, 8
	case f.dev.mib < 35*1024:
		f.chunk, f.decodeBS = 4096, pick(48, 160)
	case f.dev.mib < 60*1024:
		f.chunk, f.decodeBS = 4096, pick(32, 160)
	case f.dev.mib < 160*1024:
		f.chunk, f.decodeBS = 8192, pick(256, 512)
	default:
		f.chunk, f.decodeBS = 16384, 512
	}
	f.maxPrefill = 16384
	if n := int64(f.opts.ChunkedPrefillSize); n != 0 {
		f.chunk = n
	}
	if f.maxRunning = int64(f.opts.MaxRunningRequests); f.maxRunning > 0 {
		f.decodeBS = min(f.decodeBS, f.maxRunning)
		if f.maxRunning <= 512 && f.largeHopperVL() {
			f.decodeBS = f.maxRunning
		}
	}
	f.prefillBS = f.chunk
	switch f.arch {
	case "MuseGlimmerForCausalLM", "MuseGlimmerForConditionalGeneration":
		f.prefillBS = 512
		return nil
	}
	if f.attention == attn.MLA {
		f.prefillBS = min(f.prefillBS, 8192)
	}
	if f.opts.MaxTotalTokens > 0 {
		f.prefillBS = min(f.prefillBS, f.opts.MaxTotalTokens)
	}
	if strings.Contains(strings.ToLower(f.name), "llama-2") { // the engine looks at the path
		f.prefillBS = min(f.prefillBS, 4096)
	}
	return nil
}

// prefillGraphs counts the sizes of prefill that are captured up to limit tokens
// (generate_prefill_cuda_graph_batch_sizes).
func prefillGraphs(limit int64) int64 {
	count := int64(0)
	for _, run := range [...][3]int64{
		{4, 32, 4}, {48, 256, 16}, {288, 512, 32}, {576, 1024, 64}, {1280, 4096, 256}, {4608, math.MaxInt64, 512},
	} {
		if last := min(limit, run[1]); last >= run[0] {
			count += (last-run[0])/run[2] + 1
		}
	}
	return count
}

// staticFraction is the part of the device for weights and pools, when it was not given
// (handle_gpu_memory_settings, reserve_for_graph_mb).
func (f *flags) staticFraction() *problem.Error {
	if f.fraction = f.opts.MemFractionStatic; f.fraction != 0 {
		return nil
	}
	activation := f.chunk
	if activation <= 0 {
		activation = f.maxPrefill
	}
	reserved := 512.0
	reserved += float64(max(activation, 2048)) * 1.5
	reserved += float64(f.lay.TP) * float64(f.lay.PP) / 8 * 1024
	reserved += f.graphMiB()
	if f.dev.mib > 60*1024 {
		reserved = max(reserved, 10*1024)
	}
	f.fraction = round3((f.dev.mib - reserved) / f.dev.mib)
	if f.multimodal && f.modal.vision {
		f.fraction *= f.visionFactor()
	}
	if f.fraction <= 0 {
		return problem.New(problem.DoesNotFit, "mem_fraction_static", f.fraction, "what the engine sets aside by default exceeds the device").
			WithHint("give --mem-fraction-static, or a smaller --chunked-prefill-size").By(name)
	}
	return nil
}

// graphMiB is what captured graphs are expected to take.
func (f *flags) graphMiB() float64 {
	mib := 0.0
	if f.decodeOn {
		mib += float64(f.decodeBS) * 2
	}
	if f.attnDP > 1 {
		mib += float64(f.decodeBS) * float64(f.attnDP) * 3
		if f.decodeBS > 300 {
			mib += float64(f.decodeBS) * float64(f.attnDP) * 1.5
		}
	}
	if f.prefillOn {
		if f.attention == attn.MLA {
			mib += 1.5 * 1024
		} else {
			mib += float64(prefillGraphs(f.prefillBS)) * 8
		}
	}
	return mib
}

// visionFactor lowers the fraction by the size of the vision tower, next to that of
// ViT-L/14 (adjust_mem_fraction_for_vlm).
func (f *flags) visionFactor() float64 {
	size := float64(mul(f.modal.visionLayers, f.modal.visionHidden, f.modal.visionHidden))
	ratio := size / (24 * 1024 * 1024)
	factor := 1.0 - 0.1*(ratio-1.0)
	factor = max(0.8, min(1.05, factor))
	return 0.95 * factor
}

// largeHopperVL are the models with a serving profile of their own on large Hopper cards
// (model_overrides/qwen3_vl.py).
func (f *flags) largeHopperVL() bool {
	return f.dev.sm90() && f.dev.mib >= 60*1024 && f.multimodal && (f.kind == "qwen3_vl" || f.kind == "qwen3_vl_moe")
}

// dataParallel divides the chunk over attention-DP ranks, and sets what multimodal
// features keep (parallel_hook.py).
func (f *flags) dataParallel() *problem.Error {
	if f.attnDP > 1 {
		f.chunk = floorDivInt(f.chunk, f.attnDP)
	}
	if f.multimodal {
		f.reserveMiB = 100
		if f.largeHopperVL() {
			f.reserveMiB = 1024
			if f.maxRunning >= 400 {
				f.reserveMiB = 3072
			}
		}
	}
	return nil
}

// check holds what the engine asserts after all is resolved (check_server_args).
func (f *flags) check() *problem.Error {
	if f.chunk > 0 && f.chunk%f.page != 0 {
		return problem.New(problem.BadValue, "chunked_prefill_size", f.chunk, "not divisible by page_size %d", f.page).
			WithHint("a multiple of %d", f.page).By(name)
	}
	if f.lay.PP > 1 && !f.entry.has(pipelines) && !f.entry.has(backend) {
		return problem.New(problem.Unsupported, "pipeline_parallel_size", f.lay.PP, "%s cannot be cut into pipeline stages", f.arch).
			WithHint("raise --tp-size instead").By(name)
	}
	return nil
}
