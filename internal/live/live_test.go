package live_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"headcount"
	"headcount/internal/live"
	"headcount/verify"
)

// served is a server that answers these pages, and counts what it is asked for.
func served(t *testing.T, pages map[string]string, token string) (address string, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method+" "+r.URL.Path)
		body, ok := pages[r.URL.Path]
		switch {
		case token != "" && r.Header.Get("Authorization") != "Bearer "+token:
			http.Error(w, "no", http.StatusUnauthorized)
		case !ok:
			http.NotFound(w, r)
		default:
			w.Write([]byte(body))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func page(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile("../../verify/testdata/live/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// observe is what a server answers.
func observe(t *testing.T, address, token string) (*verify.Observation, error) {
	t.Helper()
	s, err := live.New(address, token)
	if err != nil {
		return nil, err
	}
	return s.Observe(context.Background())
}

// TestVLLM feeds a real server's metrics: 256 blocks of 128 tokens in 256 MiB, of 8 KV heads
// × 64 × 2 × 2 B × 4 layers.
func TestVLLM(t *testing.T) {
	pages := map[string]string{
		"/metrics":   page(t, "gqa8-tp1.metrics.txt"),
		"/v1/models": `{"object":"list","data":[{"id":"gqa8","owned_by":"vllm","root":"model/gqa8-tp1","max_model_len":4096}]}`,
		"/version":   `{"version":"0.32.0+cpu"}`,
	}
	for _, path := range []string{"", "/", "/v1", "/v1/", "/metrics"} {
		address, asked := served(t, pages, "secret")
		o, err := observe(t, address+path, "secret")
		if err != nil {
			t.Fatal(err)
		}
		v := verify.Verifier{Planner: &headcount.Planner{}}
		r, err := v.Verify(context.Background(), o, headcount.Request{Config: []byte(page(t, "gqa8-tp1.json")), GPU: "cpu"})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Checks) < 4 || !r.Agrees() {
			t.Errorf("%q: %+v", path, r.Checks)
		}
		if want := "GET /metrics GET /v1/models GET /version"; strings.Join(*asked, " ") != want {
			t.Errorf("%q: asked %q, want %q", path, *asked, want)
		}
	}
}

func TestSGLang(t *testing.T) {
	address, _ := served(t, map[string]string{
		"/get_server_info": `{"model_path":"meta-llama/Llama-3.1-8B-Instruct","tp_size":1,"dp_size":1,"page_size":1,"mem_fraction_static":0.88,"kv_cache_dtype":"auto",
			"max_total_num_tokens":444500,"version":"0.5.23","internal_states":[{"memory_usage":{"weight":14.99,"kvcache":54.26,"graph":0.5}}]}`,
		"/metrics": "# TYPE sglang:token_usage gauge\nsglang:token_usage{model_name=\"m\"} 0.25\nsglang:num_running_reqs{model_name=\"m\"} 3.0\nsglang:num_queue_reqs{model_name=\"m\"} 1.0\nsglang:cache_hit_rate{model_name=\"m\"} 0.5\n",
	}, "")
	o, err := observe(t, address, "")
	if err != nil {
		t.Fatal(err)
	}
	if o.Engine != "sglang" || o.Version != "0.5.23" || o.Text("model") != "meta-llama/Llama-3.1-8B-Instruct" {
		t.Errorf("%s %s, %s", o.Engine, o.Version, o.Text("model"))
	}
	if l := o.Load(); l.Usage != 0.25 || l.Running != 3 || l.Waiting != 1 || l.PrefixHitRate == nil || *l.PrefixHitRate != 0.5 {
		t.Errorf("load %+v", l)
	}
	v := verify.Verifier{Planner: &headcount.Planner{}}
	r, err := v.Verify(context.Background(), o, headcount.Request{})
	if err != nil {
		t.Fatal(err)
	}
	// 444,501 slots × 131,072 B = 54.26 GiB.
	for _, c := range r.Checks {
		if c.Name == "pools_bytes" && c.Exact {
			return
		}
	}
	t.Errorf("the pools are not as printed: %+v", r.Checks)
}

func TestLlama(t *testing.T) {
	address, _ := served(t, map[string]string{
		"/props":   `{"default_generation_settings":{"n_ctx":4096},"total_slots":4,"model_path":"/models/x.gguf","build_info":"b5000-abc"}`,
		"/metrics": "llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\n",
	}, "")
	o, err := observe(t, address, "")
	if err != nil {
		t.Fatal(err)
	}
	n, _ := o.Int("n_ctx")
	if o.Engine != "llama.cpp" || o.Version != "b5000" || n != 4096 || o.Load().Running != 2 {
		t.Errorf("%s %s, n_ctx %d, %+v", o.Engine, o.Version, n, o.Load())
	}
}

// TestRefused wants an error that names the address, a way out, and never the token.
func TestRefused(t *testing.T) {
	const token = "do-not-print-me"
	elsewhere, asked := served(t, map[string]string{"/metrics": "vllm:num_requests_running 1\n"}, "")
	leads := httptest.NewServer(http.RedirectHandler(elsewhere+"/metrics", http.StatusFound))
	defer leads.Close()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	locked, _ := served(t, nil, "another")
	empty, _ := served(t, map[string]string{"/metrics": "go_goroutines 5\n"}, "")
	huge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 20 {
			w.Write(make([]byte, 1<<20))
		}
	}))
	defer huge.Close()
	for _, tt := range []struct{ address, want string }{
		{leads.URL, "leads elsewhere"},
		{closed.URL, "refused"},
		{locked, "401"},
		{empty, "no server of vLLM"},
		{huge.URL, "more than 16 MiB"},
		{"http://", "not an address"},
		{"http://user:" + token + "@host", "ends up in logs"},
		{"http://user:" + token + "@ho st", "not an address"},
	} {
		_, err := observe(t, tt.address, token)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v, want %q", tt.address, err, tt.want)
		}
	}
	if len(*asked) != 0 {
		t.Errorf("the address that another leads to was asked for %q", *asked)
	}
}

// TestInterrupted ends with the context, however slow the server.
func TestInterrupted(t *testing.T) {
	stuck := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-stuck:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	defer close(stuck)
	server, err := live.New(s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := server.Observe(ctx); err == nil {
		t.Error("an answer of a server that gives none")
	}
}
