package convert

import (
	"context"
	"math"

	"headcount/model"
)

// A Similarity says how alike the heads of a layer are that are pooled: the mean cosine
// between the projections of two heads, over all pairs in a group and over the groups. At 1
// pooling changes nothing; near 0, as in most checkpoints, it mixes heads that have nothing
// in common, and more training has to follow.
type Similarity struct {
	Layer       string  `json:"layer"`
	Keys        float64 `json:"keys"`
	Values      float64 `json:"values"`
	LeastKeys   float64 `json:"least_keys"` // of the groups, the one that is least alike
	LeastValues float64 `json:"least_values"`
}

// Similarities reads every layer's key and value projections. There are none where each
// head stays as it is.
func (c *Conversion) Similarities(ctx context.Context) ([]Similarity, error) {
	r := &reader{folder: c.folder}
	defer r.Close()
	var out []Similarity
	for i, l := range c.layers {
		keys, values := &tally{least: 1}, &tally{least: 1}
		for j := range c.Changes {
			change := &c.Changes[j]
			if change.layer != i || change.width == 1 {
				continue
			}
			for _, b := range change.blocks {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				if b.role == model.Queries {
					continue
				}
				cosine, err := cosine(r, change, b)
				if err != nil {
					return nil, err
				}
				if b.role == model.Keys {
					keys.add(cosine)
				} else {
					values.add(cosine)
				}
			}
		}
		out = append(out, Similarity{Layer: l.name, Keys: keys.mean(), Values: values.mean(), LeastKeys: keys.least, LeastValues: values.least})
	}
	return out, nil
}

type tally struct {
	sum, least float64
	n          int
}

func (t *tally) add(x float64) {
	t.sum, t.n, t.least = t.sum+x, t.n+1, min(t.least, x)
}

func (t *tally) mean() float64 { return t.sum / float64(max(t.n, 1)) }

// cosine is the mean cosine between two of a group's g heads. With u the heads at length 1
// all pairs follow from one sum:
//
//	‖Σ u‖² = g + 2 Σ cos over the pairs
//
// A head of nothing but zeros is like none.
func cosine(r *reader, change *Change, b block) (float64, error) {
	lengths := make([]float64, len(b.from))
	n, total, own := b.rows*change.width, 0.0, 0.0
	for i, from := range b.from {
		err := r.each(change.Tensor, from*change.width, n, func(_ int64, x []float32) { lengths[i] += squares(x) })
		if err != nil {
			return 0, err
		}
		if lengths[i] > 0 {
			own++
		}
	}
	sum := make([]float32, min(n, chunk))
	for at := int64(0); at < n; at += chunk {
		part := sum[:min(chunk, n-at)]
		clear(part)
		for i, from := range b.from {
			x, err := r.decoded(change.Tensor, from*change.width+at, int64(len(part)))
			if err != nil {
				return 0, err
			}
			if lengths[i] > 0 {
				add(part, x, float32(1/math.Sqrt(lengths[i])))
			}
		}
		total += squares(part)
	}
	g := float64(len(b.from))
	return (total - own) / (g * (g - 1)), nil
}
