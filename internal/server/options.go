package server

import (
	"reflect"
	"slices"
	"strings"

	"headcount/engine"
	"headcount/engine/sglang"
	"headcount/engine/vllm"
	"headcount/layout"
)

// Flags are the fields of a request that are an engine's flags, for a form to offer.
type Flags struct {
	Engines []EngineName `json:"engines"`
	Flags   []Flag       `json:"flags"`
}

// EngineName is an engine and the release that is taken unless another is asked for.
type EngineName struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// A Flag is one field.
type Flag struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind" enum:"text,whole,number,bool,list" doc:"what the field takes; names that end in _bytes take bytes"`
	Help    string   `json:"help"`
	Engines []string `json:"engines" doc:"which take it"`
}

func options() Flags {
	f := Flags{Engines: []EngineName{{"vllm", vllm.Version}, {"sglang", sglang.Version}}}
	for _, t := range []reflect.Type{reflect.TypeFor[layout.Layout](), reflect.TypeFor[engine.Options]()} {
		for _, field := range reflect.VisibleFields(t) {
			if help := field.Tag.Get("help"); help != "" {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				f.Flags = append(f.Flags, Flag{name, kind(field.Type), help, engines(help)})
			}
		}
	}
	return f
}

// kind is what a field takes, as a form asks for it.
func kind(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list"
	case reflect.String:
		return "text"
	}
	return "whole"
}

// engines are those that the help names, both if it names none.
func engines(help string) []string {
	all := []string{"vllm", "sglang"}
	own := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return !strings.Contains(strings.ToLower(help), "("+name+")")
	})
	if len(own) == 0 {
		return all
	}
	return own
}
