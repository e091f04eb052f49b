package paged

import (
	"math"
	"math/rand/v2"
	"testing"

	"headcount/dtype"
)

// randomAbsorption has weights of about 1/√width, so that widths keep sizes.
func randomAbsorption(r *rand.Rand) *Absorption {
	m := &Absorption{Heads: 6, NoPEDim: 32, RoPEDim: 16, LatentDim: 64, ValueDim: 48}
	m.UK, m.UV = make([]float32, m.Heads*m.NoPEDim*m.LatentDim), make([]float32, m.Heads*m.ValueDim*m.LatentDim)
	for _, w := range [][]float32{m.UK, m.UV} {
		for i := range w {
			w[i] = float32(r.NormFloat64() / 8)
		}
	}
	return m
}

// Both forms of MLA are the same function: decode over latents, absorbed, and attention
// over the keys and values they expand to.
func TestAbsorbedIsExpanded(t *testing.T) {
	each(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		m := randomAbsorption(r)
		scale := float32(1 / math.Sqrt(float64(m.NoPEDim+m.RoPEDim)))
		const tokens, queries = 75, 9
		latent := newStep(t, Config{Layout: Layout{Geometry: m.Geometry(), DType: dtype.Float32, BlockSize: 16}, Scale: scale},
			[]int{tokens}, []int{queries}, 1, normal)
		q := make([]float32, queries*m.Heads*(m.NoPEDim+m.RoPEDim))
		for i := range q {
			q[i] = float32(r.NormFloat64())
		}
		must(t, m.Queries(latent.q, q))
		sums, lse := latent.decode(t)
		absorbed := make([]float32, queries*m.Heads*m.ValueDim)
		must(t, m.Outputs(absorbed, sums))

		full := m.prefill(t, scale, floats(latent.k[0]), q, queries)
		out, lseFull := full.decode(t)
		for i := range out {
			if diff := math.Abs(float64(out[i] - absorbed[i])); !(diff <= 2e-5) {
				t.Fatalf("out[%d] = %v absorbed, %v expanded", i, absorbed[i], out[i])
			}
		}
		for i := range lse {
			if diff := math.Abs(float64(lse[i] - lseFull[i])); !(diff <= 2e-5) {
				t.Fatalf("lse[%d] = %v absorbed, %v expanded", i, lse[i], lseFull[i])
			}
		}
	})
}

// prefill is the step that attends over what latents expand to.
func (m *Absorption) prefill(t *testing.T, scale float32, latents, q []float32, queries int) *step {
	tokens := len(latents) / (m.LatentDim + m.RoPEDim)
	k, v := make([]float32, tokens*m.Heads*(m.NoPEDim+m.RoPEDim)), make([]float32, tokens*m.Heads*m.ValueDim)
	must(t, m.Expand(k, v, latents))
	l := Layout{Geometry: m.Expanded(), DType: dtype.Float32, BlockSize: 16 * ((tokens + 15) / 16)}
	block := make([]byte, l.BlockBytes())
	must(t, l.Put(block, 0, k, v))
	return &step{cfg: Config{Layout: l, Scale: scale}, q: q,
		batch: Batch{Blocks: Blocks{block, len(block)}, Tables: [][]int32{{0}}, Lengths: []int{tokens}, Queries: []int{queries}}}
}

func TestAbsorptionRefusals(t *testing.T) {
	m := randomAbsorption(rand.New(rand.NewPCG(1, 2)))
	short, flat := *m, *m
	short.UV = short.UV[1:]
	flat.RoPEDim = 0
	f := func(n int) []float32 { return make([]float32, n) }
	for want, err := range map[string]error{
		"w_uv: 18431 elements, want [6, 48, 64]":      short.Outputs(nil, nil),
		"qk_rope_head_dim = 0: not a positive number": flat.Queries(nil, nil),
		"q: 5 elements, want [tokens, 288]":           m.Queries(nil, f(5)),
		"dst: 5 elements, want [1, 480]":              m.Queries(f(5), f(288)),
		"latents: 1 elements, want [tokens, 384]":     m.Outputs(nil, f(1)),
		"v: 0 elements, want [1, 6, 48]":              m.Expand(f(288), nil, f(80)),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
