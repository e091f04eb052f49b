package paged

import (
	"errors"
	"slices"
	"sync"

	"headcount/internal/team"
	"headcount/layout"
	"headcount/problem"
	"headcount/units"
)

// A Group is the attention of a model over ranks, each with a pool of its own and its share
// of the heads, working side by side. Ranks divide the work in three ways, as those of an
// engine do, and what each holds and reads is counted there:
//
//	tensor parallel           each rank has QueryHeads / TP query heads and the KV heads
//	                          that they read, replicated when TP is a multiple of KVHeads;
//	                          a latent is whole on every rank
//	decode context parallel   of DCP ranks that would hold the same KV heads each holds
//	                          every DCP-th token; partial results are merged by their
//	                          log-sum-exps
//	data parallel             whole requests on each of DP replicas, so that a latent is
//	                          held once and not once a rank
//
// What a Group computes is what one rank computes, up to the order of float additions.
// It may be used by many goroutines; steps and changes of sequences take turns.
type Group struct {
	layers   []Config // whole
	ranks    []*rank  // replica by replica
	replicas int

	mu      sync.Mutex
	team    *team.Team // a worker for each rank
	step    groupStep
	collect bool // the team's second errand of a step
}

// A groupStep is what [Group.Decode] was called with.
type groupStep struct {
	layer   int
	seqs    []*GroupSequence
	queries []int
	q, out  []float32
}

// NewGroup makes the ranks of a layout for whole layers, whose shares it works out. A
// pool of so many blocks is made for each rank. Pipeline parallelism is left out: a group
// is one stage. Workers is not used: a rank is one worker.
//
// Errors are those of [NewPool], [NewAttention] and [attn.Geometry.Rank], or illegal_layout
// where DCP does not divide the ranks that hold the same KV heads.
func NewGroup(layers []Config, over layout.Layout, blocks int) (*Group, error) {
	over, err := oneStage(over)
	if err != nil {
		return nil, err
	}
	g := &Group{layers: slices.Clone(layers), replicas: over.DP}
	for replica := range over.DP {
		for n := range over.TP {
			r, err := newRank(layers, over, Place{Replica: replica, TPRank: n, DCPRank: n % over.DCP}, blocks)
			if err != nil {
				return nil, errors.Join(err, g.Close())
			}
			g.ranks = append(g.ranks, r)
		}
	}
	g.team = team.New(len(g.ranks), g.work)
	return g, nil
}

// oneStage is the layout as replicas of TP ranks, or what is wrong with it.
func oneStage(over layout.Layout) (layout.Layout, error) {
	if err := over.Check(); err != nil {
		return over, err
	}
	over = over.Normal()
	if over.PP > 1 {
		return over, problem.New(problem.IllegalLayout, "pipeline_parallel_size", over.PP, "a group is one stage").
			WithHint("a group for each stage, with its layers")
	}
	if over.DPAttention { // the replicas share the TP ranks
		if over.TP%over.DP != 0 {
			return over, problem.New(problem.NotDivisible, "tensor_parallel_size", over.TP, "not divisible by data_parallel_size %d", over.DP)
		}
		over.TP, over.DPAttention = over.TP/over.DP, false
	}
	if n := over.TP * over.DP; n > maxRanks {
		return over, problem.New(problem.IllegalLayout, "tensor_parallel_size", over.TP, "%d ranks on one machine, more than %d", n, maxRanks)
	}
	return over, nil
}

// maxRanks bounds what runs on one machine.
const maxRanks = 1024

// Close ends the ranks and gives their memory back. Nothing of the group may be used
// afterwards.
func (g *Group) Close() error {
	if g.team != nil {
		g.team.Close()
	}
	var err error
	for _, r := range g.ranks {
		err = errors.Join(err, r.close())
	}
	return err
}

// RankStats is what one rank holds and has read.
type RankStats struct {
	Place
	QueryHeads int         // that the rank computes: with DCP, those of all ranks that share its tokens
	KVHeads    int         // that the rank stores
	BytesRead  units.Bytes // of the cache by all steps so far, counted where it is read
	Stats
}

// Ranks counts what each rank holds and has read, replica by replica. Heads are those of
// the first layer.
func (g *Group) Ranks() []RankStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]RankStats, len(g.ranks))
	for i, r := range g.ranks {
		share := r.pool.layers[0].Geometry
		all[i] = RankStats{Place: r.Place, QueryHeads: share.QueryHeads, KVHeads: share.KVHeads, BytesRead: r.bytesRead(), Stats: r.pool.Stats()}
	}
	return all
}

// on is the ranks of a replica.
func (g *Group) on(replica int) []*rank {
	n := len(g.ranks) / g.replicas
	return g.ranks[replica*n : (replica+1)*n]
}

// Decode computes one step of one layer for sequences of the group, on all ranks at once.
// queries is each sequence's query tokens, the last of its tokens; nil means one each. q is
// [Σ queries, QueryHeads, KeyDim] and out [Σ queries, QueryHeads, ValueDim] of the whole
// layer; for MLA, in absorbed form, out has LatentDim. See [Attention.Decode].
func (g *Group) Decode(layer int, seqs []*GroupSequence, queries []int, q, out []float32) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.step = groupStep{layer, seqs, queries, q, out}
	defer func() { g.step = groupStep{} }()
	if err := g.check(); err != nil {
		return err
	}
	for _, g.collect = range [...]bool{false, true} {
		g.team.Run(len(g.ranks))
	}
	for _, r := range g.ranks {
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

// work is a rank's part of the step: first its attention, and once all have done that, its
// heads of the result.
func (g *Group) work(worker int) {
	r := g.ranks[worker]
	if g.collect {
		r.collect(&g.step, g.on(r.Replica))
	} else {
		r.err = r.decode(&g.step)
	}
}

// check reports what is wrong with the step.
func (g *Group) check() error {
	s := &g.step
	switch {
	case s.layer < 0 || s.layer >= len(g.layers):
		return noLayer(s.layer, len(g.layers))
	case s.queries != nil && len(s.queries) != len(s.seqs):
		return wrongLength("queries", len(s.queries), "[%d], one for each sequence", len(s.seqs))
	}
	tokens := 0
	for i, seq := range s.seqs {
		if seq == nil || seq.group != g {
			return problem.New(problem.BadValue, "sequences", nil, "sequence %d is not of this group", i)
		}
		if n := s.queriesOf(i); n < 0 || n > seq.Len() {
			return problem.New(problem.BadValue, "queries", n, "sequence %d has %s", i, units.Plural(seq.Len(), "token"))
		}
		tokens += s.queriesOf(i)
	}
	whole := g.layers[s.layer].Layout.Geometry
	key, value := whole.KeyDim, whole.ValueDim+whole.LatentDim
	switch {
	case len(s.q) != tokens*whole.QueryHeads*key:
		return wrongLength("q", len(s.q), "[%d, %d, %d]", tokens, whole.QueryHeads, key)
	case len(s.out) != tokens*whole.QueryHeads*value:
		return wrongLength("out", len(s.out), "[%d, %d, %d]", tokens, whole.QueryHeads, value)
	}
	return nil
}

// queriesOf is how many query tokens sequence i has.
func (s *groupStep) queriesOf(i int) int {
	if s.queries == nil {
		return 1
	}
	return s.queries[i]
}
