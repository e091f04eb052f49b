package web_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"headcount"
	"headcount/catalog"
	"headcount/hw"
	"headcount/internal/digest"
	"headcount/internal/series"
	"headcount/internal/web"
	"headcount/layout"
)

func handler() http.Handler {
	p := &headcount.Planner{}
	mux := http.NewServeMux()
	out := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("/v1/models", func(w http.ResponseWriter, r *http.Request) {
		ms := []map[string]any{}
		for _, e := range catalog.All() {
			variant := "-"
			if r, err := p.Plan(r.Context(), headcount.Request{Model: e.ID}); err == nil {
				variant = r.Model.Variant
			}
			short := e.Short
			if short == nil {
				short = []string{}
			}
			ms = append(ms, map[string]any{"id": e.ID, "short": short, "variant": variant})
		}
		out(w, map[string]any{"models": ms})
	})
	mux.HandleFunc("/v1/accelerators", func(w http.ResponseWriter, r *http.Request) { out(w, map[string]any{"accelerators": hw.All()}) })
	mux.HandleFunc("/v1/figures", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		var q series.Query
		fail := func(err error) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(422)
			json.NewEncoder(w).Encode(map[string]any{"detail": err.Error(), "status": 422})
		}
		if err := json.Unmarshal(b, &q); err != nil {
			fail(err)
			return
		}
		f, err := series.Draw(r.Context(), p, q)
		if err != nil {
			fail(err)
			return
		}
		u := q.Requests[0]
		u.Layout, u.GPU, u.KVCacheMemory = layout.Layout{}, "", 0
		un, err := p.Plan(r.Context(), u)
		if err != nil {
			un = f.Report
		}
		var m map[string]any
		x, _ := json.Marshal(f)
		json.Unmarshal(x, &m)
		m["digest"] = digest.Of(f.Report, un)
		m["steps"] = append(f.Report.Explain(), f.Report.Beside()...)
		out(w, m)
	})
	page := web.Handler()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1") {
			w.WriteHeader(404)
			return
		}
		page.ServeHTTP(w, r)
	})
	return mux
}
