package vllm

import (
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/model"
	"headcount/problem"
)

// A tower is an encoder beside the language model whose widths tensor parallelism splits.
type tower struct {
	path  string   // of its config
	heads []string // fields that ranks divide, first of equals named
	inner []string
	last  bool // built after the language model, not before it
}

var towers = []tower{
	{path: "vision_config", heads: []string{"num_heads", "num_attention_heads"}, inner: []string{"intermediate_size"}},
	{path: "audio_config", heads: []string{"num_attention_heads", "encoder_attention_heads"}, inner: []string{"intermediate_size", "encoder_ffn_dim"}},
	{path: "thinker_config.audio_config", heads: []string{"encoder_attention_heads"}, inner: []string{"encoder_ffn_dim"}},
	{path: "thinker_config.vision_config", heads: []string{"num_heads"}, inner: []string{"intermediate_size"}},
	{path: "visual_tokenizer_config.backbone_config", heads: []string{"num_attention_heads"}, inner: []string{"intermediate_size"}},
	{path: "encoder_config", inner: []string{"output_dim"}, last: true},
}

// Architectures by what they do with a tower, beginnings of their names.
var (
	// wholeTowers leave it whole on every rank: a class of Transformers, or of timm.
	wholeTowers = []string{"Gemma4", "Gemma3n", "DiffusionGemma", "EmbeddingGemma2", "Qwen2Audio", "Qwen3ASR", "MuseGlimmer",
		"AudioFlamingo3", "Kimi", "DeepseekVLV2", "DeepseekOCR", "UnlimitedOCR", "FireRedASR2", "Terratorch"}
	// paddedHeads add heads until ranks divide them.
	paddedHeads = []string{"InternVL", "InternS1", "H2OVL", "NVLM_D", "Skyworkr1v", "SkyworkR1V"}
	// splitAudio split the audio tower; any other leaves it whole.
	splitAudio = []string{"Qwen2_5Omni", "GlmAsr", "Voxtral", "Whisper"}
	// fusedTowers are Transformers' own whose queries, keys and values the backend joins and
	// divides (models/transformers/fusers/qkv.py).
	fusedTowers = []string{"Kosmos2"}
	// splitEncoders split what encoder_config describes.
	splitEncoders = []string{"GraniteSpeech"}
)

// checkTowers refuses ranks that do not divide the heads or widths of towers that are built
// before the language model, or of those that are built last.
func (s *setup) checkTowers(last bool) *problem.Error {
	v, tp := s.v, int64(s.layout.TP)
	if tp == 1 || !v.multimodal || v.transformers && !startsWith(v.model.Architecture, fusedTowers) || startsWith(v.arch, wholeTowers) {
		return nil
	}
	for i := range towers {
		t := &towers[i]
		switch {
		case t.last != last, strings.HasSuffix(t.path, "audio_config") && !startsWith(v.arch, splitAudio),
			t.path == "encoder_config" && !startsWith(v.arch, splitEncoders):
			continue
		}
		fields := [][]string{t.heads, t.inner}
		if startsWith(v.arch, paddedHeads) {
			fields = fields[1:]
		}
		for _, names := range fields {
			if key, n := towerSize(v.model.Config.Top(), t.path, names); n%tp != 0 {
				return problem.New(problem.NotDivisible, t.path+"."+key, n, "not divisible by tensor parallel size %d", tp)
			}
		}
	}
	return nil
}

// towerSize is the first of the fields that a tower's config has; 0 for none.
func towerSize(top *model.Config, path string, names []string) (key string, n int64) {
	c, inside := top, (*checkpoint.Object)(nil)
	for part := range strings.SplitSeq(path, ".") {
		if sub, ok := c.Sub(part); ok && inside == nil {
			c = sub
			continue
		}
		if inside == nil {
			inside = c.Object(part)
		} else {
			inside = inside.Dict(part)
		}
		if inside == nil {
			return "", 0
		}
	}
	for _, key := range names {
		n, ok := c.Int(key)
		if inside != nil {
			value, _ := inside.Get(key)
			n, ok = value.Int()
		}
		if ok {
			return key, n
		}
	}
	return "", 0
}

func startsWith(s string, beginnings []string) bool {
	return slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(s, b) })
}
