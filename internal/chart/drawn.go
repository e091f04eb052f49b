package chart

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/go-analyze/charts/chartdraw/drawing"

	"headcount/internal/series"
	"headcount/units"
)

// Memory draws one bar a layout, to the scale of the largest device.
func Memory(f *series.Memory) (Panel, error) {
	const barHeight, gap = 26, 24
	order := legend(f.Bars)
	colours := map[string]drawing.Color{"weights": palette[0], "kv_pool": palette[2], "free": faint, "not_known": faint}
	for _, p := range order {
		if _, fixed := colours[p.Name]; !fixed {
			colours[p.Name] = palette[[]int{1, 3, 4, 5, 6, 7, 8, 9}[(len(colours)-4)%8]]
		}
	}
	var most int64
	for _, b := range f.Bars {
		sum := int64(0)
		for _, p := range b.Parts {
			sum += p.Bytes
		}
		most = max(most, b.TotalBytes, sum)
	}
	keys := newPen("", 10)
	y := keys.keys(order, colours)
	p := newPen(f.Title, y+lineHeight+len(f.Bars)*(barHeight+gap)+margin)
	p.keys(order, colours)
	y += lineHeight
	scale := float64(panelWidth-2*margin) / float64(max(most, 1))
	for _, b := range f.Bars {
		note := fmt.Sprintf("%s: %v of the %s", b.Label, units.Bytes(b.TotalBytes), b.Accelerator)
		if b.Refused != "" {
			note = b.Label + ": " + b.Refused
		}
		p.text(p.fit(note, panelWidth-2*margin), margin, y+12, textSize, ink)
		y += gap - 6
		at := int64(0)
		for _, part := range b.Parts {
			x0, x1 := margin+int(float64(at)*scale), margin+int(float64(at+part.Bytes)*scale)
			at += part.Bytes
			p.box(x0, y, x1, y+barHeight, colours[part.Name])
			label := units.Bytes(part.Bytes).String()
			if p.width(label) < x1-x0-6 {
				p.text(label, x0+4, y+barHeight-9, textSize, contrast(colours[part.Name]))
			}
		}
		x := margin + int(float64(b.TotalBytes)*scale)
		p.line(x, y-3, x, y+barHeight+3, ink)
		y += barHeight + 6
	}
	return p.panel()
}

// legend is a part of each name that is seen in a bar, the pool and the rest last.
func legend(bars []series.Bar) (parts []series.Part) {
	for _, b := range bars {
		for _, p := range b.Parts {
			if p.Bytes > 0 && !slices.ContainsFunc(parts, func(have series.Part) bool { return have.Name == p.Name }) {
				parts = append(parts, p)
			}
		}
	}
	last := []string{"kv_pool", "free", "not_known"}
	slices.SortStableFunc(parts, func(a, b series.Part) int {
		return cmp.Compare(slices.Index(last, a.Name), slices.Index(last, b.Name))
	})
	return parts
}

// keys draws the legend of parts and returns the line it ends on.
func (p *pen) keys(parts []series.Part, colours map[string]drawing.Color) int {
	x, y := margin, margin+int(titleSize)+lineHeight+4
	for _, part := range parts {
		x, y = p.key(part.Label, colours[part.Name], x, y)
	}
	return y
}

// contrast is black or white, whichever is read on c.
func contrast(c drawing.Color) drawing.Color {
	if 299*int(c.R)+587*int(c.G)+114*int(c.B) > 150*1000 {
		return ink
	}
	return drawing.ColorWhite
}

// Strips draws a row a rank and a column a KV head, a box where the rank stores the head.
// The fan above are the query heads that read it.
func Strips(f *series.Strips) (Panel, error) {
	const rowHeight, fan, left = 16, 34, 80
	y := margin + int(titleSize) + lineHeight + 4
	top := y + lineHeight + fan
	p := newPen(f.Title, top+len(f.Ranks)*rowHeight+lineHeight+margin)
	first, copied := palette[0], palette[1]
	x, _ := p.key("stored once, or the first copy", first, margin, y)
	if copies(f) > 1 {
		p.key(fmt.Sprintf("stored again: %d copies of each in all", copies(f)), copied, x, y)
	}
	width := panelWidth - margin - left
	column := func(head, of int) int { return left + width*head/max(of, 1) }
	for q := range f.QueryHeads {
		mid := (column(q, f.QueryHeads) + column(q+1, f.QueryHeads)) / 2
		head := q * f.KVHeads / f.QueryHeads
		p.line(mid, top-fan, (column(head, f.KVHeads)+column(head+1, f.KVHeads))/2, top-6, faint)
		p.box(mid-1, top-fan-4, mid+2, top-fan, ink)
	}
	p.text(fmt.Sprintf("%d query", f.QueryHeads), margin, top-fan, textSize, ink)
	for i, rank := range f.Ranks {
		y := top + i*rowHeight
		p.text(fmt.Sprintf("rank %d", rank.Rank), margin, y+11, textSize-1, ink)
		for _, h := range rank.KVHeads {
			c := first
			if h.Copy > 1 {
				c = copied
			}
			x0, x1 := column(h.Head, f.KVHeads), column(h.Head+1, f.KVHeads)
			p.box(x0, y+1, max(x1-1, x0+1), y+rowHeight-2, c)
		}
	}
	p.frame(left-1, top, left+width, top+len(f.Ranks)*rowHeight, faint)
	foot := fmt.Sprintf("%s across; %v a token on each rank, all its layers", units.Plural(f.KVHeads, "KV head"), units.Bytes(f.Ranks[0].BytesPerToken))
	if f.Architecture == "MLA" {
		foot = fmt.Sprintf("one latent for all heads, whole on every rank; %v a token on each", units.Bytes(f.Ranks[0].BytesPerToken))
	}
	if f.TokenRanks > 1 {
		foot += fmt.Sprintf("; %d ranks share the tokens", f.TokenRanks)
	}
	if f.More > 0 {
		foot += fmt.Sprintf("; %d more ranks", f.More)
	}
	p.text(foot, margin, top+len(f.Ranks)*rowHeight+lineHeight, textSize, ink)
	return p.panel()
}

// copies is how many ranks store a head.
func copies(f *series.Strips) int {
	if len(f.Ranks) == 0 || len(f.Ranks[0].KVHeads) == 0 {
		return 0
	}
	return f.Ranks[0].KVHeads[0].Copies
}

// Layers draws a cell a layer, coloured by what it caches.
func Layers(f *series.Layers) (Panel, error) {
	y := margin + int(titleSize) + 12
	p := newPen(f.Title, y+40+14+len(f.Kinds)*lineHeight+margin)
	colours, count := map[string]drawing.Color{}, 0
	for i, k := range f.Kinds {
		colours[k.Kind] = colour(i)
		count += k.Layers
	}
	column := func(layer int) int { return margin + (panelWidth-2*margin)*layer/max(count, 1) }
	for _, run := range f.Row {
		for layer := run.First; layer < run.First+run.Layers; layer++ {
			x0, x1 := column(layer), column(layer+1)
			p.box(x0, y, max(x1-1, x0+1), y+36, colours[run.Kind])
		}
	}
	y += 40 + 14
	for _, k := range f.Kinds {
		label := fmt.Sprintf("%s × %d", k.Label, k.Layers)
		if k.Caches != "" {
			label += ": " + k.Caches
		}
		p.key(label, colours[k.Kind], margin, y)
		y += lineHeight
	}
	return p.panel()
}
