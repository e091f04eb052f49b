package vllm

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"headcount/dtype"
	"headcount/engine"
	"headcount/layout"
	"headcount/problem"
)

// A setup is one plan's configuration: a model's view, the flags, the device, and what
// defaults and hooks made of them.
type setup struct {
	v      *view
	opt    *engine.Options
	layout layout.Layout
	gpu    device
	rules  *release

	dtype      dtype.Type
	quant      string
	cacheDType string // kv_cache_dtype; layers may still rewrite it
	maxLen     int64
	fit        bool // max_model_len -1: as long as the pool holds

	tokens, seqs  int64 // max_num_batched_tokens, max_num_seqs
	inFlight      int64 // max_in_flight_tokens
	async         bool
	chunked       bool // chunked prefill
	prefixCaching bool
	noHybrid      bool   // the hybrid cache manager is off
	align         bool   // mamba_cache_mode is align
	convDType     string // mamba_cache_dtype
	ssmDType      string // mamba_ssm_cache_dtype
	drafts        int64  // speculative tokens
	drafting      drafting

	block       int64 // tokens; final after blockSize
	stateBlock  int64 // mamba_block_size, tokens
	blockWanted int64 // block size before states raised it, tokens
	stateBytes  int64 // largest state of a layer as the config tells it, bytes
	statePadded int64 // mamba_page_size_padded, bytes; 0: none
	keeps       bool  // a layer of the stage keeps a state
}

// resolve applies flags and defaults in the engine's order, and its checks as it goes.
func (s *setup) resolve() *problem.Error {
	steps := [...]func() *problem.Error{
		s.checkServed, s.resolveDType, s.checkWindow, s.resolveLength, s.resolveQuant, s.resolveCaching, s.resolveCacheDType, s.checkContextSplit,
		s.resolveDraft, s.resolveBatch, s.resolveHooks, s.checkFloatCache, s.checkLayout, s.checkQuantDevice,
		s.resolveConcurrency, s.checkPackedCache,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// checkServed refuses what the engine has no class for.
func (s *setup) checkServed() *problem.Error {
	if s.v.refusal == nil {
		return nil
	}
	e := *s.v.refusal // shared by all plans of the model
	return &e
}

// noFloat16 are model types that lose accuracy in float16 (_FLOAT16_NOT_SUPPORTED_MODELS).
var noFloat16 = []string{"gemma2", "gemma3", "gemma3_text", "glm4"}

// resolveDType picks the dtype of weights and activations (_get_and_verify_dtype).
func (s *setup) resolveDType() *problem.Error {
	kind := s.v.kind
	if want := strings.ToLower(s.opt.DType); want != "" && want != "auto" {
		t, ok := dtype.Parse(want)
		if !ok || !slices.Contains(anyFloat, t) {
			return problem.New(problem.BadValue, "dtype", s.opt.DType, "Unknown dtype").WithHint("auto, bfloat16, float16 or float32")
		}
		if t == dtype.Float16 && slices.Contains(noFloat16, kind) {
			return problem.New(problem.Unsupported, "dtype", "float16", "The model type %q does not support float16. Reason: Numerical instability. Please use bfloat16 or float32 instead.", kind).
				WithHint("dtype bfloat16")
		}
		if t == dtype.BFloat16 && !s.gpu.cpu && !s.gpu.atLeast(8, 0) {
			return problem.New(problem.Unsupported, "dtype", "bfloat16", "Bfloat16 is only supported on GPUs with compute capability of at least 8.0.").
				WithHint("dtype float16")
		}
		s.dtype = t
		return nil
	}
	takes := func(t dtype.Type) bool {
		switch t {
		case dtype.BFloat16:
			return s.gpu.cpu || s.gpu.atLeast(8, 0)
		case dtype.Float16:
			return (s.gpu.cpu || s.gpu.atLeast(6, 0)) && !slices.Contains(noFloat16, kind)
		}
		return t == dtype.Float32
	}
	order := []dtype.Type{dtype.BFloat16, dtype.Float16, dtype.Float32}
	if s.v.pooling {
		order = []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Float32}
	}
	if t := s.v.dtype; t != dtype.Float32 && takes(t) {
		s.dtype = t
		return nil
	}
	s.dtype = order[slices.IndexFunc(order, takes)]
	return nil
}

// checkWindow refuses a window of 0 in a config whose class takes no null, which the engine
// makes of it (config/model.py, ModelConfig.__post_init__).
func (s *setup) checkWindow() *problem.Error {
	c := s.v.model.Config
	if n, ok := c.Int("sliding_window"); !ok || n != 0 || c.TakesNull("sliding_window") {
		return nil
	}
	return problem.New(problem.BadValue, s.v.field("sliding_window"), 0, "means no window, for which the engine sets null, which %s does not take", c.ModelType()).
		WithHint("a window of 1 or more, and full_attention in layer_types for layers that have none")
}

// resolveLength takes max_model_len or derives it (_get_and_verify_max_len).
func (s *setup) resolveLength() *problem.Error {
	r := &s.v.length
	s.maxLen, s.fit = s.opt.MaxModelLen, s.opt.MaxModelLen == -1
	switch {
	case s.maxLen == 0 || s.fit:
		s.maxLen = r.standard
	case math.IsInf(r.derived, 1):
	case float64(s.maxLen) > r.derived && float64(s.maxLen) > r.limit:
		return problem.New(problem.BadValue, "max_model_len", s.maxLen,
			"User-specified max_model_len (%d) is greater than the derived max_model_len (%s=%s or model_max_length=%s in model's config.json).",
			s.maxLen, r.key, pythonFloat(r.derived), lengthLimit(r.limit)).
			WithHint("max_model_len %d or less", whole(r.derived))
	}
	switch {
	case s.maxLen < 1 && s.opt.MaxModelLen != 0 && !s.fit:
		return problem.New(problem.BadValue, "max_model_len", s.opt.MaxModelLen, "neither a length nor -1 for as long as fits")
	case s.maxLen < 1:
		return problem.New(problem.BadValue, r.key, r.derived, "not a length")
	case s.maxLen > maxLength:
		return problem.New(problem.BadValue, "max_model_len", s.maxLen, "greater than %d", int64(maxLength))
	}
	return nil
}

func lengthLimit(n float64) string {
	if n == 0 {
		return "None"
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// pythonFloat prints a float as Python does: 2048.0.
func pythonFloat(f float64) string {
	out := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(out, ".") {
		out += ".0"
	}
	return out
}

// resolveQuant takes the flag or the checkpoint's method (_verify_quantization).
func (s *setup) resolveQuant() *problem.Error {
	s.quant = s.v.quant
	if q := s.opt.Quantization; q != "" {
		if s.quant != "" && q != s.quant && "auto_"+q != s.quant && q+"_marlin" != s.quant && "auto_"+strings.TrimSuffix(q, "_marlin") != s.quant {
			return problem.New(problem.BadValue, "quantization", q,
				"Quantization method specified in the model config (%s) does not match the quantization method specified in the `quantization` argument (%s).", s.quant, q)
		}
		if s.quant == "" {
			s.quant = q
		}
	}
	return s.checkQuant()
}

// resolveCaching decides on chunked prefill and prefix caching
// (ModelConfig.is_chunked_prefill_supported, is_prefix_caching_supported).
func (s *setup) resolveCaching() *problem.Error {
	v := s.v
	switch {
	case v.pooling:
		whole := v.encoderOnly || v.seqPooling == "MEAN" || v.seqPooling == "CLS" || v.tokPooling == "STEP"
		s.chunked, s.prefixCaching = !whole, !whole && !(v.attentionFree && v.ownPooler)
	default:
		whole := v.encoderDecode && !v.hybrid && !v.attentionFree
		s.chunked = !whole
		s.prefixCaching = !v.attentionFree && !whole && !(v.hybrid && s.rules.opaqueStates)
	}
	if b := s.opt.EnableChunkedPrefill; b != nil {
		s.chunked = *b
	}
	if b := s.opt.EnablePrefixCaching; b != nil {
		s.prefixCaching = *b
	}
	return nil
}

// cacheDTypes are the values of --kv-cache-dtype (config/cache.py, CacheDType).
var cacheDTypes = []string{"auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla",
	"nvfp4_ds_mla", "turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc", "octave_k3v4",
	"octave_k3v3", "octave_k3v3_compact", "ultraquant_4bit", "int4_per_token_head", "int8_per_token_head",
	"fp8_per_token_head", "nvfp4", "nvfp4_4over6"}

// resolveCacheDType takes the flag, or what a ModelOpt checkpoint asks for.
func (s *setup) resolveCacheDType() *problem.Error {
	s.cacheDType = s.opt.KVCacheDType
	if s.cacheDType == "" || s.cacheDType == "auto" {
		s.cacheDType = s.v.cacheDType
	}
	if !slices.Contains(cacheDTypes, s.cacheDType) {
		return problem.New(problem.BadValue, "kv_cache_dtype", s.cacheDType, "not a KV cache dtype").WithHint("%s", strings.Join(cacheDTypes[:6], ", "))
	}
	if strings.HasPrefix(s.cacheDType, "turboquant_") || strings.HasPrefix(s.cacheDType, "octave_") || s.cacheDType == "ultraquant_4bit" {
		return problem.New(problem.NotKnown, "kv_cache_dtype", s.cacheDType, "how this packing lays out its pages is not known here")
	}
	return nil
}

// draftCounts are the fields that count a checkpoint's own draft layers.
var draftCounts = []string{"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"}

// predicts is how many draft layers the engine reads of the checkpoint, where it does. It
// looks for GLM-OCR's at the outer level, where there are none.
func (v *view) predicts() (n int64, ok bool) {
	if v.inkling() {
		return int64(len(v.model.Draft)), true
	}
	switch v.arch {
	case "GlmOcrForConditionalGeneration":
		return 0, false
	case "MiMoV2ForCausalLM", "MiMoV2OmniForCausalLM", "MiMoV2FlashForCausalLM":
		return 1, true
	}
	for _, key := range draftCounts {
		if n, ok := v.model.Config.Int(key); ok {
			return n, true
		}
	}
	return 0, false
}

// resolveBatch sets the size of a scheduler step
// (_set_default_max_num_seqs_and_batched_tokens_args).
func (s *setup) resolveBatch() *problem.Error {
	d := s.rules.batch(s.gpu, s.layout.TP*s.layout.PP)
	s.tokens, s.seqs = int64(s.opt.MaxNumBatched), int64(s.opt.MaxNumSeqs)
	if s.tokens < 0 || s.seqs < 0 {
		return problem.New(problem.BadValue, "max_num_batched_tokens", s.tokens, "negative")
	}
	givenTokens, givenSeqs := s.tokens != 0, s.seqs != 0
	if !givenSeqs {
		s.seqs = int64(d.seqs)
	}
	if !givenTokens {
		s.tokens = int64(d.tokens)
		if !s.chunked {
			s.tokens = max(s.tokens, s.maxLen)
		}
		s.tokens = max(s.tokens, s.v.item)
		if most, ok := mul(s.seqs, s.maxLen); ok {
			s.tokens = min(s.tokens, most)
		}
	}
	if !givenSeqs {
		s.seqs = min(s.seqs, s.tokens)
	}
	if s.tokens < s.seqs {
		return problem.New(problem.BadValue, "max_num_batched_tokens", s.tokens,
			"max_num_batched_tokens (%d) must be greater than or equal to max_num_seqs (%d).", s.tokens, s.seqs).
			WithHint("max_num_seqs %d or less", s.tokens)
	}
	if s.v.encoderDecode { // the scheduler's own word (config/scheduler.py), after a step's default
		s.chunked = false
		if v := s.v; v.hybrid && s.prefixCaching {
			return problem.New(problem.BadValue, "is_encoder_decoder", true, "Chunked prefill is required for Mamba prefix caching.").WithHint("enable_prefix_caching false")
		}
	}
	if !s.chunked && s.tokens < s.maxLen && (givenTokens || s.v.encoderDecode) {
		return problem.New(problem.BadValue, "max_num_batched_tokens", s.tokens,
			"max_num_batched_tokens (%d) is smaller than max_model_len (%d), and chunked prefill is off.", s.tokens, s.maxLen).
			WithHint("max_num_batched_tokens %d", s.maxLen)
	}
	return nil
}

// resolveHooks applies what the engine does for one architecture
// (model_executor/models/config.py).
func (s *setup) resolveHooks() *problem.Error {
	v := s.v
	arch := v.arch
	blackwell := !s.gpu.cpu && s.gpu.major == 10
	switch {
	case arch == "DiffusionGemmaForBlockDiffusion" && s.seqs >= 128: // its sampler keeps logits of a whole canvas
		s.seqs = 8
	case arch == "EmbeddingGemma2Model" && s.opt.MaxModelLen <= 0:
		s.maxLen = min(s.maxLen, 8192)
	case arch == "DeepseekV32ForCausalLM" && v.topK == 0:
		return problem.New(problem.MissingField, "index_topk", nil, "missing, and the engine takes the checkpoint for one with an indexer").By("vllm")
	case arch == "DeepseekV32ForCausalLM" && s.cacheDType == "bfloat16":
		s.cacheDType = "auto"
	case arch == "GlmMoeDsaForCausalLM" && s.cacheDType == "auto" && blackwell:
		s.cacheDType = "fp8_e4m3"
	case strings.HasPrefix(arch, "Glm5Next") && s.cacheDType == "auto" && blackwell && v.topK > 0:
		s.cacheDType = "fp8"
	}
	s.convDType, s.ssmDType = "auto", s.opt.MambaSSMCacheDType
	if s.ssmDType == "" || s.ssmDType == "auto" {
		s.ssmDType = v.ssm
		if s.gpu.cpu {
			s.ssmDType = "float32" // where the processor has AVX-512 BF16 (platforms/cpu.py)
		}
	}
	if _, ok := dtype.Parse(s.ssmDType); !ok && s.ssmDType != "auto" {
		return problem.New(problem.BadValue, "mamba_ssm_cache_dtype", s.ssmDType, "not a dtype").WithHint("auto, float32, float16 or bfloat16")
	}
	s.block = s.rules.block(s.gpu)
	if s.opt.BlockSize < 0 || s.opt.BlockSize > 1<<30 {
		return problem.New(problem.BadValue, "block_size", s.opt.BlockSize, "not a number of tokens")
	}
	if s.opt.BlockSize > 0 {
		s.block = int64(s.opt.BlockSize)
	}
	if !v.hybrid && !v.attentionFree {
		return nil
	}
	s.stateBlock = s.maxLen
	if mode := s.opt.MambaCacheMode; mode != "" && mode != "none" && mode != "align" {
		return problem.New(problem.BadValue, "mamba_cache_mode", mode, "not a cache mode").WithHint("none or align")
	}
	if s.prefixCaching {
		s.align, s.stateBlock = true, s.block
		if !s.chunked {
			return problem.New(problem.Unsupported, "enable_chunked_prefill", false, "Chunked prefill is required for Mamba prefix caching.").
				WithHint("enable_prefix_caching false")
		}
	}
	return nil
}

// resolveConcurrency settles async scheduling and with it the tokens in flight
// (VllmConfig.max_concurrent_batches), and whether the hybrid cache manager runs.
func (s *setup) resolveConcurrency() *problem.Error {
	pp := int64(s.layout.PP)
	s.async = s.rules.async && !s.v.pooling && !s.gpu.cpu
	if b := s.opt.AsyncScheduling; b != nil {
		s.async = *b
	}
	batches := pp
	switch {
	case !s.rules.inFlight:
		batches = 1
	case s.async:
		batches = pp + 1
	}
	var ok bool
	if s.inFlight, ok = mul(batches, s.tokens); !ok || s.inFlight > maxLength {
		return problem.New(problem.BadValue, "max_num_batched_tokens", s.tokens, "greater than %d in flight", int64(maxLength))
	}
	s.noHybrid = s.opt.DisableHybridKVCacheManager || s.rules.v0
	if s.v.chunked && s.drafts > 0 && s.opt.Speculative.Method != "ngram" {
		s.noHybrid = true
	}
	return nil
}

// retained is how many tokens below a window draft heads of several modules may still
// read (num_prefill_lookahead_tokens - 1).
func (s *setup) retained() int64 {
	if s.drafts == 0 || s.opt.Speculative.Method != "mtp" {
		return 0
	}
	modules := int64(1)
	if s.v.inkling() {
		modules = int64(len(s.v.model.Draft))
	} else if n, ok := s.v.model.Config.Int("num_nextn_predict_layers"); ok {
		modules = n
	}
	if min(modules, s.drafts) > 1 {
		return s.drafts - 1
	}
	return 0
}

// cacheType is the dtype that a cache is stored in.
func (s *setup) cacheType(cache string) dtype.Type {
	switch cache {
	case "auto":
		return s.dtype
	case "float16":
		return dtype.Float16
	case "bfloat16":
		return dtype.BFloat16
	case "int8_per_token_head":
		return dtype.Int8
	case "fp8_inc":
		return dtype.Float8E4M3
	}
	return dtype.UInt8
}

// mode is the engine's name of the cache mode of states.
func (s *setup) mode() string {
	if s.align {
		return "align"
	}
	return "none"
}
