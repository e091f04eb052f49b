package model

import (
	_ "embed"
	"strings"

	"headcount/internal/tsv"
)

// archNamesTable has a line for each model_type that Transformers 5.20 has model classes
// for, sorted: model_type, the base model's class, the class with a language-model head.
// tools/facts/archnames.py writes it.
//
//go:embed archnames.tsv
var archNamesTable string

// ClassNames are the names of Transformers' model classes for a model_type, "" where it has
// none. vLLM reads a config without architectures as base (transformers_utils/config.py,
// get_config), so that most models then pool; SGLang reads a GGUF file as causalLM.
func ClassNames(modelType string) (base, causalLM string) {
	line, _ := tsv.Rest(archNamesTable, modelType)
	base, causalLM, _ = strings.Cut(line, "\t")
	return base, causalLM
}
