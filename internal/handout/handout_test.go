package handout

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"headcount"
	"headcount/internal/series"
	"headcount/layout"
)

func write(t *testing.T, h *Handout, req headcount.Request) string {
	t.Helper()
	f, err := series.Draw(context.Background(), &headcount.Planner{}, series.Query{Requests: []headcount.Request{req}})
	if err != nil {
		t.Fatal(err)
	}
	h.Figures = f
	var b bytes.Buffer
	if err := h.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The file says what the report says, and loads nothing.
func TestWrite(t *testing.T) {
	req := headcount.Request{Model: "llama-3-70b", GPU: "h100", Layout: layout.Layout{TP: 8}}
	refused, err := headcount.Plan(context.Background(), headcount.Request{Model: "llama-3-70b", Layout: layout.Layout{TP: 3}})
	if err != nil {
		t.Fatal(err)
	}
	h := &Handout{Command: "headcount plan llama-3-70b", Version: "1.2.3", Layouts: []*headcount.Report{refused}}
	page := write(t, h, req)
	for _, want := range append(h.Figures.Report.Log, "2 × 80 layers × 1 head × 128 × 2 B", "<svg role=\"img\"", "num_key_value_heads", refused.Error.Message, "headcount 1.2.3", "headcount plan llama-3-70b") {
		if !strings.Contains(page, want) {
			t.Errorf("the file does not say %q", want)
		}
	}
	// The name of SVG's own namespace is not an address that is loaded.
	if m := regexp.MustCompile(`<(script|link|img|iframe|object)|(src|href)=|url\(|@import`).FindString(page); m != "" {
		t.Errorf("the file holds %s", m)
	}
	if strings.Count(page, "<table") != strings.Count(page, "</table>") || strings.Count(page, "<svg") != strings.Count(page, "</svg>") {
		t.Error("tables or pictures are not closed")
	}
}

// Text of a config, of a flag and of a user is text in the file.
func TestHostile(t *testing.T) {
	const evil = `<script>alert(1)</script>`
	config, _ := json.Marshal(map[string]any{"architectures": []string{evil}, "model_type": evil, "hidden_size": 64,
		"num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100, "intermediate_size": 128, "head_dim": 16})
	for _, req := range []headcount.Request{
		{Config: config, AssumeArchitecture: "LlamaForCausalLM"},
		{Config: config, AssumeArchitecture: "LlamaForCausalLM", Layout: layout.Layout{TP: 3}},
	} {
		if page := write(t, &Handout{Command: evil, Version: evil}, req); strings.Contains(page, "<script") {
			t.Error("markup got through")
		}
	}
}
