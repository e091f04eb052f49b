package paged

import (
	"math"

	"headcount/attn"
	"headcount/internal/kernel"
)

// join makes one part of a unit's parts, in their order.
func (w *worker) join(u *unit) part {
	whole := w.scratch(u.rows)
	clear(whole.acc)
	clear(whole.state.Sum)
	parts := w.a.parts[u.part : u.part+u.parts]
	for r := range u.rows {
		top := float32(math.Inf(-1))
		for _, p := range parts {
			top = max(top, p.state.Max[r])
		}
		whole.state.Max[r] = top
	}
	rows := whole.of(u.rows, w.a.values)
	for _, p := range parts {
		for r := range u.rows {
			weight := powerBelow(p.state.Max[r], rows.state.Max[r])
			rows.state.Alpha[r] = weight
			rows.state.Sum[r] += weight * p.state.Sum[r]
		}
		kernel.Combine(rows.acc, p.acc[:len(rows.acc)], rows.state.Alpha, w.a.values)
	}
	return whole
}

// powerBelow is 2^(x-top), and 1 where nothing has been seen at all.
func powerBelow(x, top float32) float32 {
	if math.IsInf(float64(top), -1) {
		return 1
	}
	return float32(math.Exp2(float64(x) - float64(top)))
}

// finish divides a unit's rows by their sums, and writes them and their log-sum-exps.
func (w *worker) finish(u *unit, p part) {
	a := w.a
	scale := orOne(a.cfg.Layout.VScale)
	if a.g.Arch == attn.MLA {
		scale = orOne(a.cfg.Layout.KScale)
	}
	for r := range u.rows {
		row := a.row(u, r)
		top, sum := float64(p.state.Max[r]), float64(p.state.Sum[r])
		weight := 1.0
		if a.cfg.Sinks != nil && a.batch.Shard.Rank == 0 {
			top, sum, weight = sink(top, sum, float64(a.cfg.Sinks[row%a.g.QueryHeads]))
		}
		if a.lse != nil {
			a.lse[row] = float32((top + math.Log2(sum)) * math.Ln2)
		}
		out := a.out[row*a.outDim:][:a.outDim]
		if sum == 0 {
			clear(out)
			continue
		}
		weight *= float64(scale) / sum
		for i, x := range p.acc[r*a.values:][:a.outDim] {
			out[i] = x * float32(weight)
		}
	}
}

// sink adds a logit that has no value to a sum relative to 2^top, and says what the values
// summed so far weigh after it.
func sink(top, sum, logit float64) (newTop, newSum, weight float64) {
	logit *= math.Log2E
	newTop = max(top, logit)
	if math.IsInf(newTop, -1) {
		return newTop, sum, 1
	}
	weight = math.Exp2(top - newTop)
	return newTop, sum*weight + math.Exp2(logit-newTop), weight
}

// Merge joins attention over two parts of each sequence: rows of dst, of the given width,
// become those over both parts, and dstLSE their log-sum-exps. A row whose log-sum-exp is
// -Inf has seen nothing.
func Merge(dst, dstLSE, src, srcLSE []float32, width int) error {
	rows := len(dstLSE)
	switch {
	case width <= 0 || len(dst)/width != rows || len(dst)%width != 0:
		return wrongLength("dst", len(dst), "[%d, %d]", rows, width)
	case len(srcLSE) != rows:
		return wrongLength("src_lse", len(srcLSE), "[%d]", rows)
	case len(src) != len(dst):
		return wrongLength("src", len(src), "[%d, %d]", rows, width)
	}
	for r := range rows {
		a, b := float64(dstLSE[r]), float64(srcLSE[r])
		top := max(a, b)
		if math.IsInf(top, -1) {
			continue
		}
		wa, wb := math.Exp(a-top), math.Exp(b-top)
		dstLSE[r] = float32(top + math.Log(wa+wb))
		mergeRow(dst[r*width:(r+1)*width], src[r*width:(r+1)*width], float32(wa/(wa+wb)), float32(wb/(wa+wb)))
	}
	return nil
}

func mergeRow(dst, src []float32, a, b float32) {
	for i, x := range src {
		dst[i] = a*dst[i] + b*x
	}
}
