package sglang

import (
	"headcount/attn"
	"headcount/dtype"
	"headcount/engine"
	"headcount/model"
)

// An answer is a Result with all that it points to and all that led to it, in one
// allocation.
type answer struct {
	engine.Result
	flags  flags
	setup  setup
	sizing sizing

	rank  [1]engine.Rank
	run   [1]engine.Run
	pools [maxPools]engine.Pool
	line  [maxLines]string
	nums  struct {
		cell                                        float64
		logical, rank, full, window, slots, running int64
		reqLen, perRequest, available               int64
	}
}

// describe fills what does not depend on a pool.
func (a *answer) describe() {
	f, s := &a.flags, &a.setup
	kvType, _ := dtype.Parse(s.store.name)
	a.Model = engine.View{
		QueryHeads: int(f.queryHeads), KVHeads: int(f.kvHeads), HeadDim: int(f.keyDim), MaxModelLen: s.context,
		DType: f.dtype, Quantization: f.method, AttentionArch: f.attention,
	}
	a.Ranks = a.rank[:0]
	for i := range s.stages {
		a.Ranks = append(a.Ranks, a.stageRank(i, kvType))
	}
	a.Fraction = f.fraction
	a.KVCache.DType, a.KVCache.BlockSize = kvType, int(s.page)
	a.KVCache.Groups, a.KVCache.Concurrency = []engine.Group{}, []engine.Concurrency{}
	a.KVCache.BytesPerToken = a.Ranks[0].BytesPerToken
	a.nums.cell = s.stageCell(&s.stages[0])
	a.KVCache.CellSize = &a.nums.cell
	a.Resolved = engine.Resolved{
		AttentionBackend: f.backend, DType: f.dtype.String(), PageSize: int(s.page), ChunkedPrefillSize: int(s.chunk),
		MaxPrefillTokens: int(s.maxPrefill), KVCacheDType: s.store.name, ContextLen: s.context,
		NumEffectiveLayers: int(s.stages[0].effective), VHeadDim: int(f.valueDim), AttentionTPSize: int(f.attnTP), MemFractionStatic: f.fraction,
	}
	a.notes()
}

// stageRank is rank 0 of a stage.
func (a *answer) stageRank(i int, kvType dtype.Type) engine.Rank {
	f, s := &a.flags, &a.setup
	st := &s.stages[i]
	sharers := f.attnTP / s.dcp
	r := engine.Rank{Stage: i, QueryHeads: int(max(1, f.queryHeads/f.attnTP)), KVReplication: 1, BytesPerToken: s.targetCell(st)}
	if s.sliding != nil {
		r.BytesPerToken = mul(s.fullPerToken(), st.layers)
	}
	if f.attention == attn.MLA {
		r.KVHeads, r.KVReplication = 1, int(sharers)
	} else {
		r.KVHeads = int(headsOf(f.kvHeads, sharers))
		if f.kvHeads > 0 {
			r.KVReplication = int(max(1, sharers/f.kvHeads))
		}
	}
	r.Layers = a.runs(i, kvType)
	return r
}

// runs are the stage's layers, equal neighbours together.
func (a *answer) runs(i int, kvType dtype.Type) []engine.Run {
	s := &a.setup
	st := &s.stages[i]
	full := engine.Run{Kind: model.Full, Layers: int(st.layers), DType: kvType, BlockSize: int(s.page),
		KVHeads: int(s.priced.heads), KeyDim: int(s.priced.key), ValueDim: int(s.priced.value)}
	if s.priced.latent > 0 {
		full.Kind, full.KVHeads, full.KeyDim, full.ValueDim = model.Latent, 1, int(s.priced.latent), 0
	}
	full.PageSize = mul(s.page, s.priced.elems(), s.store.bytes)
	full.PageUnpadded = full.PageSize
	out := a.run[:0]
	if i > 0 {
		out = nil
	}
	return append(out, full)
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
	if s.state != nil {
		n.slots, n.perRequest = z.slots, s.state.slot(s.state.layers)
		c.MambaSlots, c.StateBytesPerReq = &n.slots, &n.perRequest
		c.FixedBytesPerRequest = mul(s.stageSlot(), s.state.perReq)
	}
	c.Pools = a.pools[:0]
	for _, p := range pools {
		c.Pools = append(c.Pools, engine.Pool{Name: p.name, Tokens: p.tokens, KBytes: p.k, VBytes: p.v})
	}
	if s.state != nil {
		conv, temporal, draftConv, draftTemporal := s.stateBytes(z)
		c.Pools = append(c.Pools, engine.Pool{Name: "state", Tokens: z.slots, KBytes: add(conv, draftConv), VBytes: add(temporal, draftTemporal)})
	}
}

// notes say what changes no number.
func (a *answer) notes() {}
