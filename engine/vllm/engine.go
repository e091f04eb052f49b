// Package vllm is vLLM's rules: which attention backend a model gets on a device, the block
// sizes that follow, how layers are grouped, and what a pool of cache memory then holds.
//
// The order is the engine's own, so that a plan is refused for the reason that the engine
// would give first: the config and the flags (setup), the model's layers (layerCaches),
// block sizes (chooseBlock), groups, and the pool.
package vllm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"headcount/attn"
	"headcount/engine"
	"headcount/layout"
	"headcount/problem"
	"headcount/weights"
)

// Engine is vLLM. The zero Engine is [Version].
type Engine struct {
	version string
	rules   *release
}

// Name is "vllm".
func (Engine) Name() string { return "vllm" }

// Version is the release whose rules are applied.
func (e Engine) Version() string {
	if e.version == "" {
		return Version
	}
	return e.version
}

// Plan says what vLLM allocates for the cache of a model on a layout, and what it logs.
func (e Engine) Plan(job engine.Job) (*engine.Result, error) {
	if e.rules == nil {
		e.rules = latest()
	}
	p := newPlan(job, e.rules)
	defer p.free()
	if err := p.run(); err != nil {
		if err.Code == problem.NotDivisible && err.Hint == "" {
			if sizes := legalTP(job, e.rules); sizes != "" {
				err = err.WithHint("legal tensor parallel sizes: %s", sizes)
			}
		}
		if err.RefusedBy == "" && err.Code != problem.NotKnown {
			err = err.By("vllm")
		}
		return &p.result, err
	}
	return &p.result, nil
}

// A plan is one answer in the making: the answer, and what it takes on the way.
type plan struct {
	*answer
	setup  setup
	named  bool         // a device is: what start-up takes of it is asked as well
	caches []layerCache // of the distinct layers
	from   []int32      // index in caches of each distinct layer's first, and their number
	found  [4]backend   // of the first stage's layers, if they are no more
	all    caches
	rows   []*engine.Run // the last of each distinct spec
	groups []group
	demand demand
}

// plans are those that are done. Their slices serve the next ones.
var plans = sync.Pool{New: func() any { return new(plan) }}

// free gives a plan back. Its answer lives on.
func (p *plan) free() {
	clear(p.rows) // they are the answer's
	*p = plan{caches: p.caches[:0], from: p.from[:0], rows: p.rows[:0],
		all: caches{specs: p.all.specs[:0], runs: p.all.runs[:0], shares: p.all.shares[:0]}}
	plans.Put(p)
}

// An answer is the Result and what it points to, one allocation for the most part.
type answer struct {
	result   engine.Result
	spans    []layout.Span
	perBlock []int64
	capacity capacity
	flags    [3]bool
	sizes    [3]int
	blocks   int64
	memory   int64
	quant    string
	alone    []int64

	room room
}

// A room is where the slices of an answer begin, long enough for a homogeneous model on one
// pipeline stage.
type room struct {
	ranks    [1]engine.Rank
	spans    [1]layout.Span
	lines    [1]string
	layers   [1]*engine.Run
	row      engine.Run
	groups   [1]engine.Group
	perBlock [2]int64
	alone    [1]int64
}

// sized is room cut to n elements, or a new slice if there is not that much.
func sized[T any](room []T, n int) []T {
	if n <= len(room) {
		return room[:n:n]
	}
	return make([]T, n)
}

func newPlan(job engine.Job, rules *release) *plan {
	p := plans.Get().(*plan)
	p.answer = new(answer)
	opt := job.Options
	if opt == nil {
		opt = &engine.Options{}
	}
	p.named = job.GPU != nil
	p.setup = setup{v: viewOf(job.Model, rules.expands || opt.MLADisable), opt: opt, layout: job.Layout.Normal(), gpu: newDevice(job.GPU), rules: rules}
	p.setup.gpu.amx = p.setup.gpu.cpu && strings.EqualFold(opt.AttentionBackend, amxMLA.String())
	p.result.Fraction = rules.fraction
	if opt.GPUMemoryUtilization > 0 {
		p.result.Fraction = opt.GPUMemoryUtilization
	}
	if p.setup.v.remote && p.setup.v.refusal == nil {
		p.note("remote-code", "info", "the checkpoint's own code reads its config", "the engine needs --trust-remote-code")
	}
	if job.GPU == nil {
		p.note("device-assumed", "info", "no device named: backends and batch sizes are those of an H100", "name one with --gpu")
	}
	return p
}

// run goes through the engine's steps.
func (p *plan) run() *problem.Error {
	s := &p.setup
	p.describe()
	err := s.resolve()
	p.resolved()
	if err != nil {
		return err
	}
	if err := p.build(); err != nil {
		return err
	}
	if err := p.checkOverride(); err != nil {
		return err
	}
	if err := p.weigh(); err != nil {
		return err
	}
	p.startup()
	if err := p.checkModules(); err != nil {
		return err
	}
	if err := p.group(); err != nil {
		return err
	}
	return p.fillPool()
}

// describe fills what the engine makes of the model alone.
func (p *plan) describe() {
	v := p.setup.v
	p.result.Model = engine.View{QueryHeads: int(v.queries), KVHeads: int(v.kv), HeadDim: int(v.head), Quantization: v.quant}
	if v.mla {
		p.result.Model.AttentionArch = attn.MLA
	}
}

// resolved fills the settings that are known so far.
func (p *plan) resolved() {
	s, r := &p.setup, &p.result.Resolved
	p.result.Model.MaxModelLen, p.result.Model.DType, p.result.Model.Quantization = s.maxLen, s.dtype, s.quant
	p.flags = [3]bool{s.async, s.chunked, s.prefixCaching}
	*r = engine.Resolved{
		MaxNumBatchedTokens: int(s.tokens), MaxNumSeqs: int(s.seqs), MaxInFlightTokens: int(s.inFlight),
		AsyncScheduling: &p.flags[0], ChunkedPrefill: &p.flags[1], PrefixCaching: &p.flags[2],
		MambaCacheMode: s.mode(), CacheDType: s.cacheDType, DType: s.dtype.String(),
	}
	if p.quant = s.quant; p.quant != "" {
		r.Quant = &p.quant
	}
}

// build picks backends and block sizes and derives the specs of each stage's layers.
func (p *plan) build() *problem.Error {
	s := &p.setup
	if err := cmp.Or(s.checkWrapped(), s.checkClass(), s.checkTowers(false), s.checkActivation(), s.checkNulls()); err != nil {
		return err
	}
	var err *problem.Error
	if p.caches, err = s.layerCaches(p.caches[:0]); err != nil {
		return cmp.Or(p.beforeBackends(err), err)
	}
	p.index()
	p.result.Resolved.CacheDType = s.cacheDType
	p.result.Resolved.AttentionBackends = s.backendNames(p.caches, p.from)
	p.spans = spans(p.room.spans[:0], len(s.v.model.Layers), s.layout.PP)
	if err := cmp.Or(p.checkShared(), s.checkTowers(true)); err != nil { // of layers that looked for a backend before
		return err
	}
	configured := *s // before any stage's layers settle the block size
	var before []backend
	var kept bool
	for stage := range p.spans {
		found, keeps := p.backendsOn(stage)
		if len(found) == 0 && !keeps {
			if err := p.bare(stage); err != nil {
				return err
			}
		}
		if stage == 0 || keeps != kept || !slices.Equal(found, before) {
			s.block, s.stateBlock, s.statePadded = configured.block, configured.stateBlock, configured.statePadded
			s.keeps = keeps
			w := s.modelWant()
			if err := s.chooseBlock(found, &w); err != nil {
				return err
			}
			if err := s.specs(p.caches); err != nil {
				return err
			}
			p.aligned(stage)
		}
		before, kept = found, keeps
		p.each(stage, func(lc *layerCache, n int64) {
			if lc.none {
				return
			}
			if lc.known == 0 {
				lc.known = 1 + int32(p.all.index(&lc.spec))
			}
			p.all.repeat(int(lc.known-1), stage, n)
		})
		if len(p.all.specs) > maxSpecs {
			return problem.New(problem.BadValue, "num_hidden_layers", nil, "more than %d different caches", maxSpecs)
		}
	}
	p.ranks()
	return nil
}

// beforeBackends is what stops the engine before it looks for a backend that it then does
// not find: the projections around an attention are built first. Where Transformers' modules
// run, all of them are.
func (p *plan) beforeBackends(err *problem.Error) *problem.Error {
	s := &p.setup
	switch {
	case err.Code != problem.Unsupported:
		return nil
	case !s.v.transformers:
		return s.checkProjections()
	}
	p.spans = spans(p.room.spans[:0], len(s.v.model.Layers), s.layout.PP)
	_, refusal := weights.Stages(s.v.model, p.buildOf())
	if e, ok := refusal.(*problem.Error); ok && e.Code != problem.NotKnown {
		return e
	}
	return nil
}

// maxSpecs bounds the different caches of a model; grouping compares each with each.
const maxSpecs = 1024

// index notes where each distinct layer's caches begin.
func (p *plan) index() {
	p.from = p.from[:0]
	for i := range p.caches {
		for int(p.caches[i].layer) >= len(p.from) {
			p.from = append(p.from, int32(i))
		}
	}
	for len(p.from) <= len(p.setup.v.layers) {
		p.from = append(p.from, int32(len(p.caches)))
	}
}

// each visits the caches of a stage's layers in order, n equal ones at a time. The draft's
// layers follow the target's on the last stage.
func (p *plan) each(stage int, visit func(lc *layerCache, n int64)) {
	at := 0
	for _, r := range p.setup.v.runs {
		from, to := max(at, p.spans[stage].Start), min(at+int(r.n), p.spans[stage].End)
		at += int(r.n)
		p.eachOf(r.layer, to-from, visit)
	}
	if stage == len(p.spans)-1 && p.setup.drafts > 0 {
		for _, r := range p.setup.v.draft {
			p.eachOf(r.layer, int(r.n), visit)
		}
	}
}

// eachOf visits the caches of n equal layers.
func (p *plan) eachOf(layer int32, n int, visit func(lc *layerCache, n int64)) {
	own := p.caches[p.from[layer]:p.from[layer+1]]
	switch {
	case n <= 0:
	case len(own) == 1:
		visit(&own[0], int64(n))
	default:
		for range n {
			for i := range own {
				visit(&own[i], 1)
			}
		}
	}
}

// backendsOn lists the distinct attention backends of a stage's layers, in order, and tells
// whether any of them keeps a state.
func (p *plan) backendsOn(stage int) (found []backend, keeps bool) {
	if stage == 0 { // the slice of later stages is another: what came before is held against it
		found = p.found[:0]
	}
	at := 0
	add := func(layer int32) {
		for i := p.from[layer]; i < p.from[layer+1]; i++ {
			if by := p.caches[i].by; by.recurrent() {
				keeps = true
			} else if !slices.Contains(found, by) {
				found = append(found, by)
			}
		}
	}
	for _, r := range p.setup.v.runs {
		if at < p.spans[stage].End && at+int(r.n) > p.spans[stage].Start {
			add(r.layer)
		}
		at += int(r.n)
	}
	if stage == len(p.spans)-1 && p.setup.drafts > 0 {
		for _, r := range p.setup.v.draft {
			add(r.layer)
		}
	}
	return found, keeps
}

// bare gives a stage that has no layer with a cache a backend all the same: the engine asks
// for one by the model's totals, and asks it how caches lie in memory
// (kv_transfer/kv_connector/utils.py, get_current_attn_backends).
func (p *plan) bare(stage int) *problem.Error {
	s := &p.setup
	w := s.modelWant()
	w.head, w.value, w.mla, w.block = s.v.head, s.v.head, s.v.mla, int64(s.opt.BlockSize)
	by, err := s.gpu.choose(&w)
	if err != nil {
		return err
	}
	names := p.result.Resolved.AttentionBackends
	switch {
	case slices.Contains(names, by.String()):
		return nil
	case stage == 0:
		names = slices.Insert(slices.Clip(names), 0, by.String())
	default:
		names = append(slices.Clip(names), by.String())
	}
	p.result.Resolved.AttentionBackends = names
	return nil
}

// group groups the layers and sizes a block.
func (p *plan) group() *problem.Error {
	s := &p.setup
	p.demand = demand{maxLen: s.maxLen, inFlight: s.inFlight, encoder: s.tokens, dcp: int64(s.layout.DCP), align: s.align, byPage: s.rules.byPage}
	if !s.rules.wholePool {
		p.demand.kept = 1
	}
	outer, err := s.blockOuter(p.caches)
	if err != nil {
		return err
	}
	if err := p.agreeOnRings(); err != nil {
		return err
	}
	gs, pads, err := p.all.groups(outer, s.noHybrid)
	if err != nil {
		return err
	}
	p.groups = gs
	kv := &p.result.KVCache
	kv.DType = s.cacheType(s.storedAs(0))
	kv.Groups = sized(p.room.groups[:], len(gs))
	for i := range gs {
		g := &gs[i]
		kv.Groups[i] = engine.Group{Kind: g.kind(), Layers: int(g.layers), BlockSize: int(g.spec.BlockSize), PageSize: g.page()}
	}
	for _, pad := range pads {
		p.padded(pad)
	}
	cache, scheduler, hash := blockSizes(gs, s.block, &p.demand, s.prefixCaching)
	if scheduler == 0 || scheduler > math.MaxInt {
		return problem.New(problem.BadValue, "block_size", s.block, "the block sizes of the groups have no common multiple")
	}
	kv.BlockSize = int(cache)
	p.sizes = [3]int{int(scheduler), int(hash), int(replicas(gs, int64(s.layout.TP), int64(s.layout.DCP)))}
	kv.SchedulerBlockSize, kv.HashBlockSize, kv.KVTPReplicas = &p.sizes[0], &p.sizes[1], &p.sizes[2]
	if len(gs) == 0 {
		return nil
	}
	p.perBlock = blockBytes(p.room.perBlock[:0], gs, len(p.spans), outer)
	for i := range p.perBlock {
		p.result.Ranks[i].BytesPerBlock = &p.perBlock[i]
	}
	return checkPages(gs, p.perBlock)
}

// aligned notes, in the engine's words, what states did to the block size of the first stage.
func (p *plan) aligned(stage int) {
	s := &p.setup
	if stage > 0 || s.stateBytes == 0 {
		return
	}
	if s.block > s.blockWanted {
		p.note("block-size-raised", "info", fmt.Sprintf("Setting attention block size to %d tokens to ensure that attention page size is >= mamba page size.", s.block), "")
	}
	if s.statePadded > 0 {
		p.note("state-padded", "info", fmt.Sprintf("Padding mamba page size by %.2f%% to ensure that mamba page size and attention page size are exactly equal.",
			100*float64(s.statePadded-s.stateBytes)/float64(s.stateBytes)), "")
	}
}

// padded notes the layers that groups are filled up with.
func (p *plan) padded(pad padding) {
	p.note("padding-layers", "warning", fmt.Sprintf("Add %d padding layers, may waste at most %.2f%% KV cache memory",
		pad.layers, float64(pad.layers)/float64(pad.of)*100), "")
}

// note adds a finding.
func (p *plan) note(id, severity, text, hint string) {
	p.result.Notes = append(p.result.Notes, engine.Note{ID: id, Severity: severity, Text: text, Hint: hint})
}
