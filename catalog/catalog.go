// Package catalog is the models known offline: for each a config.json reduced to the keys
// that headcount reads. It goes through checkpoint and model as a full file does.
package catalog

import (
	_ "embed"
	"iter"
	"strings"

	"headcount/checkpoint"
	"headcount/internal/tsv"
	"headcount/problem"
)

// models holds a line for each model, sorted by lower-case hub id, written by tools/catalog:
// lower-case hub id, hub id, and the reduced files as JSON, tab-separated.
//
//go:embed models.tsv
var models string

// names holds a line for each short name, sorted: short name, hub id, tab-separated.
//
//go:embed names.tsv
var names string

// Lookup finds a model by hub id or short name, whatever the case. Only its own line is
// decoded.
func Lookup(name string) (*checkpoint.Source, bool) {
	key := strings.ToLower(name)
	line, ok := tsv.Rest(models, key)
	if !ok {
		var id string
		if id, ok = tsv.Rest(names, key); !ok {
			return nil, false
		}
		if line, ok = tsv.Rest(models, strings.ToLower(id)); !ok {
			return nil, false
		}
	}
	id, files, _ := strings.Cut(line, "\t")
	all, _, err := checkpoint.Parse([]byte(files))
	if err != nil {
		return nil, false // a test parses every line
	}
	part := func(key string) *checkpoint.Object {
		v, _ := all.Get(key)
		return v.Dict()
	}
	src := &checkpoint.Source{Name: id, Config: part("config"), HFQuant: part("hf_quant_config")}
	return src, true
}

// An Entry names one model of the catalogue.
type Entry struct {
	ID    string   // hub id
	Short []string // other names it is found by
}

// All are the models in order of their ids.
func All() []Entry {
	short := map[string][]string{}
	for name, id := range lines(names) {
		short[strings.ToLower(id)] = append(short[strings.ToLower(id)], name)
	}
	var all []Entry
	for key, rest := range lines(models) {
		id, _, _ := strings.Cut(rest, "\t")
		all = append(all, Entry{ID: id, Short: short[key]})
	}
	return all
}

func lines(table string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(table) {
			key, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			if !yield(key, rest) {
				return
			}
		}
	}
}

// Nearest are up to n ids or short names like name, the nearest first.
func Nearest(name string, n int) []string {
	var candidates []string
	for short := range lines(names) {
		candidates = append(candidates, short)
	}
	for _, rest := range lines(models) {
		id, _, _ := strings.Cut(rest, "\t")
		candidates = append(candidates, id)
	}
	return problem.Nearest(name, candidates, n)
}
