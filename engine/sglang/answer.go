package sglang

import (
	"fmt"
	"math"

	"headcount/attn"
	"headcount/dtype"
	"headcount/engine"
)

// An answer is a Result with all that it points to and all that led to it, in one
// allocation.
type answer struct {
	engine.Result
	flags  flags
	setup  setup
	sizing sizing

	rank  [1]engine.Rank
	run   [1]*engine.Run
	whole engine.Run
	pools [maxReported]engine.Pool
	line  [maxLines]string
	fits  [1]engine.Concurrency
	nums  numbers
}

// maxReported is the most pools that a report lists.
const maxReported = 5

// numbers are what the report points to, since unknown is null there.
type numbers struct {
	cell                                                float64
	logical, rank, full, window, slots, running, reqLen int64
	perRequest, available                               int64
}

// describe fills what does not depend on a pool.
func (a *answer) describe() {
	f, s := &a.flags, &a.setup
	stored, _ := dtype.Parse(s.store.name)
	a.Model = engine.View{
		QueryHeads: int(f.queryHeads), KVHeads: int(f.kvHeads), HeadDim: int(f.keyDim), MaxModelLen: s.context,
		DType: f.dtype, Quantization: f.method, AttentionArch: f.attention,
	}
	a.Ranks = a.rank[:0]
	for i := range s.stages {
		a.Ranks = append(a.Ranks, a.stageRank(i, stored))
	}
	a.Fraction = f.fraction
	a.KVCache.DType, a.KVCache.BlockSize = stored, int(s.page)
	a.KVCache.Groups, a.KVCache.Concurrency = []engine.Group{}, []engine.Concurrency{}
	a.KVCache.BytesPerToken, a.KVCache.FixedBytesPerRequest = a.Ranks[0].BytesPerToken, s.perRequest()
	a.nums.cell = s.stageCell(&s.stages[0])
	a.KVCache.CellSize = &a.nums.cell
	if s.state != nil {
		a.nums.perRequest = s.state.slot(s.state.layers)
		a.KVCache.StateBytesPerReq = &a.nums.perRequest
	}
	a.Resolved = engine.Resolved{
		AttentionBackend: f.backendName(), DType: f.dtype.String(), PageSize: int(s.page), ChunkedPrefillSize: int(s.chunk),
		MaxPrefillTokens: int(s.maxPrefill), KVCacheDType: s.store.name, ContextLen: s.context,
		NumEffectiveLayers: int(s.stages[0].effective), VHeadDim: int(f.valueDim), AttentionTPSize: int(f.attnTP), MemFractionStatic: f.fraction,
	}
	a.notes()
}

// backendName is the attention backend, both where the phases differ.
func (f *flags) backendName() string {
	prefill, decode := f.phases()
	if prefill != decode {
		return prefill + ", " + decode
	}
	return prefill
}

// stageRank is rank 0 of a stage.
func (a *answer) stageRank(i int, stored dtype.Type) engine.Rank {
	f, s := &a.flags, &a.setup
	sharers := f.attnTP / s.dcp
	r := engine.Rank{Stage: i, QueryHeads: int(headsOf(f.queryHeads, f.attnTP)), KVReplication: 1, BytesPerToken: s.growth(&s.stages[i])}
	switch {
	case f.pureState:
		r.QueryHeads, r.KVHeads = 0, 1 // as the engine counts them
	case f.attention == attn.MLA:
		r.KVHeads, r.KVReplication = 1, int(sharers)
	default:
		r.KVHeads = int(headsOf(f.kvHeads, sharers))
		r.KVReplication = int(max(1, sharers/max(f.kvHeads, 1)))
	}
	r.Layers = a.runs(i, stored)
	return r
}

// growth is the bytes that a token adds to a stage, for as long as its request runs.
func (s *setup) growth(st *stage) int64 {
	switch {
	case s.dsv4 != nil:
		window, full := s.dsv4Cells(st)
		return truncate(full - s.dsv4.windowShare()*window)
	case s.sliding != nil:
		return mul(s.fullPerToken(), st.layers)
	}
	return s.targetCell(st)
}

// perRequest is the bytes that a request takes whatever its length: its state slots, and
// the windows of layers that slide.
func (s *setup) perRequest() int64 {
	bytes := int64(0)
	if s.state != nil {
		bytes = mul(s.stageSlot(), s.state.perReq)
	}
	if st := &s.stages[0]; s.sliding != nil && s.window > 0 {
		bytes = add(bytes, mul(s.windowHeld(), s.perToken(s.sliding.held), st.sliding))
	}
	return bytes
}

// fill adds the pools.
func (a *answer) fill() {
	s, z, n := &a.setup, &a.sizing, &a.nums
	var scratch [maxPools]pool
	pools := s.pools(z, scratch[:0])
	a.Log = s.lines(z, pools, a.line[:0])
	c := &a.KVCache
	n.available, n.logical, n.rank, n.running, n.reqLen = z.available, z.logical, z.tokens, z.running, z.maxReqLen
	n.cell = z.cell
	c.AvailableBytes, c.Tokens, c.MaxTotalNumTokens = &n.available, &n.logical, &n.rank
	c.MaxRunningRequests, c.MaxReqLen = &n.running, &n.reqLen
	if z.hybrid {
		n.full, n.window = z.full, z.window
		c.FullTokens, c.SWATokens = &n.full, &n.window
	}
	c.Pools = a.pools[:0]
	for _, p := range pools {
		c.Pools = append(c.Pools, engine.Pool{Name: p.name, Tokens: p.tokens, KBytes: p.k, VBytes: p.v})
	}
	if s.dsv4 != nil {
		c.Pools = s.dsv4Pools(z, c.Pools)
	}
	if s.state != nil {
		n.slots = z.slots
		c.MambaSlots = &n.slots
		conv, temporal, draftConv, draftTemporal := s.stateBytes(z)
		c.Pools = append(c.Pools, engine.Pool{Name: "state", Tokens: z.slots, KBytes: add(conv, draftConv), VBytes: add(temporal, draftTemporal)})
	}
	for i, tokens := range z.byStage {
		if pages := tokens / s.page; tokens < align(math.MaxInt64, s.page) { // a stage without attention sets no limit
			a.Ranks[i].NumBlocks = &pages
		}
	}
	c.Concurrency = append(a.fits[:0], engine.Concurrency{Tokens: s.context, Requests: s.requests(z, s.context)})
	for _, tokens := range a.flags.opts.ConcurrencyAt {
		if tokens >= 1 && tokens <= maxSize && tokens != s.context {
			c.Concurrency = append(c.Concurrency, engine.Concurrency{Tokens: tokens, Requests: s.requests(z, tokens)})
		}
	}
}

// requests is how many requests of a length run at a time on one attention rank: as many
// as the tokens, the windows, the state slots and the scheduler allow.
func (s *setup) requests(z *sizing, tokens int64) float64 {
	page := mul(s.page, s.dcp)
	pages := mul(ceilDiv(tokens, page), page)
	n := float64(z.running)
	if !z.hybrid || z.full > 0 {
		n = min(n, float64(z.logical)/float64(pages))
	}
	if z.hybrid {
		n = min(n, float64(z.window)/float64(min(pages, s.windowHeld())))
	}
	return n
}

// note adds a finding.
func (a *answer) note(id, severity, text, hint string) {
	a.Notes = append(a.Notes, engine.Note{ID: id, Severity: severity, Text: text, Hint: hint})
}

// notes say what the numbers alone do not.
func (a *answer) notes() {
	f, s := &a.flags, &a.setup
	if f.dev.assumed {
		a.note("device-assumed", "info", "no device named: backends and batch sizes are those of an H100", "name one with --gpu")
	}
	latents := f.attention == attn.MLA || s.dsv4 != nil
	if r := &a.Ranks[0]; r.KVReplication > 1 && !latents && f.kvHeads > 0 {
		a.note("kv-heads-replicated", "warning",
			fmt.Sprintf("%d KV heads over %d ranks: each is held by %d", f.kvHeads, f.attnTP/s.dcp, r.KVReplication),
			"a tensor parallel size up to the number of KV heads, or --dp-size with --enable-dp-attention, stores each once")
	}
	if latents && f.attnTP/s.dcp > 1 {
		a.note("latent-replicated", "info", fmt.Sprintf("each of %d ranks holds every latent", f.attnTP/s.dcp),
			"--dp-size with --enable-dp-attention, or --dcp-size, divides them")
	}
	if s.attnDP > 1 {
		a.note("per-attention-rank", "info",
			fmt.Sprintf("tokens and requests are of one of %d data-parallel attention ranks; the server holds %d times as many", s.attnDP, s.attnDP), "")
	}
	if s.dcp > 1 {
		a.note("tokens-divided", "info", fmt.Sprintf("each of %d context-parallel ranks keeps every %d-th token; tokens count those of all", s.dcp, s.dcp), "")
	}
	if s.sliding != nil && s.dcp > 1 && s.held.heads > s.priced.heads {
		a.note("pool-over-budget", "warning", "window pools are priced without --dcp-size and allocated with it: they take more than is available", "--dcp-size 1")
	}
	if f.slides && s.sliding == nil && s.dsv4 == nil {
		a.note("windows-priced-in-full", "info", "the model has sliding-window layers, which this engine caches like full ones", "")
	}
}
