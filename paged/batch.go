package paged

import (
	"headcount/problem"
	"headcount/units"
)

// Blocks is one layer's blocks in memory: block i begins at Data[i·Stride]. Data that
// begins on a line of 64 bytes, and a Stride of whole lines, are faster.
type Blocks struct {
	Data   []byte
	Stride int // bytes from one block to the next, at least the layout's BlockBytes
}

// count is how many blocks of the given size there are.
func (b Blocks) count(size int) int {
	if len(b.Data) < size || b.Stride < size {
		return 0
	}
	return (len(b.Data)-size)/b.Stride + 1
}

// Batch is the sequences of one step.
type Batch struct {
	Blocks  Blocks
	Tables  [][]int32 // each sequence's blocks on this rank, in order
	Lengths []int     // each sequence's tokens over all ranks of the shard, those of the step included
	Queries []int     // each sequence's query tokens: the last of its tokens, causal; nil: 1 each
	Shard   Shard     // zero: this rank holds every token
}

// queries is how many query tokens a sequence has.
func (b *Batch) queries(seq int) int {
	if b.Queries == nil {
		return 1
	}
	return b.Queries[seq]
}

// Shard is this rank's part of decode context parallelism: token i of a sequence is on rank
// i/Interleave mod Ranks, and a rank's tokens fill its blocks without gaps.
type Shard struct {
	Rank, Ranks int
	Interleave  int // tokens that stay together; 0 means 1
}

// Local is how many of a sequence's first n tokens the rank holds.
func (s Shard) Local(n int) int {
	if s.Ranks <= 1 {
		return n
	}
	run := max(s.Interleave, 1)
	round := run * s.Ranks
	return n/round*run + min(max(n%round-s.Rank*run, 0), run)
}

// maxRound bounds the tokens after which the ranks' turns begin again.
const maxRound = 1 << 30

func (s Shard) validate() error {
	switch {
	case s == Shard{}:
		return nil
	case s.Ranks < 1 || s.Ranks > 1<<16:
		return problem.New(problem.BadValue, "decode_context_parallel_size", s.Ranks, "not a number of ranks")
	case s.Rank < 0 || s.Rank >= s.Ranks:
		return problem.New(problem.BadValue, "rank", s.Rank, "not one of %d ranks", s.Ranks)
	case s.Interleave < 0 || s.Interleave > maxRound/s.Ranks:
		return problem.New(problem.BadValue, "cp_kv_cache_interleave_size", s.Interleave, "not a number of tokens")
	}
	return nil
}

// maxLength bounds a sequence, so that a position is an int32 on any rank.
const maxLength = 1<<31 - 1 - 1<<16

// check reports what is wrong with a call, as the shape wanted and given.
func (a *Attention) check(b Batch, q, out, lse []float32) error {
	seqs := len(b.Tables)
	switch {
	case len(b.Lengths) != seqs:
		return wrongLength("lengths", len(b.Lengths), "[%d], one for each block table", seqs)
	case b.Queries != nil && len(b.Queries) != seqs:
		return wrongLength("queries", len(b.Queries), "[%d], one for each block table", seqs)
	case seqs > 0 && b.Blocks.Stride < a.cfg.Layout.BlockBytes():
		return problem.New(problem.BadValue, "stride", b.Blocks.Stride, "smaller than a block of %d bytes", a.cfg.Layout.BlockBytes())
	}
	if err := b.Shard.validate(); err != nil {
		return err
	}
	blocks, tokens := b.Blocks.count(a.cfg.Layout.BlockBytes()), 0
	for seq := range seqs {
		if err := b.checkSequence(seq, a.cfg.Layout.BlockSize, blocks); err != nil {
			return err
		}
		tokens += b.queries(seq)
	}
	return a.checkShapes(tokens, q, out, lse)
}

func (b *Batch) checkSequence(seq, blockSize, blocks int) error {
	length, queries, table := b.Lengths[seq], b.queries(seq), b.Tables[seq]
	switch {
	case length < 0 || length > maxLength:
		return problem.New(problem.BadValue, "lengths", length, "sequence %d: not a number of tokens", seq)
	case queries < 0 || queries > length:
		return problem.New(problem.BadValue, "queries", queries, "sequence %d has %d tokens", seq, length)
	}
	need := (b.Shard.Local(length) + blockSize - 1) / blockSize
	if len(table) < need {
		return problem.New(problem.BadValue, "tables", nil, "sequence %d: %s, want %d for %d tokens on this rank", seq,
			units.Plural(len(table), "block"), need, b.Shard.Local(length))
	}
	for _, block := range table[:need] {
		if uint(block) >= uint(blocks) {
			return problem.New(problem.BadValue, "tables", block, "sequence %d: not one of %s", seq, units.Plural(blocks, "block"))
		}
	}
	return nil
}

// checkShapes holds the step's vectors to its number of query tokens.
func (a *Attention) checkShapes(tokens int, q, out, lse []float32) error {
	heads := int64(a.g.QueryHeads)
	for _, f := range [...]struct {
		name  string
		have  int
		width int
	}{{"q", len(q), a.g.KeyDim}, {"out", len(out), a.outDim}} {
		if n, ok := units.Mul(int64(tokens), heads, int64(f.width)); !ok || int64(f.have) != n {
			return wrongLength(f.name, f.have, "[%d, %d, %d]", tokens, heads, f.width)
		}
	}
	if lse != nil && int64(len(lse)) != int64(tokens)*heads {
		return wrongLength("lse", len(lse), "[%d, %d]", tokens, heads)
	}
	return nil
}
