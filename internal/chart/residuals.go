package chart

import (
	"fmt"
	"math"

	"headcount/internal/series"
)

// Residuals draws a row an estimate: its interval as a box about the middle, and what was
// printed as a mark. Outside of its box a mark is drawn in another colour; one beyond the
// scale is drawn at its end, with its number.
func Residuals(f *series.Residuals) (Panel, error) {
	const rowHeight, left = 15, 330
	bound := 0.25
	for _, r := range f.Rows {
		bound = max(bound, -r.Low, r.High, min(math.Abs(r.Off), 2))
	}
	top := margin + int(titleSize) + 2*lineHeight
	p := newPen(f.Title, top+len(f.Rows)*rowHeight+2*margin)
	scale := float64(panelWidth-left-2*margin) / (2 * bound)
	x := func(v float64) int { return left + margin + int((min(max(v, -bound), bound)+bound)*scale) }
	for _, v := range []float64{-bound, -bound / 2, 0, bound / 2, bound} {
		label := fmt.Sprintf("%+.2f", v)
		if v == 0 {
			label = "0 " + f.Unit
		}
		p.line(x(v), top, x(v), top+len(f.Rows)*rowHeight, faint)
		p.text(label, x(v)-p.width(label)/2, top-6, textSize, ink)
	}
	for i, r := range f.Rows {
		y := top + i*rowHeight
		p.text(p.fit(r.Label, left-margin), margin, y+rowHeight-4, textSize, ink)
		p.box(x(r.Low), y+4, x(r.High)+1, y+rowHeight-4, faint)
		mark := palette[0]
		if r.Off < r.Low || r.Off > r.High {
			mark = palette[1]
		}
		p.box(x(r.Off)-2, y+2, x(r.Off)+2, y+rowHeight-2, mark)
		if math.Abs(r.Off) > bound {
			note := fmt.Sprintf("%+.2f", r.Off)
			at := x(r.Off) + 6
			if r.Off > 0 {
				at = x(r.Off) - 6 - p.width(note)
			}
			p.text(note, at, y+rowHeight-4, textSize, mark)
		}
	}
	return p.panel()
}
