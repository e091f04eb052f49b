package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headcount/internal/cli"
)

const liveLogs = "../../verify/testdata/live/"

// run is the program's answer.
func run(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = cli.Run(context.Background(), args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

// TestVerifyStatus holds the exit status: 0 all agree, 1 one differs or the engine did not
// start, 2 unreadable.
func TestVerifyStatus(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	log, err := os.ReadFile(liveLogs + "gqa8-tp2.log")
	if err != nil {
		t.Fatal(err)
	}
	doctored := write("doctored.log", strings.ReplaceAll(string(log), "65,536 tokens", "65,408 tokens"))
	for _, tt := range []struct {
		args   []string
		status int
		says   string // in either output
	}{
		{[]string{liveLogs + "gqa8-tp2.log", "--model", liveLogs + "gqa8-tp2.json"}, 0, "All agree."},
		{[]string{liveLogs + "pool-too-small.log", "--model", liveLogs + "pool-too-small.json"}, 1, "The refusal was to be expected."},
		{[]string{liveLogs + "head-dim-unsupported.log", "--model", liveLogs + "head-dim-unsupported.json"}, 1, "It started, and fell over"},
		{[]string{doctored, "--model", liveLogs + "gqa8-tp2.json"}, 1, "tokens of the pool: not explained"},
		{[]string{liveLogs + "gqa8-tp2.log", "--model", liveLogs + "gqa8-tp2.json", "--tp", "1"}, 1, "what the log says of itself holds"},
		{[]string{liveLogs + "gqa8-tp2.log"}, 2, "--model NAME"},
		{[]string{filepath.Join(dir, "none.log")}, 2, "no such file"},
		{[]string{dir}, 2, "a folder, not a log"},
		{[]string{write("empty.log", "")}, 2, "no start of an engine"},
		{[]string{write("log.gz", "\x1f\x8b\x08\x00")}, 2, "compressed by gzip, not plain text"},
		{[]string{write("powershell.log", "\xff\xfeh\x00i\x00")}, 2, "UTF-16, not plain text"},
		{[]string{write("other.log", "hello\nworld\n")}, 2, "no start of an engine"},
		{[]string{}, 2, "no log and no address given"},
		{[]string{doctored, "--tp", "1,2"}, 2, "one layout"},
		{[]string{doctored, "--tolerance", "7"}, 2, "not a fraction"},
		{[]string{doctored, "--watch"}, 2, "watches one server"},
		{[]string{"-", "--follow"}, 2, "follows one file"},
		{[]string{"http://user:secret@host"}, 2, "ends up in logs"},
	} {
		status, stdout, stderr := run(append([]string{"verify"}, tt.args...)...)
		if status != tt.status || !strings.Contains(stdout+stderr, tt.says) {
			t.Errorf("%q: status %d, want %d and %q:\n%s%s", tt.args, status, tt.status, tt.says, stdout, stderr)
		}
	}
}

// TestVerifyJSON wants the fields that the specification names.
func TestVerifyJSON(t *testing.T) {
	_, stdout, _ := run("verify", "--json", liveLogs+"pool-too-small.log", "--model", liveLogs+"pool-too-small.json")
	var r struct {
		SchemaVersion int `json:"schema_version"`
		Engine        struct{ Name, Version string }
		Started       bool
		Observed      map[string]any
		Lines         map[string]int64
		Checks        []map[string]any
		Refusal       struct {
			Kind    string
			Needed  int64 `json:"needed_bytes"`
			Longest int64 `json:"estimated_max_model_len"`
		}
		Advice []map[string]any
	}
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if r.SchemaVersion != 1 || r.Engine.Name != "vllm" || r.Engine.Version != "0.32.0" || r.Started || r.Refusal.Kind != "pool_too_small" || r.Refusal.Longest != 16256 {
		t.Errorf("%+v", r)
	}
	if r.Observed["max_model_len"] != 32768.0 || r.Observed["kv_cache_memory_bytes"] != 33554432.0 || r.Lines["max_model_len"] == 0 {
		t.Errorf("observed %v, lines %v", r.Observed, r.Lines)
	}
	if len(r.Advice) == 0 || r.Advice[0]["flag"] != "--max-model-len" || r.Advice[0]["value"] != "16256" {
		t.Errorf("advice %v", r.Advice)
	}
	for _, c := range r.Checks {
		for _, field := range []string{"name", "predicted", "observed", "exact", "difference", "cause"} {
			if _, ok := c[field]; !ok {
				t.Errorf("check %v has no %s", c, field)
			}
		}
	}
}

// A screen is an output that is read while it is written.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

// shows waits for text.
func (s *screen) shows(t *testing.T, want string) string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		text := s.text.String()
		s.mu.Unlock()
		if strings.Contains(text, want) {
			return text
		}
		if time.Now().After(end) {
			t.Fatalf("never shows %q:\n%s", want, text)
		}
	}
}

// TestVerifyWatch sees the line move while a server's numbers do: the metrics of a real
// server, its usage and requests changed.
func TestVerifyWatch(t *testing.T) {
	metrics, err := os.ReadFile(liveLogs + "preempt.metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			n := min(asked.Add(1), 8)
			for line := range strings.Lines(string(metrics)) {
				switch name, _, _ := strings.Cut(line, "{"); name {
				case "vllm:num_requests_running", "vllm:num_preemptions_total":
					line = fmt.Sprintf("%s{engine=\"0\"} %d.0\n", name, n)
				case "vllm:kv_cache_usage_perc":
					line = fmt.Sprintf("%s{engine=\"0\"} %.3f\n", name, float64(n)/10)
				}
				w.Write([]byte(line))
			}
		case "/v1/models":
			w.Write([]byte(`{"data":[{"id":"preempt","owned_by":"vllm","root":"preempt","max_model_len":2048}]}`))
		case "/version":
			w.Write([]byte(`{"version":"0.32.0+cpu"}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	out, done := &screen{}, make(chan int)
	go func() {
		done <- cli.Run(ctx, []string{"verify", server.URL, "--watch=100ms", "--model", liveLogs + "preempt.json", "--gpu", "cpu"}, strings.NewReader(""), out, out)
	}()
	text := out.shows(t, "pool 80.0 % · 8 running")
	cancel()
	if status := <-done; status != 0 {
		t.Errorf("status %d", status)
	}
	for _, want := range []string{"All agree.", "3 running", "8 preemptions", "prefix hits"} {
		if !strings.Contains(text, want) {
			t.Errorf("does not show %q:\n%s", want, text)
		}
	}
}

// TestVerifyFollow reads a log that grows: a start is compared once it is there, and so is
// the next.
func TestVerifyFollow(t *testing.T) {
	log, err := os.ReadFile(liveLogs + "gqa8-tp2.log")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "vllm.log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Write(log[:len(log)/3])
	ctx, cancel := context.WithCancel(context.Background())
	out, done := &screen{}, make(chan int)
	go func() {
		done <- cli.Run(ctx, []string{"verify", "--follow", path, "--model", liveLogs + "gqa8-tp2.json"}, strings.NewReader(""), out, out)
	}()
	time.Sleep(50 * time.Millisecond)
	f.Write(log[len(log)/3:])
	out.shows(t, "All agree.")
	f.Write(bytes.ReplaceAll(log, []byte("65,536 tokens"), []byte("65,408 tokens")))
	out.shows(t, "not explained")
	cancel()
	if status := <-done; status != 1 {
		t.Errorf("status %d, want 1: the last start differs", status)
	}
}

// TestVerifyToken takes a token from a file or the environment and prints it nowhere.
func TestVerifyToken(t *testing.T) {
	const token = "do-not-print-me"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		http.NotFound(w, r)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, without := run("verify", server.URL)
	_, _, with := run("verify", server.URL, "--token-file", file)
	t.Setenv("HEADCOUNT_TOKEN", token)
	_, _, environment := run("verify", server.URL)
	if !strings.Contains(without, "401") || !strings.Contains(with, "no server of vLLM") || !strings.Contains(environment, "no server of vLLM") {
		t.Errorf("without: %s\nwith: %s\nenvironment: %s", without, with, environment)
	}
	if strings.Contains(without+with+environment, token) {
		t.Error("the token is printed")
	}
}
