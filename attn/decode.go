package attn

import (
	"headcount/problem"
	"headcount/units"
)

// DecodeFLOP returns the operations that one decode step of one sequence spends on each
// token in this layer's cache, on one rank of tp. A multiply-add counts two:
//
//	MHA   2 · h · (KeyDim + ValueDim)    scores, then the weighted sum of values
//	MLA   2 · h · (KeyDim + LatentDim)   the same on the latent, with W_UK and W_UV absorbed
//
// where h = QueryHeads / tp. Softmax and projections are left out: they do not grow with
// the bytes read. Errors are those of [Geometry.QueryHeadsPerRank].
func (g Geometry) DecodeFLOP(tp int) (units.FLOP, error) {
	heads, err := g.QueryHeadsPerRank(tp)
	if err != nil {
		return 0, err
	}
	value := g.ValueDim
	if g.Arch == MLA {
		value = g.LatentDim
	}
	width, ok := units.Add(int64(g.KeyDim), int64(value))
	if ok {
		width, ok = units.Mul(2, int64(heads), width)
	}
	if !ok {
		return 0, g.tooLarge()
	}
	return units.FLOP(width), nil
}

// Intensity returns the arithmetic intensity of decode attention on one rank of tp: the
// operations of [Geometry.DecodeFLOP] for each byte of the cache that is read, with
// elements of b = elemBytes bytes:
//
//	MHA   2·g / b, g query heads per KV head of the rank
//	MLA   2·h·(2r + d_rope) / (b·(r + d_rope)), h query heads of the rank
//
// In the MHA path tp divides both sides and cancels, until KV heads are replicated; in the
// MLA path it divides the operations alone. For a cache that is not elements of one size,
// such as fp8_ds_mla, divide DecodeFLOP by the bytes of its cell.
func (g Geometry) Intensity(tp int, elemBytes int64) (units.Intensity, error) {
	flop, err := g.DecodeFLOP(tp)
	if err != nil {
		return 0, err
	}
	cell, err := g.BytesPerToken(tp, elemBytes)
	if err != nil {
		return 0, err
	}
	if cell <= 0 {
		return 0, problem.New(problem.BadValue, "head_dim", g.KeyDim, "the layer caches nothing")
	}
	return flop.Per(cell), nil
}

// CrossoverTP returns min(TP, KV heads) from which a cache that is sharded over KV heads
// takes less on a rank than a latent that is whole on every rank: the quotient of their
// bytes per token, all layers, unsplit. Below it the latent is the smaller one. It is 0
// without a latent.
func CrossoverTP(sharded, latent units.Bytes) float64 {
	if latent <= 0 {
		return 0
	}
	return float64(sharded) / float64(latent)
}
