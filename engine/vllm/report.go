package vllm

import (
	"fmt"
	"math"
	"slices"

	"headcount/engine"
	"headcount/model"
	"headcount/problem"
)

// ranks fills what each stage holds: the layers of its caches in order, as runs.
func (p *plan) ranks() {
	s, v := &p.setup, p.setup.v
	tp, dcp := int64(s.layout.TP), int64(s.layout.DCP)
	rank := engine.Rank{QueryHeads: int(v.queries / tp), KVHeads: int(max(1, v.kv/tp)), KVReplication: 1}
	switch {
	case v.mla:
		rank.KVHeads, rank.KVReplication = 1, int(max(1, tp/dcp))
	case v.kv > 0:
		rank.KVReplication = int(max(1, tp/v.kv/dcp))
	}
	p.result.Ranks = sized(p.room.ranks[:], len(p.spans))
	p.rows = slices.Grow(p.rows[:0], len(p.all.specs))[:len(p.all.specs)]
	clear(p.rows)
	at, layers := 0, sized(p.room.layers[:], len(p.all.runs))
	for stage := range p.spans {
		from := at
		grows := growth{}
		for at < len(p.all.runs) && int(p.all.runs[at].stage) == stage {
			at++
		}
		rank.Stage, rank.Layers = stage, layers[from:at:at]
		for i, r := range p.all.runs[from:at] {
			rank.Layers[i] = p.row(int(r.spec), int(r.n))
			grows.add(&p.all.specs[r.spec], r.n)
		}
		rank.BytesPerToken = grows.bytes()
		p.result.Ranks[stage] = rank
	}
	if !v.mla && rank.KVReplication > 1 {
		p.note("kv-heads-replicated", "warning",
			fmt.Sprintf("%d KV heads over %d ranks: each is held by %d", v.kv, tp, rank.KVReplication), "a tensor parallel size up to the number of KV heads stores each once")
	}
	if v.mla && rank.KVReplication > 1 {
		p.note("latent-replicated", "info", fmt.Sprintf("each latent is held by %d ranks", rank.KVReplication),
			"decode_context_parallel_size divides them; so do data-parallel replicas, each with its own requests")
	}
}

// growth sums what a token adds to caches that keep every token.
type growth struct{ bytes1024 int64 }

// add counts n layers. Compressed latents store a fraction of a state a token.
func (g *growth) add(s *spec, n int64) {
	if s.Class.full() {
		g.bytes1024 += n * s.HeadSlots * s.Content * s.StatesPerToken * 1024 / s.TokensPerState
	}
}

func (g *growth) bytes() int64 { return g.bytes1024 / 1024 }

// row is a number of layers of a spec as the report shows them: runs as long as the spec's
// last one share its row, for a report may list hundreds.
func (p *plan) row(spec, layers int) *engine.Run {
	if last := p.rows[spec]; last != nil {
		p.rows[spec] = last.Over(layers)
		return p.rows[spec]
	}
	row := &p.room.row
	if row.Layers > 0 { // taken
		row = new(engine.Run)
	}
	*row = rowOf(&p.all.specs[spec])
	row.Layers = layers
	p.rows[spec] = row
	return row
}

// rowOf is a spec as the report shows it.
func rowOf(s *spec) engine.Run {
	r := engine.Run{Kind: kindOf(s), KVHeads: int(s.KVHeads), KeyDim: int(s.KeyDim), ValueDim: int(s.ValueDim),
		DType: s.DType, BlockSize: int(s.BlockSize), PageSize: s.page(), PageUnpadded: s.unpadded()}
	if s.Window+s.Chunk > 0 {
		w := int(s.Window + s.Chunk)
		r.Window = &w
	}
	if s.Class != mambaState {
		return r
	}
	bytes := s.Content
	r.StateBytes = &bytes
	for _, t := range s.States {
		if t.Rank == 0 {
			break
		}
		shape := make([]int, t.Rank)
		for i := range shape {
			shape[i] = int(t.Dims[i])
		}
		r.StateShapes = append(r.StateShapes, shape)
		r.StateDTypes = append(r.StateDTypes, t.DType)
	}
	return r
}

// kindOf is the report's name of what a spec keeps.
func kindOf(s *spec) model.Kind {
	switch s.Class {
	case mlaAttention:
		if s.Indexer {
			return model.Indexer
		}
		return model.Latent
	case slidingWindow:
		return model.Sliding
	case slidingMLA:
		return model.SlidingLatent
	case circularBuffer:
		return model.Ring
	case chunkedLocal:
		return model.Chunked
	case crossAttention:
		return model.Cross
	case mambaState:
		return model.Recurrent
	}
	return model.Full
}

// fillPool sizes the pool, if one is given, and says what it holds and what is logged.
func (p *plan) fillPool() *problem.Error {
	s, kv, d := &p.setup, &p.result.KVCache, &p.demand
	pool := pool{available: s.opt.KVCacheMemory, override: s.opt.NumGPUBlocksOverride}
	p.perRequest()
	if pool.available <= 0 && pool.override <= 0 {
		return p.checkBlock()
	}
	p.memory = pool.available
	kv.AvailableBytes = &p.memory
	if len(p.groups) == 0 {
		p.blocks = 1
		kv.NumBlocks = &p.blocks
		for i := range p.result.Ranks {
			p.result.Ranks[i].NumBlocks = &p.blocks
		}
		return p.checkBlock()
	}
	p.log()
	if pool.override > 0 {
		p.memory = 0
		for _, bytes := range p.perBlock {
			p.memory = max(p.memory, pool.bytes(bytes)) // what the blocks asked for take
			p.logf("Overriding num_gpu_blocks=%d with num_gpu_blocks_override=%d", pool.available/bytes, pool.override)
		}
	}
	if s.fit {
		if err := p.fitLength(pool); err != nil {
			return err
		}
	}
	p.alone = sized(p.room.alone[:], len(p.perBlock))
	p.blocks = math.MaxInt64
	for i, bytes := range p.perBlock {
		p.alone[i] = pool.blocks(bytes)
		p.blocks = min(p.blocks, p.alone[i])
		p.result.Ranks[i].NumBlocks = &p.alone[i]
	}
	if err := d.admit(p.groups, p.perBlock, pool); err != nil {
		return err
	}
	p.capacity = s.rules.capacity(d, p.groups, p.blocks)
	p.capacity.perBlock = slices.Max(p.perBlock)
	kv.NumBlocks, kv.Tokens, kv.MaxConcurrency = &p.blocks, &p.capacity.tokens, &p.capacity.concurrency
	p.concurrency()
	p.result.Log = s.rules.lines(p.result.Log, s.gpu, p.capacity, d.maxLen)
	return p.checkBlock()
}

// log starts the list of lines.
func (p *plan) log() { p.result.Log = p.room.lines[:0] }

func (p *plan) logf(format string, args ...any) {
	p.result.Log = append(p.result.Log, fmt.Sprintf(format, args...))
}

// fitLength adopts the longest length that every stage holds.
func (p *plan) fitLength(pool pool) *problem.Error {
	s, d := &p.setup, &p.demand
	n, usable := d.autoFit(p.groups, p.perBlock, pool)
	if n <= 0 {
		return problem.New(problem.DoesNotFit, "max_model_len", -1,
			"Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single token.").
			WithHint("Try increasing `gpu_memory_utilization`.")
	}
	memory := gib(float64(usable)) + " GiB " + s.rules.label(s.gpu)
	if n >= d.maxLen {
		p.logf("Auto-fit max_model_len: full model context length %d fits in available KV cache memory (%s)", d.maxLen, memory)
	} else {
		p.logf("Auto-fit max_model_len: reduced from %d to %d to fit in available KV cache memory (%s)", d.maxLen, n, memory)
	}
	d.maxLen, s.maxLen = n, n
	p.result.Model.MaxModelLen = n
	p.perRequest()
	return nil
}

// perRequest says what a request takes of the pool: blocks of groups that grow with every
// token, by the token, and of the others as a whole.
func (p *plan) perRequest() {
	kv, d := &p.result.KVCache, &p.demand
	var widest int64
	for _, b := range p.perBlock {
		widest = max(widest, b)
	}
	kv.BytesPerToken, kv.FixedBytesPerRequest = 0, 0
	for i := range p.groups {
		s := p.groups[i].firstOn(0)
		if s.Class.full() {
			tokens := s.BlockSize
			if s.shardedByDCP() {
				tokens *= d.dcp
			}
			kv.BytesPerToken += widest / tokens
			continue
		}
		if n, ok := mul(widest, d.pages(s)); ok {
			kv.FixedBytesPerRequest += n
		}
	}
}

// concurrency says how many requests of further lengths the pool holds.
func (p *plan) concurrency() {
	kv := &p.result.KVCache
	for _, tokens := range p.setup.opt.ConcurrencyAt {
		if tokens < 1 || tokens > maxLength {
			continue
		}
		d := p.demand
		d.maxLen = tokens
		kv.Concurrency = append(kv.Concurrency, engine.Concurrency{Tokens: tokens, Requests: p.setup.rules.capacity(&d, p.groups, p.blocks).concurrency})
	}
}

// checkBlock is the engine's last word on the block size (VllmConfig.validate_block_size).
func (p *plan) checkBlock() *problem.Error {
	s := &p.setup
	block, interleave := p.result.KVCache.BlockSize, max(s.opt.CPInterleave, 1)
	if s.layout.DCP > 1 && block%interleave != 0 {
		return problem.New(problem.IllegalLayout, "cp_kv_cache_interleave_size", interleave,
			"Block_size(%d) should be greater than or equal to and divisible by cp_kv_cache_interleave_size (%d).", block, interleave).
			WithHint("cp_kv_cache_interleave_size 1")
	}
	if s.align && s.v.prefix {
		return problem.New(problem.Unsupported, "enable_prefix_caching", true,
			"Chunked MM input is required because we need the flexibility to schedule a multiple of block_size tokens even if they are in the middle of a mm input").
			WithHint("enable_prefix_caching false")
	}
	return nil
}
