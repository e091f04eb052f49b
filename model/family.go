package model

import (
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/problem"
)

// A family resolves the checkpoints of some architectures. Each is one file: it names
// what it serves, reads its fields, and lists its layers' caches and parameters.
type family struct {
	name          string
	architectures []string // as in config.json's architectures
	types         []string // model_type of the text config, for wrappers and files without architectures
	resolve       func(*reader) *Model

	// kvHeads are the edits of config.json, by paths in the text config, that give a model n
	// KV heads; none when no field of the class can. nil: the field that the class has.
	kvHeads func(c *Config, n int) []Edit

	// textOnly: its ...ForCausalLM is the language model alone, also of a file that nests its
	// config beside towers (get_text_config in vllm qwen3_5.py, gemma4.py, models/glm5next,
	// minimax_m3 and qwen4_exp).
	textOnly bool

	// heads are the family's own heads of tasks other than language modelling, by how the
	// architecture's name ends.
	heads map[string]taskHead
}

// families are all that are known, in no order that matters: no two name the same
// architecture or type (a test holds this).
var families = slices.Concat(dense, sparse, mixed)

var (
	// dense families: every layer alike, one MLP.
	dense = []*family{
		&llama, &llamaBidirectional, &qwen2, &qwen3, &qwen, &gemma, &internlm, &internlm2, &chatglm, &glm, &glm4, &cohere,
		&gpt2, &gptBigCode, &gptJ, &gptNeoX, &bloom, &falcon, &opt, &phi, &starcoder2, &stablelm, &orion,
		&olmo, &olmo2, &nemotron, &arcee, &apertus, &seedOSS, &helium, &hunyuan, &exaone, &hyperclovax, &minicpm,
		&minicpm3, &decilm, &nanochat, &baichuan, &mpt, &telechat2, &step1, &mimo, &pangu,
		&persimmon, &doge, &bert, &euroBERT, &modernBERT, &nomicBERT, &gteNew, &clip, &siglip, &molmo, &vaultGemma, &hrm, &loopCoder, &plamo3, &cohereCompass, &cosmos3Edge, &molmo2, &plain,
	}
	// sparse families: routed experts, or latents instead of KV heads.
	sparse = []*family{&mixtral, &qwen2MoE, &qwen3MoE, &graniteMoE, &minimaxM2, &glm4MoE, &olmoe, &phiMoE, &deepSeek,
		&dbrx, &dots1, &solarOpen, &hyV3, &ernieMoE, &afmoe, &deepSeekSparse, &glm4MoELite, &axk1, &panguUltraMoE, &sarvamMLA,
		&bailingMoE, &param2MoE, &step3, &longcatFlash, &exaoneMoE, &aria, &hunyuanMoE, &flexOlmo, &deepSeekV4, &mistral4, &youtu, &mellum, &kolibri1, &flint, &ernieVLMoE, &grok, &xverseMoE, &hyV4, &beam, &minimaxM3, &moondream3, &k2Horizon, &panguProMoE, &dots3Note}
	// mixed families: layers that differ in what they cache.
	mixed = []*family{
		&privacyFilter, &gemma2, &gemma3, &cohere2, &exaone4, &olmo3, &phi3,
		&mambaOnly, &mamba2Only, &jamba, &nemotronH, &graniteHybrid, &falconH1, &lfm2, &lfm2MoE, &qwen3Next, &qwen3_5,
		&gptOSS, &laguna, &mimoV2, &llama4, &museGlimmer, &gemma3n, &gemma4, &embeddingGemma2, &kimiLinear,
		&whisper, &cohereASR, &nemotronParse, &rnj1, &olmoHybrid, &step3p5, &cohere2MoE, &bailingLinear, &miniMax, &recurrentGemma, &zamba2, &bamba, &granite, &openELM, &bailingV3, &inkling, &glm5Next, &step5, &deepSeekV41, &qwen4Exp, &dory, &domynEdge, &aliceAI,
	}
)

// lookupFamily finds by architecture, else by the text config's model_type.
func lookupFamily(arch, textType string) *family {
	for _, f := range families {
		if slices.Contains(f.architectures, arch) {
			return f
		}
	}
	for _, f := range families {
		if f.knows(arch) || slices.Contains(f.types, textType) {
			return f
		}
	}
	return nil
}

// Resolve reads a checkpoint's config into a Model. The error is a [*problem.Error]:
// a field that is missing or of no use, or an architecture that no family knows.
func Resolve(src *checkpoint.Source) (*Model, error) {
	return ResolveAs(src, "")
}

// ResolveAs is Resolve as if the config named architecture arch; "" takes the file's own.
func ResolveAs(src *checkpoint.Source, arch string) (*Model, error) {
	c := NewConfig(src)
	if arch == "" {
		arch = architecture(src.Config)
	}
	f := lookupFamily(arch, c.ModelType())
	guessed := f == nil && c.Known()
	if guessed {
		f = &plain
	}
	if f == nil {
		return nil, unknownArchitecture(arch, c)
	}
	r := newReader(c)
	r.arch = arch
	if v, ok := c.Top().Raw().Get("quantization_config"); ok && v.Kind() != checkpoint.Dict && v.Kind() != checkpoint.Null {
		r.fail(problem.BadValue, "quantization_config", "not an object")
	}
	m := f.resolve(r)
	if r.err != nil {
		return nil, r.err
	}
	m.Name, m.Family, m.Architecture, m.Tensors = src.Name, f.name, arch, src.Tensors
	m.Provenance, m.family, m.Guessed = r.provenance, f, guessed
	if m.ExpertsPerToken == 0 && m.Experts > 0 {
		m.ExpertsPerToken, _ = r.first("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "top_k_experts", "experts_per_token")
	}
	m.finish(c, f)
	r.inspect(m)
	return m, nil
}

// unknownArchitecture names the nearest architecture that is known.
func unknownArchitecture(arch string, c *Config) *problem.Error {
	field, value := "architectures", arch
	if arch == "" {
		field, value = "model_type", c.ModelType()
	}
	if value == "" {
		return problem.New(problem.MissingField, "model_type", nil, "neither model_type nor architectures is given").
			WithHint("add the checkpoint's model_type, or pass --assume-architecture")
	}
	err := problem.New(problem.UnknownArchitecture, field, value, "not an architecture that headcount knows")
	if near := nearestArchitecture(value); near != "" {
		return err.WithHint("the nearest known one is %s: pass --assume-architecture %s to go on with it", near, near)
	}
	return err.WithHint("pass --assume-architecture LlamaForCausalLM if it is a plain decoder")
}

// nearestArchitecture is a known one whose name differs little before what it is for. Another
// number is another generation, and no slip.
func nearestArchitecture(name string) string {
	known := map[string]string{}
	var stems []string
	for _, f := range families {
		for _, arch := range f.architectures {
			stem := stemOf(arch)
			if _, ok := known[stem]; !ok && digits(stem) == digits(stemOf(name)) {
				known[stem] = arch
				stems = append(stems, stem)
			}
		}
	}
	if near := problem.Nearest(stemOf(name), stems, 1); len(near) > 0 {
		return known[near[0]]
	}
	return ""
}

func stemOf(arch string) string {
	stem, _, _ := strings.Cut(arch, "For")
	return stem
}

// digits are those of a name.
func digits(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, name)
}
