package headcount_test

import (
	"testing"

	"headcount"
	"headcount/internal/agree"
	"headcount/internal/corpus"
	"headcount/internal/golden"
	"headcount/internal/scorecard"
)

// TestGoldenSGLang plans every row that SGLang itself answered, from its config to its
// log, and holds each binding field of the report to the engine's. Misses are listed with
// their reason in testdata/misses_sglang.txt.
func TestGoldenSGLang(t *testing.T) {
	models := corpus.Load(t)
	planner := headcount.Planner{Resolver: models}
	card := scorecard.New()
	for row, err := range golden.SGLang() {
		if err != nil {
			t.Fatal(err)
		}
		kind := "stopped before the model"
		if row.Resolved != nil {
			kind = row.Resolved.ModelType
		}
		if row.OracleLimit {
			continue // what stopped there is the oracle, not the engine
		}
		r := card.Row(row.ID, kind)
		agree.SGLang(r, &planner, row)
		r.Done()
	}
	card.Judge(t, "testdata/misses_sglang.txt")
}
