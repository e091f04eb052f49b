package paged

import (
	"slices"

	"headcount/attn"
	"headcount/problem"
	"headcount/units"
)

// A Sequence is the tokens of one request and the blocks that hold their keys and values.
// [Pool.NewSequence] begins one. It is used by one goroutine at a time.
//
// Whoever is to write to a block that others share gets a copy first, so that none sees
// another's writes. What lies past the end of a sequence in its last block is zero, or its
// own tokens that [Sequence.Truncate] dropped.
type Sequence struct {
	pool      *Pool
	tokens    []int32
	blocks    []int32
	published int    // full blocks that are published or were found so
	content   digest // of those
}

// Len returns the number of tokens.
func (s *Sequence) Len() int { return len(s.tokens) }

// Table returns the blocks of s in order, for [Batch]. The next Append, Put or Free
// changes it.
func (s *Sequence) Table() []int32 { return s.blocks }

// Append adds tokens, and takes the blocks that hold them, for [Sequence.Put] to fill. A partly filled block that others share is copied first. The
// error wraps [ErrNoBlocks] when the pool has too few free blocks; s is then as it was.
func (s *Sequence) Append(tokens ...int32) error {
	span := s.pool.span
	if err := s.own(len(s.tokens)/span, ceil(len(s.tokens)+len(tokens), span)); err != nil {
		return err
	}
	s.tokens = append(s.tokens, tokens...)
	return nil
}

// Put stores the keys and values of tokens at, at+1, … in one layer, rounded to the
// layer's dtype: k is [tokens, KVHeads, KeyDim], v [tokens, KVHeads, ValueDim], and for a
// latent k is [tokens, KeyDim] and v nil. The tokens have been appended and are not
// published. Errors are those of a wrong shape or place, and [ErrNoBlocks] where a block
// that others share has to be copied and none is free; nothing is stored then.
func (s *Sequence) Put(layer, at int, k, v []float32) error {
	l, n, err := s.rows(layer, at, k, v)
	if err != nil {
		return err
	}
	span := s.pool.span
	if at < s.published*span {
		return problem.New(problem.BadValue, "token", at, "published, and so fixed, as all before token %d are", s.published*span)
	}
	if err := s.own(at/span, ceil(at+n, span)); err != nil {
		return err
	}
	return s.eachBlock(l, at, k, v, func(b int32, slot int, k, v []float32) error {
		return l.Put(s.pool.block(layer, b), slot, k, v)
	})
}

// Get reads what [Sequence.Put] stored into k and v, of the same shapes.
func (s *Sequence) Get(layer, at int, k, v []float32) error {
	l, _, err := s.rows(layer, at, k, v)
	if err != nil {
		return err
	}
	return s.eachBlock(l, at, k, v, func(b int32, slot int, k, v []float32) error {
		return l.Get(s.pool.block(layer, b), slot, k, v)
	})
}

// rows checks that k and v are rows of one layer for tokens of s from at on, and counts
// them.
func (s *Sequence) rows(layer, at int, k, v []float32) (l Layout, n int, err error) {
	if layer < 0 || layer >= len(s.pool.blocks) {
		return l, 0, noLayer(layer, len(s.pool.blocks))
	}
	l = s.pool.layers[layer]
	if n, err = countRows(l.Geometry, k, v); err != nil {
		return l, 0, err
	}
	if at < 0 || at > len(s.tokens)-n {
		return l, 0, problem.New(problem.BadValue, "token", at, "%s from there are not in a sequence of %d", units.Plural(n, "token"), len(s.tokens))
	}
	return l, n, nil
}

// countRows is how many rows k and v have, or what is wrong with their shapes.
func countRows(g attn.Geometry, k, v []float32) (int, error) {
	n := len(k) / (g.KVHeads * g.KeyDim)
	switch {
	case len(k) != n*g.KVHeads*g.KeyDim:
		return 0, wrongLength("k", len(k), "[tokens, %d, %d]", g.KVHeads, g.KeyDim)
	case len(v) != n*g.KVHeads*g.ValueDim:
		return 0, wrongLength("v", len(v), "[%d, %d, %d]", n, g.KVHeads, g.ValueDim)
	}
	return n, nil
}

// eachBlock visits the rows that the rank stores, block by block.
func (s *Sequence) eachBlock(l Layout, at int, k, v []float32, visit func(b int32, slot int, k, v []float32) error) error {
	shard, key, value := s.pool.shard, l.Geometry.KVHeads*l.Geometry.KeyDim, l.Geometry.KVHeads*l.Geometry.ValueDim
	for i, n := 0, len(k)/key; i < n; {
		local, run := shard.Local(at+i), 1
		switch {
		case shard.Ranks <= 1:
			run = min(l.BlockSize-local%l.BlockSize, n-i)
		case shard.Local(at+i+1) == local: // another rank's token
			i++
			continue
		}
		if err := visit(s.blocks[local/l.BlockSize], local%l.BlockSize, k[i*key:(i+run)*key], v[i*value:(i+run)*value]); err != nil {
			return err
		}
		i += run
	}
	return nil
}

// Truncate drops the tokens from n on, as when speculation guessed wrong, and gives back
// the blocks that held no others. Published blocks cannot be cut.
func (s *Sequence) Truncate(n int) error {
	if fixed := s.published * s.pool.span; n < fixed || n > len(s.tokens) {
		return problem.New(problem.BadValue, "tokens", n, "not between the %d that are published and the %d that there are", fixed, len(s.tokens))
	}
	keep := ceil(n, s.pool.span)
	s.pool.give(s.blocks[keep:])
	s.tokens, s.blocks = s.tokens[:n], s.blocks[:keep]
	return nil
}

// Fork returns a sequence with the tokens and the blocks of s.
func (s *Sequence) Fork() *Sequence {
	p := s.pool
	p.mu.Lock()
	for _, b := range s.blocks {
		p.ledger.share(b)
	}
	p.mu.Unlock()
	return &Sequence{pool: p, tokens: slices.Clone(s.tokens), blocks: slices.Clone(s.blocks), published: s.published, content: s.content}
}

// Free gives the blocks of s back, and leaves it empty. Blocks that nobody else refers to
// are zeroed; published ones stay until the pool needs them.
func (s *Sequence) Free() {
	s.pool.give(s.blocks)
	*s = Sequence{pool: s.pool}
}

// own makes s the only holder of its blocks from first up to end: those that others share
// are copied, those that it does not have yet are taken. It does all of it or nothing.
func (s *Sequence) own(first, end int) error {
	p := s.pool
	shared := p.shared(s.blocks, first, end)
	blocks, err := p.take(s.blocks, len(shared)+max(end-len(s.blocks), 0))
	if err != nil {
		return err
	}
	// The last blocks taken change places with the shared ones, which are then let go.
	keep := len(blocks) - len(shared)
	for i, at := range shared {
		p.copyBlock(blocks[keep+i], blocks[at])
		blocks[keep+i], blocks[at] = blocks[at], blocks[keep+i]
	}
	p.give(blocks[keep:])
	s.blocks = blocks[:keep]
	return nil
}

// ceil is ⌈n / d⌉.
func ceil(n, d int) int { return (n + d - 1) / d }
