package paged

import (
	"math"
	"math/rand/v2"
	"slices"
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
					if s.pairs(s.batch.queries(seq)) {
						bound += 0x1p-126
					}
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
	pairs := s.pairs(queries)
	if pairs {
		delta += 0x1p-8*row.product + float64(g.KeyDim)*0x1p-126
	}
	rho = math.Expm1(2*delta) + math.Exp(2*delta)*float64(row.tokens+20)*u
	if pairs {
		rho += 0x1p-8
	}
	return delta, rho
}

// pairs reports whether Attention's comment speaks of products of pairs.
func (s *step) pairs(queries int) bool {
	stored := s.cfg.Layout.DType
	return kernel.Pairs() && s.cfg.Layout.lines() && (stored == dtype.BFloat16 || stored.Bytes() == 1) &&
		min(queries*s.cfg.Layout.Geometry.GroupSize(), unitRows) > kernel.PairRows/2
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
			each(t, func(t *testing.T) { newStep(t, tt.cfg, tt.lengths, tt.queries, 1, normal).check(t) })
		})
	}
}

// each runs a test on every implementation that this processor has, the reference last.
func each(t *testing.T, f func(t *testing.T)) {
	before := kernel.Path()
	defer func() { _ = kernel.Use(before) }()
	for _, path := range kernel.Paths() {
		must(t, kernel.Use(path))
		t.Run(path, f)
	}
}

// Large logits, one weight of 1, denormals, zeros: the bound holds on what is hard.
func TestDecodeAdversarial(t *testing.T) {
	for name, draw := range map[string]fill{
		"large logits":  func(r *rand.Rand) float32 { return float32(r.NormFloat64() * 40) },
		"equal":         func(*rand.Rand) float32 { return 1 },
		"zero":          func(*rand.Rand) float32 { return 0 },
		"denormal":      func(r *rand.Rand) float32 { return float32(r.NormFloat64() * 0x1p-130) },
		"mixed sizes":   func(r *rand.Rand) float32 { return float32(math.Ldexp(r.NormFloat64(), r.IntN(20)-15)) },
		"one of many":   func(r *rand.Rand) float32 { return float32(max(0, r.IntN(200)-198)) * 30 },
		"opposite ends": func(r *rand.Rand) float32 { return float32(r.IntN(2)*2-1) * 8 },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T) {
				for _, g := range []attn.Geometry{gqa(2, 2, 64), gqa(8, 1, 64), gqa(24, 1, 64), mla(8, 64, 16)} {
					cfg := Config{Layout: Layout{Geometry: g, DType: dtype.BFloat16, BlockSize: 16}, Scale: 0.125}
					newStep(t, cfg, []int{1, 17, 200}, nil, 3, draw).check(t)
				}
			})
		})
	}
}

// The same call gives the same bits, whoever computes it.
func TestDecodeBits(t *testing.T) {
	each(t, func(t *testing.T) {
		for _, g := range []attn.Geometry{gqa(2, 2, 64), gqa(16, 2, 64), mla(16, 64, 16)} {
			cfg := Config{Layout: Layout{Geometry: g, DType: dtype.BFloat16, BlockSize: 16}, Scale: 0.125, Workers: 1}
			s := newStep(t, cfg, []int{5, 2500, 700}, []int{2, 1, 3}, 1, normal)
			out, lse := s.decode(t)
			for _, workers := range []int{1, 2, 3, 7} {
				s.cfg.Workers = workers
				again, lseAgain := s.decode(t)
				if !slices.Equal(out, again) || !slices.Equal(lse, lseAgain) {
					t.Errorf("%s: %d workers give other bits than 1", g.Variant(), workers)
				}
			}
		}
	})
}

func TestDecodeAllocations(t *testing.T) {
	for _, g := range []attn.Geometry{gqa(2, 2, 64), gqa(16, 2, 64), mla(16, 64, 16)} {
		for _, format := range []dtype.Type{dtype.BFloat16, dtype.Float8E4M3, dtype.Float16} {
			cfg := Config{Layout: Layout{Geometry: g, DType: format, BlockSize: 16}, Scale: 0.125, Workers: 2}
			s := newStep(t, cfg, []int{40, 1300}, nil, 1, normal)
			a, err := NewAttention(cfg)
			must(t, err)
			out := make([]float32, 2*g.QueryHeads*(g.ValueDim+g.LatentDim))
			step := func() {
				if err := a.Decode(s.batch, s.q, out, nil); err != nil {
					t.Error(err)
				}
			}
			for range 20 {
				step() // each worker has seen the largest unit
			}
			if n := testing.AllocsPerRun(20, step); n != 0 {
				t.Errorf("%s in %v: a step allocates %v times", g.Variant(), format, n)
			}
			a.Close()
		}
	}
}

// Parts of a sequence on several ranks, merged, are the whole; a sink counts once.
func TestShards(t *testing.T) {
	each(t, func(t *testing.T) {
		for _, shard := range []Shard{{Ranks: 2}, {Ranks: 3, Interleave: 4}, {Ranks: 4, Interleave: 16}} {
			cfg := Config{Layout: Layout{Geometry: gqa(8, 2, 64), DType: dtype.Float32, BlockSize: 16}, Sinks: make([]float32, 8), Window: 77}
			whole := newStep(t, cfg, []int{2, 50, 300}, []int{1, 4, 2}, 1, normal)
			out, lse := whole.decode(t)
			var sum, sumLSE []float32
			for rank := range shard.Ranks {
				shard.Rank = rank
				part, partLSE := whole.shard(t, shard).decode(t)
				if rank == 0 {
					sum, sumLSE = part, partLSE
				} else {
					must(t, Merge(sum, sumLSE, part, partLSE, 64))
				}
			}
			for i := range sum {
				if diff := math.Abs(float64(sum[i] - out[i])); !(diff <= 1e-5) {
					t.Fatalf("%+v: out[%d] = %v, whole %v", shard, i, sum[i], out[i])
				}
			}
			for i := range lse {
				if diff := math.Abs(float64(sumLSE[i] - lse[i])); !(diff <= 1e-5) {
					t.Fatalf("%+v: lse[%d] = %v, whole %v", shard, i, sumLSE[i], lse[i])
				}
			}
		}
	})
}

// shard is the step as one rank of a shard holds it.
func (s *step) shard(t *testing.T, shard Shard) *step {
	l := s.cfg.Layout
	g := l.Geometry
	part := *s
	part.batch.Shard, part.batch.Tables = shard, nil
	part.batch.Blocks = Blocks{nil, l.BlockBytes()}
	for seq, n := range s.batch.Lengths {
		var table []int32
		local := 0
		for pos := range n {
			if pos/max(shard.Interleave, 1)%shard.Ranks != shard.Rank {
				continue
			}
			if local%l.BlockSize == 0 {
				table = append(table, int32(len(part.batch.Blocks.Data)/l.BlockBytes()))
				part.batch.Blocks.Data = append(part.batch.Blocks.Data, make([]byte, l.BlockBytes())...)
			}
			at := int(table[len(table)-1]) * l.BlockBytes()
			must(t, l.Put(part.batch.Blocks.Data[at:at+l.BlockBytes()], local%l.BlockSize,
				floats(s.k[seq][pos*g.KVHeads*g.KeyDim:][:g.KVHeads*g.KeyDim]), floats(s.v[seq][pos*g.KVHeads*g.ValueDim:][:g.KVHeads*g.ValueDim])))
			local++
		}
		if local != shard.Local(n) {
			t.Fatalf("%+v holds %d of %d tokens, Local says %d", shard, local, n, shard.Local(n))
		}
		part.batch.Tables = append(part.batch.Tables, table)
	}
	return &part
}

func floats(x []float64) []float32 {
	f := make([]float32, len(x))
	for i := range x {
		f[i] = float32(x[i])
	}
	return f
}

// The bytes read are those of the tiles that hold what is seen.
func TestBytesRead(t *testing.T) {
	cfg := Config{Layout: Layout{Geometry: gqa(8, 2, 64), DType: dtype.BFloat16, BlockSize: 32}}
	s := newStep(t, cfg, []int{1, 16, 17, 1500}, nil, 1, normal)
	a, err := NewAttention(cfg)
	must(t, err)
	defer a.Close()
	must(t, a.Decode(s.batch, s.q, make([]float32, 4*8*64), nil))
	if want := int64((16 + 16 + 32 + 1504) * cfg.Layout.TokenBytes()); a.BytesRead() != want {
		t.Errorf("%d bytes read, want %d", a.BytesRead(), want)
	}
}

// A bad call is an error that names what was wanted, and writes nothing.
func TestBadCalls(t *testing.T) {
	cfg := Config{Layout: Layout{Geometry: gqa(4, 2, 64), DType: dtype.BFloat16, BlockSize: 16}}
	good := newStep(t, cfg, []int{20, 5}, nil, 1, normal)
	a, err := NewAttention(cfg)
	must(t, err)
	defer a.Close()
	for want, call := range map[string]func(b *Batch, q, out, lse *[]float32){
		"lengths: 1 elements, want [2], one for each block table":           func(b *Batch, _, _, _ *[]float32) { b.Lengths = []int{20} },
		"queries: 3 elements, want [2], one for each block table":           func(b *Batch, _, _, _ *[]float32) { b.Queries = []int{1, 1, 1} },
		"queries = 21: sequence 0 has 20 tokens":                            func(b *Batch, _, _, _ *[]float32) { b.Queries = []int{21, 1} },
		"queries = -1: sequence 1 has 5 tokens":                             func(b *Batch, _, _, _ *[]float32) { b.Queries = []int{1, -1} },
		"queries = 1: sequence 1 has 0 tokens":                              func(b *Batch, _, _, _ *[]float32) { b.Lengths = []int{20, 0} },
		"lengths = -4: sequence 1: not a number of tokens":                  func(b *Batch, _, _, _ *[]float32) { b.Lengths = []int{20, -4} },
		"lengths = 9223372036854775807: sequence 1: not a number of tokens": func(b *Batch, _, _, _ *[]float32) { b.Lengths = []int{20, math.MaxInt} },
		"tables: sequence 1: 1 block, want 2 for 17 tokens on this rank":    func(b *Batch, _, _, _ *[]float32) { b.Lengths = []int{20, 17} },
		"tables = 99: sequence 1: not one of 4 blocks":                      func(b *Batch, _, _, _ *[]float32) { b.Tables = [][]int32{b.Tables[0], {99}} },
		"tables = -1: sequence 1: not one of 4 blocks":                      func(b *Batch, _, _, _ *[]float32) { b.Tables = [][]int32{b.Tables[0], {-1}} },
		"tables = 3: sequence 1: not one of 3 blocks": func(b *Batch, _, _, _ *[]float32) {
			b.Blocks.Data, b.Tables = b.Blocks.Data[:4*b.Blocks.Stride-65], [][]int32{{0, 1}, {3}}
		},
		"stride = 8191: smaller than a block of 8192 bytes":        func(b *Batch, _, _, _ *[]float32) { b.Blocks.Stride = 8191 },
		"q: 511 elements, want [2, 4, 64]":                         func(_ *Batch, q, _, _ *[]float32) { *q = (*q)[1:] },
		"out: 513 elements, want [2, 4, 64]":                       func(_ *Batch, _, out, _ *[]float32) { *out = append(*out, 0) },
		"lse: 7 elements, want [2, 4]":                             func(_ *Batch, _, _, lse *[]float32) { *lse = make([]float32, 7) },
		"decode_context_parallel_size = -2: not a number of ranks": func(b *Batch, _, _, _ *[]float32) { b.Shard.Ranks = -2 },
		"rank = 2: not one of 2 ranks":                             func(b *Batch, _, _, _ *[]float32) { b.Shard = Shard{Rank: 2, Ranks: 2} },
		"cp_kv_cache_interleave_size = -1: not a number of tokens": func(b *Batch, _, _, _ *[]float32) { b.Shard = Shard{Ranks: 2, Interleave: -1} },
	} {
		b, q, out, lse := good.batch, good.q, make([]float32, 2*4*64), []float32(nil)
		call(&b, &q, &out, &lse)
		err := a.Decode(b, q, out, lse)
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
		if slices.ContainsFunc(out, func(x float32) bool { return x != 0 }) {
			t.Errorf("%s: something was written", want)
		}
	}
}

func TestBadConfigs(t *testing.T) {
	layout := Layout{Geometry: gqa(4, 2, 64), DType: dtype.BFloat16, BlockSize: 16}
	with := func(f func(*Config)) Config { c := Config{Layout: layout}; f(&c); return c }
	for want, cfg := range map[string]Config{
		"block_size = 24: not a positive multiple of 16 tokens":                               with(func(c *Config) { c.Layout.BlockSize = 24 }),
		"block_size = 0: not a positive multiple of 16 tokens":                                with(func(c *Config) { c.Layout.BlockSize = 0 }),
		"block_size = 1152921504606846976: a block of this layer is larger than 1 GiB":        with(func(c *Config) { c.Layout.BlockSize = 1 << 60 }),
		"num_attention_heads = 5: not a multiple of num_key_value_heads 2":                    with(func(c *Config) { c.Layout.Geometry.QueryHeads = 5 }),
		"kv_cache_dtype = int8: not bfloat16, float16, float8_e4m3fn, float8_e5m2 or float32": with(func(c *Config) { c.Layout.DType = dtype.Int8 }),
		"k_scale = -1: not a positive number":                                                 with(func(c *Config) { c.Layout.KScale = -1 }),
		"scale = -1: not a positive number":                                                   with(func(c *Config) { c.Scale = -1 }),
		"scale: not given: a latent's width does not say it, 1/√(nope + rope head dim) does":  with(func(c *Config) { c.Layout.Geometry = mla(4, 64, 16) }),
		"sliding_window = -1: negative":                                                       with(func(c *Config) { c.Window = -1 }),
		"attn_logit_softcapping = -1: not a positive number":                                  with(func(c *Config) { c.SoftCap = -1 }),
		"sinks: 3 elements, want [4], one for each query head":                                with(func(c *Config) { c.Sinks = make([]float32, 3) }),
		"workers = -1: negative":                                                              with(func(c *Config) { c.Workers = -1 }),
	} {
		if a, err := NewAttention(cfg); err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
			if a != nil {
				a.Close()
			}
		}
	}
}

func TestBadPuts(t *testing.T) {
	l := Layout{Geometry: gqa(4, 2, 64), DType: dtype.BFloat16, BlockSize: 16}
	block, k := make([]byte, l.BlockBytes()), make([]float32, 128)
	for want, err := range map[string]error{
		"block: 8191 elements, want 8192 bytes":                  l.Put(block[1:], 0, k, k),
		"k: 127 elements, want [tokens, 2, 64]":                  l.Put(block, 0, k[1:], k),
		"v: 127 elements, want [1, 2, 64]":                       l.Put(block, 0, k, k[1:]),
		"slot = 16: 1 tokens from here are not in a block of 16": l.Put(block, 16, k, k),
		"slot = -1: 1 tokens from here are not in a block of 16": l.Get(block, -1, k, k),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestBadMerges(t *testing.T) {
	f := func(n int) []float32 { return make([]float32, n) }
	for want, err := range map[string]error{
		"dst: 5 elements, want [2, 3]":  Merge(f(5), f(2), f(6), f(2), 3),
		"src: 5 elements, want [2, 3]":  Merge(f(6), f(2), f(5), f(2), 3),
		"src_lse: 1 elements, want [2]": Merge(f(6), f(2), f(6), f(1), 3),
		"dst: 6 elements, want [2, 0]":  Merge(f(6), f(2), f(6), f(2), 0),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzDecode holds attention to float64 within its bound on shapes of any kind.
func FuzzDecode(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(1), uint8(2), uint16(100), uint8(1), uint8(0), false)
	f.Add(uint64(2), uint8(0), uint8(7), uint8(4), uint16(1300), uint8(3), uint8(40), true)
	f.Fuzz(func(t *testing.T, seed uint64, kv, group, chunks uint8, length uint16, queries, window uint8, latent bool) {
		r := rand.New(rand.NewPCG(seed, 2))
		width := (int(chunks%6) + 1) * kernel.Lanes
		g := gqa((int(kv%3)+1)*(int(group%20)+1), int(kv%3)+1, width)
		if latent {
			g = mla(int(group%20)+1, width, kernel.Lanes)
		}
		formats := []dtype.Type{dtype.BFloat16, dtype.Float16, dtype.Float8E4M3, dtype.Float8E5M2, dtype.Float32}
		cfg := Config{
			Layout: Layout{Geometry: g, DType: formats[r.IntN(len(formats))], BlockSize: 16 * (1 + r.IntN(3))},
			Scale:  0.2, Window: int(window), Workers: 1 + r.IntN(2),
		}
		if seed%3 == 0 {
			cfg.SoftCap = 5
		}
		n := int(length%1500) + 1
		q := min(int(queries%6)+1, n)
		newStep(t, cfg, []int{n, 1 + r.IntN(40)}, []int{q, 1}, seed, normal).check(t)
	})
}
