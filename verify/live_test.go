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

// TestLive verifies the committed logs of vLLM's CPU build, cut down to what says something:
// every number is the planned one, and every refusal was to be expected.
func TestLive(t *testing.T) {
	logs, err := filepath.Glob("testdata/live/*.log")
	if err != nil || len(logs) == 0 {
		t.Fatal("no logs", err)
	}
	for _, file := range logs {
		name := strings.TrimSuffix(file, ".log")
		t.Run(filepath.Base(name), func(t *testing.T) {
			agrees(t, only(t, read(t, file)), read(t, name+".json"))
		})
	}
}

// TestLiveRuns verifies the complete log of every start of the corpus.
func TestLiveRuns(t *testing.T) {
	dir := filepath.Join(shared.Dir(t), "logs-live")
	lines := bufio.NewScanner(bytes.NewReader(read(t, filepath.Join(dir, "runs.jsonl"))))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var run struct {
			Name   string          `json:"name"`
			Config json.RawMessage `json:"config"`
		}
		if err := json.Unmarshal(lines.Bytes(), &run); err != nil {
			t.Fatal(err)
		}
		t.Run(run.Name, func(t *testing.T) {
			agrees(t, only(t, read(t, filepath.Join(dir, "trimmed", run.Name+".log"))), run.Config)
		})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestLiveLabels verifies what each start answered on /metrics and /v1/models.
func TestLiveLabels(t *testing.T) {
	lines := bufio.NewScanner(bytes.NewReader(read(t, filepath.Join(shared.Dir(t), "logs-live", "runs.jsonl"))))
	lines.Buffer(nil, 1<<24)
	checked := 0
	for lines.Scan() {
		var run struct {
			Name   string            `json:"name"`
			Config json.RawMessage   `json:"config"`
			Flags  []string          `json:"flags"`
			Labels map[string]string `json:"cache_config_info"`
			Models json.RawMessage   `json:"models"`
		}
		if err := json.Unmarshal(lines.Bytes(), &run); err != nil {
			t.Fatal(err)
		}
		if len(run.Labels) == 0 {
			continue
		}
		t.Run(run.Name, func(t *testing.T) {
			var page strings.Builder
			page.WriteString(`vllm:cache_config_info{engine="0"`)
			for name, value := range run.Labels {
				page.WriteString("," + name + `="` + value + `"`)
			}
			page.WriteString("} 1.0\n")
			o, err := verify.FromServer("server", []verify.Page{{Path: "/metrics", Body: []byte(page.String())},
				{Path: "/v1/models", Body: []byte(`{"data":` + string(run.Models) + `}`)}, {Path: "/version", Body: []byte(`{"version":"0.32.0+cpu"}`)}})
			if err != nil {
				t.Fatal(err)
			}
			req := headcount.Request{Config: run.Config, GPU: "cpu"} // a server does not tell
			for _, flag := range run.Flags {
				switch flag {
				case "--tensor-parallel-size":
					req.TP = 2
				case "--pipeline-parallel-size":
					req.PP = 2
				case "--max-num-batched-tokens":
					req.MaxNumBatched = 8192
				case "--disable-hybrid-kv-cache-manager":
					req.DisableHybridKVCacheManager = true
				}
			}
			if req.PP == 2 || run.Name == "head-dim-unsupported" {
				t.Skip("its head size is refused; what a stage has is not in the labels")
			}
			r := verified(t, o, req)
			for _, name := range []string{"num_blocks", "block_size", "tokens", "max_concurrency"} {
				if c := check(r, name); c == nil || !c.Agrees || !c.Exact {
					t.Errorf("%s: %+v", name, c)
				}
			}
		})
		checked++
	}
	if checked == 0 {
		t.Error("no run has labels")
	}
}

// agrees wants every check of a start to be exact.
func agrees(t *testing.T, o *verify.Observation, config []byte) {
	t.Helper()
	r := verified(t, o, headcount.Request{Config: config})
	if len(r.Checks) < 2 && o.Refusal == nil {
		t.Errorf("only %d checks", len(r.Checks))
	}
	for _, c := range r.Checks {
		if !c.Agrees || !c.Exact {
			t.Errorf("%s: predicted %v, logged %v, cause %v", c.Name, c.Predicted, c.Observed, text(c.Cause))
		}
	}
	if o.Refusal != nil && !r.Expected() {
		t.Errorf("refused with %q, not expected", o.Refusal.Message)
	}
	if _, ok := o.Find("tokens"); !ok && o.Refusal == nil {
		t.Error("neither tokens nor a refusal")
	}
}

// verified is a comparison that succeeds.
func verified(t *testing.T, o *verify.Observation, given headcount.Request) *verify.Report {
	t.Helper()
	v := verify.Verifier{Planner: &headcount.Planner{}}
	r, err := v.Verify(context.Background(), o, given)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// only is the one start of a log.
func only(t *testing.T, log []byte) *verify.Observation {
	t.Helper()
	p, err := verify.Read(bytes.NewReader(log), "log")
	if err != nil || len(p.Starts()) != 1 {
		t.Fatalf("%d starts, %v", len(p.Starts()), err)
	}
	return p.Starts()[0]
}

func read(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func check(r *verify.Report, name string) *verify.Check {
	for i := range r.Checks {
		if r.Checks[i].Name == name {
			return &r.Checks[i]
		}
	}
	return nil
}

func text(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}
