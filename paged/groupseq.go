package paged

// A GroupSequence is a [Sequence] that lies on the ranks of one replica of a [Group]. Its
// methods are those of Sequence, for whole rows.
type GroupSequence struct {
	group   *Group
	replica int
	parts   []*Sequence // by TP rank
}

// NewSequence begins a sequence, on the replica that has the most free blocks. See
// [Pool.NewSequence].
func (g *Group) NewSequence(prompt []int32) *GroupSequence {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &GroupSequence{group: g}
	most := -1
	for replica := range g.replicas {
		if free := g.on(replica)[0].pool.Stats().Free(); free > most {
			s.replica, most = replica, free
		}
	}
	for _, r := range g.on(s.replica) {
		s.parts = append(s.parts, r.pool.NewSequence(prompt))
	}
	return s
}

// Len returns the number of tokens.
func (s *GroupSequence) Len() int { return s.parts[0].Len() }

// Replica returns which of the DP replicas holds s.
func (s *GroupSequence) Replica() int { return s.replica }

// Append is [Sequence.Append].
func (s *GroupSequence) Append(tokens ...int32) error {
	return s.each(func(part *Sequence, _ *rank) error { return part.Append(tokens...) })
}

// Put is [Sequence.Put] for the whole layer: k is [tokens, KVHeads, KeyDim] of all heads.
// Each rank stores the heads and the tokens that are its own.
func (s *GroupSequence) Put(layer, at int, k, v []float32) error {
	if layer < 0 || layer >= len(s.group.layers) {
		return noLayer(layer, len(s.group.layers))
	}
	whole := s.group.layers[layer].Layout.Geometry
	if _, err := countRows(whole, k, v); err != nil {
		return err
	}
	return s.each(func(part *Sequence, r *rank) error {
		share := r.pool.layers[layer].Geometry
		first := r.firstQuery(layer) / whole.GroupSize()
		r.k = appendHeads(r.k[:0], k, whole.KVHeads, whole.KeyDim, first, share.KVHeads)
		r.v = appendHeads(r.v[:0], v, whole.KVHeads, whole.ValueDim, first, share.KVHeads)
		return part.Put(layer, at, r.k, r.v)
	})
}

// Truncate is [Sequence.Truncate].
func (s *GroupSequence) Truncate(n int) error {
	return s.each(func(part *Sequence, _ *rank) error { return part.Truncate(n) })
}

// Publish is [Sequence.Publish].
func (s *GroupSequence) Publish() {
	s.each(func(part *Sequence, _ *rank) error { part.Publish(); return nil })
}

// Free is [Sequence.Free].
func (s *GroupSequence) Free() {
	s.each(func(part *Sequence, _ *rank) error { part.Free(); return nil })
}

// Fork is [Sequence.Fork], on the same replica.
func (s *GroupSequence) Fork() *GroupSequence {
	fork := &GroupSequence{group: s.group, replica: s.replica}
	s.each(func(part *Sequence, _ *rank) error { fork.parts = append(fork.parts, part.Fork()); return nil })
	return fork
}

// each does one operation on all ranks. Their accounts are alike and stay so: what the
// first refuses all would refuse, and what it does all can do.
func (s *GroupSequence) each(op func(*Sequence, *rank) error) error {
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	for i, part := range s.parts {
		if err := op(part, s.group.on(s.replica)[i]); err != nil {
			return err
		}
	}
	return nil
}
