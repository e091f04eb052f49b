package paged

import (
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"headcount/attn"
	"headcount/dtype"
)

// small are two unlike layers of one rank, so that a block is a few hundred bytes.
var small = []Layout{
	{Geometry: attn.Geometry{QueryHeads: 4, KVHeads: 2, KeyDim: 16, ValueDim: 32}, DType: dtype.BFloat16, BlockSize: 16},
	{Geometry: attn.Geometry{Arch: attn.MLA, QueryHeads: 4, KVHeads: 1, KeyDim: 48, LatentDim: 32}, DType: dtype.BFloat16, BlockSize: 16},
}

func makePool(t testing.TB, layers []Layout, blocks int) *Pool {
	t.Helper()
	p, err := NewPool(layers, blocks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// A twin is a sequence and what it has to be: its tokens, and by token what its rows were
// made of, 0 where nothing was stored. As in a model, the rows of a token follow from all
// tokens up to it, unless somebody changed them.
type twin struct {
	seq     *Sequence
	tokens  []int32
	rows    []uint32
	changed bool // rows that do not follow from the tokens: not to be published
}

// rowsOf is what the rows of the last of tokens are made of.
func rowsOf(tokens []int32) uint32 {
	h := fnv.New32a()
	for _, t := range tokens {
		h.Write([]byte{byte(t), byte(t >> 8)})
	}
	return h.Sum32() | 1
}

// elements makes n elements of seed that bfloat16 holds exactly; zeros of 0.
func elements(seed uint32, layer, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		if seed != 0 {
			seed = seed*1664525 + 1013904223 + uint32(layer)
			x[i] = float32(int8(seed>>24)|1) / 4 // no element is zero
		}
	}
	return x
}

// rowsFor are K and V of one token in one layer.
func rowsFor(l Layout, layer int, seed uint32) (k, v []float32) {
	g := l.Geometry
	x := elements(seed, layer, g.KVHeads*(g.KeyDim+g.ValueDim))
	return x[:g.KVHeads*g.KeyDim], x[g.KVHeads*g.KeyDim:]
}

// A walk is sequences of one pool under operations, beside their model.
type walk struct {
	t     testing.TB
	pool  *Pool
	twins []*twin
	full  int // operations that were refused
	hits  int // tokens that prompts found
}

// prompts share beginnings: prompt n of length m is a prefix of family n % 3 with its own
// ending.
func prompt(n, m int) []int32 {
	tokens := make([]int32, m)
	for i := range tokens {
		tokens[i] = int32(n%3*1000 + i)
		if i >= 40 {
			tokens[i] += int32(n) << 12
		}
	}
	return tokens
}

// try runs op and wants it to have changed nothing when the pool is out of blocks.
func (w *walk) try(tw *twin, op func() error) bool {
	before, table := w.pool.Stats(), slices.Clone(tw.seq.Table())
	err := op()
	if err == nil {
		return true
	}
	e, ok := errors.AsType[*NoBlocksError](err)
	if !ok || !errors.Is(err, ErrNoBlocks) {
		w.t.Fatalf("%v is not ErrNoBlocks", err)
	}
	if e.Free != before.Free() || e.Asked <= e.Free {
		w.t.Fatalf("%v, with %d free", err, before.Free())
	}
	if after := w.pool.Stats(); !reflect.DeepEqual(before, after) || !slices.Equal(table, tw.seq.Table()) || tw.seq.Len() != len(tw.tokens) {
		w.t.Fatalf("%v, yet %+v became %+v and table %v %v", err, before, after, table, tw.seq.Table())
	}
	w.full++
	return false
}

// put stores the rows of one token in every layer.
func (w *walk) put(tw *twin, at int, seed uint32) {
	for layer, l := range w.pool.layers {
		k, v := rowsFor(l, layer, seed)
		if !w.try(tw, func() error { return tw.seq.Put(layer, at, k, v) }) {
			if layer > 0 {
				w.t.Fatal("a block that was copied for one layer is copied again for another")
			}
			return
		}
	}
	tw.rows[at] = seed
}

// grow appends tokens and stores their rows.
func (w *walk) grow(tw *twin, tokens []int32) {
	if !w.try(tw, func() error { return tw.seq.Append(tokens...) }) {
		return
	}
	for _, token := range tokens {
		tw.tokens, tw.rows = append(tw.tokens, token), append(tw.rows, 0)
		w.put(tw, len(tw.tokens)-1, rowsOf(tw.tokens))
	}
}

// step does one operation. n is its argument.
func (w *walk) step(op, n int) {
	if op%8 == 0 || len(w.twins) == 0 {
		tokens := prompt(n, 1+n%90)
		tw := &twin{seq: w.pool.NewSequence(tokens)}
		found := tw.seq.Len()
		if found%16 != 0 || found >= len(tokens) {
			w.t.Fatalf("%d tokens found of a prompt of %d", found, len(tokens))
		}
		w.hits += found
		for i := range found {
			tw.tokens, tw.rows = append(tw.tokens, tokens[i]), append(tw.rows, rowsOf(tokens[:i+1]))
		}
		w.grow(tw, tokens[found:])
		w.twins = append(w.twins, tw)
		return
	}
	i := n % len(w.twins)
	tw := w.twins[i]
	if len(w.twins) > 12 {
		op = 7
	}
	switch op % 8 {
	case 1:
		if keep := len(tw.tokens) - n%20; keep >= tw.seq.published*16 {
			must(w.t, tw.seq.Truncate(keep))
			tw.tokens, tw.rows = tw.tokens[:keep], tw.rows[:keep]
		}
	case 2:
		w.grow(tw, []int32{int32(n % 7)})
	case 3:
		w.grow(tw, prompt(n, n%40))
	case 4:
		w.twins = append(w.twins, &twin{seq: tw.seq.Fork(), tokens: slices.Clone(tw.tokens), rows: slices.Clone(tw.rows), changed: tw.changed})
	case 5:
		if !tw.changed {
			tw.seq.Publish()
		}
	case 6:
		if at := len(tw.tokens) - 1 - n%5; at >= tw.seq.published*16 && at >= 0 {
			tw.changed = true
			w.put(tw, at, uint32(n)|1)
		}
	case 7:
		tw.seq.Free()
		w.twins = slices.Delete(w.twins, i, i+1)
	}
}

// check compares everything with the model.
func (w *walk) check() {
	t, p := w.t, w.pool
	refs := map[int32]int32{}
	for _, tw := range w.twins {
		if tw.seq.Len() != len(tw.tokens) || !slices.Equal(tw.seq.tokens, tw.tokens) || len(tw.seq.Table()) != (len(tw.tokens)+15)/16 {
			t.Fatalf("%d tokens in %d blocks, want %d", tw.seq.Len(), len(tw.seq.Table()), len(tw.tokens))
		}
		for _, b := range tw.seq.Table() {
			refs[b]++
		}
		for layer, l := range p.layers {
			k, v := rowsFor(l, layer, 0)
			for at := range tw.tokens {
				if err := tw.seq.Get(layer, at, k, v); err != nil {
					t.Fatal(err)
				}
				if wantK, wantV := rowsFor(l, layer, tw.rows[at]); !slices.Equal(k, wantK) || !slices.Equal(v, wantV) {
					t.Fatalf("layer %d token %d of %d: another's rows", layer, at, len(tw.tokens))
				}
			}
		}
	}
	for b, a := range p.ledger.accounts {
		if a.refs != refs[int32(b)] {
			t.Fatalf("block %d: %d references, in %d tables", b, a.refs, refs[int32(b)])
		}
	}
	st := p.Stats()
	if st.InUse != len(refs) || p.ledger.free() != st.Blocks-len(refs) || st.HighWater < st.InUse {
		t.Fatalf("%+v with %d free and %d blocks in tables", st, p.ledger.free(), len(refs))
	}
	for b := p.ledger.clean.first; b != none; b = p.ledger.accounts[b].next {
		for layer := range p.layers {
			if slices.ContainsFunc(p.block(layer, b), func(x byte) bool { return x != 0 }) {
				t.Fatalf("block %d is free and not zero", b)
			}
		}
	}
}

// finish frees what is left and wants every block back.
func (w *walk) finish() {
	w.check()
	for _, tw := range w.twins {
		tw.seq.Free()
	}
	w.twins = nil
	w.check()
	all := w.pool.NewSequence(nil)
	if err := all.Append(make([]int32, w.pool.Stats().Blocks*16)...); err != nil {
		w.t.Fatalf("not all blocks came back: %v", err)
	}
	if !slices.Equal(slices.Sorted(slices.Values(all.Table())), slices.Collect(upTo(int32(w.pool.Stats().Blocks)))) {
		w.t.Fatal("a block was given twice")
	}
	all.Free()
	w.check()
}

func upTo(n int32) func(func(int32) bool) {
	return func(yield func(int32) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// 10,000 random operations lose no block and mix no two sequences.
func TestRandomOperations(t *testing.T) {
	w := &walk{t: t, pool: makePool(t, small, 48)}
	r := rand.New(rand.NewPCG(5, 12))
	for i := range 10_000 {
		w.step(r.IntN(8), r.IntN(1<<16))
		if i%100 == 0 {
			w.check()
		}
	}
	w.finish()
	if w.full == 0 || w.hits == 0 || w.pool.Stats().HighWater != 48 {
		t.Errorf("%d refusals, %d tokens found, high-water mark %d: the walk did not get everywhere", w.full, w.hits, w.pool.Stats().HighWater)
	}
}

// The same operations from any bytes.
func FuzzOperations(f *testing.F) {
	f.Add([]byte{0, 3, 5, 3, 0, 6, 4, 0, 1, 1, 6, 2, 7, 0})
	f.Add([]byte{0, 80, 5, 0, 7, 0, 0, 83, 5, 0, 4, 0, 2, 1, 7, 1})
	f.Fuzz(func(t *testing.T, ops []byte) {
		w := &walk{t: t, pool: makePool(t, small, 12)}
		for ; len(ops) >= 2 && len(ops) < 400; ops = ops[2:] {
			w.step(int(ops[0]), int(ops[1])*257)
			w.check()
		}
		w.finish()
	})
}

// Goroutines that share a pool, each with its own sequences, see only theirs.
func TestConcurrentSequences(t *testing.T) {
	p := makePool(t, small, 400)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 60 {
				tokens := prompt(r.IntN(9), 20+r.IntN(70))
				s := p.NewSequence(tokens)
				at := s.Len()
				if err := s.Append(tokens[at:]...); err != nil {
					t.Error(err)
					return
				}
				for ; at < len(tokens); at++ {
					for layer, l := range small {
						k, v := rowsFor(l, layer, rowsOf(tokens[:at+1]))
						if err := s.Put(layer, at, k, v); err != nil {
							t.Error(err)
						}
					}
				}
				s.Publish()
				for layer, l := range small {
					k, v := rowsFor(l, layer, 0)
					for i := range tokens {
						wantK, wantV := rowsFor(l, layer, rowsOf(tokens[:i+1]))
						if err := s.Get(layer, i, k, v); err != nil || !slices.Equal(k, wantK) || !slices.Equal(v, wantV) {
							t.Errorf("token %d: %v, or another's rows", i, err)
						}
					}
				}
				s.Free()
			}
		})
	}
	wg.Wait()
	if st := p.Stats(); st.InUse != 0 {
		t.Errorf("%d blocks in use when all sequences are freed", st.InUse)
	}
}
