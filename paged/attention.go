package paged

import (
	"math"
	"sync/atomic"

	"headcount/attn"
	"headcount/internal/kernel"
	"headcount/internal/team"
	"headcount/problem"
)

// Config is what one layer's attention computes, and with how many workers.
type Config struct {
	Layout  Layout
	Scale   float32   // of a query's product with a key; 0: 1/√KeyDim. MLA must give it, its KeyDim is not a head's
	Window  int       // a query at position p sees (p-Window, p]; 0: all up to p
	SoftCap float32   // a logit x becomes SoftCap·tanh(x/SoftCap); 0: it does not
	Sinks   []float32 // nil, or a logit for each query head that takes weight and gives no value
	Workers int       // 0: as many as there are processors; 1: the caller alone
}

// Attention is decode attention of one layer over a paged cache, on one rank. There is one
// code path for MHA, GQA and MQA and one for MLA, and they differ in where values come
// from. It keeps its scratch memory, so that a step allocates nothing once it has seen its
// largest batch. One goroutine uses it at a time.
//
// Results are bit for bit the same from run to run and for any number of workers, on one
// kind of processor: how a batch is cut into parts, and the order in which parts are
// merged, depend on its shape alone.
//
// # Error
//
// With K and V as stored, exact logits x_t and weights w_t, and u the unit roundoff 2⁻²⁴ of
// float32, let D be the key's width, T the visible tokens, and
//
//	δ  = (D+5)·u·max_t Σ|q·k_t|·scale + 4u·max|x|      the error of a logit
//	ρ  = e^(2δ)·(1+(T+20)·u) - 1                       of a normalised weight, relatively
//
// Each output is then within (ρ + (T+4)·u)·(1+ρ)·Σ w_t·|v_t| + T·2⁻¹²⁶·max|v| of exact. Where
// a processor's products of bfloat16 pairs are its fastest (AMD's; more than 4 queries to a
// KV head, a cache in bfloat16 or an 8-bit format), queries are first rounded to bfloat16,
// as engines hold them, which adds 2⁻⁸·max_t Σ|q·k_t|·scale to δ if they were not, and
// weights are, which adds 2⁻⁸ to ρ; denormal elements count as 0, which adds D·2⁻¹²⁶ to δ
// and 2⁻¹²⁶ to the whole.
type Attention struct {
	cfg     Config
	g       attn.Geometry
	scale   float32 // of scores, in powers of two unless there is a cap
	keys    int     // width of keys in lines: KeyDim, padded for plain rows
	values  int     // width of values in lines
	outDim  int     // elements of an output row
	team    *team.Team
	workers []worker
	bytes   int64

	// One call's work.
	batch Batch
	q     []float32
	out   []float32
	lse   []float32
	units []unit
	items []item
	parts []part
	store []float32 // what the parts' sums are in
	next  atomic.Int64
	left  []atomic.Int32 // of each unit, the items not done
}

// NewAttention checks the configuration and starts the workers, which [Attention.Close] ends.
func NewAttention(cfg Config) (*Attention, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	a := &Attention{cfg: cfg, g: cfg.Layout.Geometry}
	a.cfg.Sinks = append([]float32(nil), cfg.Sinks...)
	a.keys, a.outDim = roundUp(a.g.KeyDim), a.g.ValueDim+a.g.LatentDim
	a.values = roundUp(a.outDim)
	a.scale = cfg.Scale
	if a.scale == 0 {
		a.scale = float32(1 / math.Sqrt(float64(a.g.KeyDim)))
	}
	a.scale *= orOne(cfg.Layout.KScale)
	if cfg.SoftCap == 0 {
		a.scale *= math.Log2E
	}
	a.team = team.New(cfg.Workers, a.work)
	a.workers = make([]worker, a.team.Size())
	for i := range a.workers {
		a.workers[i].a = a
	}
	return a, nil
}

// Close ends the workers; the Attention must not be used after it.
func (a *Attention) Close() { a.team.Close() }

// BytesRead is the bytes of cache that all calls so far have read, counted tile by tile as
// they were.
func (a *Attention) BytesRead() int64 { return a.bytes }

func (c Config) validate() error {
	if err := c.Layout.Validate(); err != nil {
		return err
	}
	g := c.Layout.Geometry
	finite := func(x float32) bool { return !math.IsInf(float64(x), 0) && x == x }
	switch {
	case !finite(c.Scale) || c.Scale < 0:
		return problem.New(problem.BadValue, "scale", float64(c.Scale), "not a positive number")
	case c.Scale == 0 && g.Arch == attn.MLA:
		return problem.New(problem.BadValue, "scale", nil, "not given: a latent's width does not say it, 1/√(nope + rope head dim) does")
	case c.Window < 0:
		return problem.New(problem.BadValue, "sliding_window", c.Window, "negative")
	case !finite(c.SoftCap) || c.SoftCap < 0:
		return problem.New(problem.BadValue, "attn_logit_softcapping", float64(c.SoftCap), "not a positive number")
	case c.Sinks != nil && len(c.Sinks) != g.QueryHeads:
		return wrongLength("sinks", len(c.Sinks), "[%d], one for each query head", g.QueryHeads)
	case c.Workers < 0:
		return problem.New(problem.BadValue, "workers", c.Workers, "negative")
	}
	return nil
}

func roundUp(n int) int { return (n + kernel.Lanes - 1) / kernel.Lanes * kernel.Lanes }

// Decode computes one step. q is [Σ Queries, QueryHeads, KeyDim], and out [Σ Queries,
// QueryHeads, ValueDim]; for MLA in absorbed form q is the latent's query and then the rope
// query, and out has LatentDim. lse is nil or [Σ Queries, QueryHeads]: the logarithm of the
// sum of e^logit, by which [Merge] joins results over parts of a sequence. A query that sees
// nothing gets zeros and -Inf. What is wrong with a call is a [*problem.Error], and nothing
// has been written.
func (a *Attention) Decode(b Batch, q, out, lse []float32) error {
	if err := a.check(b, q, out, lse); err != nil {
		return err
	}
	a.batch, a.q, a.out, a.lse = b, q, out, lse
	a.cut()
	a.next.Store(0)
	a.team.Run(len(a.items))
	for i := range a.workers {
		a.bytes += a.workers[i].bytes
		a.workers[i].bytes = 0
	}
	a.batch, a.q, a.out, a.lse = Batch{}, nil, nil, nil
	return nil
}

// Pairs reports whether a step with one query token a sequence multiplies pairs of
// bfloat16, and not float32s.
func (a *Attention) Pairs() bool {
	return a.usesPairs(&unit{rows: min(a.g.GroupSize(), unitRows)})
}
