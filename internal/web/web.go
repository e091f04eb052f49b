// Package web is the page of `headcount serve`: plain files that show what the API beside
// them answers. They hold no formula and reach for nothing but the server they came from.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
)

//go:embed static
var files embed.FS

// plotStyle is the style sheet that Observable Plot puts into each chart. The policy names
// it by its hash, so that no other inline style is let in.
const plotStyle = `:where(.plot-d6a7b5) {
  --plot-background: white;
  display: block;
  height: auto;
  height: intrinsic;
  max-width: 100%;
}
:where(.plot-d6a7b5 text),
:where(.plot-d6a7b5 tspan) {
  white-space: pre;
}`

// policy lets the page load its own files, ask its own server, and draw a chart that is
// being saved. Nothing else: not another host, not an inline script, not a frame around it.
var policy = strings.Join([]string{
	"default-src 'none'",
	"script-src 'self'",
	"style-src 'self' '" + hash(plotStyle) + "'",
	"font-src 'self'",
	"img-src 'self' blob: data:",
	"connect-src 'self'",
	"base-uri 'none'",
	"form-action 'none'",
	"frame-ancestors 'none'",
}, "; ")

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// A file is one answer, ready to be sent.
type file struct {
	kind  string
	plain []byte
	small []byte // gzip; nil where it does not pay
	tag   string
	kept  bool // its address changes with it, so that it need not be asked for again
}

// Handler answers with the page and its files, compressed once, now. A path that is none of
// them is answered 404. The page names its files beneath a hash of them all, so that a browser
// that has them asks for none; their plain names answer as well.
func Handler() http.Handler {
	pages, all := map[string]*file{}, sha256.New()
	err := fs.WalkDir(files, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		all.Write(data)
		pages[strings.TrimPrefix(name, "static")] = newFile(name, data)
		return err
	})
	if err != nil {
		panic("web: embedded files: " + err.Error())
	}
	root := "/" + base64.RawURLEncoding.EncodeToString(all.Sum(nil)[:9])
	index := local.ReplaceAllString(string(pages["/index.html"].plain), "${1}"+root+"/")
	pages["/index.html"] = newFile("index.html", []byte(index))
	pages["/"] = pages["/index.html"]
	for name, f := range maps.Clone(pages) {
		kept := *f
		kept.kept = true
		pages[root+name] = &kept
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := pages[r.URL.Path]
		switch {
		case f == nil:
			http.NotFound(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		default:
			f.serve(w, r)
		}
	})
}

// local is where the page names a file of its own.
var local = regexp.MustCompile(`(<(?:link|script) [^>]*(?:href|src)=")/`)

func newFile(name string, data []byte) *file {
	sum := sha256.Sum256(data)
	f := &file{kind: kinds[path.Ext(name)], plain: data, tag: strconv.Quote(base64.RawURLEncoding.EncodeToString(sum[:12]))}
	var small bytes.Buffer
	z, _ := gzip.NewWriterLevel(&small, gzip.BestCompression) // the level is one
	z.Write(data)                                             // a Buffer takes all
	z.Close()
	if small.Len() < len(data)*9/10 {
		f.small = small.Bytes()
	}
	return f
}

// kinds are the media types of the page's files, whatever the machine's own table says.
var kinds = map[string]string{
	".css":   "text/css; charset=utf-8",
	".html":  "text/html; charset=utf-8",
	".js":    "text/javascript; charset=utf-8",
	".svg":   "image/svg+xml",
	".txt":   "text/plain; charset=utf-8",
	".woff2": "font/woff2",
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache") // ask again, and be told that nothing changed
	if f.kept {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Set("ETag", f.tag)
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.plain
	if f.small != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.small
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodGet {
		w.Write(body)
	}
}
