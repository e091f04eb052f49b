package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"headcount"
)

func handler(o Options) http.Handler {
	if o.Planner == nil {
		o.Planner = &headcount.Planner{}
	}
	o.Log = slog.New(slog.DiscardHandler)
	return New(o)
}

// ask sends one request and returns the status and the body.
func ask(t *testing.T, h http.Handler, method, path, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// The API's report is the library's, byte for byte.
func TestPlan(t *testing.T) {
	req := headcount.Request{Model: "llama-3-70b", GPU: "h100"}
	req.Layout.TP = 8
	report, err := headcount.Plan(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	status, got := ask(t, handler(Options{}), "POST", "/v1/plan", `{"model":"llama-3-70b","gpu":"h100","tensor_parallel_size":8}`)
	if status != 200 || got != string(want)+"\n" {
		t.Errorf("status %d, %s\nwant %s", status, got, want)
	}
}

// What an engine refuses is an answer.
func TestRefusal(t *testing.T) {
	status, body := ask(t, handler(Options{}), "POST", "/v1/plan", `{"model":"llama-3-70b","tensor_parallel_size":3}`)
	var r headcount.Report
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatal(err)
	}
	if status != 200 || r.Error == nil || r.Error.RefusedBy != "vllm" {
		t.Errorf("status %d, error %+v", status, r.Error)
	}
}

func TestProblems(t *testing.T) {
	h := handler(Options{})
	for _, tt := range []struct {
		method, path, body string
		status             int
		field, hint        string
	}{
		{"POST", "/v1/plan", `{"model":"lama-3-70b"}`, 422, "model", "did you mean"},
		{"POST", "/v1/plan", `{"model":"/etc/passwd"}`, 422, "model", "send the config"},
		{"POST", "/v1/plan", `{"modle":"x"}`, 422, "modle", "did you mean model?"},
		{"POST", "/v1/plan", `{}`, 422, "model", "catalogue"},
		{"POST", "/v1/plan", `[]`, 422, "", ""},
		{"POST", "/v1/plan", `{`, 400, "", ""},
		{"POST", "/v1/plan", ``, 400, "", ""},
		{"POST", "/v1/plan", `{"model":"llama-3-70b","speculative_draft_model_path":"../config.json","engine":"sglang"}`, 422, "model", ""},
		{"POST", "/v1/figures", `{"requests":[]}`, 422, "requests", ""},
		{"POST", "/v1/figures", `{"requests":[{"model":"llama-3-70b"}],"tp":[0]}`, 422, "tp", ""},
		{"POST", "/v1/compare", `{"requests":[{"model":"nothing"}]}`, 422, "model", ""},
		{"POST", "/v1/plan", `{"id":"` + strings.Repeat("a", headcount.MaxRequestBytes) + `"}`, 413, "", ""},
		{"POST", "/v1/verify", "nothing of an engine", 422, "", ""},
		{"GET", "/v1/plan", ``, 405, "", ""},
		{"DELETE", "/v1/models", ``, 405, "", ""},
		{"GET", "/v1/nothing", ``, 404, "", ""},
		{"GET", "/", ``, 404, "", ""},
	} {
		status, body := ask(t, h, tt.method, tt.path, tt.body)
		var p Problem
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Errorf("%s %s %.40s: %v in %s", tt.method, tt.path, tt.body, err, body)
			continue
		}
		if status != tt.status || p.Status != status || p.Field != tt.field || !strings.Contains(p.Hint, tt.hint) {
			t.Errorf("%s %s %.40s: %d %s, want %d, field %q, hint %q", tt.method, tt.path, tt.body, status, body, tt.status, tt.field, tt.hint)
		}
	}
}

// A log is read as it arrives, and no further than its cap.
func TestVerifyTooLong(t *testing.T) {
	r := httptest.NewRequest("POST", "/v1/verify", io.LimitReader(blanks{}, maxLog+1))
	r.Header.Set("Content-Type", "text/plain")
	w := httptest.NewRecorder()
	handler(Options{}).ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s, want 413", w.Code, w.Body)
	}
}

// Blanks are a text without end.
type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// A log is compared with the plan of what it says; what it does not say comes beside.
func TestVerify(t *testing.T) {
	const log = "INFO 08-05 10:00:00 [core.py:1] Initializing a V1 LLM engine (v0.33.0) with config: model='meta-llama/Meta-Llama-3-70B', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=8, pipeline_parallel_size=1, data_parallel_size=1, decode_context_parallel_size=1, quantization=None, enforce_eager=False, kv_cache_dtype=auto\n" +
		"INFO 08-05 10:00:09 [gpu_worker.py:1] Available KV cache memory: 40.0 GiB\n" +
		"INFO 08-05 10:00:09 [kv_cache_utils.py:1] GPU KV cache size: 1,048,576 tokens\n" +
		"INFO 08-05 10:00:09 [kv_cache_utils.py:1] Maximum concurrency for 8,192 tokens per request: 128.00x\n"
	h := handler(Options{})
	asJSON, _ := json.Marshal(map[string]any{"log": log, "request": map[string]any{"gpu": "h100"}})
	for _, tt := range []struct{ kind, body string }{{"text/plain", log}, {"application/json", string(asJSON)}} {
		r := httptest.NewRequest("POST", "/v1/verify", strings.NewReader(tt.body))
		r.Header.Set("Content-Type", tt.kind)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var got struct {
			Starts []struct {
				Model  string
				Checks []struct {
					Name   string
					Agrees bool
				}
			}
			Lines int
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || len(got.Starts) != 1 || len(got.Starts[0].Checks) == 0 || got.Lines != 4 {
			t.Errorf("%s: %d %s %v", tt.kind, w.Code, w.Body, err)
			continue
		}
		for _, c := range got.Starts[0].Checks {
			if c.Name == "tokens" && !c.Agrees {
				t.Errorf("%s: 40 GiB over 40 KiB a token are the 1,048,576 tokens that were logged: %s", tt.kind, w.Body)
			}
		}
	}
}

// Every line is answered, in order, while later ones are still being written.
func TestPlansStream(t *testing.T) {
	s := httptest.NewServer(handler(Options{}))
	defer s.Close()
	in, out := io.Pipe()
	res := make(chan *http.Response, 1)
	go func() {
		r, err := http.Post(s.URL+"/v1/plans", "application/jsonl", in)
		if err != nil {
			t.Error(err)
		}
		res <- r
	}()
	fmt.Fprintln(out, `{"id":1,"model":"llama-3-70b"}`)
	r := <-res
	defer r.Body.Close()
	dec := json.NewDecoder(r.Body)
	for id := 1; id < 4; id++ {
		var line struct {
			ID    int
			Error *struct{ Line int }
		}
		if err := dec.Decode(&line); err != nil || line.ID != id && (line.Error == nil || line.Error.Line != id) {
			t.Fatalf("line %d: %+v, %v", id, line, err)
		}
		fmt.Fprintln(out, []string{`{"x":1}`, `{"id":3,"model":"llama-3-8b"}`, ``}[id-1])
	}
	out.Close()
	if rest, err := io.ReadAll(dec.Buffered()); err != nil || len(bytes.TrimSpace(rest)) > 0 {
		t.Errorf("after the last line: %q, %v", rest, err)
	}
}

// The document describes every operation, and all that it refers to is there.
func TestOpenAPI(t *testing.T) {
	status, body := ask(t, handler(Options{Version: "1.2.3"}), "GET", "/openapi.json", "")
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]any
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("OpenAPI %s", doc.OpenAPI)
	}
	for _, path := range []string{"plan", "plans", "explain", "compare", "figures", "verify", "models", "accelerators", "options"} {
		if doc.Paths["/v1/"+path] == nil {
			t.Errorf("/v1/%s is not described", path)
		}
	}
	for _, field := range []string{"tensor_parallel_size", "kv_cache_dtype", "config"} {
		if doc.Components.Schemas["Request"].Properties[field] == nil {
			t.Errorf("a request has no %s", field)
		}
	}
	for ref := range strings.SplitSeq(body, `"#/components/schemas/`) {
		name, _, _ := strings.Cut(ref, `"`)
		if _, ok := doc.Components.Schemas[name]; !ok && ref != body && !strings.HasPrefix(ref, "{") {
			t.Errorf("nothing is called %s", name)
		}
	}
}

// An answer that takes too long, or whose client has gone, ends.
func TestTooLong(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, path := range []string{"/v1/plan", "/v1/figures"} {
		body := map[string]string{"/v1/plan": `{"model":"llama-3-70b"}`, "/v1/figures": `{"requests":[{"model":"llama-3-70b"}]}`}[path]
		w := httptest.NewRecorder()
		handler(Options{}).ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(body)))
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// A panic is a 500 that says nothing of it, and the server goes on.
func TestPanic(t *testing.T) {
	h := handler(Options{Page: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("secret") })})
	if status, body := ask(t, h, "GET", "/", ""); status != 500 || strings.Contains(body, "secret") {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := ask(t, h, "GET", "/healthz", ""); status != 200 {
		t.Errorf("healthz %d after a panic", status)
	}
	if _, body := ask(t, h, "GET", "/metrics", ""); !strings.Contains(body, `headcount_http_requests_total{route="/",status="500"} 1`) {
		t.Error("the panic is not counted")
	}
}

func TestMetrics(t *testing.T) {
	h := handler(Options{})
	ask(t, h, "POST", "/v1/plan", `{"model":"llama-3-70b"}`)
	ask(t, h, "POST", "/v1/plan", `{"model":"llama-3-70b","tensor_parallel_size":3}`)
	ask(t, h, "POST", "/v1/plan", `{"model":"nothing"}`)
	_, body := ask(t, h, "GET", "/metrics", "")
	for _, want := range []string{
		`headcount_plans_total{outcome="answered"} 1`, `headcount_plans_total{outcome="refused"} 1`, `headcount_plans_total{outcome="unusable"} 1`,
		`headcount_http_requests_total{route="POST /v1/plan",status="200"} 2`, `headcount_http_request_duration_seconds_count{route="POST /v1/plan"} 3`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
}

// Pages of other origins, and names that were made to point here, are turned away.
func TestWhoMayAsk(t *testing.T) {
	for _, tt := range []struct {
		o                  Options
		host, origin, site string
		status             int
		allowed            string
	}{
		{Options{Local: true}, "localhost:8080", "", "", 200, ""},
		{Options{Local: true}, "127.0.0.1", "", "", 200, ""},
		{Options{Local: true}, "[::1]:8080", "", "", 200, ""},
		{Options{Local: true}, "planner.example.com", "", "", 421, ""},
		{Options{Local: true}, "127.0.0.1.example.com", "", "", 421, ""},
		{Options{}, "planner.example.com", "", "", 200, ""},
		{Options{}, "a.example", "https://evil.example", "", 403, ""},
		{Options{}, "a.example", "", "cross-site", 403, ""},
		{Options{Origin: "https://b.example"}, "a.example", "https://b.example", "cross-site", 200, "https://b.example"},
		{Options{Origin: "https://b.example"}, "a.example", "https://evil.example", "", 403, ""},
	} {
		r := httptest.NewRequest("POST", "/v1/plan", strings.NewReader(`{"model":"llama-3-70b"}`))
		r.Host = tt.host
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		if tt.site != "" {
			r.Header.Set("Sec-Fetch-Site", tt.site)
		}
		w := httptest.NewRecorder()
		handler(tt.o).ServeHTTP(w, r)
		if w.Code != tt.status || w.Header().Get("Access-Control-Allow-Origin") != tt.allowed {
			t.Errorf("%+v: %d, allowed %q", tt, w.Code, w.Header().Get("Access-Control-Allow-Origin"))
		}
	}
}

// A browser's question beforehand is answered for the origin that was named, and no other.
func TestPreflight(t *testing.T) {
	h := handler(Options{Origin: "https://b.example"})
	for origin, want := range map[string]int{"https://b.example": 204, "https://evil.example": 405} {
		r := httptest.NewRequest("OPTIONS", "/v1/plan", nil)
		r.Header.Set("Origin", origin)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if allowed := w.Header().Get("Access-Control-Allow-Origin"); w.Code != want || (allowed == origin) != (want == 204) {
			t.Errorf("%s: %d, allowed %q", origin, w.Code, allowed)
		}
	}
}

// The end of the context ends the server, after what is under way.
func TestGracefulStop(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	begun, finish := make(chan bool), make(chan bool)
	h := handler(Options{Page: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		io.WriteString(w, "whole")
	})})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, h, slog.New(slog.DiscardHandler)) }()
	answer := make(chan string, 1)
	go func() {
		r, err := http.Get("http://" + l.Addr().String() + "/")
		if err != nil {
			answer <- err.Error()
			return
		}
		defer r.Body.Close()
		data, _ := io.ReadAll(r.Body)
		answer <- string(data)
	}()
	<-begun
	stop()
	close(finish)
	if got := <-answer; got != "whole" {
		t.Errorf("the answer under way: %q", got)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(stopTime):
		t.Error("still serving")
	}
}

// Options list the flags of both engines with who takes them.
func TestOptions(t *testing.T) {
	flags := options().Flags
	at := func(name string) Flag {
		i := slices.IndexFunc(flags, func(f Flag) bool { return f.Name == name })
		if i < 0 {
			t.Fatalf("no %s", name)
		}
		return flags[i]
	}
	for name, want := range map[string]string{"tensor_parallel_size": "whole vllm,sglang", "mem_fraction_static": "number sglang", "enforce_eager": "bool vllm", "kv_cache_dtype": "text vllm,sglang", "concurrency_at": "list vllm,sglang"} {
		if f := at(name); f.Kind+" "+strings.Join(f.Engines, ",") != want {
			t.Errorf("%s: %+v, want %s", name, f, want)
		}
	}
}
