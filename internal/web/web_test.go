package web

import (
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
)

var page = sync.OnceValue(Handler)

func get(t *testing.T, target string, header http.Header) *http.Response {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, target, nil)
	for k, v := range header {
		req.Header[k] = v
	}
	w := httptest.NewRecorder()
	page().ServeHTTP(w, req)
	return w.Result()
}

func TestHandler(t *testing.T) {
	zipped := http.Header{"Accept-Encoding": {"gzip, br"}}
	plain := get(t, "/app.js", nil)
	want, _ := io.ReadAll(plain.Body)
	small := get(t, "/app.js", zipped)
	z, err := gzip.NewReader(small.Body)
	if err != nil || small.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("compressed: %v, headers %v", err, small.Header)
	}
	if got, _ := io.ReadAll(z); string(got) != string(want) {
		t.Error("compressed and plain differ")
	}
	tag := plain.Header.Get("ETag")
	if again := get(t, "/app.js", http.Header{"If-None-Match": {tag}}); again.StatusCode != http.StatusNotModified {
		t.Errorf("asked again with its tag: %d", again.StatusCode)
	}
	for target, want := range map[string]int{"/": 200, "/index.html": 200, "/static/app.js": 404, "/../web.go": 404, "/vendor/": 404, "/nothing": 404} {
		if got := get(t, target, nil).StatusCode; got != want {
			t.Errorf("GET %s: %d, want %d", target, got, want)
		}
	}
	w := httptest.NewRecorder()
	page().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST /: %d", w.Code)
	}
}

// The page names files by an address that changes with them, and they are kept.
func TestKept(t *testing.T) {
	index, _ := io.ReadAll(get(t, "/", nil).Body)
	named := regexp.MustCompile(`<(?:link|script) [^>]*(?:href|src)="([^"]*)"`).FindAllSubmatch(index, -1)
	if len(named) < 10 {
		t.Fatalf("%d files are named", len(named))
	}
	for _, m := range named {
		name := string(m[1])
		r := get(t, name, nil)
		if r.StatusCode != 200 || !strings.Contains(r.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d, %s", name, r.StatusCode, r.Header.Get("Cache-Control"))
		}
		_, plain, _ := strings.Cut(name[1:], "/")
		if r := get(t, "/"+plain, nil); r.StatusCode != 200 || r.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("/%s: %d, %s", plain, r.StatusCode, r.Header.Get("Cache-Control"))
		}
	}
	if c := get(t, "/", nil).Header.Get("Cache-Control"); c != "no-cache" {
		t.Errorf("the page itself: %s", c)
	}
}

// Everything that a first visit loads, compressed.
func TestPageSize(t *testing.T) {
	total := 0
	for _, f := range every(t) {
		sent := len(f.small)
		if f.small == nil {
			sent = len(f.plain)
		}
		total += sent
	}
	if total >= 500_000 {
		t.Errorf("%d bytes", total)
	}
	t.Logf("%d bytes compressed", total)
}

func every(t *testing.T) map[string]*file {
	t.Helper()
	all := map[string]*file{}
	err := fs.WalkDir(files, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		all[name] = newFile(name, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The policy holds, and no file of ours names another host; every file has a type, and
// those of others a licence.
func TestFiles(t *testing.T) {
	remote := regexp.MustCompile(`(?:src|href|url|from|import|fetch)\s*[=(]?\s*["'(]?(?:https?:)?//`)
	licences, err := files.ReadFile("static/vendor/LICENSES.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range every(t) {
		if f.kind == "" {
			t.Errorf("%s has no media type", name)
		}
		if strings.Contains(name, "/vendor/") {
			if !strings.Contains(string(licences), path.Base(name)) && path.Base(name) != "LICENSES.txt" {
				t.Errorf("%s is not in LICENSES.txt", name)
			}
			continue
		}
		if at := remote.Find(f.plain); at != nil {
			t.Errorf("%s loads from elsewhere: %s", name, at)
		}
	}
	if p := get(t, "/", nil).Header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "unsafe") || strings.Contains(p, "http") {
		t.Errorf("policy %q", p)
	}
}

// The policy's hash is of the style that the chart library inserts.
func TestPlotStyle(t *testing.T) {
	lib, err := files.ReadFile("static/vendor/plot.umd.min.js")
	if err != nil {
		t.Fatal(err)
	}
	const class = "plot-d6a7b5"
	template := strings.ReplaceAll(plotStyle, class, "${c}")
	if !strings.Contains(string(lib), "`"+template+"`") && !strings.Contains(string(lib), strings.ReplaceAll(template, "\n", `\n`)) {
		t.Error("the library inserts another style: take its text into plotStyle")
	}
	if !strings.Contains(string(lib), `"`+class+`"`) {
		t.Errorf("the library does not name %s", class)
	}
}
