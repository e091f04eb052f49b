package paged

import (
	"headcount/attn"
	"headcount/problem"
	"headcount/units"
)

// Absorption is what turns MLA's heads into queries of the latent and back: W_UK, by which
// a latent becomes a head's key, and W_UV, by which it becomes its value. A score q·(W_UK·c)
// is (W_UKᵀ·q)·c, and a sum of values W_UV·c is W_UV of the sum of latents: so decode reads
// only latents, and needs W_UK and W_UV once a query and not once a token.
type Absorption struct {
	Heads     int
	NoPEDim   int       // of a head's key without rope: qk_nope_head_dim
	RoPEDim   int       // of the rope key, one for all heads: qk_rope_head_dim
	LatentDim int       // kv_lora_rank
	ValueDim  int       // of a head's value: v_head_dim
	UK        []float32 // W_UK, [Heads, NoPEDim, LatentDim]
	UV        []float32 // W_UV, [Heads, ValueDim, LatentDim]
}

// Validate reports a width that is not positive, or a matrix of another shape. The error is
// a [*problem.Error].
func (m *Absorption) Validate() error {
	for _, f := range [...]struct {
		field string
		n     int
	}{
		{"num_attention_heads", m.Heads}, {"qk_nope_head_dim", m.NoPEDim}, {"qk_rope_head_dim", m.RoPEDim},
		{"kv_lora_rank", m.LatentDim}, {"v_head_dim", m.ValueDim},
	} {
		if f.n <= 0 {
			return problem.New(problem.BadValue, f.field, f.n, "not a positive number")
		}
	}
	if n, ok := units.Mul(int64(m.Heads), int64(m.NoPEDim), int64(m.LatentDim)); !ok || int64(len(m.UK)) != n {
		return wrongLength("w_uk", len(m.UK), "[%d, %d, %d]", m.Heads, m.NoPEDim, m.LatentDim)
	}
	if n, ok := units.Mul(int64(m.Heads), int64(m.ValueDim), int64(m.LatentDim)); !ok || int64(len(m.UV)) != n {
		return wrongLength("w_uv", len(m.UV), "[%d, %d, %d]", m.Heads, m.ValueDim, m.LatentDim)
	}
	return nil
}

// Geometry is that of the absorbed form: one latent for all heads.
func (m *Absorption) Geometry() attn.Geometry {
	return attn.Geometry{Arch: attn.MLA, QueryHeads: m.Heads, KVHeads: 1, KeyDim: m.LatentDim + m.RoPEDim, LatentDim: m.LatentDim}
}

// Expanded is the geometry of the form that is not absorbed: a key and a value per head.
func (m *Absorption) Expanded() attn.Geometry {
	return attn.Geometry{QueryHeads: m.Heads, KVHeads: m.Heads, KeyDim: m.NoPEDim + m.RoPEDim, ValueDim: m.ValueDim}
}

// Queries makes absorbed queries, [tokens, Heads, LatentDim+RoPEDim], of q, [tokens, Heads,
// NoPEDim+RoPEDim].
func (m *Absorption) Queries(dst, q []float32) error {
	from, to := m.NoPEDim+m.RoPEDim, m.LatentDim+m.RoPEDim
	tokens, err := m.tokens("q", q, m.Heads*from, "dst", dst, m.Heads*to)
	if err != nil {
		return err
	}
	for i := range tokens * m.Heads {
		row, in := dst[i*to:(i+1)*to], q[i*from:(i+1)*from]
		clear(row[:m.LatentDim])
		uk := m.UK[i%m.Heads*m.NoPEDim*m.LatentDim:]
		for d, x := range in[:m.NoPEDim] {
			addScaled(row[:m.LatentDim], uk[d*m.LatentDim:(d+1)*m.LatentDim], x)
		}
		copy(row[m.LatentDim:], in[m.NoPEDim:])
	}
	return nil
}

// addScaled is dst += a·x.
func addScaled(dst, x []float32, a float32) {
	for i, v := range x {
		dst[i] += a * v
	}
}

// Outputs makes heads' outputs, [tokens, Heads, ValueDim], of latents summed by attention,
// [tokens, Heads, LatentDim].
func (m *Absorption) Outputs(dst, latents []float32) error {
	tokens, err := m.tokens("latents", latents, m.Heads*m.LatentDim, "dst", dst, m.Heads*m.ValueDim)
	if err != nil {
		return err
	}
	for i := range tokens * m.Heads {
		m.up(dst[i*m.ValueDim:(i+1)*m.ValueDim], m.UV[i%m.Heads*m.ValueDim*m.LatentDim:], latents[i*m.LatentDim:(i+1)*m.LatentDim])
	}
	return nil
}

// Expand makes keys, [tokens, Heads, NoPEDim+RoPEDim], and values, [tokens, Heads,
// ValueDim], of what the cache keeps, [tokens, LatentDim+RoPEDim]. Attention over them, with
// [Absorption.Expanded] as its geometry, is the form for prefill: more bytes, and per pair
// of tokens (NoPEDim+RoPEDim+ValueDim)/(2·LatentDim+RoPEDim) of the operations.
func (m *Absorption) Expand(k, v, latents []float32) error {
	width, key := m.LatentDim+m.RoPEDim, m.NoPEDim+m.RoPEDim
	tokens, err := m.tokens("latents", latents, width, "k", k, m.Heads*key)
	if err != nil {
		return err
	}
	if len(v) != tokens*m.Heads*m.ValueDim {
		return wrongLength("v", len(v), "[%d, %d, %d]", tokens, m.Heads, m.ValueDim)
	}
	for t := range tokens {
		latent := latents[t*width : (t+1)*width]
		for h := range m.Heads {
			row := k[(t*m.Heads+h)*key:][:key]
			m.up(row[:m.NoPEDim], m.UK[h*m.NoPEDim*m.LatentDim:], latent[:m.LatentDim])
			copy(row[m.NoPEDim:], latent[m.LatentDim:])
			m.up(v[(t*m.Heads+h)*m.ValueDim:][:m.ValueDim], m.UV[h*m.ValueDim*m.LatentDim:], latent[:m.LatentDim])
		}
	}
	return nil
}

// up multiplies a head's matrix, [len(dst), LatentDim], by a latent.
func (m *Absorption) up(dst, matrix, latent []float32) {
	for i := range dst {
		var sum float32
		for j, w := range matrix[i*m.LatentDim : (i+1)*m.LatentDim] {
			sum += w * latent[j]
		}
		dst[i] = sum
	}
}

// tokens is how many of them both slices hold, of so many elements each.
func (m *Absorption) tokens(inName string, in []float32, inWidth int, outName string, out []float32, outWidth int) (int, error) {
	if err := m.Validate(); err != nil {
		return 0, err
	}
	n := len(in) / inWidth
	switch {
	case len(in) != n*inWidth:
		return 0, wrongLength(inName, len(in), "[tokens, %d]", inWidth)
	case len(out) != n*outWidth:
		return 0, wrongLength(outName, len(out), "[%d, %d]", n, outWidth)
	}
	return n, nil
}
