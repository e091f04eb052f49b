package sglang

import (
	"slices"
	"strings"

	"headcount/attn"
	"headcount/problem"
)

// attentionBackends are the values that the flag takes on CUDA (server_args.py,
// ATTENTION_BACKEND_CHOICES).
var attentionBackends = []string{"triton", "torch_native", "flex_attention", "dsa", "nsa", "qsa", "dsv4", "compressed", "fa3", "fa4", "flashinfer",
	"llada2_cfg_flashinfer", "flashmla", "trtllm_mla", "cutedsl_mla", "tokenspeed_mla", "trtllm_mha", "hpc_ops", "minicpm_flashattn", "minicpm_flashinfer"}

// modelRules are the engine's overrides per architecture that touch a size, in its order
// (arg_groups/model_overrides, model_hook.py).
func (f *flags) modelRules() *problem.Error {
	o := f.opts
	if b := o.AttentionBackend; b != "" && !slices.Contains(attentionBackends, b) {
		return problem.New(problem.BadValue, "attention_backend", b, "not a backend of the engine on CUDA").
			WithHint("%s", strings.Join(problem.Nearest(b, attentionBackends, 3), ", "))
	}
	f.backend, f.page, f.kvDType = o.AttentionBackend, int64(o.PageSize), o.KVCacheDType
	if f.kvDType == "" {
		f.kvDType = "auto"
	}
	f.noRadix, f.noOverlap, f.noHybrid = o.DisableRadixCache, o.DisableOverlap, o.DisableHybridSWA
	f.swaRatio, f.stateRatio, f.strategy = o.SWAFullTokensRatio, o.MambaFullRatio, o.MambaRadixStrategy
	f.spec = specFlags{algorithm: strings.ToUpper(o.SpeculativeAlgorithm), steps: int64(o.SpeculativeSteps),
		topK: int64(o.SpeculativeTopK), tokens: int64(o.SpeculativeDraftTokens)}

	if f.states != nil && f.states.registered { // settled with the registry of such models
		if refusal := f.stateStrategy(); refusal != nil {
			return refusal
		}
	}
	if refusal := f.archRules(); refusal != nil {
		return refusal
	}
	return f.stateStrategy()
}

// archRules are those that look at the architecture.
func (f *flags) archRules() *problem.Error {
	unset := f.backend == ""
	suggest := func(backend string) {
		if unset {
			f.backend = backend
		}
	}
	sm100, sm90 := f.dev.sm100(), f.dev.sm90()
	switch f.arch {
	case "Gemma2ForCausalLM", "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "Gemma3nForCausalLM", "Gemma3nForConditionalGeneration":
		f.noHybrid = true
	case "Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration":
		suggest(pick(sm100, "trtllm_mha", "triton"))
	case "DiffusionGemmaForBlockDiffusion":
		suggest("triton")
	case "EmbeddingGemma2Model":
		f.noRadix = true
		suggest("triton")
	case "GptOssForCausalLM", "Llama4ForConditionalGeneration", "Llama4ForCausalLM":
		suggest(pick(sm100, "trtllm_mha", pick(sm90, "fa3", "triton")))
	case "Olmo2ForCausalLM":
		f.noHybrid = true
		suggest(f.fa3From80())
	case "Exaone4ForCausalLM", "ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM":
		if f.patterned {
			f.noHybrid = true
			suggest(f.fa3From80())
		}
	case "MiMoV2ForCausalLM", "MiMoV2FlashForCausalLM":
		if sm100 {
			suggest("fa4")
		}
	case "Step3p5ForCausalLM", "Step3p7ForConditionalGeneration":
		switch {
		case f.dev.blackwell():
			suggest("fa4")
		case sm90:
			suggest("fa3")
		}
	case "BeamForCausalLM":
		if sm90 || f.dev.blackwell() {
			suggest("trtllm_mha")
		}
	case "IQuestQ1ForCausalLM", "IQuestQ1MTP":
		switch {
		case f.attnDP > 1:
			return f.noDataParallel()
		case f.lay.DCP > 1:
			return problem.New(problem.Unsupported, "decode_context_parallel_size", f.lay.DCP, "%s does not run context parallelism", f.arch).By(name)
		case f.spec.algorithm != "" && f.opts.Draft == nil:
			return problem.New(problem.MissingField, "speculative_draft_model_path", nil, "missing, and %s drafts with a model of its own", f.arch).By(name)
		}
		suggest("fa3")
	case "Qwen3NextForCausalLM", "Qwen3_5MoeForConditionalGeneration", "InternS2PreviewForConditionalGeneration",
		"InternS2MobiusForConditionalGeneration", "Qwen3_5ForConditionalGeneration":
		if sm100 && unset {
			f.hybridOnBlackwell()
		}
	case "Qwen4ExpForConditionalGeneration":
		if sm100 && unset {
			f.hybridOnBlackwell()
		}
		f.page = 64
	case "FalconH1ForCausalLM", "JetNemotronForCausalLM", "JetVLMForConditionalGeneration",
		"MiniCPMV4_6ForConditionalGeneration", "MiniCPMV4_7ForConditionalGeneration":
		if sm100 {
			suggest("triton")
		}
	case "GraniteMoeHybridForCausalLM", "Lfm2ForCausalLM", "Lfm2MoeForCausalLM":
		if sm100 && f.states != nil {
			suggest("flashinfer")
		}
	case "NemotronHForCausalLM", "NemotronHPuzzleForCausalLM", "NemotronH_Omni_Reasoning_V3":
		f.nemotron(unset)
	case "MiniCPMForCausalLM", "MiniCPMSALAForCausalLM":
		if f.attnDP > 1 {
			return f.noDataParallel()
		}
		if f.states != nil {
			f.noRadix = true
		}
	case "Ernie4_5_VLMoeForConditionalGeneration":
		if f.attnDP > 1 {
			return f.noDataParallel()
		}
	case "InklingForConditionalGeneration", "InklingForConditionalGenerationMTP":
		f.swaRatio, f.stateRatio = orElse(f.swaRatio, 0.1), orElse(f.stateRatio, 0.1)
		if f.strategy == "" {
			f.strategy = "extra_buffer"
		}
		suggest(pick(sm90 || sm100, "fa4", "triton"))
	case "MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration":
		f.minimaxM3(unset)
	case "KimiK3ForConditionalGeneration":
		switch {
		case f.lay.DCP > 1 && (unset || f.backend == "cutedsl_mla"):
			f.prefill, f.decode = "trtllm_mla", "cutedsl_mla"
		case f.lay.DCP > 1:
			return problem.New(problem.Unsupported, "attention_backend", f.backend, "Kimi-K3 decodes over context-parallel ranks on cutedsl_mla").By(name)
		case sm100 && unset:
			f.prefill, f.decode = "trtllm_mla", "trtllm_mla"
		}
	case "DeepseekV4ForCausalLM":
		f.backend, f.page = "dsv4", 256
		f.swaRatio = orElse(f.swaRatio, 0.1)
		if f.kvDType == "auto" {
			f.kvDType = "fp8_e4m3"
		}
		if f.kvDType != "fp8_e4m3" && f.kvDType != "bfloat16" {
			return problem.New(problem.Unsupported, "kv_cache_dtype", f.kvDType, "DeepSeek-V4 stores fp8_e4m3 or bfloat16").By(name)
		}
		if f.maxRunning == 0 {
			f.maxRunning = 256
		}
		switch {
		case f.kind == "deepseek_v41" && f.lay.PP > 1:
			return problem.New(problem.Unsupported, "pipeline_parallel_size", f.lay.PP, "DeepSeek-V4.1 does not run over pipeline stages").By(name)
		case f.spec.algorithm == "" || f.spec.algorithm == "DSPARK":
		case f.kind == "deepseek_v41":
			return problem.New(problem.Unsupported, "speculative_algorithm", f.spec.algorithm, "DeepSeek-V4.1 drafts with DSPARK alone").By(name)
		case f.spec.algorithm != "EAGLE": // NEXTN either: its other name is settled later
			return problem.New(problem.Unsupported, "speculative_algorithm", f.spec.algorithm, "DeepSeek-V4 drafts with EAGLE or DSPARK").
				WithHint("--speculative-algorithm EAGLE --speculative-eagle-topk 1").By(name)
		case f.spec.topK != 1:
			return problem.New(problem.Unsupported, "speculative_eagle_topk", f.spec.topK, "DeepSeek-V4 drafts a chain, and the engine wants it said").
				WithHint("--speculative-eagle-topk 1").By(name)
		}
	}
	if f.entry.has(deepseek) {
		return f.deepSeekRules(unset)
	}
	return f.backendRuns()
}

// backendRuns holds a backend that was named to those that the architecture takes.
func (f *flags) backendRuns() *problem.Error {
	fits := true
	switch f.arch {
	case "GptOssForCausalLM":
		fits = slices.Contains([]string{"triton", "trtllm_mha", "fa3", "fa4"}, f.backend)
	case "Llama4ForConditionalGeneration", "Llama4ForCausalLM":
		fits = slices.Contains([]string{"triton", "trtllm_mha", "fa3"}, f.backend)
	case "Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration":
		fits = slices.Contains([]string{"triton", "trtllm_mha", "fa4"}, f.backend)
	case "Exaone4ForCausalLM", "ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM":
		fits = !f.patterned || slices.Contains([]string{"triton", "trtllm_mha", "fa3"}, f.backend)
	case "Olmo2ForCausalLM":
		fits = f.backend != "flashinfer"
	case "Lfm2ForCausalLM", "Lfm2MoeForCausalLM":
		fits = f.backend != "triton" // which wants attention in the first layer
	}
	if fits {
		return nil
	}
	return problem.New(problem.Unsupported, "attention_backend", f.backend, "%s does not run on it", f.arch).
		WithHint("leave --attention-backend out").By(name)
}

func pick(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

func orElse(x, fallback float64) float64 {
	if x != 0 {
		return x
	}
	return fallback
}

func (f *flags) noDataParallel() *problem.Error {
	return problem.New(problem.Unsupported, "enable_dp_attention", true, "%s does not run DP attention", f.arch).By(name)
}

func (f *flags) fa3From80() string {
	switch {
	case f.dev.sm100():
		return "trtllm_mha"
	case f.dev.major >= 8:
		return "fa3"
	}
	return "triton"
}

// hybridOnBlackwell: trtllm_mha wants pages, which a prefix cache of states without an
// extra buffer does not have (model_overrides/qwen3_5.py).
func (f *flags) hybridOnBlackwell() {
	pages := f.defaultBackend() == "trtllm_mha" // by the page size that was asked for
	f.backend, f.page = "triton", 1
	if pages && (f.extraBuffer() || f.noRadix || f.spec.algorithm != "") {
		f.backend, f.page = "trtllm_mha", 64
	}
}

func (f *flags) nemotron(unset bool) {
	if !f.dev.blackwell() || !unset {
		return
	}
	switch {
	case f.spec.algorithm == "":
		if f.dev.sm100() {
			f.backend = "trtllm_mha"
		}
	case f.dev.sm100() && f.spec.topK <= 1:
		f.backend = "trtllm_mha"
		if f.page == 0 {
			f.page = 64
		}
	default:
		f.backend = "triton"
	}
}

func (f *flags) minimaxM3(unset bool) {
	switch {
	case f.dev.sm100():
		if unset {
			f.backend = pick(f.kvDType == "fp8_e4m3", "trtllm_mha", "fa4")
		}
		if f.page == 0 && (f.backend == "fa4" || f.backend == "trtllm_mha") {
			f.page = 128
		}
	case f.dev.sm90():
		if unset {
			f.backend = "fa3"
		}
		if f.page == 0 && f.backend == "fa3" {
			f.page = 128
		}
	}
}

// deepSeekRules choose the sparse backend with its page and dtype, or trtllm_mla on
// Blackwell (model_overrides/deepseek_v2.py, overrides.py).
func (f *flags) deepSeekRules(unset bool) *problem.Error {
	if !f.dsa.on {
		if f.dev.sm100() && unset {
			f.backend = "trtllm_mla"
		}
		return nil
	}
	if f.lay.DCP > 1 {
		if f.dsa.pool > 1 {
			return problem.New(problem.Unsupported, "decode_context_parallel_size", f.lay.DCP,
				"index keys of %d tokens would span ranks", f.dsa.pool).By(name)
		}
		if f.arch == "HYV4ForCausalLM" || f.arch == "HYV4ForCausalLMNextN" {
			return problem.New(problem.Unsupported, "decode_context_parallel_size", f.lay.DCP, "%s has attention sinks that ranks would double", f.arch).By(name)
		}
		f.dsaPrefill, f.dsaDecode = "trtllm", "trtllm"
	}
	if unset {
		f.backend = "dsa"
	}
	f.page = 64 * f.dsa.pool
	switch f.kvDType {
	case "auto":
		f.kvDType = "bfloat16"
		if f.dev.major >= 10 && !f.dsa.sinks {
			f.kvDType = "fp8_e4m3"
		}
	case "bf16":
		f.kvDType = "bfloat16"
	}
	if f.kvDType != "bfloat16" && (f.kvDType != "fp8_e4m3" || f.dsa.sinks) {
		return problem.New(problem.Unsupported, "kv_cache_dtype", f.kvDType, "sparse attention stores bfloat16 or fp8_e4m3").
			WithHint("--kv-cache-dtype fp8_e4m3").By(name)
	}
	prefill, decode := "flashmla_sparse", pick(f.dev.major >= 10, "trtllm", "fa3")
	switch {
	case f.dsa.sinks:
		decode = "flashmla_sparse"
	case f.kvDType == "fp8_e4m3" && f.arch == "GlmMoeDsaForCausalLM" && f.dev.major == 12:
		prefill, decode = "flashinfer_sparse_mla", "flashinfer_sparse_mla"
	case f.kvDType == "fp8_e4m3":
		prefill = pick(f.dev.major >= 10, "trtllm", "flashmla_kv")
		decode = prefill
	}
	if f.dsaPrefill == "" {
		f.dsaPrefill, f.dsaDecode = prefill, decode
	}
	return nil
}

// defaultBackend is the attention backend when nothing named one
// (model_override_base.py, get_default_attn_backend).
func (f *flags) defaultBackend() string {
	chain := f.spec.topK == 0 || f.spec.topK == 1 && f.page <= 1
	switch {
	case f.arch == "WhisperForConditionalGeneration":
		return "flashinfer"
	case f.attention == attn.MLA && f.dev.sm90():
		return "fa3"
	case f.attention == attn.MLA && f.dev.sm100():
		return "flashinfer"
	case f.attention == attn.MLA:
		return "triton"
	case f.dev.sm90() && chain:
		return "fa3"
	case f.dev.sm100() && chain && (f.spec.algorithm == "" || f.spec.topK > 0 || f.spec.algorithm == "DFLASH"):
		if f.keyDim != f.valueDim || f.window.keyDim != f.window.valueDim {
			return "fa4"
		}
		return "trtllm_mha"
	case f.sinks:
		return "triton"
	}
	return "flashinfer"
}

// phases are the backends of prefill and decode.
func (f *flags) phases() (prefill, decode string) {
	return pick(f.prefill != "", f.prefill, f.backend), pick(f.decode != "", f.decode, f.backend)
}

// uses reports whether any phase runs on one of backends.
func (f *flags) uses(backends ...string) bool {
	return slices.Contains(backends, f.backend) || slices.Contains(backends, f.prefill) || slices.Contains(backends, f.decode)
}

// attentionBackend fills the backend and the page sizes it wants (attention_hook.py).
func (f *flags) attentionBackend() *problem.Error {
	if f.kvDType == "nvfp4" {
		if refusal := f.nvfp4Backends(); refusal != nil {
			return refusal
		}
	}
	if f.largeHopperVL() && f.backend == "" && f.decode == "" {
		f.decode = "flashinfer"
	}
	if f.prefill != "" && f.prefill == f.decode {
		f.backend = f.prefill
	}
	if f.backend == "" {
		f.backend = f.defaultBackend()
	}
	if f.arch == "WhisperForConditionalGeneration" {
		f.noRadix = true
	}
	if f.backend == "flashmla" || f.decode == "flashmla" {
		f.page = 64
	}
	if (f.backend == "trtllm_mla" || f.decode == "trtllm_mla" || f.uses("cutedsl_mla")) && f.page != 32 && f.page != 64 {
		f.page = 64
	}
	if f.uses("trtllm_mha") && f.page != 16 && f.page != 32 && f.page != 64 && f.page != 128 {
		f.page = 64
	}
	if refusal := f.latentDTypes(); refusal != nil {
		return refusal
	}
	if f.uses("trtllm_mha") && f.dev.major < 9 {
		return problem.New(problem.Unsupported, "attention_backend", "trtllm_mha", "runs on Hopper and Blackwell only").By(name)
	}
	if f.backend == "fa3" && f.kvDType == "fp8_e5m2" {
		f.backend = "triton"
	}
	if f.uses("fa4") && f.attention != attn.MLA && f.dev.sm100() && f.spec.topK <= 1 {
		f.page = 128
		if f.arch == "DiffusionGemmaForBlockDiffusion" {
			f.page = 1
		}
	}
	if prefill, _ := f.phases(); f.arch == "DeepseekV3ForCausalLM" && prefill == "trtllm_mla" {
		f.prefillOn = false // after the fraction was set
	}
	return f.packedDTypes()
}

// latentDTypes are what the kernels of latents on Blackwell read.
func (f *flags) latentDTypes() *problem.Error {
	kernel := ""
	switch {
	case f.uses("cutedsl_mla"):
		kernel = "cutedsl_mla"
	case f.backend == "trtllm_mla" || f.decode == "trtllm_mla":
		kernel = "trtllm_mla"
	default:
		return nil
	}
	if !f.dev.blackwell() || kernel == "cutedsl_mla" && !f.dev.sm100() {
		return problem.New(problem.Unsupported, "attention_backend", kernel, "runs on Blackwell only").By(name)
	}
	switch f.kvDType {
	case "fp8_e4m3", "bf16", "auto":
		return nil
	}
	return problem.New(problem.Unsupported, "kv_cache_dtype", f.kvDType, "%s reads fp8_e4m3 or bf16", kernel).
		WithHint("--kv-cache-dtype fp8_e4m3").By(name)
}

// nvfp4Backends: FP4 with scales is written and read by one backend.
func (f *flags) nvfp4Backends() *problem.Error {
	want := pick(f.dev.sm100(), "trtllm_mha", "flashinfer")
	if explicit := pick(f.prefill != "", f.prefill, f.backend); explicit != "" {
		if explicit != "trtllm_mha" && explicit != "flashinfer" {
			return problem.New(problem.Unsupported, "kv_cache_dtype", f.kvDType, "prefill on %s reads no nvfp4", explicit).By(name)
		}
		want = explicit
	}
	if want == "trtllm_mha" && !f.dev.sm100() {
		return problem.New(problem.Unsupported, "kv_cache_dtype", f.kvDType, "native nvfp4 prefill runs on compute capability 10 only").By(name)
	}
	f.prefill, f.decode = want, "trtllm_mha"
	return nil
}

// packedDTypes are the formats of less than a byte (kv_cache_hook.py).
func (f *flags) packedDTypes() *problem.Error {
	refuse := func(format string, args ...any) *problem.Error {
		return problem.New(problem.Unsupported, "kv_cache_dtype", f.kvDType, format, args...).
			WithHint("--kv-cache-dtype fp8_e4m3").By(name)
	}
	prefill, decode := f.phases()
	switch f.kvDType {
	case "mxfp8":
		if !f.dev.blackwell() {
			return refuse("runs on Blackwell only")
		}
	case "nvfp4", "fp4_mx_block16":
		if f.kvDType == "nvfp4" && !f.dev.blackwell() {
			return refuse("runs on Blackwell only")
		}
		mla := []string{"flashinfer", "trtllm_mla"}
		mha := []string{"triton", "torch_native", "flex_attention", "trtllm_mha"}
		reader, backends := f.backend, mha
		if f.attention == attn.MLA {
			backends = mla
		}
		if prefill == "fa4" {
			reader, backends = decode, backends[:min(3, len(backends))]
		} else if prefill != decode {
			return nil
		}
		if !slices.Contains(backends, reader) {
			return refuse("%s is not one of %s, which read it", reader, strings.Join(backends, ", "))
		}
	}
	return nil
}

// pageSize is a token where nothing asked for more.
func (f *flags) pageSize() *problem.Error {
	if f.page == 0 {
		f.page = 1
	}
	if f.page < 0 || f.page > maxSize {
		return problem.New(problem.BadValue, "page_size", f.page, "not a number of tokens").By(name)
	}
	return nil
}
