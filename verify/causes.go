package verify

import (
	"fmt"
	"reflect"
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
// open comes before what it says, and last comes another release together with one thing more,
// for a log that names none.
func (c *comparison) cause() *string {
	if c.tried {
		return c.closing
	}
	c.tried = true
	closes := func(r headcount.Request) bool {
		f, err := c.fit(r)
		return err == nil && f.checked && f.known && f.closes
	}
	if !reflect.DeepEqual(c.logged, c.request) && closes(c.logged) {
		c.closing = new("what the log says of itself holds, and not the flags given beside it")
		return c.closing
	}
	all := c.causes()
	open := slices.DeleteFunc(slices.Clone(all), func(k cause) bool { return c.known(k.fact) })
	if c.closing = c.first(all, closes); c.closing == nil {
		c.closing = either(c.closers(paired(open), closes))
	}
	if c.closing == nil {
		c.closing = c.poolCause()
	}
	return c.closing
}

// first is what those causes say that close a difference: those about what the log leaves
// open, or else those about what it says.
func (c *comparison) first(all []cause, closes func(headcount.Request) bool) *string {
	var open, said []cause
	for _, k := range all {
		if c.known(k.fact) {
			said = append(said, k)
		} else {
			open = append(open, k)
		}
	}
	if closing := c.closers(open, closes); len(closing) > 0 {
		return either(closing)
	}
	return either(c.closers(said, closes))
}

// either is what may be, of a few; nil when there is nothing.
func either(says []string) *string {
	if len(says) == 0 {
		return nil
	}
	return new(strings.Join(says[:min(len(says), 3)], ", or "))
}

// closers are what those causes say that close the difference.
func (c *comparison) closers(causes []cause, closes func(headcount.Request) bool) (closing []string) {
	for _, k := range causes {
		if req := c.request; k.try(&req) && closes(req) {
			closing = append(closing, k.says)
		}
	}
	return closing
}

// paired are the releases, each with one cause more.
func paired(open []cause) (pairs []cause) {
	for _, release := range open {
		if release.fact != "version" {
			continue
		}
		for _, k := range open {
			if k.fact != "version" {
				pairs = append(pairs, cause{"version", release.says + ", and " + k.says, func(r *headcount.Request) bool {
					return release.try(r) && k.try(r)
				}})
			}
		}
	}
	return pairs
}

// causes are the changes to a request, each with what it would mean.
func (c *comparison) causes() []cause {
	var all []cause
	add := func(fact, says string, try func(*headcount.Request) bool) { all = append(all, cause{fact, says, try}) }
	was := vllm.Version
	if _, version, ok := strings.Cut(c.request.Engine, "@"); ok {
		was = version
	}
	for _, v := range [...]string{vllm.Version, "0.27.1", "0.20.0", "0.8.5", "0.6.6"} {
		add("version", fmt.Sprintf("the log's formula is that of vLLM %s, not of %s", v, was), change("vllm@"+v, func(r *headcount.Request) *string { return &r.Engine }))
	}
	add("mla", "latents are cached as keys and values of all heads (VLLM_MLA_DISABLE=1)", change(true, func(r *headcount.Request) *bool { return &r.MLADisable }))
	add("attention_backend", "the processor has AMX, whose kernel for latents takes blocks of 128 tokens", func(r *headcount.Request) bool {
		was := r.AttentionBackend
		r.AttentionBackend = "AMX_MLA"
		return was == "" && r.GPU == "cpu"
	})
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
	for _, dtype := range [...]string{"float16", "float32"} {
		add("dtype", "the model runs in "+dtype, change(dtype, func(r *headcount.Request) *string { return &r.DType }))
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

// poolCause tries pools that are other than they read: counted together over data-parallel
// replicas, given in gigabytes, or smaller on a rank that the log does not show.
func (c *comparison) poolCause() *string {
	tokens, ok := c.seen.Int("tokens")
	if !ok {
		return nil
	}
	if n := int64(c.request.DP); n > 1 && tokens%n == 0 {
		if f := c.fitOf(Fact{Name: "tokens", Value: tokens / n}); f != nil {
			return new(fmt.Sprintf("the tokens of %d data-parallel replicas, each with a pool of its own, are counted together", n))
		}
	}
	pool, ok := c.seen.Find("available_bytes")
	size, isSize := pool.Value.(Size)
	if !ok || !isSize {
		return nil
	}
	pool.Value = Size{int64(float64(size.Bytes) / (1 << 30) * 1e9), size.Slack}
	if c.fitOf(pool) != nil {
		return new("the pool is given in GB of 10^9 bytes")
	}
	if ranks := max(c.request.TP, 1) * max(c.request.PP, 1); ranks > len(c.seen.All("available_bytes")) {
		least := size.Least() / 32 * 31
		pool.Value = Size{(least + size.Least()) / 2, (size.Least() - least) / 2}
		if f := c.fitOf(pool); f != nil && f.plan.Ranks[0].BytesPerBlock != nil {
			return new(fmt.Sprintf("the smallest rank binds: one with %s, of which the log shows nothing", units.Bytes(f.num**f.plan.Ranks[0].BytesPerBlock)))
		}
	}
	return nil
}

// fitOf is the fit with one fact other than it was observed, nil when it does not close.
func (c *comparison) fitOf(f Fact) *fit {
	seen := *c.seen
	seen.Facts = slices.Clone(c.seen.Facts)
	seen.Set(f)
	other := *c
	other.seen = &seen
	found, err := other.fit(c.request)
	if err != nil || !found.known || !found.checked || !found.closes {
		return nil
	}
	return found
}

// known reports whether the log says a fact, or the engine's release.
func (c *comparison) known(fact string) bool {
	return c.said(fact) || fact == "version" && c.seen.Version != ""
}
