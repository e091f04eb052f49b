package verify

import (
	"fmt"
	"slices"
	"strings"

	"headcount"
	"headcount/engine"
	"headcount/engine/vllm"
	"headcount/units"
)

// A cause is one thing that may be other than was planned.
type cause struct {
	fact string // the fact that would have told
	says string
	try  func(*headcount.Request) bool // false: it is as planned
}

// cause tries the known causes one at a time and names the one that closes the difference,
// or those between which the numbers do not decide; nil when none does. What the log leaves
// open comes before what it says.
func (c *comparison) cause() *string {
	if c.tried {
		return c.closing
	}
	c.tried = true
	all := c.causes()
	for _, said := range [...]bool{false, true} {
		var closing []string
		for _, k := range all {
			req := c.request
			if c.known(k.fact) != said || !k.try(&req) {
				continue
			}
			if f, err := c.fit(req); err == nil && f.checked && f.known && f.closes {
				closing = append(closing, k.says)
			}
		}
		if len(closing) > 0 {
			c.closing = new(strings.Join(closing[:min(len(closing), 3)], ", or "))
			return c.closing
		}
	}
	c.closing = c.poolCause()
	return c.closing
}

// causes are the changes to a request, each with what it would mean.
func (c *comparison) causes() []cause {
	var all []cause
	add := func(fact, says string, try func(*headcount.Request) bool) { all = append(all, cause{fact, says, try}) }
	was := vllm.Version
	if _, version, ok := strings.Cut(c.request.Engine, "@"); ok {
		was = version
	}
	for _, v := range [...]string{vllm.Version, "0.20.0", "0.8.5"} {
		add("version", fmt.Sprintf("the log's formula is that of vLLM %s, not of %s", v, was), change("vllm@"+v, func(r *headcount.Request) *string { return &r.Engine }))
	}
	for _, off := range [...]bool{true, false} {
		add("disable_hybrid_kv_cache_manager", "the hybrid cache manager is "+onOff(!off), change(off, func(r *headcount.Request) *bool { return &r.DisableHybridKVCacheManager }))
	}
	for _, dtype := range [...]string{"auto", "bfloat16", "fp8", "nvfp4", "fp8_ds_mla"} {
		add("kv_cache_dtype", "the cache is stored as "+dtype, change(dtype, func(r *headcount.Request) *string { return &r.KVCacheDType }))
	}
	for _, n := range [...]int{1, 2, 4, 8, 16} {
		add("tensor_parallel_size", fmt.Sprintf("the tensor parallel size is %d", n), change(n, func(r *headcount.Request) *int { return &r.TP }))
		add("decode_context_parallel_size", fmt.Sprintf("the tokens are divided over %s", units.Plural(n, "context-parallel rank")), change(n, func(r *headcount.Request) *int { return &r.DCP }))
		add("pipeline_parallel_size", fmt.Sprintf("the layers are on %s", units.Plural(n, "pipeline stage")), change(n, func(r *headcount.Request) *int { return &r.PP }))
	}
	for _, n := range [...]int{16, 32, 64, 128, 256} {
		add("block_size", fmt.Sprintf("blocks are of %d tokens", n), change(n, func(r *headcount.Request) *int { return &r.BlockSize }))
	}
	for _, n := range [...]int{2048, 4096, 8192, 16384, 32768} {
		add("max_num_batched_tokens", fmt.Sprintf("a step takes %d tokens (max_num_batched_tokens)", n), change(n, func(r *headcount.Request) *int { return &r.MaxNumBatched }))
	}
	for _, on := range [...]bool{false, true} {
		add("enable_prefix_caching", "prefix caching is "+onOff(on), change(&on, func(r *headcount.Request) **bool { return &r.EnablePrefixCaching }))
		add("async_scheduling", "asynchronous scheduling is "+onOff(on), change(&on, func(r *headcount.Request) **bool { return &r.AsyncScheduling }))
	}
	for _, dtype := range [...]string{"float32", "bfloat16"} {
		add("mamba_ssm_cache_dtype", "states are kept in "+dtype, change(dtype, func(r *headcount.Request) *string { return &r.MambaSSMCacheDType }))
	}
	for n := 1; n <= 5; n++ {
		add("speculative_method", fmt.Sprintf("the checkpoint's own draft layer runs, with %s a step", units.Plural(n, "token")),
			change(&engine.Speculative{Method: "mtp", Tokens: n}, func(r *headcount.Request) **engine.Speculative { return &r.Speculative }))
	}
	add("speculative_method", "no draft model runs", change(nil, func(r *headcount.Request) **engine.Speculative { return &r.Speculative }))
	return all
}

// change sets one field of a Request, if it is not so already.
func change[T comparable](to T, field func(*headcount.Request) *T) func(*headcount.Request) bool {
	return func(r *headcount.Request) bool {
		at := field(r)
		was := *at
		*at = to
		return was != to
	}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// poolCause tries pools that are other than they read: gigabytes for gibibytes, all data
// parallel ranks counted together.
func (c *comparison) poolCause() *string {
	tokens, ok := c.seen.Int("tokens")
	if !ok {
		return nil
	}
	if n := c.request.DP; n > 1 && tokens%int64(n) == 0 {
		one := *c.seen
		one.Facts = slices.Clone(c.seen.Facts)
		one.Set(Fact{Name: "tokens", Value: tokens / int64(n)})
		if c.closesFor(&one) {
			return new(fmt.Sprintf("the tokens of %d data-parallel replicas, each with a pool of its own, counted together", n))
		}
	}
	giga := *c.seen
	giga.Facts = slices.Clone(c.seen.Facts)
	for i := range giga.Facts {
		if s, ok := giga.Facts[i].Value.(Size); ok && giga.Facts[i].Name == "available_bytes" {
			giga.Facts[i].Value = Size{int64(float64(s.Bytes) / (1 << 30) * 1e9), int64(float64(s.Slack) / (1 << 30) * 1e9)}
		}
	}
	if c.closesFor(&giga) {
		return new("the pool is given in GB of 10^9 bytes")
	}
	return nil
}

// closesFor reports whether the plan fits another observation.
func (c *comparison) closesFor(o *Observation) bool {
	other := *c
	other.seen = o
	f, err := other.fit(c.request)
	return err == nil && f.known && f.checked && f.closes
}

// known reports whether the log says a fact, or the engine's release.
func (c *comparison) known(fact string) bool {
	return c.said(fact) || fact == "version" && c.seen.Version != ""
}
