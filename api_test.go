package headcount_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"headcount"
	"headcount/internal/corpus"
	"headcount/internal/server"
	"headcount/internal/shared"
)

// The API gives an answer, or a problem that says what is wrong, whatever is sent: never
// 500, and it goes on serving.

func api() http.Handler {
	return server.New(server.Options{Planner: &headcount.Planner{}, Log: slog.New(slog.DiscardHandler)})
}

// post sends a body and holds the answer to be 200 or a problem. Input that could be read
// has its field named.
func post(t *testing.T, h http.Handler, path string, body []byte) (status int) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", path, bytes.NewReader(body)))
	if w.Code == http.StatusOK {
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %.200q: 200 and no JSON", path, body)
		}
		return w.Code
	}
	var p server.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || p.Detail == "" || p.Code == "" {
		t.Errorf("%s %.200q: %d, no problem: %s", path, body, w.Code, w.Body)
	}
	if w.Code != http.StatusBadRequest && w.Code != http.StatusUnprocessableEntity {
		t.Errorf("%s %.200q: %d %s", path, body, w.Code, p.Detail)
	}
	return w.Code
}

// inline puts a request about a file of the corpus into one that carries the file.
func inline(t *testing.T, req headcount.Request, files corpus.Corpus) []byte {
	t.Helper()
	if f, ok := files[req.Model]; ok {
		req.Model, req.Config, req.HFQuantConfig, req.Params = "", f.Config, f.HFQuant, f.Params
	}
	body, err := json.Marshal(req)
	if err != nil {
		t.Fatalf("%s: %v", req.Model, err)
	}
	return body
}

func TestAPIPublicCases(t *testing.T) {
	h, files := api(), corpus.Load(t)
	answered := 0
	for _, c := range publicCases() {
		body := inline(t, c.req, files)
		for _, path := range []string{"/v1/plan", "/v1/explain"} {
			if post(t, h, path, body) == http.StatusOK {
				answered++
			}
		}
		post(t, h, "/v1/figures", around(`{"requests":[`, body, `]}`))
	}
	if answered == 0 {
		t.Error("no case was answered")
	}
	f, err := os.Open(filepath.Join(shared.Dir(t), "cases", "cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		post(t, h, "/v1/plan", lines.Bytes()) // a report of a bug is no request
	}
}

// around puts text before and after a body.
func around(before string, body []byte, after string) []byte {
	return slices.Concat([]byte(before), body, []byte(after))
}

// Every config that FuzzResolve starts from, or has found on this machine, on both engines.
func TestAPIConfigs(t *testing.T) {
	var configs [][]byte
	files := corpus.Load(t)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if c := files[name].Config; len(c) > 0 {
			configs = append(configs, c)
		}
	}
	configs = append(configs, found(t, "FuzzResolve")...)
	h := api()
	for i, c := range configs {
		post(t, h, "/v1/plan", around(`{"config":`, c, `,"tensor_parallel_size":2,"kv_cache_memory_bytes":10737418240}`))
		post(t, h, "/v1/plan", around(`{"engine":"sglang","gpu":"h100","config":`, c, `}`))
		if i%16 == 0 {
			post(t, h, "/v1/figures", around(`{"requests":[{"gpu":"h100","config":`, c, `}]}`))
		}
	}
}

// found are the inputs of one argument that fuzzing package model has kept on this machine.
func found(t *testing.T, target string) (inputs [][]byte) {
	t.Helper()
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(cache)), "fuzz", "headcount", "model", target, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, line, _ := strings.Cut(string(data), "\n[]byte(")
		text, err := strconv.Unquote(strings.TrimSuffix(strings.TrimSpace(line), ")"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		inputs = append(inputs, []byte(text))
	}
	return inputs
}

// 10,000 bodies that are broken in every way leave the server serving.
func TestAPIMalformed(t *testing.T) {
	s := httptest.NewServer(api())
	defer s.Close()
	ask := func(path string, body []byte) int {
		r, err := http.Post(s.URL+path, "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		io.Copy(io.Discard, r.Body)
		return r.StatusCode
	}
	whole := inline(t, headcount.Request{Model: "meta-llama--Meta-Llama-3-8B.json", GPU: "h100"}, corpus.Load(t))
	paths := []string{"/v1/plan", "/v1/explain", "/v1/compare", "/v1/figures"}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 10_000 {
		body := broken(rng, whole)
		switch status := ask(paths[i%len(paths)], body); status {
		case http.StatusOK, http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		default:
			t.Fatalf("%.200q: %d", body, status)
		}
	}
	if status := ask("/v1/plan", []byte(`{"model":"llama-3-70b","gpu":"h100"}`)); status != http.StatusOK {
		t.Errorf("a good request after them: %d", status)
	}
}

// broken is whole cut, with bytes changed, with values of other types, or no JSON at all.
func broken(rng *rand.Rand, whole []byte) []byte {
	switch rng.IntN(6) {
	case 0:
		return whole[:rng.IntN(len(whole))]
	case 1:
		body := bytes.Clone(whole)
		for range 1 + rng.IntN(4) {
			body[rng.IntN(len(body))] = byte(rng.IntN(256))
		}
		return body
	case 2:
		body := make([]byte, rng.IntN(64))
		for i := range body {
			body[i] = byte(rng.IntN(256))
		}
		return body
	case 3:
		deep := rng.IntN(20_000)
		return []byte(`{"config":` + strings.Repeat(`{"a":[`, deep) + strings.Repeat(`]}`, deep) + `}`)
	case 4:
		values := []string{`null`, `-1`, `1e999`, `9223372036854775808`, `""`, `[]`, `{}`, `true`, `"\ud800"`, `0.1`}
		fields := []string{"model", "config", "engine", "gpu", "accelerator", "tensor_parallel_size", "concurrency_at", "speculative", "requests", "id", "hf_overrides", "block_size"}
		return []byte(`{"` + fields[rng.IntN(len(fields))] + `":` + values[rng.IntN(len(values))] + `,"` + fields[rng.IntN(len(fields))] + `":` + values[rng.IntN(len(values))] + `}`)
	}
	number := []string{"0", "-1", "1e308", "9223372036854775807", "null", "\"x\"", "[1]"}[rng.IntN(7)]
	digits := numbers(whole)
	at := digits[rng.IntN(len(digits))]
	return slices.Concat(whole[:at[0]], []byte(number), whole[at[1]:])
}

// numbers are where numbers stand in a body.
func numbers(body []byte) (spans [][2]int) {
	for i := 0; i < len(body); i++ {
		start := i
		for i < len(body) && body[i] >= '0' && body[i] <= '9' {
			i++
		}
		if i > start && body[start-1] == ':' {
			spans = append(spans, [2]int{start, i})
		}
	}
	return spans
}
