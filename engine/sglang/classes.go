package sglang

import (
	_ "embed"
	"strconv"
	"strings"

	"headcount/internal/tsv"
	"headcount/problem"
)

// classTable has a line for every model_type that SGLang's AutoConfig reads, sorted, with
// what the engine's own configuration class of it adds. tools/facts/sglang_classes.py
// writes it and says what a line holds.
//
//go:embed classes.tsv
var classTable string

// An ownClass is what a configuration class of SGLang's adds to a file. Package model
// presents Transformers' and vLLM's classes; this fills what is this engine's alone.
type ownClass struct {
	names    map[string]string // field → the file's name of it
	defaults map[string]int64
	dtype    string    // where the file names none
	vision   *[2]int64 // layers and width of the vision config it constructs; -1: no such field
	visual   bool      // it constructs one also where the file has none
	byType   []string  // nested configs that are read by their own model_type
}

// lookupClass returns the class of a model_type; ok is false when the engine reads none.
func lookupClass(modelType string) (c ownClass, ok bool) {
	line, ok := tsv.Rest(classTable, modelType)
	for fact := range strings.FieldsSeq(line) {
		if key, isSub := strings.CutPrefix(fact, "sub:"); isSub {
			c.byType = append(c.byType, key)
			continue
		}
		if key, name, isName := strings.Cut(fact, ">"); isName {
			put(&c.names, key, name)
			continue
		}
		switch key, value, _ := strings.Cut(fact, "="); key {
		case "vision", "vision?":
			c.visual = key == "vision"
			layers, width, _ := strings.Cut(value, ",")
			c.vision = &[2]int64{numberOr(layers, -1), numberOr(width, -1)}
		case "dtype":
			c.dtype = value
		default:
			put(&c.defaults, key, numberOr(value, 0))
		}
	}
	return c, ok
}

// classTypes has the types of the classes that SGLang's Transformers holds to others than
// package model knows, "-" where it holds a file to none. tools/facts/sglang_classes.py
// writes it.
//
//go:embed classtypes.tsv
var classTypes string

// strict is Transformers' refusal of the file. Its class reads a file first, also where the
// engine has its own (utils/hf_transformers/config.py); which nested model types there are
// is the engine's to say, in readable.
func (r *reading) strict() *problem.Error {
	text := r.config.text
	refused := text.Refused
	if types, own := tsv.Rest(classTypes, text.ModelType()); own {
		if types == "-" {
			return nil
		}
		refused = func() *problem.Error { return text.RefusedAs(types) }
	}
	err := refused()
	if err == nil || r.kind == "deepseek_vl_v2" || strings.HasSuffix(err.Field, "model_type") {
		return nil // DeepSeek-VL2's nested config has a class of the engine's alone
	}
	return err.By(name)
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

func numberOr(s string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	return otherwise
}

// readable refuses a file whose model_type, or that of a config nested in it, the engine
// has no class for. A class in the checkpoint's own code is run with --trust-remote-code.
func (r *reading) readable() *problem.Error {
	top := r.config.top
	if _, remote := top.Object("auto_map").Get("AutoConfig"); !remote && r.kind != "" && !top.known {
		return problem.New(problem.UnknownArchitecture, "model_type", r.kind, "the engine's Transformers has no such model").By(name)
	}
	for _, key := range top.class.byType {
		nested := top.Object(key)
		kind := nested.Text("model_type")
		if kind == "" {
			continue
		}
		if _, known := lookupClass(kind); !known {
			return problem.New(problem.UnknownArchitecture, key+".model_type", kind, "the engine's Transformers has no such model").By(name)
		}
	}
	return nil
}
