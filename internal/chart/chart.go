// Package chart draws figures as SVG, for a terminal's user and for reports that are mailed.
// What is drawn comes from package series; only pixels are decided here.
package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/go-analyze/charts/chartdraw"
	"github.com/go-analyze/charts/chartdraw/drawing"

	"headcount/internal/series"
)

// A Panel is one picture.
type Panel struct {
	Title         string
	Width, Height int
	svg           string
}

const (
	panelWidth = 760
	margin     = 16
	titleSize  = 15.0
	textSize   = 12.0
	lineHeight = 18
)

// Colours that are told apart with any colour vision (Okabe and Ito), darkened to a contrast
// of 3:1 on white; the last four are for pictures with many parts.
var palette = []drawing.Color{
	{R: 0x00, G: 0x72, B: 0xb2, A: 255}, {R: 0xd5, G: 0x5e, B: 0x00, A: 255}, {R: 0x00, G: 0x8a, B: 0x66, A: 255}, {R: 0xb0, G: 0x52, B: 0x86, A: 255},
	{R: 0xa8, G: 0x77, B: 0x00, A: 255}, {R: 0x2f, G: 0x8f, B: 0xc4, A: 255}, {R: 0x60, G: 0x60, B: 0x60, A: 255}, {R: 0x7a, G: 0x5c, B: 0xc0, A: 255},
	{R: 0x8c, G: 0x3a, B: 0x2b, A: 255}, {R: 0x4d, G: 0x7d, B: 0x1f, A: 255},
}

var (
	ink   = drawing.Color{R: 0x22, G: 0x22, B: 0x22, A: 255}
	faint = drawing.Color{R: 0xdd, G: 0xdd, B: 0xdd, A: 255}
)

func colour(i int) drawing.Color { return palette[i%len(palette)] }

// Panels are the figures that are known, in the order in which a reader wants them.
func Panels(f *series.Figures) []Panel {
	var out []Panel
	add := func(p Panel, err error) {
		if err == nil {
			out = append(out, p)
		}
	}
	if f.Memory != nil {
		add(Memory(f.Memory))
	}
	if f.Capacity != nil {
		add(Capacity(f.Capacity))
	}
	if f.Requests != nil {
		add(Requests(f.Requests))
	}
	if f.Roofline != nil {
		add(Roofline(f.Roofline))
	}
	if f.Strips != nil {
		add(Strips(f.Strips))
	}
	if f.Layers != nil {
		add(Layers(f.Layers))
	}
	return out
}

// WriteSVG writes panels below each other as one document.
func WriteSVG(w io.Writer, panels ...Panel) error {
	height := 0
	for _, p := range panels {
		height += p.Height
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "<svg xmlns=%q width=\"%d\" height=\"%d\" viewBox=\"0 0 %[2]d %[3]d\">\n", "http://www.w3.org/2000/svg", panelWidth, height)
	y := 0
	for _, p := range panels {
		b.WriteString(p.at(y))
		b.WriteByte('\n')
		y += p.Height
	}
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

// SVG is the panel as an element of an HTML page.
func (p Panel) SVG() string { return p.at(0) }

// at is the panel as an element of its own, y pixels down.
func (p Panel) at(y int) string {
	var title bytes.Buffer
	xml.EscapeText(&title, []byte(p.Title))
	open := fmt.Sprintf("<svg role=\"img\" y=\"%d\" width=\"%d\" height=\"%d\" ", y, p.Width, p.Height)
	s := strings.Replace(p.svg, "<svg ", open, 1)
	return strings.Replace(s, ">", "><title>"+title.String()+"</title>", 1)
}

// A pen draws a panel by hand, where no kind of chart of the library fits.
type pen struct {
	chartdraw.Renderer
	title  string
	height int
}

func newPen(title string, height int) *pen {
	p := &pen{chartdraw.SVG(panelWidth, height), title, height}
	p.style()
	p.box(0, 0, panelWidth, height, drawing.ColorWhite)
	p.heading(title)
	return p
}

// on is a pen for more marks on a chart of the library.
func on(r chartdraw.Renderer) *pen {
	p := &pen{Renderer: r}
	p.style()
	return p
}

func (p *pen) style() {
	p.ResetStyle()
	p.SetDPI(dpi)
	p.SetFont(chartdraw.GetDefaultFont())
}

const dpi = 72 // a point is a pixel

func (p *pen) heading(title string) { p.text(title, margin, margin+int(titleSize), titleSize, ink) }

func (p *pen) text(s string, x, y int, size float64, c drawing.Color) {
	p.SetFontSize(size)
	p.SetFontColor(c)
	p.Text(s, x, y)
}

// width is how wide text of the usual size is.
func (p *pen) width(s string) int {
	p.SetFontSize(textSize)
	return p.MeasureText(s).Width()
}

// fit cuts text to a width.
func (p *pen) fit(s string, width int) string {
	runes := []rune(s)
	for n := len(runes); n > 0; n-- {
		cut := string(runes[:n])
		if n < len(runes) {
			cut += "…"
		}
		if p.width(cut) <= width {
			return cut
		}
	}
	return ""
}

func (p *pen) box(x0, y0, x1, y1 int, fill drawing.Color) {
	p.SetFillColor(fill)
	p.SetStrokeWidth(0)
	p.path(x0, y0, x1, y1)
	p.Fill()
}

func (p *pen) frame(x0, y0, x1, y1 int, stroke drawing.Color) {
	p.SetStrokeColor(stroke)
	p.SetStrokeWidth(1)
	p.path(x0, y0, x1, y1)
	p.Stroke()
}

func (p *pen) path(x0, y0, x1, y1 int) {
	p.MoveTo(x0, y0)
	p.LineTo(x1, y0)
	p.LineTo(x1, y1)
	p.LineTo(x0, y1)
	p.Close()
}

func (p *pen) line(x0, y0, x1, y1 int, stroke drawing.Color) {
	p.SetStrokeColor(stroke)
	p.SetStrokeWidth(1)
	p.MoveTo(x0, y0)
	p.LineTo(x1, y1)
	p.Stroke()
}

// key draws a legend entry and returns where the next may begin; below is whether it had to
// begin a new line.
func (p *pen) key(label string, c drawing.Color, x, y int) (nextX, nextY int) {
	label = p.fit(label, panelWidth-2*margin-20)
	if x > margin && x+20+p.width(label) > panelWidth-margin {
		x, y = margin, y+lineHeight
	}
	p.box(x, y-9, x+12, y+1, c)
	p.text(label, x+18, y, textSize, ink)
	return x + 18 + p.width(label) + 18, y
}

// panel closes the drawing.
func (p *pen) panel() (Panel, error) {
	var b bytes.Buffer
	err := p.Save(&b)
	return Panel{p.title, panelWidth, p.height, b.String()}, err
}
