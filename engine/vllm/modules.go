package vllm

import (
	"cmp"
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/model"
	"headcount/problem"
	"headcount/weights"
)

// moreExperts are the classes whose experts are at least as many as the ranks, and
// expertStages those that want a layer with experts on each pipeline stage (vllm
// model_executor/models, each class's own constructor).
var (
	moreExperts = []string{
		"AliceAIForCausalLM", "Cohere2MoeForCausalLM", "Ernie4_5_MoeForCausalLM", "Ernie4_5_VLMoeForConditionalGeneration",
		"ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM", "HYV3ForCausalLM", "InternS1ProForConditionalGeneration", "InternS2MobiusForConditionalGeneration",
		"K2HorizonForCausalLM", "LagunaForCausalLM", "Lfm2MoeForCausalLM", "MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM", "MiniMaxM2ForCausalLM",
		"Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM", "Qwen3VLMoeForConditionalGeneration", "Qwen3NextForCausalLM",
		"Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration", "Step3TextForCausalLM", "Step3VLForConditionalGeneration", "Step3p5ForCausalLM",
	}
	expertStages = []string{
		"Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM", "Glm4vMoeForConditionalGeneration", "HYV3ForCausalLM", "InternS1ProForConditionalGeneration",
		"Lfm2MoeForCausalLM", "MixtralForCausalLM", "PanguUltraMoEForCausalLM", "Param2MoEForCausalLM", "Step3p5ForCausalLM",
		"PanguProMoEV2ForCausalLM", "Qwen3MoeForCausalLM", "Qwen3VLMoeForConditionalGeneration",
		"Qwen3NextForCausalLM", "Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration", "SarvamMLAForCausalLM", "SarvamMoEForCausalLM",
	}
)

// checkModules refuses what the engine's modules refuse while they are built, in that order:
// the first attention's, the first experts', those of all layers, and what the whole looks at.
func (p *plan) checkModules() *problem.Error {
	s := &p.setup
	if !s.v.transformers { // which builds the projections of all layers before any attention
		if err := cmp.Or(s.checkAlike(), s.checkProjections()); err != nil {
			return err
		}
	}
	return cmp.Or(s.checkRotary(), s.checkChunks(), s.checkFloat8(p.caches), s.checkExperts(), s.checkRouting(), s.checkWorld(), p.checkSources(), s.checkPieces(), p.checkDeepStack(), p.checkExpertStages(), p.checkTied(), s.checkDraft())
}

// ownClass is the class that has a head, of an embedding model the one it was made of.
func (v *view) ownClass() string {
	if base, ok := strings.CutSuffix(v.arch, "Model"); ok {
		return base + "ForCausalLM"
	}
	return v.arch
}

// checkExperts refuses more ranks than experts.
func (s *setup) checkExperts() *problem.Error {
	n := s.v.experts
	if n == 0 || int64(s.layout.TP) <= n || !slices.Contains(moreExperts, s.v.ownClass()) || !slices.ContainsFunc(s.v.model.Layers, hasExperts) {
		return nil
	}
	return problem.New(problem.IllegalLayout, "tensor_parallel_size", s.layout.TP, "Tensor parallel size %d is greater than the number of experts %d.", s.layout.TP, n).
		WithHint("a tensor parallel size of at most %d", n)
}

// grouped are the text models whose classes route by groups of experts, whatever the config
// says of it.
var grouped = []string{"afmoe", "axk1", "deepseek_v2", "deepseek_v3", "deepseek_v32", "exaone_moe", "glm4_moe", "glm4_moe_lite",
	"glm4v_moe_text", "glm5_next_text", "glm_moe_dsa", "kimi_k2", "mimo_v2_flash", "nemotron_h"}

// checkRouting refuses null for a number of groups (fused_moe/router/router_factory.py).
func (s *setup) checkRouting() *problem.Error {
	v, c := s.v, s.v.model.Config
	groups := "n_group"
	switch v.model.TextType {
	case "kimi_linear", "kimi_k3":
		if by, _ := c.Bool("use_grouped_topk"); !by {
			return nil
		}
		groups = "num_expert_group"
	default:
		if !slices.Contains(grouped, v.model.TextType) {
			return nil
		}
	}
	if v.transformers || s.gpu.cpu || !slices.ContainsFunc(v.model.Layers, hasExperts) {
		return nil
	}
	for _, key := range []string{groups, "topk_group"} {
		if c.IsNull(key) {
			return problem.New(problem.BadValue, v.field(key), nil, "null, and experts are chosen by groups").WithHint("1 for a single group")
		}
	}
	return nil
}

// checkWorld refuses gpt-oss on a number of devices, stages included, that does not divide
// its experts (models/gpt_oss.py, MLPBlock).
func (s *setup) checkWorld() *problem.Error {
	width, _ := s.v.model.Config.Int("intermediate_size")
	if n := s.layout.GPUs(); s.v.arch == "GptOssForCausalLM" && width%int64(n) != 0 {
		return problem.New(problem.NotDivisible, s.v.field("intermediate_size"), width, "not divisible by the %d devices of all stages", n)
	}
	return nil
}

// checkExpertStages refuses a stage without experts.
func (p *plan) checkExpertStages() *problem.Error {
	s, layers := &p.setup, p.setup.v.model.Layers
	wants := slices.Contains(expertStages, s.v.ownClass())
	if s.v.arch == "AfmoeForCausalLM" || s.v.model.Family == "nemotron_h" { // which may do without
		wants = slices.ContainsFunc(layers, hasExperts)
	}
	if !wants {
		return nil
	}
	for i, span := range p.spans {
		if !slices.ContainsFunc(layers[span.Start:span.End], hasExperts) {
			return problem.New(problem.IllegalLayout, "pipeline_parallel_size", s.layout.PP, "no layer of stage %d has experts", i).
				WithHint("a smaller pipeline_parallel_size")
		}
	}
	return nil
}

// tiedOnOneStage are the classes that tie head and embedding where a stage has but one of them
// (ernie45_moe.py, ernie45_vl_moe.py, falcon_h1.py).
var tiedOnOneStage = []string{"Ernie4_5_MoeForCausalLM", "Ernie4_5_VLMoeForConditionalGeneration", "FalconH1ForCausalLM"}

// checkTied refuses stages between an embedding and the head that is tied to it.
func (p *plan) checkTied() *problem.Error {
	v := p.setup.v
	if len(p.spans) == 1 || !v.model.TiedEmbeddings || !slices.Contains(tiedOnOneStage, v.ownClass()) {
		return nil
	}
	return problem.New(problem.IllegalLayout, "pipeline_parallel_size", len(p.spans), "the head is tied to the embedding, which is on another stage").
		WithHint("pipeline_parallel_size 1")
}

// checkSources refuses stages that begin between a layer whose compressed latents others read
// and those others (models/deepseek_v41/attention.py).
func (p *plan) checkSources() *problem.Error {
	v := p.setup.v
	if !v.v41() {
		return nil
	}
	for _, span := range p.spans[1:] {
		for _, l := range v.model.Layers[span.Start:span.End] {
			first := l.Caches[0]
			if first.Kind == model.Latent {
				break
			}
			if first.Ratio > 0 {
				return problem.New(problem.IllegalLayout, "pipeline_parallel_size", len(p.spans), "PP splits inside a v4.1 kv-sharing group are not supported: a stage begins at layer %d", span.Start).
					WithHint("a smaller pipeline_parallel_size")
			}
		}
	}
	return nil
}

// deepStacked are the classes built as Qwen3-VL is.
var deepStacked = []string{"Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration",
	"Alpamayo2Super", "ColQwen3", "Cosmos3ForConditionalGeneration"}

// checkDeepStack refuses stages after the first that begin within the layers to which an
// image's features of several depths are added (qwen3_vl.py, qwen3_vl_moe.py).
func (p *plan) checkDeepStack() *problem.Error {
	v := p.setup.v
	if len(p.spans) == 1 || !slices.Contains(deepStacked, v.arch) {
		return nil
	}
	tower, ok := v.model.Config.Top().Sub("vision_config")
	if !ok {
		return nil
	}
	depths, _ := tower.List("deepstack_visual_indexes")
	if start := p.spans[1].Start; start < len(depths) {
		return problem.New(problem.IllegalLayout, "pipeline_parallel_size", len(p.spans), "the second stage begins at layer %d, within the %d to which features of images are added", start, len(depths)).
			WithHint("a smaller pipeline_parallel_size")
	}
	return nil
}

func hasExperts(l *model.Layer) bool {
	return slices.ContainsFunc(l.Params, func(p model.Param) bool { return p.Experts > 0 })
}

// checkFloat8 holds an FP8 cache to what kernels and checkpoints take
// (layers/attention/attention.py, _init_kv_cache_quant; v1/attention/backends/triton_attn.py).
func (s *setup) checkFloat8(caches []layerCache) *problem.Error {
	if !strings.HasPrefix(s.cacheDType, "fp8") {
		return nil
	}
	attends := func(lc layerCache) bool { return !lc.by.recurrent() }
	pooled := func(lc layerCache) bool { return lc.by == sparseQwen4 }
	if s.cacheDType == "fp8_e5m2" && slices.ContainsFunc(caches, pooled) { // models/qwen4_exp/nvidia/qsa.py
		return problem.New(problem.Unsupported, "kv_cache_dtype", s.cacheDType, "Qwen4Exp QSA requires a BF16 or FP8-e4m3 main KV cache").
			WithHint("kv_cache_dtype fp8")
	}
	if s.cacheDType == "fp8_e5m2" && s.scalesCaches() && slices.ContainsFunc(caches, attends) {
		return problem.New(problem.Unsupported, "kv_cache_dtype", s.cacheDType, "fp8_e5m2 kv-cache is not supported with fp8 checkpoints.").
			WithHint("kv_cache_dtype fp8")
	}
	if !s.gpu.atLeast(8, 9) && slices.ContainsFunc(caches, onTriton) {
		return problem.New(problem.Unsupported, "kv_cache_dtype", s.cacheDType, "FP8 KV cache is not supported by the Triton backends below compute capability 8.9.").
			WithHint("kv_cache_dtype auto")
	}
	return nil
}

func onTriton(lc layerCache) bool {
	return lc.by == tritonAttn || lc.by == tritonAttnDiffKV || lc.by == tritonMLA
}

// scalesCaches reports whether the checkpoint's quantisation has scales for caches.
func (s *setup) scalesCaches() bool {
	switch s.quant {
	case "fp8", "deepseek_v4_fp8", "modelopt", "modelopt_fp4", "modelopt_mxfp8", "quark":
		return true
	case "modelopt_mixed":
		return weights.MixedScales(s.v.quantBlock)
	case "compressed-tensors":
		block := s.v.model.Config.Top().Object("quantization_config")
		return block.Dict("kv_cache_scheme") != nil
	}
	return false
}

// checkRotary refuses rotary parameters that the engine's own embeddings do not take
// (layers/rotary_embedding: linear_scaling_rope.py iterates over a factor that is no float,
// mrope.py asserts that the sections are half of what turns). Embeddings that no layer has
// are not built.
func (s *setup) checkRotary() *problem.Error {
	layers := s.v.model.Layers
	if s.drafts > 0 {
		layers = slices.Concat(layers, s.v.model.Draft)
	}
	turns := func(r model.Rope) bool { return r.Serves(layers) }
	if isFalse(s.v.model.Config, "mla_use_nope") && s.v.model.Family == "kimi_linear" && slices.ContainsFunc(s.v.model.Layers, (*model.Layer).Attends) {
		return problem.New(problem.Unsupported, s.v.field("mla_use_nope"), false, "Kimi-K3 MLA (MultiHeadLatentAttention) is NoPE-only")
	}
	if s.v.transformers || !slices.ContainsFunc(s.v.model.Ropes, turns) {
		return nil
	}
	for _, rope := range s.v.model.Ropes {
		if rope.Width > 0 && rope.Dim > rope.Width && turns(rope) {
			return problem.New(problem.BadValue, s.v.field("rotary_dim"), rope.Dim, "more than the %d elements of a head", rope.Width)
		}
	}
	params := s.v.model.Config.Object("rope_parameters")
	if err := s.checkRope(params); err != nil {
		return err
	}
	for _, key := range params.Keys() {
		set, _ := params.Get(key)
		if served := (model.Rope{LayerType: cmp.Or(v4Ropes[key], key)}); set.Kind() == checkpoint.Dict && served.Serves(layers) {
			if err := s.checkRope(set.Dict()); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRope refuses one set of rotary parameters.
func (s *setup) checkRope(set *checkpoint.Object) *problem.Error {
	for _, key := range s.v.yarnFields(set) {
		if _, given := set.Get(key); !given {
			return problem.New(problem.MissingField, s.v.field("rope_scaling")+"."+key, nil, "the engine takes any kind of scaling of this model for YaRN, which needs it").
				WithHint("a rope_type of yarn, with its fields")
		}
	}
	trained, _ := set.Get(trainedLength)
	if _, own := trained.Int(); !own && slices.Contains([]string{"longrope", "su"}, ropeType(set)) {
		if _, given := s.v.model.Config.Int(trainedLength); !given {
			return problem.New(problem.MissingField, s.v.field(trainedLength), nil, "LongRoPE needs the length that the model was trained at")
		}
	}
	factor, _ := set.Get("factor")
	if ropeType(set) == "linear" && factor.Kind() == checkpoint.Int {
		return problem.New(problem.BadValue, s.v.field("rope_scaling")+".factor", factor.Any(), "an integer, and the engine takes a list or a float").
			WithHint("%v.0", factor.Any())
	}
	sections, given := set.Get("mrope_section")
	half := int64(s.v.model.Ropes[0].Dim / 2)
	if sum := total(sections.List()); given && !s.v.oneDimensional() && sum > 0 && sum != half {
		return problem.New(problem.BadValue, s.v.field("rope_scaling")+".mrope_section", sum, "sections of %d in all, not the %d of half a head that turns", sum, half)
	}
	return nil
}

// trainedLength is the field of the length before positions were stretched.
const trainedLength = "original_max_position_embeddings"

// yarnFields are those of a set of rotary parameters that a class which knows one kind of
// scaling reads whatever kind it is.
func (v *view) yarnFields(set *checkpoint.Object) []string {
	switch {
	case strings.HasPrefix(v.arch, "GptOss"), v.arch == "OpenAIPrivacyFilterForTokenClassification": // models/gpt_oss.py
		return []string{"factor", trainedLength, "beta_fast", "beta_slow"}
	case (v.model.OnlyYaRN() || v.model.Family == "deepseek_v4") && ropeType(set) != "default":
		return []string{trainedLength}
	}
	return nil
}

// v4Ropes are the layers that DeepSeek-V4's sets of rotary parameters serve.
var v4Ropes = map[string]string{"main": "uncompressed", "compress": "compressed"}

// oneDimensional tells that the engine drops the sections of positions that the config has
// from a sibling with images (models/config.py, Qwen3_5ForCausalLMConfig).
func (v *view) oneDimensional() bool {
	return v.arch == "Qwen3_5ForCausalLM" || v.arch == "Qwen3_5MoeForCausalLM"
}

// chunking are the families that hand dual chunk attention on to their backend: each class
// reads it of its config (models/qwen2.py and those built alike).
var chunking = []string{"iquest_loopcoder", "k2_horizon", "mimo", "qwen2", "qwen2_moe", "qwen3", "qwen3_5", "qwen3_moe", "qwen3_next", "qwen4_exp"}

// checkChunks refuses dual chunk attention (arXiv 2402.17463), for which no backend is left.
func (s *setup) checkChunks() *problem.Error {
	const key = "dual_chunk_attention_config"
	v := s.v
	if v.transformers || !slices.Contains(chunking, v.model.Family) || v.model.Config.Object(key) == nil {
		return nil
	}
	return problem.New(problem.Unsupported, v.field(key), nil, "no attention backend takes dual chunk attention").
		WithHint(`--hf-overrides '{"dual_chunk_attention_config": null}' serves full attention`)
}

func total(list []checkpoint.Value) (sum int64) {
	for _, v := range list {
		n, _ := v.Int()
		sum += n
	}
	return sum
}
