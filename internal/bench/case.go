package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"

	"headcount/attn"
	"headcount/dtype"
	"headcount/linear"
	"headcount/paged"
	"headcount/problem"
	"headcount/roofline"
	"headcount/units"
)

// A Case is decode attention of one layer on one rank, or the product of a matrix with a
// vector.
type Case struct {
	Geometry attn.Geometry // of the whole layer
	TP       int
	DType    dtype.Type // of the cache, or of the matrix

	Rows, Cols int // of the matrix; zero for attention
}

// Name is "GQA-8 TP 8", with the dtype when it is not bfloat16's.
func (c Case) Name() string {
	if c.Rows > 0 {
		return "GEMV"
	}
	name := fmt.Sprintf("%s TP %d", c.Geometry.Variant(), c.TP)
	if c.DType == dtype.BFloat16 {
		return name
	}
	return name + " fp8"
}

// Llama-3-70B's attention, were it MHA, as it is, and were it MQA, and DeepSeek-V3's.
var (
	mha    = llama70B(64)
	gqa16  = llama70B(16)
	gqa8   = llama70B(8)
	mqa    = llama70B(1)
	latent = attn.Geometry{Arch: attn.MLA, QueryHeads: 128, KVHeads: 1, KeyDim: 512 + 64, LatentDim: 512}
)

// gemv is half of the matrix that closes an attention layer of Llama-3-70B, 64 MiB.
var gemv = Case{Rows: 4096, Cols: 8192, DType: dtype.BFloat16}

// layer is a case of attention.
func layer(g attn.Geometry, tp int, t dtype.Type) Case { return Case{Geometry: g, TP: tp, DType: t} }

func llama70B(kvHeads int) attn.Geometry {
	return attn.Geometry{QueryHeads: 64, KVHeads: kvHeads, KeyDim: 128, ValueDim: 128}
}

// Cases are the four variants as one rank of 1, 8 and 16 has them, and what the ratios
// that are held to need beside: 4 query heads to a KV head, caches in 8 bits, and a
// projection.
func Cases() []Case {
	var all []Case
	for _, g := range []attn.Geometry{mha, gqa8, mqa, latent} {
		for _, tp := range []int{1, 8, 16} {
			all = append(all, layer(g, tp, dtype.BFloat16))
		}
	}
	all = append(all, layer(gqa16, 1, dtype.BFloat16))
	for _, g := range []attn.Geometry{mha, gqa16, gqa8} {
		all = append(all, layer(g, 1, dtype.Float8E4M3))
	}
	return append(all, gemv)
}

// Select keeps the cases in whose names one of the phrases stands, in any case of letters.
func Select(cases []Case, phrases []string) ([]Case, error) {
	if len(phrases) == 0 {
		return cases, nil
	}
	keep := make([]bool, len(cases))
	for _, phrase := range phrases {
		words := regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(strings.TrimSpace(phrase)) + `\b`)
		found := false
		for i, c := range cases {
			if words.MatchString(c.Name()) {
				keep[i], found = true, true
			}
		}
		if !found || strings.TrimSpace(phrase) == "" {
			return nil, problem.New(problem.BadValue, "--cases", phrase, "no case is named so").
				WithHint(`words of a name: mha, gqa-8, mqa, mla, "tp 8", fp8, gemv`)
		}
	}
	var kept []Case
	for i, c := range cases {
		if keep[i] {
			kept = append(kept, c)
		}
	}
	return kept, nil
}

// bufferLayout is the block in which the buffer is made: 16 tokens of one KV head.
var bufferLayout = paged.Layout{Geometry: mqa, DType: dtype.BFloat16, BlockSize: blockSize}

const (
	blockSize = 16   // tokens, vLLM's default
	longest   = 2048 // tokens of each sequence, fewer where one alone is more than a window
)

// A task is a case set up over windows of the buffer.
type task interface {
	run(window []byte) error
	close()
	bytes() int64               // of a window
	predicted() roofline.Cost   // of a turn
	read(turns int) units.Bytes // by a turn, as counted over so many
	pairs() bool                // are pairs of bfloat16 what is multiplied
	describe(r *Result)
}

// newTask sets up a case that reads at least window bytes a turn.
func newTask(c Case, window int64) (task, error) {
	if c.Rows > 0 {
		return newProduct(c, window), nil
	}
	return newStep(c, window)
}

// A step is one decode step of sequences whose blocks lie at random in the window.
type step struct {
	layout    paged.Layout
	attention *paged.Attention
	batch     paged.Batch
	q, out    []float32
	cost      roofline.Cost
}

// newStep makes sequences until their cache takes at least window bytes.
func newStep(c Case, window int64) (*step, error) {
	g, err := c.Geometry.Rank(c.TP)
	if err != nil {
		return nil, err
	}
	s := &step{layout: paged.Layout{Geometry: g, DType: c.DType, BlockSize: blockSize}}
	scale := float32(0)
	if g.Arch == attn.MLA {
		scale = 0.0722 // 1/√(128 + 64)
	}
	if s.attention, err = paged.NewAttention(paged.Config{Layout: s.layout, Scale: scale}); err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, uint64(c.TP)))
	s.place(r, int(window))
	sequences := len(s.batch.Tables)
	s.q = normal(r, sequences*g.QueryHeads*g.KeyDim)
	s.out = make([]float32, sequences*g.QueryHeads*(g.ValueDim+g.LatentDim))
	s.cost, err = roofline.Decode(c.Geometry, c.TP, c.DType.Bytes(), s.tokens())
	return s, err
}

// place gives sequences of one length blocks at random.
func (s *step) place(r *rand.Rand, window int) {
	block := s.layout.BlockBytes()
	perSequence := min(longest/blockSize, max(window/block, 1)) // blocks
	sequences := max((window+block*perSequence-1)/(block*perSequence), 1)
	order := r.Perm(sequences * perSequence)
	for ; len(order) > 0; order = order[perSequence:] {
		table := make([]int32, perSequence)
		for i := range table {
			table[i] = int32(order[i])
		}
		s.batch.Tables, s.batch.Lengths = append(s.batch.Tables, table), append(s.batch.Lengths, perSequence*blockSize)
	}
}

func (s *step) run(window []byte) error {
	s.batch.Blocks = paged.Blocks{Data: window, Stride: s.layout.BlockBytes()}
	return s.attention.Decode(s.batch, s.q, s.out, nil)
}

func (s *step) close()                   { s.attention.Close() }
func (s *step) predicted() roofline.Cost { return s.cost }
func (s *step) pairs() bool              { return s.attention.Pairs() }
func (s *step) bytes() int64             { return s.tokens() * int64(s.layout.TokenBytes()) }

// tokens of all sequences.
func (s *step) tokens() int64 { return int64(len(s.batch.Tables) * s.batch.Lengths[0]) }

func (s *step) read(turns int) units.Bytes {
	return units.Bytes(s.attention.BytesRead() / int64(max(turns, 1)))
}

func (s *step) describe(r *Result) {
	g := s.layout.Geometry
	r.QueryHeads, r.KVHeads, r.KeyDim, r.ValueDim, r.LatentDim = g.QueryHeads, g.KVHeads, g.KeyDim, g.ValueDim, g.LatentDim
	r.Sequences, r.Tokens = len(s.batch.Tables), s.tokens()
}

// A product is a matrix of the window times a vector.
type product struct {
	multiplier *linear.Multiplier
	rows, cols int
	x, y       []float32
}

func newProduct(c Case, window int64) *product {
	rows := max(min(c.Rows, int(window)/(2*c.Cols)), 1)
	return &product{linear.New(0), rows, c.Cols, normal(rand.New(rand.NewPCG(2, 2)), c.Cols), make([]float32, rows)}
}

func (p *product) run(window []byte) error {
	return p.multiplier.Mul(p.y, linear.Matrix{Rows: p.rows, Cols: p.cols, Data: window}, p.x)
}

func (p *product) close()               { p.multiplier.Close() }
func (p *product) pairs() bool          { return false }
func (p *product) bytes() int64         { return 2 * int64(p.rows) * int64(p.cols) }
func (p *product) read(int) units.Bytes { return units.Bytes(p.bytes()) }
func (p *product) describe(r *Result)   { r.Rows, r.Cols = p.rows, p.cols }

// predicted is each weight once, and a multiply-add of it.
func (p *product) predicted() roofline.Cost {
	return roofline.Cost{FLOP: units.FLOP(p.bytes()), Bytes: units.Bytes(p.bytes())}
}

func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func putWord(b []byte, x uint64) { binary.LittleEndian.PutUint64(b, x) }
