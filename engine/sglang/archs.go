package sglang

import (
	_ "embed"
	"strconv"
	"strings"

	"headcount/internal/tsv"
	"headcount/problem"
)

// archTable has a line for every architecture that SGLang 0.5.23 or its Transformers
// backend knows, sorted: name, flags, window rule. tools/facts/sglang_archs.py writes it.
//
//go:embed archs.tsv
var archTable string

// trait is a set of what the engine says of an architecture.
type trait uint32

const (
	native     trait = 1 << iota // a model class of SGLang's own
	backend                      // a Transformers class that its Transformers backend takes
	refused                      // a Transformers class that the backend does not take
	pipelines                    // can be cut into pipeline stages
	ranged                       // a stage holds pools for its own layers only
	multimodal                   // takes images, audio or video
	breakable                    // keeps its prefill graphs although multimodal
	textOnly                     // multimodal only when asked
	unchunked                    // no chunked prefill although multimodal
	hybridSWA                    // full and window pools
	sinks                        // learned attention sinks
	mimo                         // MiMo-V2
	stateRadix                   // prefix cache of states
	extraState                   // prefix cache may keep extra state slots
	deepseek                     // the family that may have a DSA indexer and prefers trtllm_mla
)

var traitNames = map[string]trait{
	"native": native, "backend": backend, "refused": refused, "pp": pipelines, "range": ranged, "mm": multimodal,
	"bcg": breakable, "textonly": textOnly, "nochunk": unchunked, "hybrid": hybridSWA, "sinks": sinks, "mimo": mimo,
	"radix": stateRadix, "extra": extraState, "family": deepseek,
}

// An archEntry is one line of the table.
type archEntry struct {
	traits trait
	window windowRule
}

func (a archEntry) has(t trait) bool { return a.traits&t != 0 }

// A windowRule is what a model class reports as its sliding window: a field less minus,
// or a number. The zero rule is no report.
type windowRule struct {
	field  string
	minus  int64
	fixed  int64
	strict bool // the class does not look for null before it subtracts
}

// lookupArch finds an architecture's line.
func lookupArch(name string) (archEntry, bool) {
	line, ok := tsv.Rest(archTable, name)
	if !ok {
		return archEntry{}, false
	}
	flags, rule, _ := strings.Cut(line, "\t")
	entry := archEntry{window: parseWindow(rule)}
	for flags != "" {
		var flag string
		flag, flags, _ = strings.Cut(flags, ",")
		entry.traits |= traitNames[flag]
	}
	return entry, true
}

func parseWindow(rule string) windowRule {
	if rule == "-" {
		return windowRule{}
	}
	if n, err := strconv.ParseInt(rule, 10, 64); err == nil {
		return windowRule{fixed: n}
	}
	rule, strict := strings.CutSuffix(rule, "!")
	field, less := strings.CutSuffix(rule, "-1")
	w := windowRule{field: field, strict: strict}
	if less {
		w.minus = 1
	}
	return w
}

// nearest is the known architecture whose name is closest, "" when none is close.
func nearest(name string) string {
	var names []string
	for line := range strings.Lines(archTable) {
		if key, rest, _ := strings.Cut(line, "\t"); strings.HasPrefix(rest, "native") {
			names = append(names, key)
		}
	}
	if near := problem.Nearest(name, names, 1); len(near) > 0 {
		return near[0]
	}
	return ""
}
