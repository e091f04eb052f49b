package sglang

import (
	"sort"
	"strings"
	"testing"
)

func TestArchTable(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(archTable, "\n"), "\n")
	if !sort.StringsAreSorted(lines) {
		t.Error("archs.tsv is not sorted")
	}
	for _, line := range lines {
		cells := strings.Split(line, "\t")
		if len(cells) != 3 {
			t.Fatalf("%q: %d cells", line, len(cells))
		}
		for _, flag := range strings.Split(cells[1], ",") {
			if traitNames[flag] == 0 {
				t.Errorf("%s: unknown flag %q", cells[0], flag)
			}
		}
		if _, ok := lookupArch(cells[0]); !ok {
			t.Errorf("%s: not found", cells[0])
		}
	}
}

func TestLookupArch(t *testing.T) {
	for _, tt := range []struct {
		name   string
		known  bool
		with   trait
		none   trait
		window windowRule
	}{
		{"LlamaForCausalLM", true, native | pipelines | ranged, multimodal | hybridSWA, windowRule{}},
		{"Gemma2ForCausalLM", true, native, hybridSWA, windowRule{field: "sliding_window", minus: 1, strict: true}},
		{"EmbeddingGemma2Model", true, hybridSWA, 0, windowRule{fixed: 512}},
		{"FalconForCausalLM", true, refused, native | backend, windowRule{}},
		{"GptOssForCausalLM", true, native | hybridSWA | sinks, 0, windowRule{field: "sliding_window", minus: 1, strict: true}},
		{"", false, 0, 0, windowRule{}},
		{"A", false, 0, 0, windowRule{}},
		{"zzz", false, 0, 0, windowRule{}},
		{"Llama", false, 0, 0, windowRule{}},
	} {
		got, known := lookupArch(tt.name)
		if known != tt.known || got.traits&tt.with != tt.with || got.traits&tt.none != 0 || got.window != tt.window {
			t.Errorf("lookupArch(%q) = %+v, %v", tt.name, got, known)
		}
	}
	if got := nearest("LamaForCausalLM"); got != "LlamaForCausalLM" {
		t.Errorf("nearest = %q", got)
	}
}
