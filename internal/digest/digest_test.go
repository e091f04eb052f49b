package digest

import (
	"context"
	"testing"

	"headcount"
	"headcount/layout"
)

func reportOf(t *testing.T, req headcount.Request) *headcount.Report {
	t.Helper()
	r, err := headcount.Plan(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRows(t *testing.T) {
	const model, gpu = "llama-3-70b", "h100"
	r := reportOf(t, headcount.Request{Model: model, GPU: gpu, Layout: layout.Layout{TP: 8}})
	whole := reportOf(t, headcount.Request{Model: model})
	rows := map[string]Row{}
	for _, row := range Of(r, whole).Rows {
		rows[row.ID] = row
	}
	for _, want := range []Row{
		{ID: "kv_per_token", Name: "KV cache per token", PerRank: "40 KiB", WholeModel: "320 KiB", How: "2 × 80 layers × 1 head × 128 × 2 B", Step: headcount.StepToken},
		{ID: "kv_replication", Name: "KV replication", PerRank: "1×", How: "8 KV heads over 8 ranks", Step: headcount.StepRank},
	} {
		if got := rows[want.ID]; got != want {
			t.Errorf("row %s\n got %+v\nwant %+v", want.ID, got, want)
		}
	}
}

// Every row has an id of its own, and its step is one that a reader can open.
func TestRowsOpenSteps(t *testing.T) {
	for _, req := range []headcount.Request{
		{Model: "llama-3-70b", GPU: "h100", Layout: layout.Layout{TP: 8, PP: 3}},
		{Model: "gpt-oss-120b", GPU: "h100", Layout: layout.Layout{TP: 8}},
		{Model: "deepseek-v3", GPU: "h200", Engine: "sglang", Layout: layout.Layout{TP: 8, DCP: 8}},
		{Model: "gemma-3-27b", GPU: "h100"},
		{Model: "qwen3-next-80b-a3b-instruct-fp8", GPU: "h100", Layout: layout.Layout{TP: 8}}, // refused with ranks, without groups
	} {
		r := reportOf(t, req)
		steps, seen := map[string]bool{"": true}, map[string]bool{}
		for _, s := range append(r.Explain(), r.Beside()...) {
			if s.ID == "" || steps[s.ID] || len(s.Lines) == 0 {
				t.Errorf("%s: step %q of %d lines is not one of its own", req.Model, s.ID, len(s.Lines))
			}
			steps[s.ID] = true
		}
		for _, row := range Of(r, r).Rows {
			if row.ID == "" || seen[row.ID] {
				t.Errorf("%s: row %q (%s) is not one of its own", req.Model, row.ID, row.Name)
			}
			seen[row.ID] = true
			if !steps[row.Step] {
				t.Errorf("%s: row %s opens step %q, which the report does not have", req.Model, row.ID, row.Step)
			}
		}
	}
}

// A refusal before there is a rank has no rows, and JSON has [] for them.
func TestRefusedEarly(t *testing.T) {
	r := reportOf(t, headcount.Request{Model: "llama-3-70b", Layout: layout.Layout{TP: 7}})
	if d := Of(r, r); r.Error == nil || d.Rows == nil || len(d.Rows) != 0 {
		t.Errorf("error %v, rows %v", r.Error, d.Rows)
	}
}
