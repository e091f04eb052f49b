package headcount_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"headcount"
	"headcount/engine"
	"headcount/layout"
)

func explained(t *testing.T, req headcount.Request, id string) string {
	t.Helper()
	r, err := headcount.Plan(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	steps := r.Explain()
	i := slices.IndexFunc(steps, func(s headcount.Step) bool { return s.ID == id })
	if i < 0 {
		t.Fatalf("no step %s", id)
	}
	return strings.Join(steps[i].Lines, "\n")
}

// A line says of which layers and stages its bytes are, and = stands only where the two
// sides are equal.
func TestFramesOfExplain(t *testing.T) {
	hybrid := headcount.Request{Model: "gemma-3-27b", GPU: "h100", Layout: layout.Layout{PP: 2}}
	states := headcount.Request{Model: "qwen3-next", Engine: "sglang", GPU: "h100", Layout: layout.Layout{TP: 4}}
	compressed := headcount.Request{Model: "deepseek-ai/DeepSeek-V4-Flash", GPU: "b200", Layout: layout.Layout{TP: 8}}
	for _, tt := range []struct {
		name, step, has string
		req             headcount.Request
	}{
		{"groups reach over stages", headcount.StepUnit, "layers of all stages (FullAttentionSpec)", hybrid},
		{"the pool of one of them", headcount.StepPool, "on stage 1, which leaves least", hybrid},
		{"states before tokens", headcount.StepPool, "− states", states},
		{"a page of unlike layers", headcount.StepUnit, "page 1,002,240 B for all of them, no padding", compressed},
		{"512 elements and their scales", headcount.StepDType, "(uint8), as the engine packs or pools them: 584 B a token", compressed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if lines := explained(t, tt.req, tt.step); !strings.Contains(lines, tt.has) {
				t.Errorf("%s\nwant %q", lines, tt.has)
			}
		})
	}
}

// A stage whose layers keep states alone sets no limit to the tokens.
func TestStagesWithoutTokens(t *testing.T) {
	r, err := headcount.Plan(context.Background(), headcount.Request{Model: "qwen3.5-0.8b", Engine: "sglang",
		Layout: layout.Layout{PP: 8}, Options: engine.Options{KVCacheMemory: 40 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	without := 0
	for _, rank := range r.Ranks {
		if rank.BytesPerToken == 0 {
			without++
		}
		if (rank.NumBlocks == nil) != (rank.BytesPerToken == 0) {
			t.Errorf("stage %d: %d B a token, blocks %v", rank.Stage, rank.BytesPerToken, rank.NumBlocks)
		}
	}
	if without == 0 {
		t.Error("each stage has attention: the test says nothing")
	}
}
