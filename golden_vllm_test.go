package headcount_test

import (
	"testing"

	"headcount"
	"headcount/internal/agree"
	"headcount/internal/corpus"
	"headcount/internal/golden"
	"headcount/internal/scorecard"
)

// TestGoldenVLLM plans every row that vLLM itself answered, from its config to its log line,
// and holds each binding field of the report to the engine's. Misses are listed with their
// reason in testdata/misses_vllm.txt.
func TestGoldenVLLM(t *testing.T) {
	planner := headcount.Planner{Resolver: corpus.Load(t)}
	card := scorecard.New()
	for row, err := range golden.VLLM() {
		if err != nil {
			t.Fatal(err)
		}
		kind := "stopped before the model"
		if row.Resolved != nil {
			kind = row.Resolved.TextModelType
		}
		r := card.Row(row.ID, kind)
		agree.VLLM(r, &planner, row)
		r.Done()
	}
	card.Judge(t, "testdata/misses_vllm.txt")
}
