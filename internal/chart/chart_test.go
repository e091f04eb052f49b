package chart

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"headcount"
	"headcount/internal/series"
	"headcount/layout"
	"headcount/roofline"
)

// render draws a query into SVG and holds it to be well-formed, without a number that is
// none.
func render(t *testing.T, panels ...Panel) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteSVG(&b, panels...); err != nil {
		t.Fatal(err)
	}
	svg := b.String()
	for dec := xml.NewDecoder(strings.NewReader(svg)); ; {
		_, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not XML: %v", err)
		}
	}
	for _, bad := range []string{"NaN", "Inf", "-9223372036854775808"} {
		if strings.Contains(svg, bad) {
			t.Errorf("the drawing holds %s", bad)
		}
	}
	return svg
}

func figures(t *testing.T, reqs ...headcount.Request) *series.Figures {
	t.Helper()
	f, err := series.Draw(context.Background(), &headcount.Planner{}, series.Query{Requests: reqs})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPanels(t *testing.T) {
	svg := render(t, Panels(figures(t,
		headcount.Request{Model: "llama-3-70b", GPU: "h100", Layout: layout.Layout{TP: 16}},
		headcount.Request{Model: "deepseek-v3", GPU: "h100", Layout: layout.Layout{TP: 16}}))...)
	for _, want := range []string{
		"Memory of one GPU", "KV pool", "Tokens that one replica holds", "beyond TP 8 ranks hold copies",
		"Requests that one replica holds", "under the roof of the H100", "full attention, TP 1 to 8", "stored again: 2 copies",
		"40 KiB a token on each rank", "80 layers of Meta-Llama-3-70B",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("the drawing does not say %q", want)
		}
	}
}

// Hybrids, refusals and what does not fit draw what is known of them.
func TestOthers(t *testing.T) {
	for _, req := range []headcount.Request{
		{Model: "gpt-oss-120b", GPU: "h100"}, {Model: "gemma-3-27b"}, {Model: "qwen3-next", GPU: "h200", Layout: layout.Layout{TP: 2}},
		{Model: "nvidia/Nemotron-H-47B-Reasoning-128K", Engine: "sglang", GPU: "b200"}, {Model: "llama-3-70b", Layout: layout.Layout{TP: 3}},
		{Model: "deepseek-v3", GPU: "h100"}, // does not fit
	} {
		if panels := Panels(figures(t, req)); len(panels) == 0 {
			t.Errorf("%s: nothing drawn", req.Model)
		} else {
			render(t, panels...)
		}
	}
}

// Text from a config is text in the drawing.
func TestHostileNames(t *testing.T) {
	f := series.NewRoofline(`</title><script>alert("x")</script>`)
	f.Under("<a href='x'>&", roofline.Roof{Peak: 100, Bandwidth: 10})
	f.Measure(strings.Repeat("long ", 99), 3, 7)
	p, err := Roofline(f)
	if err != nil {
		t.Fatal(err)
	}
	if svg := render(t, p); strings.Contains(svg, "<script") || strings.Contains(svg, "<a ") {
		t.Error("markup got through")
	}
}

// A figure with nothing to draw is an error, not a picture of nothing.
func TestEmpty(t *testing.T) {
	if _, err := Roofline(series.NewRoofline("nothing known")); err == nil {
		t.Error("drawn")
	}
}
