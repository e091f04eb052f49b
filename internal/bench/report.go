package bench

import (
	"headcount/attn"
	"headcount/dtype"
	"headcount/roofline"
)

// A Report is what was measured.
type Report struct {
	SchemaVersion int      `json:"schema_version"`
	Machine       Machine  `json:"machine"`
	Roof          Roof     `json:"roof"`
	Cases         []Result `json:"cases"`
	Musts         []Must   `json:"musts"`
}

// A Roof is what the machine can do at most, all threads together.
type Roof struct {
	Stream ProbeResult `json:"streaming_read"`    // bytes per second
	Blocks ProbeResult `json:"random_block_read"` // bytes per second, blocks of 8 KiB
	FMA    ProbeResult `json:"f32_fma"`           // FLOP per second

	// FLOP per second of pairs of bfloat16; null where the kernels do not use them, for lack
	// of the instruction or because it is no faster.
	Pairs *ProbeResult `json:"bf16_pairs"`
}

// A ProbeResult is the rate that a probe reached.
type ProbeResult struct {
	PerSecond float64 `json:"per_second"`
	Timing
}

// A Result is one case, on one rank.
type Result struct {
	Name       string     `json:"name"`
	Variant    string     `json:"variant"` // "" for a product
	TP         int        `json:"tensor_parallel_size"`
	DType      dtype.Type `json:"kv_cache_dtype"`
	QueryHeads int        `json:"query_heads"`
	KVHeads    int        `json:"kv_heads"`
	KeyDim     int        `json:"key_dim"`
	ValueDim   int        `json:"value_dim"`
	LatentDim  int        `json:"latent_dim"`
	Rows       int        `json:"rows,omitempty"` // of the matrix; heads and widths are then 0
	Cols       int        `json:"cols,omitempty"`
	Sequences  int        `json:"sequences"` // of one length
	Tokens     int64      `json:"tokens"`    // in the cache, of all sequences

	BytesRead int64   `json:"bytes_read"` // counted where they are read
	FLOP      int64   `json:"flop"`
	Intensity float64 `json:"flop_per_byte"`
	Timing
	BytesPerSec  float64 `json:"bytes_per_second"`
	FLOPPerSec   float64 `json:"flop_per_second"`
	Instructions string  `json:"instructions"` // bf16_pairs or f32_fma: which of the roof's peaks counts

	Predicted Prediction `json:"predicted"`
	Bound     string     `json:"bound"`         // bandwidth or compute
	Share     float64    `json:"share_of_roof"` // of the limit that binds
}

// A Prediction is what attn and roofline say of a case under the roof that was measured.
type Prediction struct {
	BytesRead int64   `json:"bytes_read"`
	Intensity float64 `json:"flop_per_byte"`
	Seconds   float64 `json:"seconds"`
}

// report reads the works off.
func (b *bench) report(stolen *float64) *Report {
	r := &Report{SchemaVersion: 1, Machine: b.machine, Cases: []Result{}, Musts: []Must{}}
	r.Machine.StealShare = stolen
	probe := func(w *work, amount int64) ProbeResult {
		t := w.timing()
		return ProbeResult{perSecond(amount, t.Median), t}
	}
	r.Roof = Roof{Stream: probe(b.roof.stream, b.roof.bytes), Blocks: probe(b.roof.blocks, b.roof.bytes), FMA: probe(b.roof.fma, b.roof.fmaFLOP)}
	if b.roof.pairs != nil {
		pairs := probe(b.roof.pairs, b.roof.pairsFLOP)
		r.Roof.Pairs = &pairs
	}
	for _, c := range b.cases {
		r.Cases = append(r.Cases, c.result(b.roof.under(c.pairs())))
	}
	r.Musts = r.musts()
	return r
}

// result reads one case off, under a roof.
func (c *measured) result(over roofline.Roof) Result {
	t, predicted := c.work.timing(), c.predicted()
	cost := roofline.Cost{FLOP: predicted.FLOP, Bytes: c.read(len(c.work.samples) + 1)} // and the first round
	r := Result{
		Name: c.Name(), TP: max(c.TP, 1), DType: c.DType,
		BytesRead: int64(cost.Bytes), FLOP: int64(cost.FLOP), Intensity: float64(cost.Intensity()), Timing: t,
		BytesPerSec: perSecond(int64(cost.Bytes), t.Median), FLOPPerSec: perSecond(int64(cost.FLOP), t.Median),
		Instructions: instructions(c.pairs()),
		Predicted:    Prediction{BytesRead: int64(predicted.Bytes), Intensity: float64(predicted.Intensity())},
	}
	if c.Rows == 0 {
		r.Variant = c.Geometry.Variant()
	}
	c.describe(&r)
	r.Predicted.Seconds, _ = over.Seconds(predicted)
	at := over.Place(cost.Intensity())
	r.Bound = string(at.Bound)
	switch at.Bound {
	case roofline.Bandwidth:
		r.Share = r.BytesPerSec / float64(over.Bandwidth)
	case roofline.Compute:
		r.Share = r.FLOPPerSec / float64(over.Peak)
	}
	return r
}

func instructions(pairs bool) string {
	if pairs {
		return "bf16_pairs"
	}
	return "f32_fma"
}

// peak is the limit of a case's instructions, and its name.
func (r *Report) peak(c Result) (ProbeResult, string) {
	if c.Instructions == "bf16_pairs" && r.Roof.Pairs != nil {
		return *r.Roof.Pairs, "peak of bf16 pairs"
	}
	return r.Roof.FMA, "peak of f32"
}

// A Must is a ratio of one run that the kernels are held to, on two threads of a processor
// with AVX-512 and bfloat16.
type Must struct {
	Name      string  `json:"name"`
	Of        string  `json:"of"`
	Least     float64 `json:"must"`
	Aim       float64 `json:"aim"`
	Measured  float64 `json:"measured"`
	Reached   bool    `json:"reached"`
	Disturbed bool    `json:"disturbed"` // one of the two was: the ratio says little
}

// musts are the ratios of the cases that were measured.
func (r *Report) musts() []Must {
	musts := []Must{}
	add := func(m Must, measured, whole float64, a, b Timing) {
		if measured > 0 && whole > 0 {
			m.Measured, m.Disturbed = measured/whole, a.Disturbed || b.Disturbed
			m.Reached = m.Measured >= m.Least
			musts = append(musts, m)
		}
	}
	bf16, fp8 := dtype.BFloat16, dtype.Float8E4M3
	read := func(name string, c Result, least, aim float64) {
		add(Must{Name: name, Of: "streaming read", Least: least, Aim: aim}, c.BytesPerSec, r.Roof.Stream.PerSecond, c.Timing, r.Roof.Stream.Timing)
	}
	compute := func(name string, c Result, least, aim float64) {
		peak, of := r.peak(c)
		add(Must{Name: name, Of: of, Least: least, Aim: aim}, c.FLOPPerSec, peak.PerSecond, c.Timing, peak.Timing)
	}
	narrow := func(name string, g attn.Geometry) {
		c, wide := r.on(g, fp8), r.on(g, bf16)
		add(Must{Name: name, Of: "tokens/s in bf16", Least: 1.3, Aim: 1.7}, c.tokensPerSec(), wide.tokensPerSec(), c.Timing, wide.Timing)
	}
	read("g = 1, bf16", r.on(mha, bf16), 0.75, 0.9)
	read("g = 4, bf16", r.on(gqa16, bf16), 0.6, 0.8)
	read("g = 8, bf16", r.on(gqa8, bf16), 0.6, 0.8)
	compute("g = 64 (MQA), bf16", r.on(mqa, bf16), 0.5, 0.65)
	compute("MLA, h 128, bf16", r.on(latent, bf16), 0.65, 0.8)
	narrow("g = 1, fp8", mha)
	narrow("g = 4, fp8", gqa16)
	narrow("g = 8, fp8", gqa8)
	for _, c := range r.Cases {
		if c.Rows > 0 {
			read("GEMV, bf16", c, 0.95, 1)
		}
	}
	return musts
}

// on is the result of a layer on one rank of one, zero if it was not measured.
func (r *Report) on(g attn.Geometry, t dtype.Type) Result {
	name := layer(g, 1, t).Name()
	for _, c := range r.Cases {
		if c.Name == name {
			return c
		}
	}
	return Result{}
}

// tokensPerSec is tokens in the cache that are attended to, a second.
func (r Result) tokensPerSec() float64 { return perSecond(r.Tokens, r.Median) }
