package verify

import (
	"fmt"
	"math"
	"strconv"

	"headcount"
	"headcount/units"
)

// adviseVLLM says what to set for more requests, or for a start at all, each with the plan
// that it gives.
func (c *comparison) adviseVLLM(f *fit) {
	pool := c.poolOn(f)
	if pool <= 0 || len(f.plan.Ranks) == 0 {
		return
	}
	rank, cpu := &f.plan.Ranks[0], c.request.GPU == "cpu"
	try := func(flag, value, why string, pool int64, set func(*headcount.Request)) {
		req := c.request
		req.KVCacheMemory, req.NumGPUBlocksOverride = pool, 0
		set(&req)
		c.try(req, f.tokens, Advice{Flag: flag, Value: value, Why: why})
	}
	none := func(*headcount.Request) {}
	if r := c.seen.Refusal; r != nil && r.EstimatedMaxModelLen != nil {
		n := *r.EstimatedMaxModelLen
		try("--max-model-len", strconv.FormatInt(n, 10), "the longest request that this pool holds", pool, func(r *headcount.Request) { r.MaxModelLen = n })
	}
	if c.request.DisableHybridKVCacheManager {
		try("--no-disable-hybrid-kv-cache-manager", "", "layers with windows then keep their windows alone", pool, func(r *headcount.Request) { r.DisableHybridKVCacheManager = false })
	}
	latents := f.plan.Model.AttentionArch == "MLA"
	switch n := rank.KVReplication; {
	case n <= 1 || cpu:
	case latents:
		try("--decode-context-parallel-size", strconv.Itoa(n), fmt.Sprintf("each latent is held by %d ranks; they can share the tokens", n), pool, func(r *headcount.Request) { r.DCP = n })
	default:
		c.report.Advice = append(c.report.Advice, Advice{Flag: "--tensor-parallel-size", Value: strconv.Itoa(max(1, f.plan.Layout.TP/n)),
			Why: fmt.Sprintf("each KV head is held by %d ranks; with --data-parallel-size %d every GPU's pool holds requests of its own, if the weights fit", n, n)})
	}
	if kind := c.request.KVCacheDType; !cpu && (kind == "" || kind == "auto" || kind == "bfloat16") && f.plan.KVCache.DType.Bytes() == 2 {
		try("--kv-cache-dtype", "fp8", "a token takes half of the bytes; answers may differ", pool, func(r *headcount.Request) { r.KVCacheDType = "fp8" })
	}
	if n, ok := c.seen.Int("suggested_pool"); ok && n > pool {
		try("--kv-cache-memory", strconv.FormatInt(n, 10), "the engine's own word on what its device has left", n, none)
	} else if total, ok := c.seen.Size("total_bytes"); ok && !cpu {
		if was, ok := c.seen.Float("gpu_memory_utilization"); ok && was < 0.93 {
			more := pool + int64((0.95-was)*float64(total.Bytes))
			try("--gpu-memory-utilization", "0.95", fmt.Sprintf("%s more of the device's memory a rank, if nothing else needs it", units.Bytes(more-pool)), more, none)
		}
	}
	if c.seen.Refusal != nil && rank.WeightBytes != nil && !cpu {
		tp := 2 * max(c.request.TP, 1)
		try("--tensor-parallel-size", strconv.Itoa(tp), "a rank then holds half of the weights, and of the KV heads", pool+*rank.WeightBytes/2, func(r *headcount.Request) { r.TP = tp })
	}
}

// poolOn is the bytes of the pool of one rank, as well as the log tells.
func (c *comparison) poolOn(f *fit) int64 {
	if n := c.request.KVCacheMemory; n > 0 {
		return n
	}
	if size, ok := c.seen.Size("available_bytes"); ok {
		return size.Bytes
	}
	if f.num > 0 && f.num < mostBlocks && len(f.plan.Ranks) > 0 && f.plan.Ranks[0].BytesPerBlock != nil {
		if n, ok := units.Mul(f.num, *f.plan.Ranks[0].BytesPerBlock); ok {
			return n
		}
	}
	return 0
}

// try plans an advice and keeps it if the plan holds more than the pool does now.
func (c *comparison) try(req headcount.Request, now int64, a Advice) {
	plan, err := c.plan(req)
	if err != nil || plan.Error != nil || plan.KVCache.Tokens == nil || *plan.KVCache.Tokens <= now && c.seen.Refusal == nil {
		return
	}
	a.Tokens, a.MaxConcurrency = plan.KVCache.Tokens, plan.KVCache.MaxConcurrency
	c.report.Advice = append(c.report.Advice, a)
}

// adviseSGLang says what to set for more tokens.
func (c *comparison) adviseSGLang(plan *headcount.Report) {
	tokens, _ := c.poolTokens()
	if plan.Error != nil || len(plan.KVCache.Pools) == 0 {
		return
	}
	var pool int64
	for _, p := range plan.KVCache.Pools {
		pool += p.KBytes + p.VBytes
	}
	try := func(flag, value, why string, set func(*headcount.Request)) {
		req := c.request
		req.MemoryBeginGiB, req.MemoryEndGiB, req.MaxTotalTokens, req.KVCacheMemory = 0, 0, 0, pool
		set(&req)
		c.try(req, tokens, Advice{Flag: flag, Value: value, Why: why})
	}
	l := plan.Layout
	if plan.Model.AttentionArch == "MLA" && l.TP > 1 && !l.DPAttention {
		c.report.Advice = append(c.report.Advice, Advice{Flag: "--enable-dp-attention --dp-size", Value: strconv.Itoa(l.TP),
			Why: fmt.Sprintf("each latent is held by %d ranks; as attention's data-parallel ranks each keeps %s tokens of its own", l.TP, units.Group(tokens))})
	}
	if kind := c.request.KVCacheDType; (kind == "" || kind == "auto" || kind == "bfloat16") && plan.KVCache.DType.Bytes() == 2 {
		try("--kv-cache-dtype", "fp8_e4m3", "a token takes half of the bytes; answers may differ", func(r *headcount.Request) { r.KVCacheDType = "fp8_e4m3" })
	}
	left, okLeft := c.seen.Size("memory_left")
	begin, okBegin := c.seen.Size("memory_begin")
	fraction, okFraction := c.seen.Float("mem_fraction_static")
	if okLeft && okBegin && okFraction && begin.Bytes > 0 {
		more := math.Floor(100*(fraction+float64(left.Bytes-2<<30)/float64(begin.Bytes))) / 100
		if more > fraction+0.005 && more < 1 {
			try("--mem-fraction-static", strconv.FormatFloat(more, 'f', 2, 64), fmt.Sprintf("%s are free after the start; this leaves 2 GiB", units.Bytes(left.Bytes)), func(r *headcount.Request) {
				r.MemFractionStatic = more
				r.KVCacheMemory = pool + int64((more-fraction)*float64(begin.Bytes))
			})
		}
	}
}
