package chart

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/go-analyze/charts/chartdraw"
	"github.com/go-analyze/charts/chartdraw/drawing"

	"headcount/internal/series"
	"headcount/units"
)

// A curve is one line of a chart: a colour, a dash, points that may be marked.
type curve struct {
	label string
	x, y  []float64
	dots  bool
	dash  []float64
}

// A graph is a chart of curves over two logarithmic axes.
type graph struct {
	title, x, y  string
	curves       []curve
	xTick, yTick func(float64) string
	xTicks       []float64 // where to label x; powers of ten unless given
	bytes        bool      // y is in bytes: label powers of two
	marks        []mark
	notes        []string
}

// A mark is a labelled point.
type mark struct {
	x, y   float64
	label  string
	colour drawing.Color
	hollow bool
}

const graphHeight = 400

// draw lays the graph out: title, legend, notes, plot.
func (g *graph) draw() (Panel, error) {
	xs, ys := g.extent()
	xr, yr := &chartdraw.ContinuousRange{}, &chartdraw.ContinuousRange{}
	keys := on(chartdraw.SVG(panelWidth, graphHeight))
	top := g.legend(keys) + len(g.notes)*lineHeight + 2*lineHeight
	height := graphHeight + top
	ySteps := decades
	if g.bytes {
		ySteps = doublings
	}
	axis := chartdraw.Style{FontStyle: chartdraw.FontStyle{FontSize: textSize, FontColor: ink}, StrokeColor: ink, StrokeWidth: 1}
	grid := chartdraw.Style{StrokeColor: faint, StrokeWidth: 1}
	c := chartdraw.Chart{
		Width: panelWidth, Height: height, DPI: dpi,
		Background: chartdraw.Style{Padding: chartdraw.Box{Top: top, Left: margin, Right: margin, Bottom: margin, IsSet: true}},
		XAxis:      chartdraw.XAxis{Name: g.x, NameStyle: axis, Style: axis, Range: xr, Ticks: ticks(xs, g.xTicks, decades, g.xTick), GridMajorStyle: grid, GridMinorStyle: grid},
		YAxis:      chartdraw.YAxis{Style: axis, Range: yr, Ticks: ticks(ys, nil, ySteps, g.yTick), GridMajorStyle: grid, GridMinorStyle: grid, AxisType: chartdraw.YAxisSecondary},

		YAxisSecondary: chartdraw.HideYAxis(),
	}
	for i, line := range g.curves {
		style := chartdraw.Style{StrokeColor: colour(i), StrokeWidth: 2, StrokeDashArray: line.dash}
		if line.dots {
			style.DotColor, style.DotWidth = colour(i), 3
		}
		c.Series = append(c.Series, chartdraw.ContinuousSeries{Name: line.label, Style: style, XValues: logs(line.x), YValues: logs(line.y)})
	}
	c.Elements = []chartdraw.Renderable{func(r chartdraw.Renderer, canvas chartdraw.Box, _ chartdraw.Style) {
		p := on(r)
		p.heading(g.title)
		g.legend(p)
		p.text(g.y, margin, canvas.Top-10, textSize, ink)
		p.marks(g.marks, canvas, xr, yr)
	}}
	var b bytes.Buffer
	err := c.Render(chartdraw.SVG, &b)
	return Panel{g.title, panelWidth, height, b.String()}, err
}

// legend draws the keys and the notes and returns where they end.
func (g *graph) legend(p *pen) int {
	x, y := margin, margin+int(titleSize)+lineHeight+4
	for i, line := range g.curves {
		x, y = p.key(line.label, colour(i), x, y)
	}
	for _, note := range g.notes {
		y += lineHeight
		p.text(p.fit(note, panelWidth-2*margin), margin, y, textSize, ink)
	}
	return y - len(g.notes)*lineHeight
}

// extent is the least and the largest of each axis.
func (g *graph) extent() (xs, ys [2]float64) {
	xs, ys = [2]float64{math.Inf(1), 0}, [2]float64{math.Inf(1), 0}
	grow := func(r *[2]float64, v float64) { r[0], r[1] = min(r[0], v), max(r[1], v) }
	for _, line := range g.curves {
		for i := range line.x {
			grow(&xs, line.x[i])
			grow(&ys, line.y[i])
		}
	}
	for _, m := range g.marks {
		grow(&xs, m.x)
		grow(&ys, m.y)
	}
	return xs, ys
}

func logs(vs []float64) []float64 {
	out := make([]float64, len(vs))
	for i, v := range vs {
		out[i] = math.Log10(v)
	}
	return out
}

// ticks are at the values given, or at steps around the extent.
func ticks(extent [2]float64, at []float64, steps func([2]float64) []float64, label func(float64) string) []chartdraw.Tick {
	if len(at) == 0 {
		at = steps(extent)
	}
	var out []chartdraw.Tick
	for _, v := range at {
		out = append(out, chartdraw.Tick{Value: math.Log10(v), Label: label(v)})
	}
	return out
}

// decades are 1, 2 and 5 times the powers of ten around the extent, fewer where those are
// many.
func decades(extent [2]float64) []float64 {
	steps := []float64{1, 2, 5}
	switch span := math.Log10(extent[1] / extent[0]); {
	case span > 6:
		steps = []float64{1}
	case span > 3:
		steps = []float64{1, 3}
	}
	var all []float64
	for e := math.Floor(math.Log10(extent[0])) - 1; e <= math.Ceil(math.Log10(extent[1]))+1; e++ {
		for _, s := range steps {
			all = append(all, s*math.Pow(10, e))
		}
	}
	return around(all, extent)
}

// doublings are the powers of two around the extent.
func doublings(extent [2]float64) []float64 {
	var all []float64
	for e := math.Floor(math.Log2(extent[0])) - 1; e <= math.Ceil(math.Log2(extent[1]))+1; e++ {
		all = append(all, math.Exp2(e))
	}
	return around(all, extent)
}

// around are the steps that enclose the extent.
func around(all []float64, extent [2]float64) []float64 {
	first, _ := slices.BinarySearch(all, extent[0]*(1+1e-9))
	last, _ := slices.BinarySearch(all, extent[1]*(1-1e-9))
	return all[max(first-1, 0) : min(last, len(all)-1)+1]
}

// marks draws labelled points; a label moves up until it covers no other.
func (p *pen) marks(marks []mark, canvas chartdraw.Box, xr, yr chartdraw.Range) {
	var taken []chartdraw.Box
	for _, m := range marks {
		x, y := canvas.Left+xr.Translate(math.Log10(m.x)), canvas.Bottom-yr.Translate(math.Log10(m.y))
		p.SetStrokeColor(m.colour)
		p.SetStrokeWidth(2)
		p.SetFillColor(m.colour)
		if m.hollow {
			p.SetFillColor(drawing.ColorWhite)
		}
		p.Circle(4, x, y)
		p.FillStroke()
		label := p.fit(m.label, panelWidth/2)
		box := chartdraw.Box{Left: x + 9, Right: x + 9 + p.width(label), Top: y + 2, Bottom: y + 14}
		if box.Right > canvas.Right {
			box.Left, box.Right = x-9-p.width(label), x-9
		}
		for slices.ContainsFunc(taken, func(t chartdraw.Box) bool { return overlap(t, box) }) {
			box.Top, box.Bottom = box.Top+13, box.Bottom+13
		}
		taken = append(taken, box)
		p.text(label, box.Left, box.Bottom, textSize, ink)
	}
}

func overlap(a, b chartdraw.Box) bool {
	return a.Left < b.Right && b.Left < a.Right && a.Top < b.Bottom && b.Top < a.Bottom
}

// Roofline draws ceilings and the points under them: filled as predicted, hollow as
// measured.
func Roofline(f *series.Roofline) (Panel, error) {
	g := &graph{title: f.Title, x: "arithmetic intensity, FLOP/byte", y: "FLOP/s", xTick: plain, yTick: short("FLOP/s")}
	for i, c := range f.Ceilings {
		line := curve{label: c.Label}
		if i > 0 {
			line.dash = []float64{6, 4}
		}
		for _, at := range c.Line {
			line.x, line.y = append(line.x, at.X), append(line.y, at.Y)
		}
		g.curves = append(g.curves, line)
	}
	kinds := map[string]int{}
	measured := false
	for _, p := range f.Points {
		if _, seen := kinds[p.Kind]; !seen {
			kinds[p.Kind] = len(kinds) + len(f.Ceilings)
		}
		measured = measured || p.Measured
		g.marks = append(g.marks, mark{p.Intensity, p.Rate, p.Label, colour(kinds[p.Kind]), p.Measured})
	}
	if f.Ridge != nil {
		g.notes = append(g.notes, fmt.Sprintf("ridge at %s FLOP/byte: to its left memory bandwidth binds", units.Digits(*f.Ridge, 3)))
	}
	if measured {
		g.notes = append(g.notes, "hollow points are measured, filled ones predicted")
	}
	return g.draw()
}

// Capacity draws tokens of a replica against the tensor parallel size, or without a pool
// the bytes of a token.
func Capacity(f *series.Capacity) (Panel, error) {
	g := &graph{title: f.Title, x: "tensor parallel size", y: "tokens", xTick: plain, yTick: short("")}
	if !f.Pooled {
		g.y, g.yTick, g.bytes = "bytes", binary, true
	}
	for _, l := range f.Lines {
		line := curve{label: l.Label, dots: true}
		for _, p := range l.Points {
			v := p.Tokens
			if !f.Pooled {
				v = p.BytesPerToken
			}
			if v == nil || *v <= 0 {
				continue
			}
			line.x, line.y = append(line.x, float64(p.TP)), append(line.y, float64(*v))
			if !slices.Contains(g.xTicks, float64(p.TP)) {
				g.xTicks = append(g.xTicks, float64(p.TP))
			}
		}
		if l.SaturatesAt != nil {
			g.notes = append(g.notes, fmt.Sprintf("%s: beyond TP %d ranks hold copies", l.Label, *l.SaturatesAt))
		}
		if len(line.x) > 0 {
			g.curves = append(g.curves, line)
		}
	}
	slices.Sort(g.xTicks)
	for _, c := range f.Crossovers {
		g.notes = append(g.notes, c.Text)
	}
	return g.draw()
}

// Requests draws requests of a replica against their length.
func Requests(f *series.Requests) (Panel, error) {
	g := &graph{title: f.Title, x: "tokens of a request", y: "requests", xTick: length, yTick: plain}
	for _, l := range f.Lines {
		line := curve{label: l.Label, dots: true}
		for _, p := range l.Points {
			if p.Requests > 0 {
				line.x, line.y = append(line.x, float64(p.Tokens)), append(line.y, p.Requests)
				if !slices.Contains(g.xTicks, float64(p.Tokens)) {
					g.xTicks = append(g.xTicks, float64(p.Tokens))
				}
			}
		}
		if len(line.x) > 0 {
			g.curves = append(g.curves, line)
		}
	}
	slices.Sort(g.xTicks)
	return g.draw()
}

// plain is a number without an exponent.
func plain(v float64) string {
	if v >= 1000 {
		return units.Group(int64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// length is a number of tokens as engineers say it: 8k, 128k.
func length(v float64) string {
	if n := int64(v); n >= 1024 && n%1024 == 0 {
		return strconv.FormatInt(n/1024, 10) + "k"
	}
	return units.Group(int64(v))
}

// short is a number with a decimal prefix.
func short(unit string) func(float64) string {
	return func(v float64) string {
		for _, p := range []struct {
			scale float64
			name  string
		}{{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
			if v >= p.scale*(1-1e-9) {
				return plain(v/p.scale) + " " + p.name + unit
			}
		}
		return plain(v) + " " + unit
	}
}

func binary(v float64) string { return units.Bytes(v).String() }
