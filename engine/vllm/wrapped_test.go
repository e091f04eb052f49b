package vllm

import (
	"strings"
	"testing"

	"headcount/internal/golden"
	"headcount/internal/scorecard"
	"headcount/internal/shared"
	"headcount/model"
)

func TestWrappedTable(t *testing.T) {
	last := ""
	for line := range strings.Lines(wrappedTable) {
		kind, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok || line <= last || wrappedTroubles(kind)[rest[:1]] == nil {
			t.Errorf("%q after %q", line, last)
		}
		last = line
	}
	if got := wrappedTroubles("llama"); len(got) != 0 {
		t.Errorf("llama: %v", got)
	}
}

// wrappedErrors are what the engine says when the Transformers backend cannot build.
var wrappedErrors = []string{"not found in the forward method", "does not dispatch through the Transformers attention interface",
	"dispatches attention from more than one module", "Could not find `ModuleList`", "Unrecognized configuration class", "Cannot resolve attention scaling"}

// The engine's own rows: what it built is not refused, what it could not build is.
func TestWrappedAgainstEngine(t *testing.T) {
	dir := shared.Dir(t)
	card := scorecard.New()
	for row, err := range golden.VLLM() {
		if err != nil {
			t.Fatal(err)
		}
		built := row.Resolved != nil && strings.HasPrefix(row.Resolved.ModelClass, "Transformers")
		failed := row.Error != nil && containsAny(row.Error.Message, wrappedErrors)
		if !built && !failed {
			continue
		}
		src, err := golden.Source(dir, row.File)
		if err != nil {
			t.Fatal(err)
		}
		c := model.NewConfig(src)
		refusal := wrappedRefusal(c, int64(row.Layout.TP), row.Layout.PP)
		diff := ""
		switch {
		case built && refusal != nil:
			diff = "refused: " + refusal.Message
		case failed && refusal == nil:
			diff = "not refused: " + row.Error.Message[:min(len(row.Error.Message), 120)]
		}
		checkArch(card, row.ID, c.Top().ModelType(), diff)
	}
	card.Judge(t, "testdata/misses_wrapped.txt")
}

func containsAny(s string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}
