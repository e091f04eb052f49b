package paged

import (
	"errors"
	"math"
	"slices"
	"testing"

	"headcount/attn"
	"headcount/dtype"
	"headcount/problem"
	"headcount/units"
)

// appended is a sequence with tokens in it, none of whose rows are put.
func appended(t *testing.T, p *Pool, tokens []int32) *Sequence {
	t.Helper()
	s := p.NewSequence(tokens)
	must(t, s.Append(tokens[s.Len():]...))
	return s
}

// A prompt shares the full blocks that were published for an equal beginning, also when
// nobody refers to them any more, and is always left its last token to compute.
func TestPrefix(t *testing.T) {
	p := makePool(t, small, 20)
	tokens := make([]int32, 48)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	first := appended(t, p, tokens[:40]) // two full blocks and a half
	if n := p.NewSequence(tokens).Len(); n != 0 {
		t.Errorf("%d tokens found before they were published", n)
	}
	first.Publish()
	for _, tt := range []struct{ prompt, found int }{
		{0, 0}, {15, 0}, {16, 0}, {17, 16}, {32, 16}, {33, 32}, {40, 32}, {48, 32},
	} {
		s := p.NewSequence(tokens[:tt.prompt])
		if s.Len() != tt.found || !slices.Equal(s.Table(), first.Table()[:tt.found/16]) {
			t.Errorf("prompt of %d tokens: %d found, blocks %v, want %d of %v", tt.prompt, s.Len(), s.Table(), tt.found, first.Table())
		}
		s.Free()
	}
	// The second block is found by its own tokens and those before them.
	if n := p.NewSequence(slices.Concat(tokens[16:32], tokens[:17])).Len(); n != 0 {
		t.Errorf("%d tokens found of a prompt with the blocks in another order", n)
	}
	first.Free()
	again := p.NewSequence(tokens)
	if again.Len() != 32 || p.Stats().InUse != 2 {
		t.Errorf("%d tokens found after all were freed, %d blocks in use", again.Len(), p.Stats().InUse)
	}
}

// Blocks whose content is published are taken last, the least recently used first, and
// within a prompt from its end.
func TestEviction(t *testing.T) {
	p := makePool(t, small, 6)
	old, recent := make([]int32, 33), make([]int32, 33)
	for i := range old {
		old[i], recent[i] = 1, 2
	}
	for _, tokens := range [][]int32{old, recent} {
		s := appended(t, p, tokens)
		s.Publish()
		s.Free()
	}
	found := func() [2]int {
		a, b := p.NewSequence(old), p.NewSequence(recent)
		n := [2]int{a.Len(), b.Len()}
		b.Free()
		a.Free()
		return n
	}
	filler := p.NewSequence(nil)
	// a.Free after b.Free: old is now the one used last.
	for _, tt := range []struct {
		take int
		want [2]int
	}{{2, [2]int{32, 32}}, {1, [2]int{32, 16}}, {1, [2]int{32, 0}}, {1, [2]int{16, 0}}, {1, [2]int{0, 0}}} {
		if got := found(); tt.take == 2 && got != [2]int{32, 32} {
			t.Fatalf("found %v at first", got)
		}
		must(t, filler.Append(make([]int32, 16*tt.take)...))
		if got := found(); got != tt.want {
			t.Fatalf("with %d blocks taken: %v tokens found, want %v", len(filler.Table()), got, tt.want)
		}
	}
	if err := filler.Append(1); !errors.Is(err, ErrNoBlocks) {
		t.Errorf("%v from a pool of which all is in use", err)
	}
}

// Who writes to a block that others share gets a copy; the others keep theirs.
func TestCopyOnWrite(t *testing.T) {
	p := makePool(t, small, 4)
	a := appended(t, p, make([]int32, 20))
	k, v := rowsFor(small[0], 0, 1)
	must(t, a.Put(0, 17, k, v))
	b := a.Fork()
	if !slices.Equal(a.Table(), b.Table()) || p.Stats().InUse != 2 {
		t.Fatalf("a fork takes blocks: %v and %v", a.Table(), b.Table())
	}
	must(t, b.Append(1))
	if a.Table()[0] != b.Table()[0] || a.Table()[1] == b.Table()[1] || p.Stats().InUse != 3 {
		t.Fatalf("after an append to the fork: %v and %v", a.Table(), b.Table())
	}
	gotK, gotV := rowsFor(small[0], 0, 0)
	must(t, b.Get(0, 17, gotK, gotV))
	if !slices.Equal(gotK, k) || !slices.Equal(gotV, v) {
		t.Error("the copy is not one")
	}
	// The full block is shared still: a write to it copies as well, if a block is free.
	c := appended(t, p, make([]int32, 1))
	before := p.Stats()
	if err := b.Put(0, 0, k, v); !errors.Is(err, ErrNoBlocks) {
		t.Errorf("%v, want no blocks", err)
	}
	if after := p.Stats(); after.InUse != before.InUse || a.Table()[0] != b.Table()[0] {
		t.Error("a refused write changed something")
	}
	c.Free()
	must(t, b.Put(0, 0, k, v))
	must(t, a.Get(0, 0, gotK, gotV))
	if slices.ContainsFunc(gotK, func(x float32) bool { return x != 0 }) {
		t.Error("a write to a fork shows in its original")
	}
}

func TestStats(t *testing.T) {
	p := makePool(t, small, 10)
	// A token: 2 heads × (16 + 32) × 2 B and 48 × 2 B.
	const perBlock = 16 * (2*(16+32)*2 + 48*2)
	s := appended(t, p, make([]int32, 33))
	s.Publish()
	fork := s.Fork()
	s.Free()
	fork.Free()
	appended(t, p, make([]int32, 1))
	got := p.Stats()
	if !slices.Equal(got.BytesPerToken, []units.Bytes{2 * (16 + 32) * 2, 48 * 2}) {
		t.Errorf("bytes per token %v", got.BytesPerToken)
	}
	for _, f := range []struct {
		name      string
		got, want int
	}{
		{"blocks", got.Blocks, 10}, {"in use", got.InUse, 1}, {"published", got.Published, 2}, {"high water", got.HighWater, 3},
		{"free", got.Free(), 9}, {"block", int(got.BlockBytes), perBlock}, {"bytes", int(got.Bytes), 10 * perBlock},
		{"bytes in use", int(got.InUseBytes), perBlock}, {"bytes at high water", int(got.HighBytes), 3 * perBlock},
	} {
		if f.got != f.want {
			t.Errorf("%s: %d, want %d", f.name, f.got, f.want)
		}
	}
}

// The region is dense, begins where huge pages do on Linux, and is whole again after use.
func TestRegion(t *testing.T) {
	p := makePool(t, small, 5)
	at := p.region.bytes
	for layer, l := range p.Layers() {
		b, err := p.Blocks(layer)
		must(t, err)
		if b.Stride != l.BlockBytes() || len(b.Data) != 5*b.Stride || &b.Data[0] != &at[0] {
			t.Errorf("layer %d: %d bytes of stride %d", layer, len(b.Data), b.Stride)
		}
		at = at[len(b.Data):]
	}
	if len(at) != 0 || p.BlockSize() != 16 {
		t.Errorf("%d bytes are no layer's", len(at))
	}
	if _, err := p.Blocks(2); err == nil {
		t.Error("a third layer")
	}
}

func TestPoolRefuses(t *testing.T) {
	gqa8 := Layout{Geometry: gqa(64, 8, 128), DType: dtype.BFloat16, BlockSize: 16}
	with := func(change func(*Layout)) []Layout {
		l := gqa8
		change(&l)
		return []Layout{gqa8, l}
	}
	for _, tt := range []struct {
		name   string
		layers []Layout
		blocks int
		field  string
	}{
		{"no layers", nil, 4, "num_hidden_layers"},
		{"no blocks", []Layout{gqa8}, 0, "blocks"},
		{"negative blocks", []Layout{gqa8}, -1, "blocks"},
		{"more blocks than a table can name", []Layout{gqa8}, math.MaxInt32 + 1, "blocks"},
		{"more than there is", []Layout{gqa8}, math.MaxInt32, "blocks"},
		{"zero layout", []Layout{{}}, 4, "num_attention_heads"},
		{"block size", with(func(l *Layout) { l.BlockSize = 24 }), 4, "block_size"},
		{"two block sizes", with(func(l *Layout) { l.BlockSize = 32 }), 4, "block_size"},
		{"not a cache", with(func(l *Layout) { l.DType = dtype.Int64 }), 4, "kv_cache_dtype"},
		{"heads that do not divide", with(func(l *Layout) { l.Geometry.KVHeads = 7 }), 4, "num_attention_heads"},
	} {
		p, err := NewPool(tt.layers, tt.blocks)
		if e, ok := errors.AsType[*problem.Error](err); !ok || e.Field != tt.field || p != nil {
			t.Errorf("%s: %v, want a problem of %s", tt.name, err, tt.field)
		}
	}
	if _, err := BlocksIn(65535, []Layout{gqa8}); err == nil { // a block is 16 × 8 × 256 × 2 B
		t.Error("a block in less memory than it takes")
	}
	if n, err := BlocksIn(3*65536-1, []Layout{gqa8}); n != 2 || err != nil {
		t.Errorf("%d blocks, %v, want 2", n, err)
	}
}

func TestSequenceRefuses(t *testing.T) {
	p := makePool(t, small, 8)
	s := appended(t, p, make([]int32, 40))
	s.Publish()
	k, v := rowsFor(small[0], 0, 1)
	latent, _ := rowsFor(small[1], 1, 1)
	for _, tt := range []struct {
		name      string
		layer, at int
		k, v      []float32
		field     string
	}{
		{"layer", 2, 35, k, v, "layer"},
		{"negative layer", -1, 35, k, v, "layer"},
		{"part of a row", 0, 35, k[1:], v, "k"},
		{"short v", 0, 35, k, v[1:], "v"},
		{"no v", 0, 35, k, nil, "v"},
		{"a v for a latent", 1, 35, latent, v, "v"},
		{"past the end", 0, 40, k, v, "token"},
		{"negative token", 0, -1, k, v, "token"},
		{"published", 0, 31, k, v, "token"},
	} {
		err := s.Put(tt.layer, tt.at, tt.k, tt.v)
		if e, ok := errors.AsType[*problem.Error](err); !ok || e.Field != tt.field {
			t.Errorf("%s: %v, want a problem of %s", tt.name, err, tt.field)
		}
	}
	must(t, s.Put(0, 32, k, v))
	must(t, s.Put(0, 40, nil, nil)) // nothing, at the end
	must(t, s.Append())
	for _, n := range []int{31, 41, -1} { // published, past the end
		if err := s.Truncate(n); err == nil {
			t.Errorf("cut to %d tokens", n)
		}
	}
	must(t, s.Truncate(32))
	if s.Len() != 32 || len(s.Table()) != 2 || p.Stats().InUse != 2 {
		t.Errorf("%d tokens in blocks %v after a cut to 32", s.Len(), s.Table())
	}
	s.Free()
	s.Free() // has no blocks any more
	if err := s.Put(0, 0, k, v); err == nil {
		t.Error("a row of a sequence that was freed")
	}
}

// A pool that was closed refuses what would reach its memory.
func TestClosed(t *testing.T) {
	p, err := NewPool(small, 4)
	must(t, err)
	s := appended(t, p, make([]int32, 10))
	must(t, p.Close())
	must(t, p.Close())
	k, v := rowsFor(small[0], 0, 1)
	if err := s.Put(0, 0, k, v); err == nil {
		t.Error("a row of a pool that is closed")
	}
	s.Free()
}

// Storing one token of one sequence allocates nothing.
func TestPutAllocationFree(t *testing.T) {
	p := makePool(t, small, 8)
	s := appended(t, p, make([]int32, 40))
	k, v := rowsFor(small[0], 0, 1)
	if n := testing.AllocsPerRun(50, func() { must(t, s.Put(0, 35, k, v)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Widths that no kernel has lines for are stored as well.
func TestOddWidths(t *testing.T) {
	odd := []Layout{{Geometry: attn.Geometry{QueryHeads: 3, KVHeads: 3, KeyDim: 7, ValueDim: 5}, DType: dtype.Float32, BlockSize: 32}}
	p := makePool(t, odd, 3)
	s := appended(t, p, make([]int32, 70))
	for at := range 70 {
		k, v := rowsFor(odd[0], 0, uint32(at+1))
		must(t, s.Put(0, at, k, v))
	}
	for at := range 70 {
		k, v := rowsFor(odd[0], 0, 0)
		wantK, wantV := rowsFor(odd[0], 0, uint32(at+1))
		must(t, s.Get(0, at, k, v))
		if !slices.Equal(k, wantK) || !slices.Equal(v, wantV) {
			t.Fatalf("token %d: other rows", at)
		}
	}
}
