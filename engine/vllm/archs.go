package vllm

import (
	_ "embed"
	"slices"
	"strings"

	"headcount/internal/tsv"
	"headcount/model"
	"headcount/problem"
)

// archsTable has a line for each architecture that vLLM 0.33.0 knows, sorted: the name, the
// class that serves it, flags, and of a retired one the last version or the plugin's address.
// tools/facts/vllm_archs.py writes it from the installed engine
// (vllm/model_executor/models/registry.py). Flags:
//
//	g  generates text                P  supports pipeline parallelism
//	p  a pooling model by itself     m  takes images, audio or video
//	h  hybrid                        f  attention-free
//	s  has inner state               n  layers may have no attention
//	t  transcribes speech            k  groups its caches itself
//	b  attends in both directions    c, e  pools CLS, MEAN instead of the last token
//	S  pools steps                   d  a draft model
//	r  retired; the last version     o  out of tree; the plugin's address
//	u  its MLPs know no activation but silu
//	U  nor do its layers of experts
//	w  the Transformers backend takes Transformers' own class of that name
//
//go:embed archs.tsv
var archsTable string

// archInfo is what the registry says of an architecture or of a model class.
type archInfo struct {
	name   string
	class  string // "" when vLLM has no class of its own for it
	flags  string
	detail string // retired: last version; out of tree: address
}

func (a archInfo) is(flag byte) bool { return strings.IndexByte(a.flags, flag) >= 0 }

// native reports whether the registry holds the architecture.
func (a archInfo) native() bool { return a.class != "" }

// lookupArch finds an architecture by its name in config.json.
func lookupArch(name string) (archInfo, bool) {
	line, ok := tsv.Rest(archsTable, name)
	if !ok {
		return archInfo{}, false
	}
	a := archInfo{name: name}
	a.class, line, _ = strings.Cut(line, "\t")
	a.flags, a.detail, _ = strings.Cut(line, "\t")
	return a, true
}

// nearestArch is the architecture that serves text whose name is closest, "" when none is near.
func nearestArch(name string) string {
	var names []string
	for line := range strings.Lines(archsTable) {
		key, rest, _ := strings.Cut(line, "\t")
		if class, _, _ := strings.Cut(rest, "\t"); class != "" {
			names = append(names, key)
		}
	}
	if near := problem.Nearest(name, names, 1); len(near) > 0 {
		return near[0]
	}
	return ""
}

// A task is what vLLM makes of an architecture whose name ends in a suffix, unless its
// registry says otherwise.
type task struct {
	suffix  string
	pooling bool
	convert string // "embed" and "classify" put a pooler on a model that generates; else "none"
}

// tasks are vLLM's defaults in its order (vllm/config/model.py, _SUFFIX_TO_DEFAULTS).
var tasks = []task{
	{"ForCausalLM", false, "none"}, {"ForConditionalGeneration", false, "none"},
	{"ChatModel", false, "none"}, {"LMHeadModel", false, "none"},
	{"ForTextEncoding", true, "embed"}, {"EmbeddingModel", true, "embed"},
	{"ForSequenceClassification", true, "classify"}, {"ForTokenClassification", true, "classify"},
	{"ForAudioClassification", true, "classify"}, {"ForImageClassification", true, "classify"},
	{"ForVideoClassification", true, "classify"}, {"ClassificationModel", true, "classify"},
	{"ForRewardModeling", true, "embed"}, {"RewardModel", true, "embed"},
	{"Model", true, "embed"},
}

// generateSuffixes are cut off a class's name before a pooler's is put in their place
// (vllm/model_executor/models/adapters.py).
var generateSuffixes = []string{"ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel"}

// taskOf returns the first default whose suffix the architecture ends in.
func taskOf(arch string, fits func(task) bool) (task, bool) {
	for _, t := range tasks {
		if strings.HasSuffix(arch, t.suffix) && (fits == nil || fits(t)) {
			return t, true
		}
	}
	return task{}, false
}

// A resolution is how vLLM would serve a config.
type resolution struct {
	arch         string   // the architecture that it settles on
	class        string   // the class that it builds, "LlamaForEmbedding" where it adds a pooler
	info         archInfo // of the class before a pooler is added
	pooling      bool     // runner pooling; otherwise generate
	convert      string   // "none", "embed", "classify"
	transformers bool     // a class of Transformers runs inside
}

// A resolver answers for one config. Nested is whether its text config is nested, moe
// whether it has experts: both decide which wrapper the Transformers backend takes.
type resolver struct {
	archs       []string
	nested, moe bool
}

// resolveArch chooses class, runner and conversion for the architectures of a config, for
// `--runner auto --convert auto --model-impl auto`. The order is vLLM's
// (vllm/config/model.py, ModelConfig.__post_init__; registry.py, inspect_model_cls):
//
//  1. Runner: an architecture of the registry decides by its class, pooling before generate;
//     any other by its suffix. (A sentence-transformers pooling file would decide first; it
//     is not part of config.json.)
//  2. Convert: none if the class serves the runner by itself; else the suffix's, among those
//     of the runner; else embed for pooling.
//  3. Class: if the registry has none of the architectures and nothing is to be converted, a
//     class of Transformers by that name, wrapped. Else the first architecture that the
//     registry has, also under another task's suffix. Else Transformers' class again, now
//     with a pooler. Else it is refused.
//
// The error is vLLM's refusal, code unsupported.
func resolveArch(archs []string, nested, moe bool) (resolution, *problem.Error) {
	if len(archs) == 0 {
		return resolution{}, problem.New(problem.Unsupported, "architectures", nil, "no model architectures are specified").By("vllm")
	}
	r := resolver{archs: archs, nested: nested, moe: moe}
	if _, err := r.inspect(func(task) bool { return true }, "none"); err != nil {
		return resolution{}, err
	}
	out := resolution{pooling: r.pooling()}
	out.convert = r.convert(out.pooling)
	fits := func(t task) bool { return t.pooling == out.pooling && t.convert == out.convert }
	found, err := r.inspect(fits, out.convert)
	if err != nil {
		return resolution{}, err
	}
	out.arch, out.info, out.class = found.arch, found.info, found.info.class
	out.transformers = strings.HasPrefix(out.class, "Transformers")
	if !out.info.is('p') {
		switch out.convert {
		case "embed":
			out.class = pooled(out.class, "ForEmbedding")
		case "classify":
			out.class = pooled(out.class, "ForSequenceClassification")
		}
	}
	return out, nil
}

// pooled is the name of a class with a pooler.
func pooled(class, suffix string) string {
	for _, s := range generateSuffixes {
		class = strings.TrimSuffix(class, s)
	}
	return class + suffix
}

type inspected struct {
	arch string
	info archInfo
}

// inspect finds the class of the first architecture that has one.
func (r resolver) inspect(fits func(task) bool, convert string) (inspected, *problem.Error) {
	registered := slices.ContainsFunc(r.archs, func(a string) bool { i, _ := lookupArch(a); return i.native() })
	if !registered && convert == "none" {
		if name, info, ok := r.backend(); ok {
			return inspected{name, info}, nil
		}
	}
	for _, arch := range r.archs {
		if info, ok := lookupArch(normalize(arch, fits)); ok && info.native() {
			return inspected{arch, info}, nil
		}
	}
	if !registered {
		if name, info, ok := r.backend(); ok {
			return inspected{name, info}, nil
		}
	}
	return inspected{}, r.refusal()
}

// normalize is arch, or the same model's architecture for another task if the registry has
// only that.
func normalize(arch string, fits func(task) bool) string {
	if info, _ := lookupArch(arch); info.native() {
		return arch
	}
	if t, ok := taskOf(arch, fits); ok {
		for _, other := range tasks {
			base := strings.ReplaceAll(arch, t.suffix, other.suffix)
			if info, _ := lookupArch(base); info.native() {
				return base
			}
		}
	}
	return arch
}

// backend is the wrapper of the Transformers backend, if that takes the first architecture.
func (r resolver) backend() (string, archInfo, bool) {
	info, ok := lookupArch(r.archs[0])
	if !ok || !info.is('w') && !strings.HasPrefix(r.archs[0], "Transformers") {
		return "", archInfo{}, false
	}
	name := "Transformers"
	if r.nested {
		name += "MultiModal"
	}
	if r.moe {
		name += "MoE"
	}
	t, _ := taskOf(r.archs[0], nil)
	switch {
	case t.pooling && t.convert == "embed":
		name += "EmbeddingModel"
	case t.pooling:
		name += "ForSequenceClassification"
	default:
		name += "ForCausalLM"
	}
	wrapper, ok := lookupArch(name)
	return name, wrapper, ok
}

// pooling is the runner that vLLM would choose.
func (r resolver) pooling() bool {
	for _, arch := range r.archs {
		if info, _ := lookupArch(arch); info.native() {
			if info.is('p') || info.is('g') {
				return info.is('p')
			}
		}
		if t, ok := taskOf(arch, nil); ok {
			return t.pooling
		}
	}
	return false
}

// convert is what has to be put on the class for the runner.
func (r resolver) convert(pooling bool) string {
	for _, arch := range r.archs {
		if info, _ := lookupArch(arch); info.native() && (!pooling && info.is('g') || pooling && info.is('p')) {
			return "none"
		}
		if t, ok := taskOf(arch, func(t task) bool { return t.pooling == pooling }); ok {
			return t.convert
		}
	}
	if pooling {
		return "embed"
	}
	return "none"
}

// refusal says in the engine's words why it serves none of the architectures.
func (r resolver) refusal() *problem.Error {
	for _, arch := range r.archs {
		info, _ := lookupArch(arch)
		switch {
		case info.is('r'):
			return problem.New(problem.Unsupported, "architectures", arch,
				"was supported in vLLM until v%s, and is not supported anymore", info.detail).
				By("vllm").WithHint("use vLLM %s", info.detail)
		case info.is('o'):
			return problem.New(problem.Unsupported, "architectures", arch,
				"is not supported in-tree anymore").By("vllm").WithHint("install the plugin at %s", info.detail)
		}
	}
	err := problem.New(problem.Unsupported, "architectures", strings.Join(r.archs, ", "), "not supported by vLLM").By("vllm")
	if near := nearestArch(r.archs[0]); near != "" {
		err = err.WithHint("the closest architecture that it serves is %s", near)
	}
	return err
}

// mtpOwn are the model types, and architectures, for which `--speculative-config
// {"method": "mtp"}` finds the checkpoint's own draft layers; any other model is refused:
// "Unsupported speculative method: 'mtp'" (vllm/config/speculative.py, hf_config_override).
var mtpOwn = []string{
	"deepseek_v3", "deepseek_v32", "glm_moe_dsa", "deepseek_v4", "dots3_note", "pangu_ultra_moe", "kimi_k3",
	"MiMoForCausalLM", "MiMoV2ForCausalLM", "MiMoV2OmniForCausalLM", "MiMoV2FlashForCausalLM", "Glm4MoeForCausalLM",
	"Glm4MoeLiteForCausalLM", "GlmOcrForConditionalGeneration", "ernie4_5_moe", "nemotron_h", "nemotron_h_puzzle",
	"NemotronH_Super_Omni_Reasoning_V3", "NemotronH_Omni_Reasoning_V3", "qwen3_next", "qwen4_exp", "qwen4_exp_text",
	"BailingMoeV3ForCausalLM", "BailingMoeV3VLForConditionalGeneration", "bailing_hybrid", "BailingMoeV2_5ForCausalLM",
	"exaone_moe", "exaone4_5", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text", "intern_s2_preview",
	"interns2_mobius", "longcat_flash", "step3p5", "step3p7", "Step3p5ForCausalLM", "Step3p7ForConditionalGeneration",
	"step5", "step5_vl", "Step5ForCausalLM", "Step5ForConditionalGeneration", "hy_v3", "hy_v4", "inkling_mm_model",
	"inkling_model", "gemma4_assistant", "gemma4_unified_assistant", "minimax_m3_vl", "minimax_m3_mtp",
	"MiniMaxM3SparseForConditionalGeneration", "MiniMaxM3MTP", "glm5_next", "RadioMBartPrefixForCausalLM",
}

// servesMTP reports whether vLLM drafts with the checkpoint's own layers. The Transformers
// backend does so for any text model that counts them in num_mtp_layers.
func servesMTP(c *model.Config, r resolution) bool {
	if r.transformers {
		_, nested := c.Nested()
		_, counted := c.Value("num_mtp_layers")
		return counted && !nested
	}
	return slices.Contains(mtpOwn, c.Top().ModelType()) || slices.Contains(mtpOwn, r.arch)
}
