package convert

import "math"

// A reference is one attention layer as its class computes it, in float64: its inputs as
// matrices [rows][in] for each head.
type reference struct {
	q, k, v          [][][]float64 // [heads][width][in]
	qb, kb, vb       [][]float64   // biases, [heads][width]; nil: none
	qn, kn           [][]float64   // norm weights, [heads][width]; nil: none
	normWhole, shift bool          // one norm over all heads; a mean is subtracted
	o                [][]float64   // [hidden][heads · width]
}

// run returns the layer's output for tokens x, [tokens][hidden], causally.
func (r reference) run(x [][]float64) [][]float64 {
	q, k, v := r.project(x, r.q, r.qb), r.project(x, r.k, r.kb), r.project(x, r.v, r.vb)
	r.normalise(q, r.qn)
	r.normalise(k, r.kn)
	out := make([][]float64, len(x))
	for t := range x {
		var joined []float64
		for h := range r.q {
			g := h / (len(r.q) / len(r.k))
			joined = append(joined, attend(turn(q[h][t], t), k[g][:t+1], v[g][:t+1])...)
		}
		for _, row := range r.o {
			out[t] = append(out[t], dot(row, joined))
		}
	}
	return out
}

// project returns [heads][tokens][width].
func (r reference) project(x [][]float64, w [][][]float64, bias [][]float64) [][][]float64 {
	out := make([][][]float64, len(w))
	for h := range w {
		for _, token := range x {
			y := make([]float64, len(w[h]))
			for i, row := range w[h] {
				y[i] = dot(row, token)
				if bias != nil {
					y[i] += bias[h][i]
				}
			}
			out[h] = append(out[h], y)
		}
	}
	return out
}

// normalise divides by the root mean square, of each head or of all, and scales.
func (r reference) normalise(y [][][]float64, weight [][]float64) {
	if weight == nil {
		return
	}
	for t := range y[0] {
		var all []float64
		for h := range y {
			all = append(all, y[h][t]...)
		}
		for h := range y {
			over := y[h][t]
			if r.normWhole {
				over = all
			}
			mean := 0.0
			for _, v := range over {
				mean += v / float64(len(over))
			}
			if !r.shift {
				mean = 0
			}
			square := 1e-6
			for _, v := range over {
				square += (v - mean) * (v - mean) / float64(len(over))
			}
			for i := range y[h][t] {
				y[h][t][i] = (y[h][t][i] - mean) / math.Sqrt(square) * weight[h][i]
			}
		}
	}
}

// turn rotates pairs of a head's elements by its position, as rotary embeddings do.
func turn(x []float64, position int) []float64 {
	out := make([]float64, len(x))
	half := len(x) / 2
	for i := range half {
		sin, cos := math.Sincos(float64(position) / math.Pow(10000, float64(i)/float64(half)))
		out[i], out[i+half] = x[i]*cos-x[i+half]*sin, x[i+half]*cos+x[i]*sin
	}
	return out
}

// attend is softmax(q·k/√d)·v for one query; keys are turned by their positions.
func attend(q []float64, k, v [][]float64) []float64 {
	out, sum := make([]float64, len(v[0])), 0.0
	for t := range k {
		w := math.Exp(dot(q, turn(k[t], t)) / math.Sqrt(float64(len(q))))
		sum += w
		for i := range out {
			out[i] += w * v[t][i]
		}
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
