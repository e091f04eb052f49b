package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"

	"headcount/attn"
	"headcount/dtype"
	"headcount/paged"
	"headcount/problem"
	"headcount/roofline"
	"headcount/units"
)

// A Case is decode attention of one layer on one rank.
type Case struct {
	Geometry attn.Geometry // of the whole layer
	TP       int
	DType    dtype.Type // of the cache
}

// Name is "GQA-8 TP 8", with the dtype when it is not bfloat16's.
func (c Case) Name() string {
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

func llama70B(kvHeads int) attn.Geometry {
	return attn.Geometry{QueryHeads: 64, KVHeads: kvHeads, KeyDim: 128, ValueDim: 128}
}

// Cases are the four variants as one rank of 1, 8 and 16 has them, and what the ratios
// that are held to need beside: 4 query heads to a KV head, and caches in 8 bits.
func Cases() []Case {
	var all []Case
	for _, g := range []attn.Geometry{mha, gqa8, mqa, latent} {
		for _, tp := range []int{1, 8, 16} {
			all = append(all, Case{g, tp, dtype.BFloat16})
		}
	}
	all = append(all, Case{gqa16, 1, dtype.BFloat16})
	for _, g := range []attn.Geometry{mha, gqa16, gqa8} {
		all = append(all, Case{g, 1, dtype.Float8E4M3})
	}
	return all
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
				WithHint(`words of a name: mha, gqa-8, mqa, mla, "tp 8", fp8`)
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

// A task is a case set up: sequences whose blocks lie at random in a window.
type task struct {
	layout    paged.Layout
	attention *paged.Attention
	batch     paged.Batch
	q, out    []float32
	bytes     int64 // of a window
	predicted roofline.Cost
	pairs     bool
}

// newTask makes sequences until their cache takes at least window bytes.
func newTask(c Case, window int64) (*task, error) {
	g, err := c.Geometry.Rank(c.TP)
	if err != nil {
		return nil, err
	}
	t := &task{layout: paged.Layout{Geometry: g, DType: c.DType, BlockSize: blockSize}}
	scale := float32(0)
	if g.Arch == attn.MLA {
		scale = 0.0722 // 1/√(128 + 64)
	}
	if t.attention, err = paged.NewAttention(paged.Config{Layout: t.layout, Scale: scale}); err != nil {
		return nil, err
	}
	t.pairs = t.attention.Pairs()
	r := rand.New(rand.NewPCG(1, uint64(c.TP)))
	t.place(r, int(window))
	sequences := len(t.batch.Tables)
	t.q = make([]float32, sequences*g.QueryHeads*g.KeyDim)
	for i := range t.q {
		t.q[i] = float32(r.NormFloat64())
	}
	t.out = make([]float32, sequences*g.QueryHeads*(g.ValueDim+g.LatentDim))
	t.predicted, err = roofline.Decode(c.Geometry, c.TP, c.DType.Bytes(), t.tokens())
	return t, err
}

// place gives sequences of one length blocks at random.
func (t *task) place(r *rand.Rand, window int) {
	block := t.layout.BlockBytes()
	perSequence := min(longest/blockSize, max(window/block, 1)) // blocks
	sequences := max((window+block*perSequence-1)/(block*perSequence), 1)
	order := r.Perm(sequences * perSequence)
	for ; len(order) > 0; order = order[perSequence:] {
		table := make([]int32, perSequence)
		for i := range table {
			table[i] = int32(order[i])
		}
		t.batch.Tables, t.batch.Lengths = append(t.batch.Tables, table), append(t.batch.Lengths, perSequence*blockSize)
	}
	t.bytes = int64(sequences * perSequence * block)
}

// run is one decode step over a window of the buffer.
func (t *task) run(window []byte) error {
	t.batch.Blocks = paged.Blocks{Data: window, Stride: t.layout.BlockBytes()}
	return t.attention.Decode(t.batch, t.q, t.out, nil)
}

func (t *task) close() { t.attention.Close() }

// tokens of all sequences.
func (t *task) tokens() int64 { return t.bytes / int64(t.layout.TokenBytes()) }

// read is the bytes that a step has read, as the kernels counted them over some steps.
func (t *task) read(steps int) units.Bytes {
	return units.Bytes(t.attention.BytesRead() / int64(max(steps, 1)))
}

func putWord(b []byte, x uint64) { binary.LittleEndian.PutUint64(b, x) }
