package paged

import "headcount/units"

// Stats is what a pool holds, on its one rank. A block counts as in use while sequences
// refer to it, once however many they are.
type Stats struct {
	Blocks        int           // of the pool
	InUse         int           // that sequences refer to
	Published     int           // whose content a later prompt may find, in use or not
	HighWater     int           // most that were in use at a time
	BlockBytes    units.Bytes   // of one block in all layers
	BytesPerToken []units.Bytes // of one token, by layer
	Bytes         units.Bytes   // of the pool
	InUseBytes    units.Bytes
	HighBytes     units.Bytes // at the high-water mark
	HugePages     bool        // were asked for, and not refused
}

// Stats counts what the pool holds now. Bytes are those of the region that was cut, not
// those of a formula.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := Stats{
		Blocks: len(p.ledger.accounts), InUse: p.ledger.held, Published: len(p.ledger.published), HighWater: p.ledger.highWater,
		Bytes: units.Bytes(len(p.region.bytes)), HugePages: p.region.huge,
	}
	for _, b := range p.blocks {
		st.BlockBytes += units.Bytes(b.Stride)
		st.BytesPerToken = append(st.BytesPerToken, units.Bytes(b.Stride/p.BlockSize()))
	}
	st.InUseBytes = st.BlockBytes * units.Bytes(st.InUse)
	st.HighBytes = st.BlockBytes * units.Bytes(st.HighWater)
	return st
}

// Free returns how many blocks can be had.
func (s Stats) Free() int { return s.Blocks - s.InUse }
