package sglang

import (
	"math"

	"headcount/problem"
)

const gib = 1 << 30

// A sizing is how the engine divides one rank's budget.
type sizing struct {
	available int64   // bytes for pools that grow with tokens
	cell      float64 // bytes per token of stage 0; fractional where a ratio enters
	own       int64   // tokens of stage 0 alone
	tokens    int64   // max_total_num_tokens of a rank: own under the cap, the least over stages
	hybrid    bool    // full and window pools
	full      int64   // tokens of the full pool
	window    int64   // tokens of the window pool
	slots     int64   // state slots
	running   int64   // requests at a time, per attention-DP rank
	logical   int64   // tokens that requests can hold: tokens · dcp
	maxReqLen int64

	c4, c128, c4State, c128State int64 // DeepSeek-V4

	byStage   []int64 // tokens each stage alone would have; nil without pipeline stages
	stateCaps bool    // the slots bound running
}

// A budget is what the weights left: two readings of free memory, or the bytes of the
// pools themselves.
type budget struct {
	begin, end float64 // free GiB before and after the weights, as the log rounds them
	bytes      int64   // the pools' bytes; then no reading is used
}

// size divides a budget (kv_cache_configurator.py, _resolve_memory_pool_config).
func (s *setup) size(b budget) (z sizing, refusal *problem.Error) {
	rest, refusal := s.rest(b)
	if refusal != nil {
		return z, refusal
	}
	taken := false
	if s.state != nil {
		if rest, refusal = s.reserveState(&z, rest); refusal != nil {
			return z, refusal
		}
		taken = true
	}
	if !(rest > 0) {
		return z, s.noMemory(b)
	}
	if z.available = truncate(rest * gib); b.bytes > 0 && !taken {
		z.available = b.bytes
	}
	if refusal = s.divide(&z); refusal != nil {
		return z, refusal
	}
	return z, s.concurrency(&z)
}

// rest is the GiB left for pools: what is free less the part of the device that the
// fraction leaves out (_profile_available_bytes).
func (s *setup) rest(b budget) (float64, *problem.Error) {
	if b.bytes > 0 {
		return float64(b.bytes) / gib, nil
	}
	begin, end := rounded(b.begin, s.ranks > 1), rounded(b.end, s.ranks > 1)
	switch {
	case !(b.begin > 0) || math.IsInf(b.begin, 0):
		return 0, problem.New(problem.BadValue, "memory_begin_gib", b.begin, "not a size").
			WithHint("the log's \"Load weight begin. avail mem\"")
	case !(b.end > 0) || b.end > b.begin:
		return 0, problem.New(problem.BadValue, "memory_end_gib", b.end, "not between 0 and memory_begin_gib = %v", b.begin).
			WithHint("the log's \"Load weight end\" avail mem")
	}
	slack := begin * (1 - s.fraction)
	return end - slack - float64(s.reserveMiB)/1024, nil
}

// rounded is a log value as bytes and back, which the engine passes through a
// float32 when it reduces over ranks.
func rounded(gibs float64, reduced bool) float64 {
	bytes := math.RoundToEven(gibs * gib)
	if reduced {
		bytes = float64(float32(bytes))
	}
	return bytes / gib
}

// divide turns the available bytes into tokens, per stage and then the least of them.
func (s *setup) divide(z *sizing) *problem.Error {
	least := int64(math.MaxInt64)
	if len(s.stages) > 1 {
		z.byStage = make([]int64, len(s.stages))
	}
	for i := range s.stages {
		tokens, refusal := s.stageTokens(z, i)
		if refusal != nil {
			return refusal
		}
		if i == 0 {
			z.own = tokens
		}
		if s.maxTokens > 0 {
			tokens = min(tokens, s.maxTokens)
		}
		if z.byStage != nil {
			z.byStage[i] = tokens
		}
		least = min(least, tokens)
	}
	return s.split(z, least)
}

// stageTokens is the tokens of one stage by its own cell.
func (s *setup) stageTokens(z *sizing, i int) (int64, *problem.Error) {
	st := &s.stages[i]
	cell, tokens := 0.0, int64(0)
	switch {
	case s.dsv4 != nil:
		cell, tokens = s.dsv4Tokens(z.available, st)
	case s.capped(st):
		cell = s.slidingCell(st)
		var refusal *problem.Error
		if tokens, refusal = s.cappedTokens(z.available, st); refusal != nil {
			return 0, refusal
		}
	case s.sliding != nil:
		cell = s.slidingCell(st)
		tokens = align(truncate(floorDiv(float64(z.available), cell)), s.page)
		if refusal := s.admits(st, tokens); refusal != nil {
			return 0, refusal
		}
	default:
		bytes := s.cell(st)
		cell = float64(bytes)
		switch {
		case bytes > 0:
			tokens = z.available / bytes
		case s.state != nil && s.attentionElsewhere(i):
			tokens = math.MaxInt64
		case s.maxTokens > 0:
			tokens = s.maxTokens
		default:
			tokens = s.context
		}
		tokens = align(tokens, s.page)
	}
	if i == 0 {
		z.cell = cell
	}
	if tokens <= 0 {
		return 0, problem.New(problem.DoesNotFit, "mem_fraction_static", s.fraction,
			"the %d bytes it leaves hold no page of %d tokens at %v bytes a token", z.available, s.page, cell).
			WithHint("raise --mem-fraction-static, or use more ranks")
	}
	return tokens, nil
}

// attentionElsewhere: a stage of a hybrid model without attention layers sets no limit
// when another stage has some.
func (s *setup) attentionElsewhere(i int) bool {
	for j := range s.stages {
		if j != i && s.stages[j].layers > 0 {
			return true
		}
	}
	return false
}

// split sets the pools' sizes from the tokens that all stages can hold.
func (s *setup) split(z *sizing, tokens int64) *problem.Error {
	st := &s.stages[0]
	z.tokens = align(tokens, s.page)
	z.hybrid = s.sliding != nil || s.dsv4 != nil
	switch {
	case s.dsv4 != nil:
		return s.dsv4Split(z)
	case s.capped(st):
		z.full = z.tokens
		z.window = min(s.windowCap(), tokens)
	case s.sliding != nil && st.layers == 0:
		z.window = z.tokens
	case s.sliding != nil:
		z.full = z.tokens
		z.window = s.windowTokens(z.tokens)
		if refusal := s.admits(st, z.tokens); refusal != nil {
			return refusal
		}
	}
	return nil
}

// concurrency sets what the scheduler may run (resolve_max_num_reqs, scheduler.py).
func (s *setup) concurrency(z *sizing) *problem.Error {
	running := min(max(min(truncate(float64(z.tokens)/float64(s.context)*512), 4096), 2048), z.tokens/2)
	if s.maxRunning > 0 {
		running = min(max(1, s.maxRunning/s.attnDP), z.tokens/2)
	}
	if s.state != nil {
		states := z.slots / s.state.perReq
		if z.stateCaps = states < running; z.stateCaps {
			running = states
		}
		if running <= 0 {
			return problem.New(problem.DoesNotFit, "max_mamba_cache_size", z.slots,
				"too few state slots for one request, which takes %d", s.state.perReq).
				WithHint("raise --mem-fraction-static or --mamba-full-memory-ratio")
		}
	}
	z.running = running
	z.logical = z.tokens
	if !z.hybrid {
		z.logical = mul(z.tokens, s.dcp)
	}
	z.maxReqLen = min(s.context, z.logical) - 1
	if s.dsv4 != nil {
		z.c128State = mul(running+1, s.ring(128))
	}
	switch {
	case z.maxReqLen <= 0:
		return problem.New(problem.DoesNotFit, "max_total_num_tokens", z.logical, "the pool is too small for a request").
			WithHint("raise %s", s.poolFlag())
	case running <= 0:
		return problem.New(problem.DoesNotFit, "max_running_requests", running, "no request can run").
			WithHint("raise --mem-fraction-static or --max-total-tokens")
	}
	return nil
}

// poolFlag is what makes the pool as small as it is.
func (s *setup) poolFlag() string {
	if s.maxTokens > 0 {
		return "--max-total-tokens"
	}
	return "--mem-fraction-static"
}

// noMemory is the refusal when weights exceed the static part of the device.
func (s *setup) noMemory(b budget) *problem.Error {
	if b.bytes > 0 {
		return problem.New(problem.DoesNotFit, "kv_cache_memory_bytes", b.bytes, "states take all of it")
	}
	least := 1 - rounded(b.end, s.ranks > 1)/rounded(b.begin, s.ranks > 1)
	return problem.New(problem.DoesNotFit, "mem_fraction_static", s.fraction,
		"loaded weights leave no GPU memory for the KV cache").
		WithHint("raise --mem-fraction-static above %.3f", math.Ceil(least*1000)/1000)
}
