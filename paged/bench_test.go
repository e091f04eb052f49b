package paged

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"headcount/attn"
	"headcount/dtype"
	"headcount/internal/kernel"
	"headcount/internal/team"
)

// BenchmarkDecode reports, for one step over blocks at random, the share of the machine's
// own roof: of streaming read (read-share) and of the bfloat16 dot peak (dot-share), which
// are measured in the same rounds. A step reads other blocks than the one before. Times are
// those that the processors worked, divided by their number, so that a machine that has
// other work can be measured; the best of the rounds counts.
func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct {
		name     string
		geometry attn.Geometry
		dtype    dtype.Type
		tokens   int // of a step, over all sequences
		length   int
	}{
		{"g=1", gqa(8, 8, 128), dtype.BFloat16, 32 << 10, 4096},
		{"g=4", gqa(32, 8, 128), dtype.BFloat16, 32 << 10, 4096},
		{"g=8", gqa(64, 8, 128), dtype.BFloat16, 32 << 10, 4096},
		{"g=64", gqa(64, 1, 128), dtype.BFloat16, 128 << 10, 8192},
		{"mla", mla(128, 512, 64), dtype.BFloat16, 64 << 10, 8192},
		{"mla of 8 heads", mla(8, 512, 64), dtype.BFloat16, 64 << 10, 8192},
		{"e4m3 g=1", gqa(8, 8, 128), dtype.Float8E4M3, 64 << 10, 4096},
		{"e4m3 g=4", gqa(32, 8, 128), dtype.Float8E4M3, 64 << 10, 4096},
		{"e4m3 g=8", gqa(64, 8, 128), dtype.Float8E4M3, 64 << 10, 4096},
		{"f16 g=8", gqa(64, 8, 128), dtype.Float16, 32 << 10, 4096},
		{"f32 g=8", gqa(64, 8, 128), dtype.Float32, 16 << 10, 4096},
	} {
		b.Run(c.name, func(b *testing.B) {
			benchmarkDecode(b, Config{Layout: Layout{Geometry: c.geometry, DType: c.dtype, BlockSize: 16}, Scale: 0.1}, c.tokens, c.length)
		})
	}
}

// region is the memory that benchmarks read, larger than what one step reads.
var region = func() []byte {
	b := hugePages(1 << 30)
	for i := range b {
		b[i] = 0x3c // in every format a number near 1
	}
	return b
}

var benchRegion []byte

func benchmarkDecode(b *testing.B, cfg Config, tokens, length int) {
	if benchRegion == nil {
		benchRegion = region()
	}
	l := cfg.Layout
	a, err := NewAttention(cfg)
	must(b, err)
	defer a.Close()
	blocks := len(benchRegion) / l.BlockBytes()
	ids := rand.Perm(blocks)
	batch := Batch{Blocks: Blocks{benchRegion, l.BlockBytes()}}
	for range tokens / length {
		batch.Lengths = append(batch.Lengths, length)
		batch.Tables = append(batch.Tables, make([]int32, length/l.BlockSize))
	}
	next := 0
	deal := func() {
		for _, table := range batch.Tables {
			for i := range table {
				table[i] = int32(ids[next%blocks])
				next++
			}
		}
	}
	seqs, g := len(batch.Tables), l.Geometry
	q, out := make([]float32, seqs*g.QueryHeads*g.KeyDim), make([]float32, seqs*g.QueryHeads*(g.ValueDim+g.LatentDim))
	for i := range q {
		q[i] = float32(i%7) / 100
	}
	bytes := tokens * l.TokenBytes()
	flop := 2 * tokens * g.QueryHeads * (g.KeyDim + g.ValueDim + g.LatentDim)
	p := newProbe()
	defer p.team.Close()
	var step, read, dot []float64
	for b.Loop() {
		deal()
		start := processorTime()
		must(b, a.Decode(batch, q, out, nil))
		step = append(step, (processorTime()-start).Seconds()/float64(p.team.Size()))
		read = append(read, p.read(bytes))
		dot = append(dot, p.dot())
	}
	best := slices.Min(step)
	roof, peak := slices.Min(read), slices.Max(dot)
	b.ReportMetric(float64(bytes)/best/1e9, "GB/s")
	b.ReportMetric(float64(bytes)/roof/1e9, "read-GB/s")
	b.ReportMetric(roof/best, "read-share")
	b.ReportMetric(float64(flop)/best/1e9, "GFLOP/s")
	b.ReportMetric(peak/1e9, "dot-GFLOP/s")
	b.ReportMetric(float64(flop)/best/peak, "dot-share")
	b.ReportMetric(float64(tokens)/best/1e6, "Mtokens/s")
}

// probe measures the roofs with as many workers as an Attention has.
type probe struct {
	team *team.Team
	work func(worker, workers int)
	at   int
}

func newProbe() *probe {
	p := &probe{}
	n := runtime.GOMAXPROCS(0)
	p.team = team.New(n, func(worker int) { p.work(worker, n) })
	return p
}

func (p *probe) time(work func(worker, workers int)) float64 {
	p.work = work
	start := processorTime()
	p.team.Run(p.team.Size())
	return (processorTime() - start).Seconds() / float64(p.team.Size())
}

// read is the seconds to stream so many bytes.
func (p *probe) read(bytes int) float64 {
	if p.at += bytes; p.at+bytes > len(benchRegion) {
		p.at = 0
	}
	part := benchRegion[p.at : p.at+bytes]
	return p.time(func(worker, workers int) {
		n := len(part) / workers
		kernel.Read(part[worker*n : (worker+1)*n])
	})
}

// dot is the FLOP/s of products of pairs.
func (p *probe) dot() float64 {
	const turns = 200_000
	flops := make([]int64, p.team.Size())
	seconds := p.time(func(worker, _ int) { flops[worker] = kernel.DotPeak(turns) })
	var flop int64
	for _, n := range flops {
		flop += n
	}
	return float64(flop) / seconds
}
