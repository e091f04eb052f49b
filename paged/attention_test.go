package paged

import (
	"math"
	"math/rand/v2"
	"testing"

	"headcount/attn"
	"headcount/dtype"
	"headcount/internal/kernel"
)

// gqa is a layer with keys and values of one width.
func gqa(query, kv, dim int) attn.Geometry {
	return attn.Geometry{QueryHeads: query, KVHeads: kv, KeyDim: dim, ValueDim: dim}
}

// mla is a layer with a latent.
func mla(query, latent, rope int) attn.Geometry {
	return attn.Geometry{Arch: attn.MLA, QueryHeads: query, KVHeads: 1, KeyDim: latent + rope, LatentDim: latent}
}

// A step is a batch with everything that computing it takes, and the same K and V as plain
// float64s.
type step struct {
	cfg   Config
	batch Batch
	q     []float32
	k, v  [][]float64 // of each sequence, [tokens, KVHeads, dim], as stored and scaled
}

// fill makes the elements of the given kind at index i.
type fill func(r *rand.Rand) float32

func normal(r *rand.Rand) float32 { return float32(r.NormFloat64()) }

// newStep puts sequences of the given lengths into blocks at random.
func newStep(t testing.TB, cfg Config, lengths, queries []int, seed uint64, draw fill) *step {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 5))
	s := &step{cfg: cfg}
	l, g := cfg.Layout, cfg.Layout.Geometry
	blocks := 1
	for _, n := range lengths {
		blocks += (n + l.BlockSize - 1) / l.BlockSize
	}
	ids := r.Perm(blocks)
	stride := l.BlockBytes() + 64
	s.batch = Batch{Blocks: Blocks{make([]byte, blocks*stride), stride}, Lengths: lengths, Queries: queries}
	row := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = draw(r)
		}
		return x
	}
	for seq, n := range lengths {
		var table []int32
		var ks, vs []float64
		for pos := range n {
			if pos%l.BlockSize == 0 {
				table, ids = append(table, int32(ids[0])), ids[1:]
			}
			block := s.batch.Blocks.Data[int(table[len(table)-1])*stride:][:l.BlockBytes()]
			k, v := row(g.KVHeads*g.KeyDim), row(g.KVHeads*g.ValueDim)
			must(t, l.Put(block, pos%l.BlockSize, k, v))
			must(t, l.Get(block, pos%l.BlockSize, k, v))
			ks, vs = appendFloats(ks, k), appendFloats(vs, v)
		}
		s.batch.Tables = append(s.batch.Tables, table)
		s.k, s.v = append(s.k, ks), append(s.v, vs)
		for range s.batch.queries(seq) {
			s.q = append(s.q, row(g.QueryHeads*g.KeyDim)...)
		}
	}
	return s
}

func appendFloats(dst []float64, src []float32) []float64 {
	for _, x := range src {
		dst = append(dst, float64(x))
	}
	return dst
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// decode runs the step and returns outputs and log-sum-exps.
func (s *step) decode(t testing.TB) (out, lse []float32) {
	t.Helper()
	a, err := NewAttention(s.cfg)
	must(t, err)
	defer a.Close()
	g := s.cfg.Layout.Geometry
	tokens := len(s.q) / (g.QueryHeads * g.KeyDim)
	out, lse = make([]float32, tokens*g.QueryHeads*(g.ValueDim+g.LatentDim)), make([]float32, tokens*g.QueryHeads)
	for i := range out {
		out[i] = float32(math.NaN()) // whatever is not written shows
	}
	must(t, a.Decode(s.batch, s.q, out, lse))
	return out, lse
}

// exactRow is a row of the answer in float64, and what bounds the error of a float32 one.
type exactRow struct {
	out      []float64
	lse      float64
	absolute []float64 // Σ w·|v|
	product  float64   // max Σ|q·k|·scale
	logit    float64   // max |x|
	value    float64   // max |v|
	tokens   int
}

// exact is a row of the answer by the definition of attention.
func (s *step) exact(seq, query, head int, q []float32) exactRow {
	g := s.cfg.Layout.Geometry
	scale := float64(s.cfg.Scale)
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(g.KeyDim))
	}
	position := s.batch.Lengths[seq] - s.batch.queries(seq) + query
	first := 0
	if s.cfg.Window > 0 {
		first = max(0, position+1-s.cfg.Window)
	}
	kv := head / g.GroupSize()
	row := exactRow{out: make([]float64, g.ValueDim+g.LatentDim), absolute: make([]float64, g.ValueDim+g.LatentDim), lse: math.Inf(-1)}
	var logits []float64
	top := math.Inf(-1)
	for pos := first; pos <= position; pos++ {
		k := s.k[seq][(pos*g.KVHeads+kv)*g.KeyDim:][:g.KeyDim]
		var x, abs float64
		for d, e := range k {
			x += e * float64(q[d])
			abs += math.Abs(e * float64(q[d]))
		}
		x *= scale
		row.product = max(row.product, abs*scale)
		row.logit = max(row.logit, math.Abs(x))
		if c := float64(s.cfg.SoftCap); c > 0 {
			x = c * math.Tanh(x/c)
		}
		logits = append(logits, x)
		top = max(top, x)
	}
	row.tokens = len(logits)
	sum := 0.0
	sink := math.Inf(-1)
	if s.cfg.Sinks != nil {
		sink = float64(s.cfg.Sinks[head])
	}
	top = max(top, sink)
	if math.IsInf(top, -1) {
		return row
	}
	for _, x := range logits {
		sum += math.Exp(x - top)
	}
	sum += math.Exp(sink - top)
	row.lse = top + math.Log(sum)
	for i, x := range logits {
		v := s.k[seq][(first+i)*g.KeyDim:]
		if g.Arch == attn.MHA {
			v = s.v[seq][((first+i)*g.KVHeads+kv)*g.ValueDim:]
		}
		w := math.Exp(x-top) / sum
		for d := range row.out {
			row.out[d] += w * v[d]
			row.absolute[d] += w * math.Abs(v[d])
			row.value = max(row.value, math.Abs(v[d]))
		}
	}
	return row
}

// check holds the step's answer to the exact one within the bound of Attention's comment.
func (s *step) check(t testing.TB) {
	t.Helper()
	out, lse := s.decode(t)
	s.compare(t, out, lse)
}

// compare holds an answer, of which lse may be nil, to the exact one.
func (s *step) compare(t testing.TB, out, lse []float32) {
	t.Helper()
	g := s.cfg.Layout.Geometry
	width, i := g.ValueDim+g.LatentDim, 0
	for seq := range s.batch.Tables {
		for query := range s.batch.queries(seq) {
			for head := range g.QueryHeads {
				want := s.exact(seq, query, head, s.q[i*g.KeyDim:][:g.KeyDim])
				delta, weight := s.errors(want, s.batch.queries(seq))
				if lse == nil {
					// only the result is asked for
				} else if diff := math.Abs(float64(lse[i]) - want.lse); !(diff <= delta+weight+1e-6*math.Abs(want.lse)) && float64(lse[i]) != want.lse {
					t.Fatalf("sequence %d query %d head %d: lse %v, want %v within %v", seq, query, head, lse[i], want.lse, delta+weight)
				}
				for d, x := range out[i*width : (i+1)*width] {
					bound := (weight+float64(want.tokens+4)*u)*(1+weight)*want.absolute[d] + float64(want.tokens)*0x1p-126*want.value
					if diff := math.Abs(float64(x) - want.out[d]); !(diff <= bound) {
						t.Fatalf("sequence %d query %d head %d: out[%d] = %v, want %v within %v", seq, query, head, d, x, want.out[d], bound)
					}
				}
				i++
			}
		}
	}
}

const u = 0x1p-24 // unit roundoff of float32

// errors is the bound δ of a logit and ρ of a weight, as Attention's comment gives them.
func (s *step) errors(row exactRow, queries int) (delta, rho float64) {
	g := s.cfg.Layout.Geometry
	delta = float64(g.KeyDim+5)*u*row.product + 4*u*row.logit
	stored := s.cfg.Layout.DType
	pairs := kernel.Pairs() && s.cfg.Layout.lines() && (stored == dtype.BFloat16 || stored.Bytes() == 1) && min(queries*g.GroupSize(), unitRows) > kernel.PairRows/2
	if pairs {
		delta += 0x1p-8*row.product + float64(g.KeyDim)*0x1p-126
	}
	rho = math.Expm1(2*delta) + math.Exp(2*delta)*float64(row.tokens+20)*u
	if pairs {
		rho += 0x1p-8
	}
	return delta, rho
}

func TestDecode(t *testing.T) {
	layout := func(g attn.Geometry, f dtype.Type, block int) Layout {
		return Layout{Geometry: g, DType: f, BlockSize: block}
	}
	bf16 := dtype.BFloat16
	sinks := []float32{0, 1, -2, 30, float32(math.Inf(-1)), 0.5, 2, 3}
	for _, tt := range []struct {
		name    string
		cfg     Config
		lengths []int
		queries []int
	}{
		{"mha", Config{Layout: layout(gqa(4, 4, 64), bf16, 16)}, []int{1, 15, 16, 17, 300}, nil},
		{"gqa 2", Config{Layout: layout(gqa(4, 2, 128), bf16, 16)}, []int{129, 1100}, nil},
		{"gqa 3", Config{Layout: layout(gqa(6, 2, 80), bf16, 16)}, []int{33, 128}, nil},
		{"gqa 4", Config{Layout: layout(gqa(8, 2, 96), bf16, 32)}, []int{200}, nil},
		{"gqa 8", Config{Layout: layout(gqa(16, 2, 128), bf16, 16)}, []int{257, 2500}, nil},
		{"gqa 12", Config{Layout: layout(gqa(12, 1, 256), bf16, 48)}, []int{100}, nil},
		{"mqa 64", Config{Layout: layout(gqa(64, 1, 128), bf16, 16)}, []int{1300}, nil},
		{"mqa 130", Config{Layout: layout(gqa(130, 1, 64), bf16, 16)}, []int{70}, nil},
		{"unequal widths", Config{Layout: layout(attn.Geometry{QueryHeads: 8, KVHeads: 2, KeyDim: 192, ValueDim: 128}, bf16, 16)}, []int{400}, nil},
		{"wider values", Config{Layout: layout(attn.Geometry{QueryHeads: 16, KVHeads: 2, KeyDim: 16, ValueDim: 48}, bf16, 16)}, []int{40}, nil},
		{"odd widths", Config{Layout: layout(attn.Geometry{QueryHeads: 6, KVHeads: 2, KeyDim: 33, ValueDim: 7}, bf16, 16)}, []int{50, 1}, nil},
		{"float32", Config{Layout: layout(gqa(8, 1, 64), dtype.Float32, 16)}, []int{150}, nil},
		{"float16", Config{Layout: layout(gqa(8, 2, 64), dtype.Float16, 16)}, []int{150}, nil},
		{"e4m3", Config{Layout: layout(gqa(8, 8, 128), dtype.Float8E4M3, 16)}, []int{150}, nil},
		{"e4m3 with scales", Config{Layout: Layout{gqa(8, 1, 128), dtype.Float8E4M3, 16, 0.25, 0.5}}, []int{150}, nil},
		{"e5m2", Config{Layout: layout(gqa(8, 1, 64), dtype.Float8E5M2, 16)}, []int{90}, nil},
		{"mla", Config{Layout: layout(mla(16, 128, 64), bf16, 16), Scale: 0.07}, []int{1, 260}, nil},
		{"mla of one head", Config{Layout: layout(mla(1, 512, 64), bf16, 16), Scale: 0.07}, []int{129}, nil},
		{"mla e4m3", Config{Layout: Layout{mla(8, 64, 16), dtype.Float8E4M3, 16, 2, 0}, Scale: 0.1}, []int{129}, nil},
		{"mla float32", Config{Layout: layout(mla(3, 64, 16), dtype.Float32, 16), Scale: 0.1}, []int{40}, nil},
		{"mla of odd widths", Config{Layout: layout(mla(5, 30, 10), bf16, 16), Scale: 0.2}, []int{40}, nil},
		{"window", Config{Layout: layout(gqa(8, 4, 64), bf16, 16), Window: 100}, []int{5, 99, 100, 101, 117, 1400}, nil},
		{"window of one", Config{Layout: layout(gqa(8, 1, 64), bf16, 16), Window: 1}, []int{64, 65}, nil},
		{"soft cap", Config{Layout: layout(gqa(8, 1, 64), bf16, 16), SoftCap: 2, Scale: 0.5}, []int{130}, nil},
		{"soft cap of one query", Config{Layout: layout(gqa(2, 2, 64), bf16, 16), SoftCap: 50}, []int{130}, nil},
		{"sinks", Config{Layout: layout(gqa(8, 2, 64), bf16, 16), Sinks: sinks}, []int{1, 140}, nil},
		{"sinks and window", Config{Layout: layout(gqa(8, 1, 64), bf16, 16), Sinks: sinks, Window: 30}, []int{1, 1400}, nil},
		{"chunks", Config{Layout: layout(gqa(8, 2, 64), bf16, 16)}, []int{7, 40, 1200, 20}, []int{7, 3, 5, 0}},
		{"a chunk of many rows", Config{Layout: layout(gqa(16, 2, 64), bf16, 16)}, []int{90}, []int{33}},
		{"chunks of one head", Config{Layout: layout(gqa(2, 2, 64), bf16, 16), Window: 20}, []int{50, 3}, []int{9, 2}},
		{"chunks of a latent", Config{Layout: layout(mla(4, 64, 16), bf16, 16), Scale: 0.1}, []int{50, 3}, []int{9, 2}},
		{"no sequences", Config{Layout: layout(gqa(2, 2, 64), bf16, 16)}, nil, nil},
		{"empty sequences", Config{Layout: layout(gqa(2, 2, 64), bf16, 16)}, []int{0, 0}, []int{0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, workers := range []int{1, 3} {
				tt.cfg.Workers = workers
				newStep(t, tt.cfg, tt.lengths, tt.queries, 1, normal).check(t)
			}
		})
	}
}
