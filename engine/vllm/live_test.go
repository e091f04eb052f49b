package vllm

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"headcount/checkpoint"
	"headcount/engine"
	"headcount/hw"
	"headcount/internal/shared"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
)

// A liveRun is one start of the engine's CPU build.
type liveRun struct {
	Name   string          `json:"name"`
	Config json.RawMessage `json:"config"`
	Flags  []string        `json:"flags"`
	Pool   int64           `json:"pool_bytes_per_rank"`
	Lines  []string        `json:"lines"`
	Error  []string        `json:"error"`
}

// job is the run's question.
func (r *liveRun) job(t *testing.T) engine.Job {
	t.Helper()
	src, err := checkpoint.FromBytes("config.json", checkpoint.Files{Config: r.Config})
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Resolve(src)
	if err != nil {
		t.Fatal(err)
	}
	cpu, err := hw.Lookup("cpu")
	if err != nil {
		t.Fatal(err)
	}
	opt := &engine.Options{KVCacheMemory: r.Pool}
	l := layout.Layout{}
	off := false
	for i, flag := range r.Flags {
		value := ""
		if i+1 < len(r.Flags) {
			value = r.Flags[i+1]
		}
		n, _ := strconv.Atoi(value)
		switch flag {
		case "--max-model-len":
			opt.MaxModelLen = int64(n)
		case "--tensor-parallel-size":
			l.TP = n
		case "--pipeline-parallel-size":
			l.PP = n
		case "--decode-context-parallel-size":
			l.DCP = n
		case "--kv-cache-dtype":
			opt.KVCacheDType = value
		case "--block-size":
			opt.BlockSize = n
		case "--max-num-batched-tokens":
			opt.MaxNumBatched = n
		case "--num-gpu-blocks-override":
			opt.NumGPUBlocksOverride = int64(n)
		case "--disable-hybrid-kv-cache-manager":
			opt.DisableHybridKVCacheManager = true
		case "--no-enable-prefix-caching":
			opt.EnablePrefixCaching = &off
		default:
			if strings.HasPrefix(flag, "--") {
				t.Fatalf("%s: flag %s is not read", r.Name, flag)
			}
		}
	}
	return engine.Job{Model: m, Layout: l, GPU: cpu, Options: opt}
}

// TestLive plans every start of the CPU build, by its version, and compares the pool's line
// or the refusal.
func TestLive(t *testing.T) {
	f, err := os.Open(filepath.Join(shared.Dir(t), "logs-live", "runs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cpu, err := New("0.32.0")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var run liveRun
		if err := json.Unmarshal(lines.Bytes(), &run); err != nil {
			t.Fatal(err)
		}
		want := ""
		for _, line := range run.Lines {
			if i := strings.Index(line, "CPU KV cache size: "); i >= 0 {
				want = line[i:]
			}
		}
		res, err := cpu.Plan(run.job(t))
		got := ""
		for _, line := range res.Log {
			if strings.Contains(line, "KV cache size") {
				got = line
			}
		}
		switch {
		case err == nil && got != want:
			t.Errorf("%s: logs %q, want %q", run.Name, got, want)
		case err != nil && len(run.Error) == 0:
			t.Errorf("%s: %v, want %q", run.Name, err, want)
		case err != nil:
			if p := err.(*problem.Error); p.EstimatedMaxModelLen > 0 && !strings.Contains(run.Error[0], "estimated maximum model length is "+strconv.FormatInt(p.EstimatedMaxModelLen, 10)+".") {
				t.Errorf("%s: %v, want %s", run.Name, err, run.Error[0])
			}
		case want == "":
			t.Errorf("%s: planned, want %s", run.Name, run.Error[0])
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}
