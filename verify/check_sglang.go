package verify

import (
	"fmt"
	"math"
	"strings"

	"headcount"
	"headcount/engine"
	"headcount/engine/sglang"
	"headcount/units"
)

// sglang compares a start of SGLang: the tokens with the memory that its weights left, and
// the bytes of its pools with those of its tokens.
func (c *comparison) sglang() error {
	tokens, printed := c.poolTokens()
	plan, err := c.plan(c.ofTokens(c.request, tokens))
	if err != nil {
		return err
	}
	c.report.Plan, c.report.Model = plan, plan.Model.Name
	c.weights(plan)
	if printed {
		c.sglangTokens(tokens)
		c.sglangPools(plan)
	}
	if n, ok := c.seen.Int("context_len"); ok && plan.Model.MaxModelLen > 0 {
		c.exact("context_len", plan.Model.MaxModelLen, n, "max_model_len of the model or the flag")
	}
	if n, ok := c.seen.Int("max_running"); ok && plan.KVCache.MaxRunningRequests != nil && c.seen.Version == sglang.Version {
		c.exact("max_running_requests", *plan.KVCache.MaxRunningRequests, n, "")
	}
	c.refusal(plan)
	c.adviseSGLang(plan)
	return nil
}

// poolTokens are the tokens that the log shows, as the pool's own line or the summary has them.
func (c *comparison) poolTokens() (tokens int64, ok bool) {
	for _, name := range [...]string{"max_total_num_tokens", "full_tokens", "pool_tokens"} {
		if n, ok := c.seen.Int(name); ok && n > 0 {
			return n, true
		}
	}
	return 0, false
}

// ofTokens is req with a pool of so many tokens, whatever its memory.
func (c *comparison) ofTokens(req headcount.Request, tokens int64) headcount.Request {
	req.MemoryBeginGiB, req.MemoryEndGiB = 0, 0
	if tokens > 0 {
		req.MaxTotalTokens, req.KVCacheMemory = tokens, 1<<50
	}
	return req
}

// sglangTokens checks the tokens against the two readings of free memory, each of which is
// printed to a hundredth of a GiB.
func (c *comparison) sglangTokens(tokens int64) {
	lo, hi, ok := c.tokensBetween(c.request)
	if !ok {
		return
	}
	if c.seen.Version != sglang.Version {
		c.roughTokens(tokens, lo, hi)
		return
	}
	check := Check{Name: "max_total_num_tokens", Predicted: lo + (hi-lo)/2, Observed: tokens, How: fmt.Sprintf("%s to %s, as free memory is printed", units.Group(lo), units.Group(hi))}
	check.Exact = lo <= tokens && tokens <= hi
	check.Agrees = check.Exact
	if check.Exact {
		check.Predicted = tokens
	} else {
		check.Difference = float64(tokens - (lo + (hi-lo)/2))
		check.Cause = c.sglangCause(func(r headcount.Request) bool {
			lo, hi, ok := c.tokensBetween(r)
			return ok && lo <= tokens && tokens <= hi
		})
	}
	c.add(check)
}

// roughTokens checks the tokens of a release whose own rule is not known: an estimate.
func (c *comparison) roughTokens(tokens, lo, hi int64) {
	middle := lo + (hi-lo)/2
	check := Check{Name: "max_total_num_tokens", Predicted: middle, Observed: tokens, Estimate: true, Exact: lo <= tokens && tokens <= hi,
		How: fmt.Sprintf("by the rule of SGLang %s; the log's release is not it, or not said", sglang.Version)}
	if check.Exact {
		check.Predicted = tokens
	} else if middle > 0 {
		check.Difference = float64(tokens-middle) / float64(middle)
	}
	check.Agrees = math.Abs(check.Difference) <= c.verifier.tolerance()
	c.add(check)
}

// tokensBetween are the fewest and the most tokens that the readings allow, on the rank that
// has the least memory.
func (c *comparison) tokensBetween(req headcount.Request) (lo, hi int64, ok bool) {
	begin, haveBegin := c.seen.Size("memory_begin")
	end, haveEnd := c.seen.Size("memory_end")
	if !haveBegin || !haveEnd {
		return 0, 0, false
	}
	at := func(begin, end int64) (int64, bool) {
		req.MemoryBeginGiB, req.MemoryEndGiB = float64(begin)/(1<<30), float64(end)/(1<<30)
		r, err := c.plan(req)
		if err != nil || r.KVCache.MaxTotalNumTokens == nil {
			return 0, false
		}
		return *r.KVCache.MaxTotalNumTokens, true
	}
	lo, okLo := at(begin.Most(), end.Least())
	hi, okHi := at(begin.Least(), end.Most())
	return lo, hi, okLo && okHi
}

// sglangPools checks the bytes of each pool line against those that its tokens take.
func (c *comparison) sglangPools(plan *headcount.Report) {
	if size, ok := c.seen.Size("pools_bytes"); ok {
		var sum int64
		for _, p := range plan.KVCache.Pools {
			sum += p.KBytes + p.VBytes
		}
		c.within("pools_bytes", sum, size, "all pools of one rank")
	}
	for i, pool := range plan.KVCache.Pools {
		for _, prefix := range [...]string{"", "swa_", "second_"} {
			n, ok := c.seen.Int(prefix + "pool_tokens")
			if (!ok || n != pool.Tokens) && (ok || i > 0 || prefix != "") {
				continue
			}
			c.poolBytes(prefix, pool)
			break
		}
	}
}

// poolBytes checks one pool's line.
func (c *comparison) poolBytes(prefix string, pool engine.Pool) {
	how := fmt.Sprintf("%s tokens of one rank", units.Group(pool.Tokens))
	for _, part := range [...]struct {
		name  string
		bytes int64
	}{{"k_bytes", pool.KBytes}, {"v_bytes", pool.VBytes}, {"kv_bytes", pool.KBytes + pool.VBytes}} {
		size, ok := c.seen.Size(prefix + part.name)
		if !ok {
			continue
		}
		c.within(prefix+part.name, part.bytes, size, how)
		if last := &c.report.Checks[len(c.report.Checks)-1]; !last.Agrees {
			last.Cause = c.sglangCause(func(r headcount.Request) bool { return c.poolOf(r, prefix+part.name, pool.Tokens, size) })
		}
	}
}

// poolOf reports whether a plan of r has a pool of those tokens and that size.
func (c *comparison) poolOf(r headcount.Request, name string, tokens int64, size Size) bool {
	all, _ := c.poolTokens()
	plan, err := c.plan(c.ofTokens(r, all))
	if err != nil {
		return false
	}
	for _, p := range plan.KVCache.Pools {
		bytes := p.KBytes + p.VBytes
		switch {
		case strings.HasSuffix(name, "kv_bytes"):
		case strings.HasSuffix(name, "k_bytes"):
			bytes = p.KBytes
		default:
			bytes = p.VBytes
		}
		if p.Tokens == tokens && size.Least() <= bytes && bytes <= size.Most() {
			return true
		}
	}
	return false
}

// sglangCause names the causes that close a difference.
func (c *comparison) sglangCause(closes func(headcount.Request) bool) *string {
	var all []cause
	add := func(fact, says string, try func(*headcount.Request) bool) { all = append(all, cause{fact, says, try}) }
	for _, dtype := range [...]string{"auto", "bfloat16", "fp8_e4m3"} {
		add("kv_cache_dtype", "the cache is stored as "+dtype, change(dtype, func(r *headcount.Request) *string { return &r.KVCacheDType }))
	}
	for _, dtype := range [...]string{"float16", "float32"} {
		add("dtype", "the model runs in "+dtype, change(dtype, func(r *headcount.Request) *string { return &r.DType }))
	}
	for _, n := range [...]int{1, 2, 4, 8, 16} {
		add("tensor_parallel_size", fmt.Sprintf("the tensor parallel size is %d", n), change(n, func(r *headcount.Request) *int { return &r.TP }))
		add("pipeline_parallel_size", fmt.Sprintf("the layers are on %s", units.Plural(n, "pipeline stage")), change(n, func(r *headcount.Request) *int { return &r.PP }))
		add("enable_dp_attention", fmt.Sprintf("attention runs on %s", units.Plural(n, "data-parallel rank")), func(r *headcount.Request) bool {
			was := r.DPAttention
			r.DPAttention, r.DP = true, n
			return !was && n > 1
		})
	}
	add("speculative_algorithm", "a draft model has a pool beside", func(r *headcount.Request) bool {
		was := r.SpeculativeAlgorithm
		r.SpeculativeAlgorithm = "EAGLE"
		return was == ""
	})
	add("speculative_algorithm", "no draft model runs", change("", func(r *headcount.Request) *string { return &r.SpeculativeAlgorithm }))
	add("disable_hybrid_swa_memory", "window and full layers share one pool", change(true, func(r *headcount.Request) *bool { return &r.DisableHybridSWA }))
	for _, page := range [...]int{16, 32, 64} {
		add("page_size", fmt.Sprintf("pages are of %d tokens", page), change(page, func(r *headcount.Request) *int { return &r.PageSize }))
	}
	return c.first(all, closes)
}
