package paged

import (
	"math"
	"slices"
	"sync"
	"unsafe"

	"headcount/problem"
	"headcount/units"
)

// A Pool is the KV cache of one rank: one contiguous region of memory, cut into blocks of
// BlockSize tokens. A block id names as many tokens in every layer, so that a sequence has
// one block table for all of them:
//
//	region   [layers][blocks] Layout.BlockBytes
//
// On Linux the region is a mapping of its own, off the Go heap, with huge pages asked for;
// elsewhere it is a plain allocation. Free blocks are zero, save those whose content is
// still published (see [Sequence.Publish]).
//
// A Pool may be used by many goroutines, a [Sequence] of it by one at a time.
type Pool struct {
	layers []Layout
	blocks []Blocks // by layer
	shard  Shard
	span   int // tokens of a sequence over which a block reaches: BlockSize on each rank of the shard
	region mapping

	mu     sync.Mutex // guards ledger
	ledger ledger
}

// NewPool makes a pool of so many blocks for layers of one block size. It has to be closed.
// Memory is taken as blocks are first used.
func NewPool(layers []Layout, blocks int) (*Pool, error) {
	return newPool(layers, blocks, Shard{})
}

// newPool is NewPool for a rank that stores the tokens of a shard. Its sequences are those
// of the whole, and a block reaches over as many tokens as the blocks of all ranks hold.
func newPool(layers []Layout, blocks int, shard Shard) (*Pool, error) {
	perBlock, err := blockBytes(layers)
	if err != nil {
		return nil, err
	}
	if blocks < 1 || blocks > math.MaxInt32 {
		return nil, problem.New(problem.BadValue, "blocks", blocks, "not between 1 and %d", math.MaxInt32)
	}
	total, ok := units.Mul(int64(perBlock), int64(blocks))
	if !ok || total > math.MaxInt/2 {
		return nil, problem.New(problem.BadValue, "blocks", blocks, "pool of blocks of %s is too large to count", perBlock)
	}
	mem, err := reserve(int(total))
	if err != nil {
		return nil, problem.New(problem.DoesNotFit, "blocks", blocks, "no memory for a pool of %s: %v", units.Bytes(total), err)
	}
	p := &Pool{layers: slices.Clone(layers), shard: shard, span: layers[0].BlockSize * max(shard.Ranks, 1), region: mem, ledger: newLedger(blocks)}
	at := 0
	for _, l := range layers {
		size := l.BlockBytes()
		p.blocks = append(p.blocks, Blocks{Data: mem.bytes[at : at+blocks*size : at+blocks*size], Stride: size})
		at += blocks * size
	}
	return p, nil
}

// BlocksIn returns how many blocks for layers fit in a budget of memory:
//
//	budget / Σ Layout.BlockBytes
//
// which is vLLM's num_blocks for layers that share their block tables
// (v1/core/kv_cache_utils.py, get_num_blocks).
func BlocksIn(budget units.Bytes, layers []Layout) (int, error) {
	perBlock, err := blockBytes(layers)
	if err != nil {
		return 0, err
	}
	if budget < perBlock {
		return 0, problem.New(problem.DoesNotFit, "kv_cache_memory_bytes", int64(budget), "not one block of %s", perBlock)
	}
	return int(min(budget/perBlock, math.MaxInt32)), nil
}

// blockBytes is what one block takes in all layers together, which have to agree on its
// size in tokens.
func blockBytes(layers []Layout) (units.Bytes, error) {
	if len(layers) == 0 {
		return 0, problem.New(problem.BadValue, "num_hidden_layers", 0, "a pool needs at least one layer")
	}
	var sum int64
	for i, l := range layers {
		if err := l.Validate(); err != nil {
			return 0, err
		}
		if l.BlockSize != layers[0].BlockSize {
			return 0, problem.New(problem.BadValue, "block_size", l.BlockSize, "layer %d has blocks of another size than layer 0, %d tokens", i, layers[0].BlockSize)
		}
		var ok bool
		if sum, ok = units.Add(sum, int64(l.BlockBytes())); !ok {
			return 0, problem.New(problem.BadValue, "num_hidden_layers", len(layers), "a block of all layers is too large to count")
		}
	}
	return units.Bytes(sum), nil
}

// Close gives the memory back. Nothing of the pool may be used afterwards.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocks = nil
	return p.region.release()
}

// Layers returns how one block of each layer is laid out.
func (p *Pool) Layers() []Layout { return slices.Clone(p.layers) }

// BlockSize returns the tokens of a block.
func (p *Pool) BlockSize() int { return p.layers[0].BlockSize }

// Blocks returns the blocks of one layer, for [Batch].
func (p *Pool) Blocks(layer int) (Blocks, error) {
	if layer < 0 || layer >= len(p.blocks) {
		return Blocks{}, noLayer(layer, len(p.blocks))
	}
	return p.blocks[layer], nil
}

// noLayer is the problem of a layer that is not one of n.
func noLayer(layer, n int) error {
	return problem.New(problem.BadValue, "layer", layer, "not one of %s", units.Plural(n, "layer"))
}

// block is one block of one layer.
func (p *Pool) block(layer int, b int32) []byte {
	s := p.blocks[layer]
	return s.Data[int(b)*s.Stride:][:s.Stride]
}

// wipe zeroes blocks in every layer: a slot past the end of a sequence is multiplied by a
// weight of zero, and zero times what an earlier sequence left there could be NaN.
func (p *Pool) wipe(blocks []int32) {
	for layer := range p.blocks {
		for _, b := range blocks {
			clear(p.block(layer, b))
		}
	}
}

// copyBlock copies a block in every layer.
func (p *Pool) copyBlock(dst, src int32) {
	for layer := range p.blocks {
		copy(p.block(layer, dst), p.block(layer, src))
	}
}

// take moves n free blocks, all zero, to the end of dst.
func (p *Pool) take(dst []int32, n int) ([]int32, error) {
	p.mu.Lock()
	blocks, dirty, err := p.ledger.take(dst, n)
	p.mu.Unlock()
	p.wipe(blocks[len(blocks)-dirty:])
	return blocks, err
}

// shared returns which of blocks[first:end] others refer to as well.
func (p *Pool) shared(blocks []int32, first, end int) (at []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := first; i < min(end, len(blocks)); i++ {
		if p.ledger.accounts[blocks[i]].refs > 1 {
			at = append(at, i)
		}
	}
	return at
}

// give drops a reference to each of blocks, the last one first: of published blocks, those
// at the end of a prompt are of use to fewer others, and are to be taken first.
func (p *Pool) give(blocks []int32) {
	var dead []int32
	p.mu.Lock()
	for i := len(blocks) - 1; i >= 0; i-- {
		if p.ledger.drop(blocks[i]) {
			dead = append(dead, blocks[i])
		}
	}
	p.mu.Unlock()
	p.wipe(dead)
	p.mu.Lock()
	p.ledger.recycle(dead)
	p.mu.Unlock()
}

// aligned is n bytes of buf that begin at a multiple of align, a power of two. buf has to
// be align bytes longer.
func aligned(buf []byte, n, align int) []byte {
	at := -int(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))) & (align - 1)
	return buf[at : at+n : at+n]
}
