package digest

import (
	"context"
	"strings"

	"headcount"
	"headcount/catalog"
)

// A Model is one line of the catalogue.
type Model struct {
	ID              string   `json:"id"`
	Short           []string `json:"short"`
	Variant         string   `json:"variant"`
	Layers          int      `json:"layers"`
	KVBytesPerToken *int64   `json:"kv_bytes_per_token"` // whole model; null when vLLM has no path for it
}

// Models are the models of the catalogue whose names hold a word.
func Models(ctx context.Context, p Planner, word string) []Model {
	var found []Model
	for _, e := range catalog.All() {
		if strings.Contains(strings.ToLower(e.ID+" "+strings.Join(e.Short, " ")), strings.ToLower(word)) {
			found = append(found, line(ctx, p, e))
		}
	}
	return found
}

func line(ctx context.Context, p Planner, e catalog.Entry) Model {
	m := Model{ID: e.ID, Short: e.Short, Variant: "-"}
	if m.Short == nil {
		m.Short = []string{}
	}
	if r, err := p.Plan(ctx, headcount.Request{Model: e.ID}); err == nil {
		m.Layers = r.Model.Layers
		if r.Error == nil {
			m.Variant, m.KVBytesPerToken = r.Model.Variant, &r.Ranks[0].BytesPerToken
		}
	}
	return m
}
