package model

import (
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/dtype"
)

// taskSuffixes end an architecture's name and say what is on top of its decoder.
var taskSuffixes = []string{"ForCausalLM", "LMHeadModel", "ForSequenceClassification", "ForTokenClassification",
	"ForMaskedLM", "ForQuestionAnswering", "ForEmbedding", "TextModel", "Model"}

// stem is the architecture without what its task adds: "Bloom" of BloomForCausalLM and of
// BloomModel.
func stem(arch string) string {
	for _, suffix := range taskSuffixes {
		if s, ok := strings.CutSuffix(arch, suffix); ok {
			return s
		}
	}
	return arch
}

// knows reports whether the family knows an architecture, also by another task's name.
func (f *family) knows(arch string) bool {
	if slices.Contains(f.architectures, arch) {
		return true
	}
	s := stem(arch)
	return s != arch && slices.ContainsFunc(f.architectures, func(a string) bool { return stem(a) == s })
}

// towerKeys are fields that only a config with more than a text model has.
var towerKeys = []string{"vision_config", "audio_config", "visual", "vision_tower", "mm_vision_tower", "img_processor",
	"speech_config", "encoder_config", "sound_config", "vit_config", "image_embd_layer", "embd_layer"}

// finish adds to a resolved model what all families have in common: its task, and why its
// parameters cannot be relied on.
func (m *Model) finish(c *Config, f *family) {
	for _, l := range distinct(m.Layers) {
		c.text.class.tpPlan.mark(l.Params)
	}
	if head := f.headOf(m.Architecture); head != nil {
		m.Outer = slices.DeleteFunc(m.Outer, func(p Param) bool { return p.Part == Head || p.Part == Pooler })
		m.Outer = append(m.Outer, head(c, m.HiddenSize, m.VocabSize, labels(c))...)
	}
	if m.OnlyYaRN() {
		for i := range m.Ropes {
			if r := &m.Ropes[i]; r.Type != "default" {
				r.Type = "deepseek_yarn"
			}
		}
	}
	m.Quantization, _ = c.Quantization()
	m.TextOnly = f.textOnly && !strings.HasSuffix(m.Architecture, "ForConditionalGeneration") &&
		slices.Contains(f.architectures, stem(m.Architecture)+"ForCausalLM")
	if c.towers() && !m.TextOnly || towerOf(m.Architecture, c) != nil {
		m.addTowers(c)
	}
	if m.WeightsUnknown == "" {
		m.WeightsUnknown = unknownWeights(c, f, m)
	}
}

// unknownWeights says why the text model's parameters are not the checkpoint's, "" when
// they are.
func unknownWeights(c *Config, f *family, m *Model) string {
	if arch := m.Architecture; arch != "" && !f.knows(arch) && towerOf(arch, c) == nil {
		return "parameters of " + arch + " beyond its " + f.name + " decoder"
	}
	return ""
}

// towers reports whether a checkpoint holds more than a text model: the text config is
// nested, or lies beside another model's.
func (c *Config) towers() bool {
	if _, nested := c.Nested(); nested {
		return true
	}
	return slices.ContainsFunc(towerKeys, func(key string) bool {
		v, ok := c.top.object.Get(key)
		return ok && v.Kind() != checkpoint.Null
	})
}

// A taskHead is what a checkpoint has in the place of a language-model head.
type taskHead func(c *Config, hidden, vocab, labels int) []Param

// headOf is the head of an architecture's task: the family's own, or a projection to the
// labels; nil for a language model.
func (f *family) headOf(arch string) taskHead {
	for suffix, head := range f.heads {
		if strings.HasSuffix(arch, suffix) {
			return head
		}
	}
	if strings.HasSuffix(arch, "ForSequenceClassification") || strings.HasSuffix(arch, "ForTokenClassification") {
		return scores
	}
	return nil
}

// labels is how many labels a classifier tells apart: its answer codes, num_labels, the length
// of id2label, the class's own number, or Transformers' two.
func labels(c *Config) int {
	n, ok := c.Int("num_labels")
	if codes, _ := c.Top().Object("decision_config").Get("codes"); len(codes.List()) > 0 { // Decision 3.0's answers
		n, ok = int64(len(codes.List())), true
	}
	if names := c.Object("id2label"); names.Len() > 0 && (!ok || c.IsDefault("num_labels")) {
		n = 0
		for _, key := range names.Keys() {
			if _, ok := names.Get(key); ok { // read, so that a reduced config has it
				n++
			}
		}
	}
	if n <= 0 || n > maxSize {
		return 2
	}
	return int(n)
}

// scores projects a state to the labels. Engines keep it in float32 and on every pipeline
// stage (vllm adapters.py, as_seq_cls_model).
func scores(_ *Config, hidden, _, labels int) []Param {
	return []Param{{Name: "score.weight", Part: Head, Rows: whole(labels), Cols: whole(hidden), DType: dtype.Float32, Stage: EveryStage}}
}
