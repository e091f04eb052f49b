// Package handout writes a plan as one HTML file that can be mailed: numbers, pictures and
// arithmetic, with nothing to load from anywhere.
//
// The file is put together by hand: a template engine calls methods by name, and for its
// sake the linker keeps every method of the program, which is 3 MB.
package handout

import (
	"bytes"
	_ "embed"
	"html"
	"io"
	"maps"
	"slices"
	"strconv"

	"headcount"
	"headcount/internal/chart"
	"headcount/internal/digest"
	"headcount/internal/series"
	"headcount/units"
)

// A Handout is what the file tells.
type Handout struct {
	Figures *series.Figures
	Layouts []*headcount.Report // of a sweep; none for one layout
	Command string              // that says the same to a shell
	Version string              // of headcount
}

//go:embed handout.css
var style string

// Write writes the file.
func (h *Handout) Write(w io.Writer) error {
	var p page
	p.head(h.Figures.Digest.Title)
	p.answer(h.Figures)
	p.layouts(h.Layouts)
	p.heading("Pictures")
	for _, panel := range chart.Panels(h.Figures) {
		p.raw("<figure>", panel.SVG(), "</figure>\n") // drawn by us, its text escaped
	}
	p.way(h.Figures)
	p.raw(`<p class="faint">headcount `)
	p.text(h.Version, " with the rules of ", digest.EngineName(h.Figures.Report.Engine.Name), " ", h.Figures.Report.Engine.Version, ": ")
	p.element("code", h.Command)
	p.raw("</p>\n</html>\n")
	_, err := w.Write(p.Bytes())
	return err
}

// A page is HTML being written. Whatever comes from a config or a user goes through text.
type page struct{ bytes.Buffer }

func (p *page) raw(parts ...string) {
	for _, s := range parts {
		p.WriteString(s)
	}
}

func (p *page) text(parts ...string) {
	for _, s := range parts {
		p.WriteString(html.EscapeString(s))
	}
}

func (p *page) element(name, text string) {
	p.raw("<", name, ">")
	p.text(text)
	p.raw("</", name, ">")
}

func (p *page) heading(text string) {
	p.element("h2", text)
	p.raw("\n")
}

func (p *page) lines(lines []string) {
	p.raw("<pre>")
	for _, l := range lines {
		p.text(l, "\n")
	}
	p.raw("</pre>")
}

func (p *page) head(title string) {
	p.raw("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n",
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n")
	p.element("title", title)
	p.raw("\n<style>\n", style, "</style>\n")
}

// answer is what stands first: the line that the engine will log, or why it will not, and
// what a rank holds.
func (p *page) answer(f *series.Figures) {
	p.element("h1", f.Digest.Title)
	p.raw("\n<p class=\"faint\">")
	p.text(f.Digest.Setup)
	p.raw("</p>\n")
	if e := f.Report.Error; e != nil {
		p.raw("<p><strong>Refused:</strong> ")
		p.text(e.Message)
		p.raw("</p>\n")
		p.element("p", e.Hint)
	}
	if len(f.Report.Log) > 0 {
		p.heading(f.Digest.Headline)
		p.lines(f.Report.Log)
	}
	if len(f.Digest.Rows) == 0 {
		return
	}
	p.heading("What a rank holds")
	t := p.table("quantity", "per rank", "whole model", "how")
	for _, r := range f.Digest.Rows {
		t.row(r.Name, r.PerRank, r.WholeModel, r.How)
	}
	t.end()
}

func (p *page) layouts(reports []*headcount.Report) {
	if len(reports) == 0 {
		return
	}
	p.heading("Layouts")
	t := p.table("layout", "GPUs", "copies of a KV head", "pool, a rank", "tokens, a replica", "requests of the longest length", "refused")
	for _, r := range reports {
		cells := []string{strconv.Itoa(r.Layout.GPUs()), "", "", "", "", ""}
		if r.Error != nil {
			cells[5] = r.Error.Message
		} else {
			if rank := r.Heaviest(); rank != nil {
				cells[1] = strconv.Itoa(rank.KVReplication)
			}
			cells[2], cells[3] = known(r.KVCache.AvailableBytes, func(n int64) string { return units.Bytes(n).String() }), known(r.KVCache.Tokens, units.Group)
			cells[4] = known(r.KVCache.Requests(r.Model.MaxModelLen, r.Model.MaxModelLen), func(x float64) string { return units.Fixed(x, 2) })
		}
		t.row(r.Layout.String(), cells...)
	}
	t.end()
}

// known is a value as text, "" for one that is not known.
func known[T any](v *T, text func(T) string) string {
	if v == nil {
		return ""
	}
	return text(*v)
}

// way is the arithmetic, the notes and where each field comes from.
func (p *page) way(f *series.Figures) {
	p.heading("From config.json to the log line")
	for _, s := range f.Steps {
		p.raw("<details open>")
		p.element("summary", s.Title)
		p.lines(s.Lines)
		p.raw("</details>\n")
	}
	if len(f.Report.Notes) > 0 {
		p.heading("Notes")
		t := p.table("note", "what it says")
		for _, n := range f.Report.Notes {
			t.row(n.ID, n.Text)
		}
		t.end()
	}
	p.heading("Where the fields come from")
	t := p.table("field", "source")
	for _, field := range slices.Sorted(maps.Keys(f.Report.Model.Provenance)) {
		t.row(field, f.Report.Model.Provenance[field])
	}
	t.end()
}

// A table is one being written.
type table struct{ p *page }

func (p *page) table(columns ...string) table {
	p.raw("<div class=\"wide\"><table>\n<thead><tr>")
	for _, c := range columns {
		p.raw(`<th scope="col">`)
		p.text(c)
		p.raw("</th>")
	}
	p.raw("</tr></thead>\n<tbody>\n")
	return table{p}
}

func (t table) row(name string, cells ...string) {
	t.p.raw(`<tr><th scope="row">`)
	t.p.text(name)
	t.p.raw("</th>")
	for _, c := range cells {
		t.p.element("td", c)
	}
	t.p.raw("</tr>\n")
}

func (t table) end() { t.p.raw("</tbody></table></div>\n") }
