package paged

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"headcount/attn"
	"headcount/dtype"
	"headcount/layout"
	"headcount/problem"
	"headcount/units"
)

// whole are layers before any split: 16 query heads over 16, 8, 4 and 1 KV heads, and over
// a latent.
var whole = []struct {
	name string
	attn.Geometry
}{
	{"MHA", gqa(16, 16, 32)},
	{"GQA-8", gqa(16, 8, 32)},
	{"unequal widths", attn.Geometry{QueryHeads: 16, KVHeads: 4, KeyDim: 48, ValueDim: 32}},
	{"MQA", gqa(16, 1, 32)},
	{"MLA", mla(16, 32, 16)},
}

// layerOf is the attention of a whole layer over a bfloat16 cache.
func layerOf(g attn.Geometry) Config {
	return Config{Layout: Layout{Geometry: g, DType: dtype.BFloat16, BlockSize: 16}, Scale: 0.1}
}

func makeGroup(t testing.TB, layers []Config, over layout.Layout, blocks int) *Group {
	t.Helper()
	g, err := NewGroup(layers, over, blocks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// A stepOf is a step of a group, with the rows of its sequences.
type stepOf struct {
	step
	group *Group
	seqs  []*GroupSequence
}

// newStepOf appends sequences of the given lengths to a group, with random rows that are
// the same whatever its layout.
func newStepOf(t testing.TB, g *Group, lengths, queries []int) *stepOf {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 9))
	draw := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(int(r.NormFloat64()*16)) / 16 // exact in bfloat16
		}
		return x
	}
	s := &stepOf{group: g, step: step{cfg: g.layers[0], batch: Batch{Lengths: lengths, Queries: queries, Tables: make([][]int32, len(lengths))}}}
	geometry := g.layers[0].Layout.Geometry
	for i, n := range lengths {
		seq := g.NewSequence(nil)
		must(t, seq.Append(make([]int32, n)...))
		k, v := draw(n*geometry.KVHeads*geometry.KeyDim), draw(n*geometry.KVHeads*geometry.ValueDim)
		must(t, seq.Put(0, 0, k, v))
		s.seqs = append(s.seqs, seq)
		s.k, s.v = append(s.k, appendFloats(nil, k)), append(s.v, appendFloats(nil, v))
		s.q = append(s.q, draw(s.batch.queries(i)*geometry.QueryHeads*geometry.KeyDim)...)
	}
	return s
}

// decode runs the step on all ranks.
func (s *stepOf) decode(t testing.TB) []float32 {
	t.Helper()
	g := s.cfg.Layout.Geometry
	out := make([]float32, len(s.q)/g.KeyDim*(g.ValueDim+g.LatentDim))
	for i := range out {
		out[i] = float32(math.NaN()) // whatever is not written shows
	}
	must(t, s.group.Decode(0, s.seqs, s.batch.Queries, s.q, out))
	return out
}

// layouts are the ways to divide ranks that a layer allows.
func layouts(g attn.Geometry) (legal []layout.Layout) {
	all := []layout.Layout{{TP: 2, DP: 2}, {TP: 8, DP: 8, DPAttention: true}, {TP: 8, DP: 2, DCP: 2, DPAttention: true}}
	for _, tp := range []int{1, 2, 4, 8, 16} {
		for _, dcp := range []int{1, 2, 4, 8} {
			all = append(all, layout.Layout{TP: tp, DCP: dcp})
		}
	}
	for _, over := range all {
		over, err := oneStage(over)
		if err == nil {
			_, err = shareOf(g, over)
		}
		if err == nil {
			legal = append(legal, over)
		}
	}
	return legal
}

// Over every legal layout a group computes attention, within the bound of one rank.
func TestGroupDecode(t *testing.T) {
	lengths, queries := []int{1, 38, 17, 66}, []int{1, 3, 1, 2}
	for _, g := range whole {
		if n := len(layouts(g.Geometry)); n < 7 { // TP 1 to 16, two with DP
			t.Errorf("%s: only %d layouts", g.name, n)
		}
		for _, change := range []struct {
			name string
			do   func(*Config)
		}{
			{"", func(*Config) {}},
			{" with a window and sinks", func(c *Config) {
				c.Window = 20
				for h := range g.QueryHeads {
					c.Sinks = append(c.Sinks, float32(h%5)-1)
				}
			}},
		} {
			layer := layerOf(g.Geometry)
			change.do(&layer)
			for _, over := range layouts(g.Geometry) {
				t.Run(fmt.Sprintf("%s%s/tp=%d,dcp=%d,dp=%d", g.name, change.name, over.TP, over.DCP, over.DP), func(t *testing.T) {
					s := newStepOf(t, makeGroup(t, []Config{layer}, over, 24), lengths, queries)
					s.compare(t, s.decode(t), nil)
				})
			}
		}
	}
}

// What a rank computes of a head does not depend on which other heads it has: over DP, and
// over TP as long as no KV head is replicated, results are those of one rank bit for bit.
func TestGroupIsOneRank(t *testing.T) {
	lengths, queries := []int{20, 40, 33}, []int{1, 1, 2}
	for _, g := range whole {
		want := newStepOf(t, makeGroup(t, []Config{layerOf(g.Geometry)}, layout.Layout{}, 24), lengths, queries).decode(t)
		for _, over := range layouts(g.Geometry) {
			if g.Arch == attn.MLA && over.TP > 1 || g.KVHeads%over.TP != 0 {
				continue
			}
			s := newStepOf(t, makeGroup(t, []Config{layerOf(g.Geometry)}, over, 24), lengths, queries)
			if got := s.decode(t); !slices.Equal(got, want) {
				t.Errorf("%s over %+v: not what one rank computes", g.name, over)
			}
		}
	}
}

// countNonZero is the bytes of a rank's region that are not zero.
func countNonZero(r *rank) (n int64) {
	for _, b := range r.pool.region.bytes {
		if b != 0 {
			n++
		}
	}
	return n
}

// What ranks hold and read is counted: stored bytes in the region of each, where no element
// has a zero byte, and read ones by the kernels. The reference is attn's arithmetic.
func TestGroupBytes(t *testing.T) {
	const tokens = 16 * 8 // whole tiles on every rank
	for _, g := range whole {
		for _, kv := range []struct {
			t dtype.Type
			x float32 // of which no byte is zero: 0x3f81, 0x39
		}{{dtype.BFloat16, 1 + 1./128}, {dtype.Float8E4M3, 1.125}} {
			for _, over := range layouts(g.Geometry) {
				layer := layerOf(g.Geometry)
				layer.Layout.DType = kv.t
				group := makeGroup(t, []Config{layer, layer}, over, tokens/16)
				seq := group.NewSequence(nil)
				must(t, seq.Append(make([]int32, tokens)...))
				k, v := make([]float32, tokens*g.KVHeads*g.KeyDim), make([]float32, tokens*g.KVHeads*g.ValueDim)
				for _, x := range [][]float32{k, v} {
					for i := range x {
						x[i] = kv.x
					}
				}
				must(t, errors.Join(seq.Put(0, 0, k, v), seq.Put(1, 0, k, v)))
				q, out := make([]float32, g.QueryHeads*g.KeyDim), make([]float32, g.QueryHeads*(g.ValueDim+g.LatentDim))
				must(t, group.Decode(1, []*GroupSequence{seq}, nil, q, out))
				cell, err := g.BytesPerToken(over.TP, kv.t.Bytes())
				must(t, err)
				for i, st := range group.Ranks() {
					want := tokens / units.Bytes(over.DCP) * cell // a layer
					if st.Replica != seq.Replica() {
						want = 0
					}
					if stored := countNonZero(group.ranks[i]); stored != int64(2*want) || st.InUseBytes != 2*want {
						t.Errorf("%s %v over %+v: rank %d stores %d bytes and says %d, attn says %d", g.name, kv.t, over, i, stored, st.InUseBytes, 2*want)
					}
					if st.BytesRead != want {
						t.Errorf("%s %v over %+v: rank %d reads %d bytes a step and layer, attn says %d", g.name, kv.t, over, i, st.BytesRead, want)
					}
				}
			}
		}
	}
}

// 16 ranks of 8 KV heads store on each what 8 ranks do; with DCP 2 half of it.
func TestReplicationIsStored(t *testing.T) {
	gqa8 := layerOf(whole[1].Geometry)
	held := map[layout.Layout]units.Bytes{}
	for _, over := range []layout.Layout{{TP: 4}, {TP: 8}, {TP: 16}, {TP: 16, DCP: 2}} {
		group := makeGroup(t, []Config{gqa8}, over, 64)
		newStepOf(t, group, []int{256}, []int{1})
		for _, st := range group.Ranks() {
			held[over] = st.InUseBytes
		}
	}
	eight := held[layout.Layout{TP: 8}]
	if held[layout.Layout{TP: 4}] != 2*eight || held[layout.Layout{TP: 16}] != eight || 2*held[layout.Layout{TP: 16, DCP: 2}] != eight {
		t.Errorf("bytes held on a rank: %v", held)
	}
}

// A latent over 8 ranks is held 8 times; with attention DP once, each request on one rank.
func TestDPHoldsALatentOnce(t *testing.T) {
	latent := layerOf(whole[4].Geometry)
	sum := func(over layout.Layout) (all units.Bytes) {
		group := makeGroup(t, []Config{latent}, over, 64)
		s := newStepOf(t, group, []int{64, 64, 64, 64, 64, 64, 64, 64}, []int{1, 1, 1, 1, 1, 1, 1, 1})
		on := map[int]bool{}
		for _, seq := range s.seqs {
			on[seq.Replica()] = true
		}
		if len(on) != max(over.DP, 1) {
			t.Errorf("requests are on %d replicas of %d", len(on), over.DP)
		}
		for _, st := range group.Ranks() {
			all += st.InUseBytes
		}
		return all
	}
	one := sum(layout.Layout{})
	if tp, dp := sum(layout.Layout{TP: 8}), sum(layout.Layout{TP: 8, DP: 8, DPAttention: true}); tp != 8*one || dp != one {
		t.Errorf("one rank holds %s, TP 8 %s in all, DP 8 %s in all", one, tp, dp)
	}
}

// Without blocks an append changes nothing on any rank.
func TestGroupOutOfBlocks(t *testing.T) {
	group := makeGroup(t, []Config{layerOf(whole[1].Geometry)}, layout.Layout{TP: 16, DCP: 2}, 4)
	seq := group.NewSequence(nil)
	if err := seq.Append(make([]int32, 3*32)...); err != nil { // a block is 16 tokens on 2 ranks
		t.Fatal(err)
	}
	before := group.Ranks()
	err := seq.Append(make([]int32, 33)...)
	if e, ok := errors.AsType[*NoBlocksError](err); !ok || *e != (NoBlocksError{Asked: 2, Free: 1}) {
		t.Errorf("%v, want 2 blocks asked for, 1 free", err)
	}
	if after := group.Ranks(); fmt.Sprint(before) != fmt.Sprint(after) || seq.Len() != 96 {
		t.Errorf("%v became %v", before, after)
	}
	if err := seq.Append(make([]int32, 32)...); err != nil {
		t.Error(err)
	}
}

// A prompt shares blocks only if all tokens up to there are equal, also those that other
// ranks store.
func TestGroupPrefix(t *testing.T) {
	group := makeGroup(t, []Config{layerOf(whole[1].Geometry)}, layout.Layout{TP: 16, DCP: 2}, 40)
	tokens := prompt(0, 40)
	first := group.NewSequence(tokens)
	if err := first.Append(tokens...); err != nil {
		t.Fatal(err)
	}
	first.Publish()
	if n := group.NewSequence(tokens).Len(); n != 32 {
		t.Errorf("%d tokens found of an equal prompt, want the one full block of 2 × 16", n)
	}
	for at := range 2 {
		other := slices.Clone(tokens)
		other[at]++
		if n := group.NewSequence(other).Len(); n != 0 {
			t.Errorf("%d tokens found of a prompt whose token %d differs", n, at)
		}
	}
	if fork := first.Fork(); fork.Len() != 40 || fork.Replica() != first.Replica() {
		t.Error("a fork is not of one length and place with its original")
	}
}

func TestGroupAllocationFree(t *testing.T) {
	for _, g := range whole {
		for _, over := range []layout.Layout{{TP: 1}, {TP: 4}, {TP: 16}, {TP: 16, DCP: 2}} {
			if over.DCP > 1 && g.KVHeads > 8 {
				continue
			}
			s := newStepOf(t, makeGroup(t, []Config{layerOf(g.Geometry)}, over, 40), []int{20, 40}, []int{1, 1})
			out := s.decode(t)
			if n := testing.AllocsPerRun(5, func() {
				if err := s.group.Decode(0, s.seqs, s.batch.Queries, s.q, out); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%s over %+v: %v allocations a step", g.name, over, n)
			}
		}
	}
}

func TestGroupRefuses(t *testing.T) {
	gqa8 := layerOf(whole[1].Geometry)
	for _, tt := range []struct {
		name   string
		layers []Config
		over   layout.Layout
		blocks int
		code   problem.Code
		field  string
	}{
		{"TP divides nothing", []Config{gqa8}, layout.Layout{TP: 3}, 4, problem.NotDivisible, "num_attention_heads"},
		{"more ranks than heads", []Config{gqa8}, layout.Layout{TP: 32}, 4, problem.NotDivisible, "num_attention_heads"},
		{"DCP without copies", []Config{gqa8}, layout.Layout{TP: 8, DCP: 2}, 4, problem.IllegalLayout, "decode_context_parallel_size"},
		{"DCP beyond copies", []Config{gqa8}, layout.Layout{TP: 16, DCP: 4}, 4, problem.IllegalLayout, "decode_context_parallel_size"},
		{"stages", []Config{gqa8}, layout.Layout{PP: 2}, 4, problem.IllegalLayout, "pipeline_parallel_size"},
		{"attention DP that does not divide", []Config{gqa8}, layout.Layout{TP: 8, DP: 3, DPAttention: true}, 4, problem.NotDivisible, "tensor_parallel_size"},
		{"negative", []Config{gqa8}, layout.Layout{TP: -1}, 4, problem.BadValue, "tensor_parallel_size"},
		{"absurd", []Config{gqa8}, layout.Layout{TP: 16, DP: 65536}, 4, problem.IllegalLayout, "tensor_parallel_size"},
		{"no layers", nil, layout.Layout{}, 4, problem.BadValue, "num_hidden_layers"},
		{"no blocks", []Config{gqa8}, layout.Layout{TP: 2}, 0, problem.BadValue, "blocks"},
		{"sinks of another layer", []Config{{Layout: gqa8.Layout, Sinks: make([]float32, 5)}}, layout.Layout{TP: 2}, 4, problem.BadValue, "sinks"},
		{"not a scale", []Config{{Layout: gqa8.Layout, Scale: -1}}, layout.Layout{TP: 2}, 4, problem.BadValue, "scale"},
	} {
		g, err := NewGroup(tt.layers, tt.over, tt.blocks)
		if p, ok := errors.AsType[*problem.Error](err); !ok || p.Code != tt.code || p.Field != tt.field {
			t.Errorf("%s: %v, want %s of %s", tt.name, err, tt.code, tt.field)
		}
		if g != nil {
			t.Errorf("%s: a group beside the error", tt.name)
		}
	}
}

func TestGroupDecodeRefuses(t *testing.T) {
	s := newStepOf(t, makeGroup(t, []Config{layerOf(whole[1].Geometry)}, layout.Layout{TP: 2}, 10), []int{20}, []int{1})
	other := newStepOf(t, makeGroup(t, []Config{layerOf(whole[1].Geometry)}, layout.Layout{TP: 2}, 10), []int{20}, []int{1})
	out := s.decode(t)
	for _, tt := range []struct {
		name    string
		layer   int
		seqs    []*GroupSequence
		queries []int
		q, out  []float32
		field   string
	}{
		{"layer", 1, s.seqs, nil, s.q, out, "layer"},
		{"negative layer", -1, s.seqs, nil, s.q, out, "layer"},
		{"queries of another batch", 0, s.seqs, []int{1, 1}, s.q, out, "queries"},
		{"more queries than tokens", 0, s.seqs, []int{21}, s.q, out, "queries"},
		{"negative queries", 0, s.seqs, []int{-1}, s.q, out, "queries"},
		{"short q", 0, s.seqs, nil, s.q[1:], out, "q"},
		{"long out", 0, s.seqs, nil, s.q, append(slices.Clone(out), 0), "out"},
		{"another group's sequence", 0, other.seqs, nil, s.q, out, "sequences"},
		{"no sequence", 0, []*GroupSequence{nil}, nil, s.q, out, "sequences"},
	} {
		err := s.group.Decode(tt.layer, tt.seqs, tt.queries, tt.q, tt.out)
		if p, ok := errors.AsType[*problem.Error](err); !ok || p.Field != tt.field {
			t.Errorf("%s: %v, want a problem of %s", tt.name, err, tt.field)
		}
	}
	if err := s.group.Decode(0, nil, nil, nil, nil); err != nil {
		t.Errorf("an empty step: %v", err)
	}
}
