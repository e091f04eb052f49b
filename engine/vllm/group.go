package vllm

import (
	"slices"

	"headcount/problem"
)

// Caches are the specs of a model's layers over all pipeline stages, in the order in
// which the engine collects them: stage by stage, layer by layer, equal ones as a run.
type caches struct {
	specs []spec // distinct, in order of first appearance
	runs  []run

	merged spec // of all layers, if one serves them
	alone  [1]group
	shares []share // where lists of them begin
}

// list is an empty list for n shares.
func (c *caches) list(n int) []share {
	at := len(c.shares)
	if cap(c.shares)-at < n {
		at, c.shares = 0, make([]share, 0, max(n, 2*cap(c.shares))) // earlier lists keep theirs
	}
	c.shares = c.shares[:at+n]
	return c.shares[at : at : at+n]
}

// A run is n caches in a row of one spec on one stage.
type run struct {
	spec, stage int32
	n           int64
}

// add appends n caches of one spec.
func (c *caches) add(s *spec, stage int, n int64) { c.repeat(c.index(s), stage, n) }

// index is where a spec stands, at the end if it is new.
func (c *caches) index(s *spec) int {
	i := slices.Index(c.specs, *s)
	if i < 0 {
		i = len(c.specs)
		c.specs = append(c.specs, *s)
	}
	return i
}

// repeat appends n caches of the spec at i.
func (c *caches) repeat(i, stage int, n int64) {
	if k := len(c.runs) - 1; k >= 0 && c.runs[k].spec == int32(i) && c.runs[k].stage == int32(stage) {
		c.runs[k].n += n
		return
	}
	c.runs = append(c.runs, run{int32(i), int32(stage), n})
}

// with is c with each spec replaced; specs that became equal are one.
func (c *caches) with(specs []spec) *caches {
	out := &caches{specs: make([]spec, 0, len(specs)), runs: make([]run, 0, len(c.runs))}
	for _, r := range c.runs {
		out.add(&specs[r.spec], int(r.stage), r.n)
	}
	return out
}

// A share is how many layers of a group lie on one stage with one spec.
type share struct {
	spec  *spec
	stage int32
	n     int64
}

// A group is layers that share block tables. All its layers have one spec, or, in a
// uniform-type group (UniformTypeKVCacheSpecs), each its own.
type group struct {
	spec    *spec // the layers' spec; of a uniform-type group its first layer's
	uniform bool
	layers  int64
	shares  []share // by stage
}

// UniformKind is the engine's name of the spec of a group of unlike layers, whose page is
// that of all its layers.
const UniformKind = "UniformTypeKVCacheSpecs"

// kind is the engine's name of the group's spec.
func (g *group) kind() string {
	if g.uniform {
		return UniformKind
	}
	return g.spec.Class.String()
}

// page is the group's page, bytes: one layer's, or the sum over a uniform-type group.
func (g *group) page() int64 {
	if !g.uniform {
		return g.spec.page()
	}
	var sum int64
	for _, s := range g.shares {
		sum += s.n * s.spec.page()
	}
	return sum
}

// cacheable tells whether the group takes part in prefix caching.
func (g *group) cacheable() bool {
	if !g.uniform {
		return g.spec.cacheable()
	}
	for _, s := range g.shares {
		if !s.spec.cacheable() {
			return false
		}
	}
	return true
}

func (s *spec) cacheable() bool { return s.Class != circularBuffer && !s.Replay }

// padding is what the engine warns of when a bucket does not divide into equal groups.
type padding struct{ layers, of int64 }

// groups splits the layers of the whole model into groups (v1/core/kv_cache_planning.py,
// get_kv_cache_groups). blockOuter is the memory layout's: blocks before layers.
func (c *caches) groups(blockOuter, noHybrid bool) ([]group, []padding, *problem.Error) {
	if noHybrid {
		p, err := c.promoteBySharding()
		if err != nil {
			return nil, nil, err
		}
		c = p
	}
	if len(c.specs) == 0 {
		return nil, nil, nil
	}
	merged, fit := merge(c.specs)
	switch {
	case fit == windowsDiffer:
		return nil, nil, errWindows()
	case fit == merges:
		c.merged = merged
		return c.one(&c.merged, false), nil, nil
	case uniform(c.specs):
		return c.one(&c.specs[0], true), nil, nil
	case blockOuter && c.pagesDiffer():
		gs, err := c.packed()
		return gs, nil, err
	}
	equal, err := c.equalPages()
	if err != nil {
		if gs := c.asFull(); gs != nil {
			return gs, nil, nil
		}
		return nil, nil, err
	}
	return equal.equalGroups()
}

// one is a single group of all layers.
func (c *caches) one(s *spec, uniform bool) []group {
	g := group{spec: s, uniform: uniform, shares: c.list(len(c.runs))}
	for _, r := range c.runs {
		g.layers += r.n
		g.shares = append(g.shares, share{&c.specs[r.spec], r.stage, r.n})
	}
	c.alone[0] = g
	return c.alone[:]
}

func (c *caches) pagesDiffer() bool {
	for i := range c.specs {
		if c.specs[i].page() != c.specs[0].page() {
			return true
		}
	}
	return false
}

// A fit is the outcome of merging specs into one.
type fit uint8

const (
	conflict fit = iota
	merges
	windowsDiffer // the engine raises here instead of going on
)

// merge is the one spec for layers of all these, as the class of the first decides.
func merge(specs []spec) (spec, fit) {
	m := specs[0]
	first := m.mergeKey()
	var windows, chunks distinct
	for i := range specs {
		s := &specs[i]
		if m.Class == fullAttention || m.Class == sinkAttention {
			if !s.Class.full() || s.Class == mlaAttention {
				return m, conflict
			}
		} else if s.Class != m.Class {
			return m, conflict
		}
		windows.add(s.Window)
		chunks.add(s.Chunk)
	}
	full := m.Class == fullAttention || m.Class == sinkAttention
	if full && (windows.n > 1 || chunks.n > 1) {
		return m, windowsDiffer
	}
	for i := range specs {
		if specs[i].mergeKey() != first {
			return m, conflict
		}
		m.NonCausal = m.NonCausal || specs[i].NonCausal
	}
	if full {
		m.Window, m.Chunk = windows.value, chunks.value
		if m.Window != 0 && m.Chunk != 0 {
			return m, conflict
		}
	}
	return m, merges
}

// distinct counts the different non-zero values it is given.
type distinct struct{ value, n int64 }

func (d *distinct) add(v int64) {
	if v != 0 && v != d.value {
		d.value = v
		d.n++
	}
}

// mergeKey is the part of a spec in which layers of one group must agree, by its class's
// merge: attention specs in the fields of AttentionSpec, windowed latents in few.
func (s *spec) mergeKey() spec {
	k := *s
	switch s.Class {
	case fullAttention, sinkAttention:
		k.Class, k.Window, k.Chunk, k.NonCausal, k.SinkLen = fullAttention, 0, 0, false, 0
	case mlaAttention:
		k.Window, k.Chunk, k.NonCausal, k.Alignment = 0, 0, false, 0
	case slidingMLA:
		k = spec{Class: s.Class, Replicated: s.Replicated, TPShards: s.TPShards, CacheDType: s.CacheDType,
			TokensPerState: s.TokensPerState, StatesPerToken: s.StatesPerToken, V4: s.V4, Window: s.Window,
			Retained: s.Retained, Replay: s.Replay, StrideBytes: s.StrideBytes, StrideTokens: s.StrideTokens}
	}
	return k
}

// uniform tells whether layers of all these specs always need the same number of blocks
// (UniformTypeKVCacheSpecs.is_uniform_type).
func uniform(specs []spec) bool {
	for i := range specs {
		if !specs[0].uniformWith(&specs[i]) {
			return false
		}
	}
	return true
}

// uniformWith tells whether o may join a uniform-type group that f is the first of.
func (f *spec) uniformWith(o *spec) bool {
	if f.BlockSize != o.BlockSize || f.shardedByDCP() != o.shardedByDCP() {
		return false
	}
	switch f.Class {
	case fullAttention, sinkAttention, mlaAttention:
		return o.Class.full()
	case slidingWindow:
		return o.Class.sliding() && o.Window == f.Window
	case slidingMLA:
		return o.Class == slidingMLA && o.Window == f.Window && o.Replay == f.Replay
	case chunkedLocal:
		return o.Class == chunkedLocal && o.Chunk == f.Chunk
	case mambaState:
		return o.Class == mambaState && o.page() == f.page() && o.SpecBlocks == f.SpecBlocks &&
			o.CheckpointBlocks == f.CheckpointBlocks && o.CheckpointAlign == f.CheckpointAlign &&
			o.TPReplicated == f.TPReplicated
	}
	return o.Class == f.Class
}

// shardedByDCP tells whether decode context parallelism spreads the cache's tokens.
func (s *spec) shardedByDCP() bool { return s.Class != mambaState && !s.Replicated }

// promoteBySharding allocates windows and chunks as full attention, for a server without
// the hybrid cache manager (unify_hybrid_kv_cache_specs): sharded and replicated caches
// each for themselves.
func (c *caches) promoteBySharding() (*caches, *problem.Error) {
	specs := slices.Clone(c.specs)
	for _, replicated := range []bool{false, true} {
		var part []spec
		var at []int
		for i := range specs {
			if s := &specs[i]; (s.Class != mambaState && s.Replicated) == replicated {
				part, at = append(part, *s), append(at, i)
			}
		}
		if len(part) == 0 {
			continue
		}
		if err := promote(part); err != nil {
			return nil, err
		}
		for k, i := range at {
			specs[i] = part[k]
		}
	}
	return c.with(specs), nil
}

// promote turns windows and chunks among full attention into full attention, in place
// (_promote_local_kv_cache_specs). The result must be of one type.
func promote(specs []spec) *problem.Error {
	if ok, err := oneType(specs); ok || err != nil {
		return err
	}
	full, local := 0, false
	var block distinct
	for i := range specs {
		switch s := &specs[i]; {
		case s.Class.full():
			full++
			block.add(s.BlockSize)
		case s.Class.sliding(), s.Class == chunkedLocal:
			local = true
		}
	}
	for i := range specs {
		s := &specs[i]
		if full == 0 || !local || s.Class.full() || !s.Class.sliding() && s.Class != chunkedLocal {
			continue
		}
		if s.Class == slidingMLA {
			return problem.New(problem.Unsupported, "disable_hybrid_kv_cache_manager", true,
				"a windowed latent cannot be allocated as full attention")
		}
		blockSize := s.BlockSize
		if block.n == 1 {
			blockSize = block.value
		}
		if s.Padded != 0 {
			s.Padded = max(s.Padded, s.unpadded()*blockSize/s.BlockSize)
		}
		s.Class, s.BlockSize, s.Retained = fullAttention, blockSize, 0
	}
	if ok, err := oneType(specs); ok || err != nil {
		return err
	}
	return problem.New(problem.Unsupported, "disable_hybrid_kv_cache_manager", true,
		"Failed to promote local KV cache specs to one unified type.")
}

// oneType tells whether the specs make a single group.
func oneType(specs []spec) (bool, *problem.Error) {
	switch _, fit := merge(specs); fit {
	case windowsDiffer:
		return false, errWindows()
	case merges:
		return true, nil
	}
	return uniform(specs), nil
}

func errWindows() *problem.Error {
	return problem.New(problem.Unsupported, "sliding_window", nil,
		"All attention layers in the same KV cache group must have the same window size.")
}

// asFull is the way out when pages cannot be made equal: latents beside plain windows,
// allocated as one uniform-type group of full attention; nil when that does not apply.
func (c *caches) asFull() []group {
	var latent, window bool
	for i := range c.specs {
		switch c.specs[i].Class {
		case slidingMLA, chunkedLocal:
			return nil
		case mlaAttention:
			latent = true
		case slidingWindow:
			window = true
		}
	}
	if !latent || !window {
		return nil
	}
	specs := slices.Clone(c.specs)
	if promote(specs) != nil || !uniform(specs) {
		return nil
	}
	full := c.with(specs)
	return full.one(&full.specs[0], true)
}

// equalPages makes all pages as large as the largest (unify_kv_cache_spec_page_size): by
// more tokens in a block where the page divides, by padding where it does not. A Mamba
// page does not grow with the block and is always padded; a latent's cannot be.
func (c *caches) equalPages() (*caches, *problem.Error) {
	largest := int64(0)
	for i := range c.specs {
		largest = max(largest, c.specs[i].page())
	}
	specs := slices.Clone(c.specs)
	for i := range specs {
		s := &specs[i]
		page := s.page()
		switch {
		case page == largest:
		case s.Class == mambaState:
			s.Padded = largest
		case page == 0:
			return nil, errNoPage(s)
		case largest%page == 0:
			block, ok := mul(s.BlockSize, largest/page)
			if !ok {
				return nil, problem.New(problem.BadValue, "block_size", s.BlockSize, "too large")
			}
			*s = s.withBlock(block)
		case s.Class != mlaAttention:
			s.Padded = largest
		}
		if s.page() != largest {
			return nil, problem.New(problem.Unsupported, "page_size_bytes", page,
				"page size of a latent layer does not divide the largest page, %d bytes, and cannot be padded", largest)
		}
	}
	return c.with(specs), nil
}

func errNoPage(s *spec) *problem.Error {
	return problem.New(problem.Unsupported, "block_size", s.BlockSize,
		"a block of this size holds no state of a layer that keeps one state per %d tokens", s.TokensPerState)
}

// equalGroups cuts layers of one page size into groups of about equally many layers
// (_get_kv_cache_groups_uniform_page_size).
func (c *caches) equalGroups() ([]group, []padding, *problem.Error) {
	type bucket struct {
		spec   spec // of all its layers
		shares []share
		layers int64
	}
	shares := c.bySpec()
	var buckets []bucket
next:
	for i := range c.specs {
		for b := range buckets {
			k := &buckets[b]
			if m, fit := merge([]spec{k.spec, c.specs[i]}); fit == merges {
				k.spec = m
				k.shares = append(k.shares, shares[i]...)
				continue next
			}
		}
		buckets = append(buckets, bucket{spec: c.specs[i], shares: shares[i]})
	}
	least, most := int64(-1), int64(0)
	for b := range buckets {
		k := &buckets[b]
		for _, s := range k.shares {
			k.layers += s.n
		}
		most = max(most, k.layers)
		if least < 0 || k.layers < least {
			least = k.layers
		}
	}
	size := least
	if 2*most < 3*least { // most < 1.5·least: padding the smaller buckets wastes less
		size = most
	}
	var gs []group
	var pads []padding
	for b := range buckets {
		k := &buckets[b]
		n := ceil(k.layers, size)
		if missing := n*size - k.layers; missing > 0 {
			pads = append(pads, padding{missing, k.layers})
		}
		if n*int64(len(k.shares)) > maxShares {
			return nil, nil, errTooMany(n)
		}
		for i := range n {
			gs = append(gs, c.every(&k.spec, k.shares, i, n))
		}
	}
	return gs, pads, nil
}

// maxShares bounds groups × stages, which an absurd config could drive beyond memory.
const maxShares = 1 << 20

func errTooMany(n int64) *problem.Error {
	return problem.New(problem.BadValue, "num_hidden_layers", nil, "%d cache groups are too many", n)
}

// every is the group of each n-th layer from the i-th on, so that pipeline stages keep
// about equal shares of every group.
func (c *caches) every(s *spec, from []share, i, n int64) group {
	g := group{spec: s, shares: c.list(len(from))}
	var at int64 // layers before the share
	for _, f := range from {
		if k := below(at+f.n, i, n) - below(at, i, n); k > 0 {
			g.shares = append(g.shares, share{s, f.stage, k})
			g.layers += k
		}
		at += f.n
	}
	return g
}

// below counts i, i + n, i + 2n, ... below x.
func below(x, i, n int64) int64 {
	if x <= i {
		return 0
	}
	return ceil(x-i, n)
}

// bySpec lists, for each spec, its layers by stage.
func (c *caches) bySpec() [][]share {
	out := make([][]share, len(c.specs))
	for _, r := range c.runs {
		l := out[r.spec]
		if k := len(l) - 1; k >= 0 && l[k].stage == r.stage {
			l[k].n += r.n
			continue
		}
		out[r.spec] = append(l, share{&c.specs[r.spec], r.stage, r.n})
	}
	return out
}
