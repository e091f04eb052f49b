package headcount_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headcount"
	"headcount/checkpoint"
	"headcount/engine"
	"headcount/internal/corpus"
	"headcount/internal/golden"
	"headcount/internal/scorecard"
	"headcount/internal/shared"
	"headcount/layout"
)

// A profiled row is vLLM's own profiling pass, run on shapes.
type profiled struct {
	File       string          `json:"file"`
	TP         int             `json:"tp"`
	Tokens     int             `json:"max_num_batched_tokens"`
	Sequences  int             `json:"max_num_seqs"`
	Error      json.RawMessage `json:"error"`
	Persistent int64           `json:"persistent_before_profile_bytes"`
	Kept       int64           `json:"kept_workspace_bytes"`
	Forward    int64           `json:"peak_forward_bytes"`
	Sampler    int64           `json:"peak_sampler_bytes"`
}

// configs resolves the corpus' config files.
type configs string

func (dir configs) Source(_ context.Context, name string) (*checkpoint.Source, bool, error) {
	src, err := golden.Source(string(dir), name)
	return src, true, err
}

// TestGoldenMemory holds the terms of the bill to vLLM's own profiling pass: the sampler's
// peak, the workspace and the runner's tensors to 2 MiB, the forward pass, run eagerly, to
// 3 %. Misses are listed with their reason in testdata/misses_memory.txt.
func TestGoldenMemory(t *testing.T) {
	planner := headcount.Planner{Resolver: corpus.Load(t)}
	data, err := os.ReadFile("testdata/golden_memory.tsv")
	if err != nil {
		t.Fatal(err)
	}
	card := scorecard.New()
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var row profiled
		if n, err := fmt.Sscan(line, &row.File, &row.TP, &row.Tokens, &row.Sequences, &row.Persistent, &row.Kept, &row.Forward, &row.Sampler); err != nil {
			t.Fatalf("%q: %d fields: %v", line, n, err)
		}
		checkProfiled(t, card, &planner, &row)
	}
	card.Judge(t, "testdata/misses_memory.txt")
}

// TestGoldenMemoryShared is the same on the rows of the larger corpus: none misses.
func TestGoldenMemoryShared(t *testing.T) {
	dir := shared.Dir(t)
	f, err := os.Open(filepath.Join(dir, "golden", "memory.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	planner := headcount.Planner{Resolver: configs(dir)}
	card := scorecard.New()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row profiled
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if len(row.Error) == 0 { // what the pass could not run
			checkProfiled(t, card, &planner, &row)
		}
	}
	if card.Rows() == 0 {
		t.Error("no row")
	}
	card.Judge(t, "testdata/misses_memory_shared.txt")
}

// checkProfiled holds one plan's bill to a row. The row's peaks are over what was there
// before the pass, and so hold the workspace.
func checkProfiled(t *testing.T, card *scorecard.Card, planner *headcount.Planner, row *profiled) {
	t.Helper()
	r, err := planner.Plan(context.Background(), headcount.Request{Model: row.File, Engine: "vllm@0.33.0", GPU: "h100", Layout: layout.Layout{TP: row.TP},
		Options: engine.Options{EnforceEager: true, MaxNumBatched: row.Tokens, MaxNumSeqs: row.Sequences}})
	if r.Memory == nil {
		t.Errorf("%s: no bill: %v", row.File, err)
		return
	}
	const mib = 1 << 20
	one := card.Row(fmt.Sprintf("%s TP %d", row.File, row.TP), r.Model.ModelType)
	near := func(field string, got, want int64, within float64) {
		if math.Abs(float64(got-want)) <= within {
			got = want
		}
		one.Check(field, got, want)
	}
	kept := int64(0)
	if w := r.Memory.Term("workspace"); w != nil {
		kept = w.P50
	}
	near("workspace", kept, row.Kept, 2*mib)
	near("runner_tensors", r.Memory.Term("runner_tensors").P50, row.Persistent, 2*mib)
	for _, peak := range r.Memory.Peaks {
		switch peak.Name {
		case "sampler":
			near("sampler", peak.Bytes, row.Sampler-row.Kept, 2*mib)
		case "forward":
			near("forward", peak.Bytes+kept, row.Forward, 0.03*float64(row.Forward))
		}
	}
	one.Done()
}
