package vllm

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"headcount/internal/golden"
	"headcount/internal/scorecard"
	"headcount/problem"
)

func TestArchsTable(t *testing.T) {
	last := ""
	for line := range strings.Lines(archsTable) {
		name, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if name <= last {
			t.Errorf("%q after %q", name, last)
		}
		if a, ok := lookupArch(name); !ok || a.name != name {
			t.Errorf("%q: not found", name)
		}
		last = name
	}
	for _, name := range []string{"", "A", "Zzz", "LlamaForCausal", "LlamaForCausalLM\t"} {
		if _, ok := lookupArch(name); ok {
			t.Errorf("%q: found", name)
		}
	}
}

func TestResolveArch(t *testing.T) {
	for _, tt := range []struct {
		archs       string
		nested, moe bool
		arch, class string
		pooling     bool
		convert     string
		refused     string // part of the message
	}{
		{archs: "LlamaForCausalLM", arch: "LlamaForCausalLM", class: "LlamaForCausalLM", convert: "none"},
		// The suffix of a task: the same decoder with a pooler.
		{archs: "BloomModel", arch: "BloomModel", class: "BloomForEmbedding", pooling: true, convert: "embed"},
		{archs: "LlamaModel", arch: "LlamaModel", class: "LlamaForCausalLM", convert: "none"}, // in the registry by this name
		{archs: "Qwen3ForSequenceClassification", arch: "Qwen3ForSequenceClassification",
			class: "Qwen3ForSequenceClassification", pooling: true, convert: "classify"},
		// A pooling model by itself.
		{archs: "BertModel", arch: "BertModel", class: "BertEmbeddingModel", pooling: true, convert: "none"},
		// Transformers' own class, as it is, nested, with experts.
		{archs: "CohereForMaskedLM,HeliumForCausalLM", refused: "not supported"},
		{archs: "HeliumForCausalLM", arch: "TransformersForCausalLM", class: "TransformersForCausalLM", convert: "none"},
		{archs: "AyaVisionForConditionalGeneration", nested: true, arch: "TransformersMultiModalForCausalLM",
			class: "TransformersMultiModalForCausalLM", convert: "none"},
		{archs: "Dots1ForCausalLM", moe: true, arch: "TransformersMoEForCausalLM", class: "TransformersMoEForCausalLM", convert: "none"},
		// The first that the registry has.
		{archs: "NobodysForCausalLM,LlamaForCausalLM", arch: "LlamaForCausalLM", class: "LlamaForCausalLM", convert: "none"},
		{archs: "BaichuanForCausalLM", refused: "until v0.23.0"},
		// Retired, but Transformers has a class that its backend takes.
		{archs: "BambaForCausalLM", arch: "TransformersForCausalLM", class: "TransformersForCausalLM", convert: "none"},
		{archs: "NobodysForCausalLM", refused: "not supported"},
	} {
		got, err := resolveArch(strings.Split(tt.archs, ","), tt.nested, tt.moe)
		if tt.refused != "" {
			if err == nil || err.Code != problem.Unsupported || !strings.Contains(err.Message, tt.refused) {
				t.Errorf("%s: %v, want a refusal with %q", tt.archs, err, tt.refused)
			}
			continue
		}
		if err != nil || got.arch != tt.arch || got.class != tt.class || got.pooling != tt.pooling || got.convert != tt.convert {
			t.Errorf("%s: %s as %s, pooling %t, convert %s, %v, want %s as %s, pooling %t, convert %s",
				tt.archs, got.arch, got.class, got.pooling, got.convert, err, tt.arch, tt.class, tt.pooling, tt.convert)
		}
	}
}

func TestNearestArch(t *testing.T) {
	if got := nearestArch("Qwen3ForCasualLM"); got != "Qwen3ForCausalLM" {
		t.Errorf("near Qwen3ForCasualLM: %q", got)
	}
	if got := nearestArch("完全に別のもの"); got != "" {
		t.Errorf("near nothing: %q", got)
	}
}

var (
	unsupportedArchs = regexp.MustCompile(`Model architectures \[(.+?)\] are not supported`)
	retiredArch      = regexp.MustCompile(`Model architecture (\w+) (?:was supported in vLLM until v([\d.]+),|is not supported in-tree)`)
)

// The engine's own rows agree with the table: architecture, class, runner, kinds of model.
func TestArchsAgainstEngine(t *testing.T) {
	card := scorecard.New()
	for row, err := range golden.VLLM() {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case row.Resolved != nil && row.Resolved.ModelClass != "":
			checkArch(card, row.ID, row.Resolved.TextModelType, archDiff(row))
		case row.Error != nil:
			if diff, ok := refusalDiff(row.Error.Message); ok {
				checkArch(card, row.ID, "refused", diff)
			}
		}
	}
	card.Judge(t, "testdata/misses_archs.txt")
}

func checkArch(card *scorecard.Card, id, kind, diff string) {
	r := card.Row(id, kind)
	r.Check("architecture", diff, "")
	r.Done()
}

func archDiff(row *golden.VLLMRow) string {
	want := row.Resolved
	moe := strings.Contains(want.ModelClass, "MoE") // experts are the config's to tell
	got, err := resolveArch(want.Archs, want.ModelType != want.TextModelType, moe)
	states := slices.ContainsFunc(row.Specs, func(stage []golden.VLLMSpec) bool {
		return slices.ContainsFunc(stage, func(s golden.VLLMSpec) bool { return s.Kind == "MambaSpec" })
	})
	runner := "generate"
	if got.pooling {
		runner = "pooling"
	}
	switch {
	case err != nil:
		return err.Error()
	case got.arch != want.Arch:
		return "architecture " + got.arch + ", want " + want.Arch
	case got.class != want.ModelClass:
		return "class " + got.class + ", want " + want.ModelClass
	case runner != want.Runner:
		return "runner " + runner + ", want " + want.Runner
	case got.info.is('m') != want.IsMultimodal:
		return "multimodal differs"
	case got.info.is('f') != want.IsAttentionFree:
		return "attention-free differs"
	case got.info.is('h') != want.IsHybrid && (want.IsHybrid || states):
		return "hybrid differs" // a hybrid class without such a layer is none
	case row.Layout.PP > 1 && !got.info.is('P'):
		return "pipeline parallelism would be refused"
	}
	return ""
}

// refusalDiff compares a refusal of an architecture with resolveArch; ok is false for other
// errors.
func refusalDiff(message string) (diff string, ok bool) {
	if m := unsupportedArchs.FindStringSubmatch(message); m != nil {
		archs := strings.Split(strings.ReplaceAll(m[1], "'", ""), ", ")
		if got, err := resolveArch(archs, false, false); err == nil {
			return "served as " + got.class, true
		}
		return "", true
	}
	if m := retiredArch.FindStringSubmatch(message); m != nil {
		_, err := resolveArch(m[1:2], false, false)
		if err == nil || !strings.Contains(err.Message, m[2]) {
			return "refusal differs", true
		}
		return "", true
	}
	return "", false
}
