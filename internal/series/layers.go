package series

import (
	"fmt"
	"strings"

	"headcount"
	"headcount/engine"
	"headcount/model"
	"headcount/units"
)

// Layers are a model's layers in order, by what each caches.
type Layers struct {
	Title string      `json:"title"`
	Row   []LayerKind `json:"row" doc:"equal neighbours together"`
	Kinds []KindLabel `json:"kinds" doc:"in order of first appearance"`
}

// A LayerKind is layers in a row that cache alike.
type LayerKind struct {
	First  int    `json:"first" doc:"index of the first"`
	Layers int    `json:"layers"`
	Kind   string `json:"kind" doc:"joined by + where a layer keeps several caches; none"`
}

// A KindLabel is one colour of the row.
type KindLabel struct {
	Kind   string `json:"kind"`
	Label  string `json:"label"`
	Layers int    `json:"layers"`
	Caches string `json:"caches" doc:"what one layer keeps on one rank;  where the engine keeps nothing"`
}

// layersOf is the row; nil where the model was not resolved.
func layersOf(r *headcount.Report) *Layers {
	if len(r.Model.LayerKinds) == 0 {
		return nil
	}
	l := &Layers{Title: fmt.Sprintf("%d layers of %s", r.Model.Layers, modelName(r))}
	index := map[string]int{}
	first := 0
	for _, run := range r.Model.LayerKinds {
		kind := joined(run.Kinds)
		if _, seen := index[kind]; !seen {
			index[kind] = len(l.Kinds)
			l.Kinds = append(l.Kinds, KindLabel{Kind: kind, Label: words(run.Kinds), Caches: caches(r, run.Kinds)})
		}
		l.Kinds[index[kind]].Layers += run.Layers
		l.Row = append(l.Row, LayerKind{First: first, Layers: run.Layers, Kind: kind})
		first += run.Layers
	}
	return l
}

func joined(kinds []model.Kind) string {
	if len(kinds) == 0 {
		return string(model.None)
	}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, "+")
}

func words(kinds []model.Kind) string {
	if len(kinds) == 0 {
		return "nothing cached"
	}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.Words()
	}
	return strings.Join(names, " + ")
}

// caches says what the engine keeps of such a layer on a rank.
func caches(r *headcount.Report, kinds []model.Kind) string {
	var parts []string
	for _, kind := range kinds {
		for _, rank := range r.Ranks {
			if text := cacheOf(rank.Layers, kind); text != "" {
				parts = append(parts, text)
				break
			}
		}
	}
	return strings.Join(parts, " + ")
}

// cacheOf is the cache of the first run of a kind.
func cacheOf(runs []*engine.Run, kind model.Kind) string {
	for _, run := range runs {
		switch {
		case run.Kind != kind:
		case run.StateBytes != nil:
			return fmt.Sprintf("a state of %v a request", units.Bytes(*run.StateBytes))
		case run.Window != nil:
			return fmt.Sprintf("%s a token, the last %s tokens", run.Elements(), units.Group(int64(*run.Window)))
		case run.BlockSize > 0:
			return run.Elements() + " a token"
		}
	}
	return ""
}
