package verify_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headcount"
	"headcount/internal/shared"
	"headcount/verify"
)

// A run is one start of vLLM's CPU build, with the config that it was given.
type run struct {
	Name   string            `json:"name"`
	Config json.RawMessage   `json:"config"`
	Flags  []string          `json:"flags"`
	Pool   int64             `json:"pool_bytes_per_rank"`
	Lines  []string          `json:"lines"`
	Error  []string          `json:"error"`
	Labels map[string]string `json:"cache_config_info"`
	Models []struct {
		ID          string `json:"id"`
		MaxModelLen int64  `json:"max_model_len"`
	} `json:"models"`
}

// liveRuns are the starts of the corpus.
func liveRuns(t *testing.T) []run {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(shared.Dir(t), "logs-live", "runs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var runs []run
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r run
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	return runs
}

// TestLiveRuns verifies the complete log of every start: every number is the planned one,
// and every refusal was to be expected.
func TestLiveRuns(t *testing.T) {
	dir := filepath.Join(shared.Dir(t), "logs-live", "trimmed")
	for _, run := range liveRuns(t) {
		t.Run(run.Name, func(t *testing.T) {
			f, err := os.Open(filepath.Join(dir, run.Name+".log"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			p, err := verify.Read(f, run.Name)
			if err != nil || len(p.Starts()) != 1 {
				t.Fatalf("%d starts, %v", len(p.Starts()), err)
			}
			o := p.Starts()[0]
			v := verify.Verifier{Planner: &headcount.Planner{}}
			r, err := v.Verify(context.Background(), o, headcount.Request{Config: run.Config})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Checks) < 2 && o.Refusal == nil {
				t.Errorf("only %d checks", len(r.Checks))
			}
			for _, c := range r.Checks {
				if !c.Agrees || !c.Exact {
					t.Errorf("%s: predicted %v, logged %v, cause %v", c.Name, c.Predicted, c.Observed, text(c.Cause))
				}
			}
			if refused := len(run.Error) > 0 && !strings.Contains(strings.Join(run.Lines, ""), "KV cache size"); refused && !r.Expected() {
				t.Errorf("refused with %q, not expected", run.Error[0])
			}
		})
	}
}

func text(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}
