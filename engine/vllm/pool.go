package vllm

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"headcount/problem"
)

// A pool is the cache memory of one rank.
type pool struct {
	available int64 // bytes
	override  int64 // num_gpu_blocks_override; 0: as many blocks as fit
}

// blocks is how many blocks of so many bytes the pool has.
func (p pool) blocks(bytes int64) int64 {
	if p.override > 0 {
		return p.override
	}
	return p.available / bytes
}

// bytes is the memory that blocks of so many bytes are planned against.
func (p pool) bytes(perBlock int64) int64 {
	if p.override == 0 {
		return p.available
	}
	if n, ok := mul(p.override, perBlock); ok {
		return n
	}
	return math.MaxInt64
}

// A demand is what decides how many blocks a request may need.
type demand struct {
	maxLen   int64 // max_model_len, tokens
	inFlight int64 // max_in_flight_tokens: scheduled and not yet settled
	encoder  int64 // max_num_encoder_input_tokens
	dcp      int64 // decode context parallel size
	align    bool  // mamba_cache_mode is align
	byPage   bool  // a request's blocks are counted in pages of the first group
	kept     int64 // blocks of a pool that no request gets: the null block
}

// pages is how many blocks of a cache a request of the maximum length may hold at once
// (max_memory_usage_bytes of each class, over the page).
func (d *demand) pages(s *spec) int64 {
	switch s.Class {
	case fullAttention, sinkAttention, mlaAttention:
		if d.dcp > 1 && !s.Replicated {
			return ceil(ceil(d.maxLen, d.dcp), s.BlockSize)
		}
		return ceil(d.maxLen, s.BlockSize)
	case slidingWindow, slidingMLA:
		// The window may begin inside a block: one more.
		return ceil(min(s.Window-1+s.Retained+d.inFlight, d.maxLen), s.BlockSize) + 1
	case chunkedLocal:
		return ceil(min(s.Chunk+d.inFlight, d.maxLen), s.BlockSize)
	case crossAttention:
		return ceil(d.encoder, s.BlockSize)
	case mambaState:
		if d.align {
			return 2 + s.SpecBlocks + s.CheckpointBlocks
		}
		return 1 + s.SpecBlocks
	}
	return 1 // circular buffer
}

// onStage is the blocks a request may hold of a group on one stage.
func (d *demand) onStage(g *group, stage int32) int64 {
	most := int64(0)
	g.on(stage, func(s *spec) { most = max(most, d.pages(s)) })
	return most
}

// on visits the specs that stand for the group on one stage: the one spec of its layers,
// or those of a uniform-type group that lie there, all of them if none does.
func (g *group) on(stage int32, visit func(*spec)) {
	if !g.uniform {
		visit(g.spec)
		return
	}
	here := false
	for _, s := range g.shares {
		if s.stage == stage {
			visit(s.spec)
			here = true
		}
	}
	for _, s := range g.shares {
		if !here {
			visit(s.spec)
		}
	}
}

// perStage is the blocks a request may hold of all groups on one stage.
func (d *demand) perStage(gs []group, stage int32) int64 {
	var n int64
	for i := range gs {
		n += d.onStage(&gs[i], stage)
	}
	return n
}

// perRequest is the blocks of a request as the scheduler counts them: stage 0's groups,
// a uniform-type group by its first layer there. byPage counts its bytes in pages of the
// first group instead.
func (d *demand) perRequest(gs []group) int64 {
	if d.byPage {
		if n, ok := d.inFirstPages(gs); ok {
			return n
		}
	}
	var n int64
	for i := range gs {
		n += d.pages(gs[i].firstOn(0))
	}
	return n
}

// inFirstPages is a request's bytes over the first group's page; the page of a uniform-type
// group is one of each of its layers.
func (d *demand) inFirstPages(gs []group) (int64, bool) {
	var bytes, first int64
	for i := range gs {
		page := gs[i].firstOn(0).page()
		if gs[i].uniform {
			page = 0
			for _, s := range gs[i].shares {
				page += s.n * s.spec.page()
			}
		}
		size, ok := mul(d.onStage(&gs[i], 0), page)
		if bytes += size; !ok || bytes < 0 {
			return 0, false
		}
		if i == 0 {
			first = page
		}
	}
	return ceil(bytes, max(first, 1)), first > 0 && bytes > 0
}

// firstOn is the spec of the group's first layer on a stage, of its first layer at all
// when it has none there.
func (g *group) firstOn(stage int32) *spec {
	if g.uniform {
		for _, s := range g.shares {
			if s.stage == stage {
				return s.spec
			}
		}
	}
	return g.spec
}

// blockBytes is what one block id takes on each stage: the widest group's layers there
// (_get_kv_cache_bytes_per_block). A stage without layers has 0.
// The stages' numbers are put into room if they fit.
func blockBytes(room []int64, gs []group, stages int, blockOuter bool) []int64 {
	widest := room[:0]
	if cap(widest) < 2*stages {
		widest = make([]int64, 2*stages)
	}
	widest = widest[:2*stages]
	clear(widest)
	sum := widest[stages:]
	align := int64(1)
	for i := range gs {
		clear(sum)
		for _, s := range gs[i].shares {
			sp := s.spec
			if !gs[i].uniform {
				sp = gs[i].spec
			}
			if blockOuter {
				sum[s.stage] += s.n * sp.page()
				align = lcm(align, sp.alignment())
			} else {
				sum[s.stage] += s.n * sp.stride()
			}
		}
		for k := range sum {
			widest[k] = max(widest[k], sum[k])
		}
	}
	widest = widest[:stages]
	if blockOuter {
		for k := range widest {
			widest[k] = up(widest[k], align)
		}
	}
	return widest
}

// fits is the longest request, up to max, whose blocks are at most so many; 0 when not
// even one token fits (_estimate_max_model_len_from_groups).
func (d demand) fits(gs []group, stage int32, blocks int64) int64 {
	lo, hi, best := int64(1), d.maxLen, int64(0)
	for lo <= hi {
		d.maxLen = lo + (hi-lo)/2
		if d.perStage(gs, stage) <= blocks {
			best, lo = d.maxLen, d.maxLen+1
		} else {
			hi = d.maxLen - 1
		}
	}
	return best
}

// admit checks that each stage's pool of available bytes holds one request of the maximum
// length, beside what the pool keeps back (_check_enough_kv_cache_memory).
func (d *demand) admit(gs []group, perBlock []int64, p pool) *problem.Error {
	for stage, bytes := range perBlock {
		available := p.bytes(bytes)
		usable := available - d.kept*bytes
		if usable <= 0 {
			e := problem.New(problem.DoesNotFit, "kv_cache_memory_bytes", available, "No available memory for the cache blocks.").
				WithHint("Try increasing `gpu_memory_utilization` when initializing the engine")
			e.NeededBytes, e.AvailableBytes = bytes, max(usable, 0)
			return p.blamed(e)
		}
		if s := windowUnderDCP(gs); s != nil && d.dcp > 1 {
			return problem.New(problem.IllegalLayout, "decode_context_parallel_size", d.dcp, "DCP not support sliding window.").
				WithHint("decode_context_parallel_size 1")
		}
		blocks := d.perStage(gs, int32(stage))
		if blocks > usable/bytes {
			return p.blamed(d.tooSmall(gs, int32(stage), bytes, blocks, usable))
		}
	}
	return nil
}

// blamed is a refusal of a pool for its size, with the remedy where that was given in blocks.
func (p pool) blamed(e *problem.Error) *problem.Error {
	if p.override > 0 {
		e.Hint = "raise num_gpu_blocks_override, or leave it out"
	}
	return e
}

// windowUnderDCP is a sliding window that decode context parallelism would have to cut.
func windowUnderDCP(gs []group) *spec {
	for i := range gs {
		for _, s := range gs[i].shares {
			if s.spec.Class.sliding() && !s.spec.Replicated {
				return s.spec
			}
		}
	}
	return nil
}

// tooSmall is the engine's refusal of a pool that cannot hold one request.
func (d *demand) tooSmall(gs []group, stage int32, bytes, blocks, usable int64) *problem.Error {
	longest := d.fits(gs, stage, usable/bytes)
	estimate, hint := "", ""
	if longest > 0 {
		estimate = fmt.Sprintf(" Based on the available memory, the estimated maximum model length is %d.", longest)
		hint = fmt.Sprintf("; max_model_len %d fits", longest)
	}
	hi, lo := bits.Mul64(uint64(bytes), uint64(blocks))
	needed := float64(hi)*(1<<64) + float64(lo)
	e := problem.New(problem.DoesNotFit, "max_model_len", d.maxLen,
		"To serve at least one request with the model's max seq len (%d), (%s GiB KV cache is needed, which is larger than the available KV cache memory (%s GiB).%s",
		d.maxLen, gib(needed), gib(float64(usable)), estimate).
		WithHint("Try increasing `gpu_memory_utilization` or decreasing `max_model_len`%s", hint)
	e.AvailableBytes, e.EstimatedMaxModelLen = usable, longest
	e.NeededBytes = math.MaxInt64
	if hi == 0 && lo>>63 == 0 {
		e.NeededBytes = int64(lo)
	}
	return e
}

// gib prints bytes in GiB as Python prints round(x, 2): 20.0, 17.98.
func gib(bytes float64) string {
	s := strconv.FormatFloat(bytes/(1<<30), 'f', 2, 64)
	if len(s) > 18 {
		f, _ := strconv.ParseFloat(s, 64)
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	s = strings.TrimSuffix(s, "0")
	return s
}

// autoFit is the longest length that every stage's pool holds, at most d's
// (_auto_fit_max_model_len), and the usable bytes of the stage that limits it.
func (d *demand) autoFit(gs []group, perBlock []int64, p pool) (length, limit int64) {
	length, limit = d.maxLen, p.bytes(perBlock[0])-d.kept*perBlock[0]
	for stage, bytes := range perBlock {
		usable := p.bytes(bytes) - d.kept*bytes
		if n := d.fits(gs, int32(stage), max(usable, 0)/bytes); n < length {
			length, limit = n, usable
		}
	}
	return length, limit
}

// A capacity is what a pool of so many blocks serves.
type capacity struct {
	concurrency float64 // requests of the maximum length
	tokens      int64

	blocks, perBlock int64 // and the bytes of one, on the stage where it is largest
}

// capacity of a pool (get_kv_cache_capacity). Tokens are the float product, cut off.
func (d *demand) capacity(gs []group, blocks int64) capacity {
	c := float64(blocks) / float64(d.perRequest(gs))
	return capacity{concurrency: c, tokens: int64(min(c*float64(d.maxLen), 1<<62)), blocks: blocks}
}

// blockSizes are the engine's settings once groups are known: the cache's block size, the
// scheduler's and the hash's (resolve_kv_cache_block_sizes), tokens.
func blockSizes(gs []group, configured int64, d *demand, prefixCaching bool) (cache, scheduler, hash int64) {
	if len(gs) == 0 {
		return configured, configured * d.dcp, configured * d.dcp
	}
	for _, onlyCacheable := range []bool{true, false} {
		for i := range gs {
			if g := &gs[i]; (g.cacheable() || !onlyCacheable) && (cache == 0 || g.firstOn(0).BlockSize < cache) {
				cache = g.firstOn(0).BlockSize
			}
		}
		if cache != 0 {
			break
		}
	}
	if len(gs) == 1 {
		scheduler = cache
		if gs[0].firstOn(0).shardedByDCP() {
			scheduler *= d.dcp
		}
		return cache, scheduler, scheduler
	}
	finer := prefixCaching
	common, cacheable := int64(0), int64(0)
	scheduler = 1
	for i := range gs {
		s := gs[i].firstOn(0)
		span := s.BlockSize
		if s.shardedByDCP() {
			span *= d.dcp
		}
		scheduler = lcm(scheduler, span)
		common = gcd(common, span)
		if gs[i].cacheable() {
			cacheable = gcd(cacheable, span)
		}
		finer = finer && (s.Class != mambaState || d.align)
	}
	switch {
	case !finer:
		return cache, scheduler, scheduler
	case cacheable != 0:
		return cache, scheduler, cacheable
	}
	return cache, scheduler, common
}

// replicas is how many consecutive tensor-parallel ranks hold the same cache in every
// layer (kv_cache_groups_tp_replicas).
func replicas(gs []group, tp, dcp int64) int64 {
	if len(gs) == 0 {
		return 1
	}
	n := tp
	for i := range gs {
		gs[i].on(0, func(s *spec) {
			k := int64(1)
			if s.TPShards != 0 && (dcp == 1 || s.Replicated) {
				k = max(1, tp/s.TPShards)
			}
			n = gcd(k, n)
		})
	}
	return n
}

// checkPages refuses blocks that would take nothing.
func checkPages(gs []group, perBlock []int64) *problem.Error {
	for i := range gs {
		for _, s := range gs[i].shares {
			if s.spec.page() == 0 {
				return errNoPage(s.spec)
			}
		}
	}
	for stage, bytes := range perBlock {
		if bytes == 0 {
			return problem.New(problem.IllegalLayout, "pipeline_parallel_size", len(perBlock), "stage %d has no layer with a cache", stage).
				WithHint("a smaller pipeline_parallel_size")
		}
	}
	return nil
}
