package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headcount/checkpoint"
	"headcount/internal/forge"
	"headcount/problem"
)

const (
	commit = "0123456789abcdef0123456789abcdef01234567"
	secret = "hf_secret"
	config = `{"architectures": ["LlamaForCausalLM"], "num_key_value_heads": 8}`
)

// A fakeHub serves models as the hub does: a listing, and files by ranges from another host.
type fakeHub struct {
	*httptest.Server
	storage  *httptest.Server
	files    map[string][]byte                             // path in the model → content
	before   func(http.ResponseWriter, *http.Request) bool // answers instead, if it says so
	requests sync.Map                                      // file → *atomic.Int64
	atOnce   atomic.Int64
	most     atomic.Int64
	leaked   atomic.Bool // storage saw the token
}

func newFakeHub(t *testing.T, files map[string][]byte) *fakeHub {
	t.Helper()
	h := &fakeHub{files: files}
	h.storage = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			h.leaked.Store(true)
		}
		h.most.Store(max(h.most.Load(), h.atOnce.Add(1)))
		defer h.atOnce.Add(-1)
		name := strings.TrimPrefix(r.URL.Path, "/")
		n, _ := h.requests.LoadOrStore(name, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(files[name]))
	}))
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.before != nil && h.before(w, r) {
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+secret {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/api/models/org/name/") {
			var list []string
			for name := range files {
				list = append(list, fmt.Sprintf(`{"rfilename": %q}`, name))
			}
			fmt.Fprintf(w, `{"sha": %q, "siblings": [%s]}`, commit, strings.Join(list, ","))
			return
		}
		if name, ok := strings.CutPrefix(r.URL.Path, "/org/name/resolve/"+commit+"/"); ok {
			http.Redirect(w, r, h.storage.URL+"/"+name+"?signature=xyz", http.StatusFound)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(h.Close)
	t.Cleanup(h.storage.Close)
	return h
}

func (h *fakeHub) client() *Client {
	return &Client{Endpoint: h.URL, Token: secret, wait: time.Millisecond}
}

func (h *fakeHub) asked(name string) int64 {
	n, ok := h.requests.Load(name)
	if !ok {
		return 0
	}
	return n.(*atomic.Int64).Load()
}

// sharded is a checkpoint of so many shards of two tensors.
func sharded(n int) map[string][]byte {
	files := map[string][]byte{"config.json": []byte(config)}
	var index []string
	for i := range n {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, n)
		a, b := fmt.Sprintf("model.layers.%d.a.weight", i), fmt.Sprintf("model.layers.%d.b.weight", i)
		header, data := forge.Header([]forge.Tensor{{Name: a, DType: "U8", Shape: []int64{1 << 20}, Bytes: 1 << 20}, {Name: b, DType: "BF16", Shape: []int64{8}, Bytes: 16}})
		files[name] = append(header, make([]byte, data)...)
		index = append(index, fmt.Sprintf("%q: %q, %q: %q", a, name, b, name))
	}
	files["model.safetensors.index.json"] = []byte(`{"weight_map": {` + strings.Join(index, ",") + `}}`)
	return files
}

func TestSource(t *testing.T) {
	const shards = 40
	h := newFakeHub(t, sharded(shards))
	c := h.client()
	last := 0
	c.Progress = func(name string, done, files int) {
		if name != "org/name" || files != shards {
			t.Errorf("progress of %s, %d files", name, files)
		}
		last = done
	}
	src, found, err := c.Source(t.Context(), "org/name")
	if err != nil || !found || src.Name != "org/name" {
		t.Fatalf("%v, found %v, %v", src, found, err)
	}
	if err := src.ReadTensors(); err != nil || len(src.Tensors) != 2*shards || last != shards {
		t.Fatalf("%d tensors, %v, progress %d", len(src.Tensors), err, last)
	}
	for name := range h.files {
		if n := h.asked(name); n != 1 {
			t.Errorf("%s: asked for %d times", name, n)
		}
	}
	if h.most.Load() > 16 {
		t.Errorf("%d requests at once", h.most.Load())
	}
	if h.leaked.Load() {
		t.Error("the token went to another host")
	}
	again, _, _ := c.Source(t.Context(), "org/name")
	copied := *again
	if err := copied.ReadTensors(); err != nil || len(copied.Tensors) != 2*shards || h.asked("config.json") != 1 {
		t.Errorf("asked again: %v, config.json %d times", err, h.asked("config.json"))
	}
}

// A header that is longer than the first span takes a second request, and no third.
func TestLongHeader(t *testing.T) {
	var tensors []forge.Tensor
	for i := range 3000 {
		tensors = append(tensors, forge.Tensor{Name: fmt.Sprintf("model.layers.%d.%s", i, strings.Repeat("x", 60)), DType: "U8", Shape: []int64{1}, Bytes: 1})
	}
	header, data := forge.Header(tensors)
	if len(header) < firstSpan || len(header) > 2*firstSpan {
		t.Fatalf("a header of %d bytes", len(header))
	}
	h := newFakeHub(t, map[string][]byte{"config.json": []byte(config), "model.safetensors": append(header, make([]byte, data)...)})
	src, _, err := h.client().Source(t.Context(), "org/name")
	if err != nil {
		t.Fatal(err)
	}
	if err := src.ReadTensors(); err != nil || len(src.Tensors) != len(tensors) || h.asked("model.safetensors") != 2 {
		t.Errorf("%d tensors, %v, %d requests", len(src.Tensors), err, h.asked("model.safetensors"))
	}
}

func TestGGUF(t *testing.T) {
	keys := []forge.Key{{Name: "general.architecture", Value: "llama"}, {Name: "llama.attention.head_count_kv", Value: uint32(8)},
		{Name: "tokenizer.ggml.tokens", Value: make([]string, 100_000)}}
	data := forge.GGUF(keys, []forge.Tensor{{Name: "output_norm.weight", Shape: []int64{8}, Bytes: 32}})
	h := newFakeHub(t, map[string][]byte{"m-Q4_K_M.gguf": data, "m-Q8_0.gguf": []byte("GGUF")})
	src, _, err := h.client().Source(t.Context(), "org/name:Q4_K_M")
	if err != nil || len(src.Tensors) != 1 || src.Name != "org/name:Q4_K_M" {
		t.Fatalf("%+v, %v", src, err)
	}
	_, _, err = h.client().Source(t.Context(), "org/name")
	if p, ok := errors.AsType[*problem.Error](err); !ok || p.Error() != "org/name: 2 GGUF checkpoints" || p.Hint != "name one of them: m-Q4_K_M.gguf, m-Q8_0.gguf" {
		t.Errorf("several: %v", err)
	}
}

// What may pass is tried again; what may not, once.
func TestTries(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fail  int // first answers
		with  func(http.ResponseWriter)
		tries int64
		want  string // the error, with the hub's host as HUB
	}{
		{"one bad gateway", 1, status(502), 2, ""},
		{"too many requests", 3, func(w http.ResponseWriter) { w.Header().Set("Retry-After", "0"); w.WriteHeader(429) }, 4, ""},
		{"cut off", 2, func(w http.ResponseWriter) { w.Header().Set("Content-Length", "9"); w.Write([]byte("{")) }, 3, ""},
		{"down for good", 99, status(503), tries, "org/name: HUB answers 503 Service Unavailable"},
		{"forbidden", 99, status(403), 1, "org/name: HUB answers 403 Forbidden: there is no such model, or it is gated or private"},
		{"not there", 99, status(404), 1, "org/name: not on HUB"},
		{"not a hub", 99, func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") }, 1, "org/name: HUB does not answer as a hub does"},
		{"a commit that is a path", 99, func(w http.ResponseWriter) { fmt.Fprint(w, `{"sha": "../../../x"}`) }, 1, "org/name: HUB does not answer as a hub does"},
		{"round and round", 99, func(w http.ResponseWriter) {
			w.Header().Set("Location", "/api/models/org/name/revision/main")
			w.WriteHeader(302)
		}, -1, "org/name: HUB cannot be reached: redirected too often"},
	} {
		h := newFakeHub(t, map[string][]byte{"config.json": []byte(config)})
		var n atomic.Int64
		h.before = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/api/") || n.Add(1) > int64(tt.fail) {
				return false
			}
			tt.with(w)
			return true
		}
		_, _, err := h.client().Source(t.Context(), "org/name")
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), strings.TrimPrefix(h.URL, "http://"), "HUB")
		}
		if got != tt.want || tt.tries >= 0 && n.Load() != max(tt.tries, 1) {
			t.Errorf("%s: %q after %d requests, want %q after %d", tt.name, got, n.Load(), tt.want, tt.tries)
		}
		if strings.Contains(fmt.Sprintf("%+v", err), secret) {
			t.Errorf("%s: the token is in the error", tt.name)
		}
	}
}

func status(code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(code) }
}

// The token comes back to no host that a redirect has left and come back to.
func TestTokenOnRedirect(t *testing.T) {
	var seen []string
	away := httptest.NewServer(nil)
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.URL.Path+" "+r.Header.Get("Authorization"))
		switch r.URL.Path {
		case "/api/models/org/name/revision/main":
			http.Redirect(w, r, "/moved", http.StatusFound)
		case "/moved":
			http.Redirect(w, r, away.URL, http.StatusFound)
		}
	}))
	away.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, "away "+r.Header.Get("Authorization"))
		http.Redirect(w, r, home.URL+"/back", http.StatusFound)
	})
	defer home.Close()
	defer away.Close()
	c := &Client{Endpoint: home.URL, Token: secret, wait: time.Millisecond}
	c.Source(t.Context(), "org/name")
	want := "/api/models/org/name/revision/main Bearer hf_secret|/moved Bearer hf_secret|away |/back "
	if got := strings.Join(seen, "|"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestBadAnswers(t *testing.T) {
	lying := append([]byte("\x00\xe1\xf5\x06\x00\x00\x00\x00"), make([]byte, 100)...) // a header of 116,777,216 bytes
	h := newFakeHub(t, map[string][]byte{"config.json": []byte(config), "model.safetensors": lying})
	src, _, err := h.client().Source(t.Context(), "org/name")
	if err != nil {
		t.Fatal(err)
	}
	if err := src.ReadTensors(); err == nil || err.Error() != "org/name: model.safetensors: header_size = 116777216: exceeds the cap of 100000000" {
		t.Errorf("a header that lies: %v", err)
	}
	h = newFakeHub(t, map[string][]byte{"config.json": nil})
	if _, _, err := h.client().Source(t.Context(), "org/name"); err == nil || err.Error() != "org/name: config.json: empty, not JSON" {
		t.Errorf("empty: %v", err)
	}
	h = newFakeHub(t, map[string][]byte{"README.md": nil, "sub/config.json": nil})
	_, _, err = h.client().Source(t.Context(), "org/name")
	if p, ok := errors.AsType[*problem.Error](err); !ok || p.Error() != "org/name: no config.json" || p.Hint != "the folder holds README.md" {
		t.Errorf("no config: %v", err)
	}
}

// A server that does not know ranges answers small files; of large ones it says so.
func TestWithoutRanges(t *testing.T) {
	large := append([]byte("{"), bytes.Repeat([]byte(" "), 2*firstSpan)...)
	for name, want := range map[string]string{config: "", string(large): "config.json: HUB does not answer ranged requests"} {
		h := newFakeHub(t, map[string][]byte{"config.json": nil})
		h.storage.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(name)))
			w.Write([]byte(name))
		})
		_, _, err := h.client().Source(t.Context(), "org/name")
		got := ""
		if err != nil {
			got = strings.ReplaceAll(strings.TrimPrefix(err.Error(), "org/name: "), strings.TrimPrefix(h.URL, "http://"), "HUB")
		}
		if got != want {
			t.Errorf("%d bytes: %q, want %q", len(name), got, want)
		}
	}
}

func TestNotFound(t *testing.T) {
	h := newFakeHub(t, nil)
	for _, name := range []string{"llama", "", "../x", "a/b/c", "a b", "http://x/y"} { // "llama": the hub has none
		if src, found, err := h.client().Source(t.Context(), name); src != nil || found || err != nil {
			t.Errorf("%q: %v, found %v, %v", name, src, found, err)
		}
	}
	h.Close()
	_, _, err := h.client().Source(t.Context(), "org/name")
	p, ok := errors.AsType[*problem.Error](err)
	if !ok || !strings.HasPrefix(p.Error(), "org/name: "+strings.TrimPrefix(h.URL, "http://")+" cannot be reached: dial tcp") || p.Hint == "" {
		t.Errorf("nobody there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := h.client().Source(ctx, "org/name"); err == nil || err.Error() != "org/name: interrupted" {
		t.Errorf("canceled: %v", err)
	}
}

var _ checkpoint.Watcher = (*repository)(nil)
