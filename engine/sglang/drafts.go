package sglang

import (
	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/model"
	"headcount/problem"
)

// ownDrafts are the architectures whose checkpoint is its own draft when none is named
// (speculative_hook.py, _handle_eagle_family).
var ownDrafts = map[string]bool{
	"DeepseekV32ForCausalLM": true, "DeepseekV3ForCausalLM": true, "DeepseekV4ForCausalLM": true, "Glm4MoeForCausalLM": true,
	"Glm4MoeLiteForCausalLM": true, "GlmMoeDsaForCausalLM": true, "BailingMoeForCausalLM": true, "BailingMoeV2ForCausalLM": true,
	"BailingMoeV2_5ForCausalLM": true, "MistralLarge3ForCausalLM": true, "PixtralForConditionalGeneration": true,
	"HYV3ForCausalLM": true, "HYV4ForCausalLM": true, "Qwen4ExpForConditionalGeneration": true,
}

// draftLayers is how many layers an EAGLE-like draft of r keeps a cache for, when the
// checkpoint is read as a draft (model_config.py, _config_draft_model).
func (r *reading) draftLayers() int64 {
	switch r.arch {
	case "DeepseekV4ForCausalLM", "Glm5NextForConditionalGeneration", "Qwen3NextForCausalLM", "Qwen4ExpForConditionalGeneration",
		"Qwen3MoeForCausalLM", "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration", "Qwen3_5ForCausalLM",
		"Qwen3_5MoeForCausalLM", "InternS2PreviewForConditionalGeneration", "InternS2MobiusForConditionalGeneration",
		"ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM", "NemotronH_Omni_Reasoning_V3", "NemotronHForCausalLM",
		"NemotronHPuzzleForCausalLM", "HYV3ForCausalLM", "HYV4ForCausalLM":
		return 1
	}
	if r.entry.has(mimo) {
		return 1
	}
	if r.nextN >= 0 {
		return r.nextN
	}
	return max(r.layers, r.attnLayers)
}

// drafts adds what speculative decoding keeps (spec_aux_hidden_state.py).
func (f *flags) drafts(s *setup) *problem.Error {
	if f.spec.algorithm == "" {
		return nil
	}
	d := &s.draft
	*d = draft{on: true, ngram: f.spec.algorithm == "NGRAM", tokens: f.spec.tokens, steps: f.spec.steps, topK: f.spec.topK}
	switch {
	case f.spec.eagle():
		if refusal := f.eagleDraft(d); refusal != nil {
			return refusal
		}
		return s.ringServes()
	case d.ngram:
		return nil
	}
	if refusal := f.blockDraft(d); refusal != nil {
		return refusal
	}
	return s.ringServes()
}

// ringServes refuses more draft tokens than DeepSeek-V4's rings of compressor state keep
// (pool_configurator.py, _assert_ring_serves_draft_tokens).
func (s *setup) ringServes() *problem.Error {
	if s.dsv4 == nil || s.stages[0].c4 == 0 {
		return nil
	}
	if most := s.ring(4) - 2*4 + 2; s.draft.tokens > most {
		return problem.New(problem.Unsupported, "speculative_num_draft_tokens", s.draft.tokens, "DeepSeek-V4's rings keep %d", most).By(name)
	}
	return nil
}

// eagleDraft counts the layers of a draft that shares the target's rows.
func (f *flags) eagleDraft(d *draft) *problem.Error {
	source := f.reading
	switch {
	case f.opts.Draft != nil:
		own, refusal := f.draft()
		if refusal != nil {
			return refusal
		}
		source, d.layers = own, own.draftLayers()
	case ownDrafts[f.arch]:
		d.layers = f.draftLayers()
	case f.nextN < 0:
		return nil // the engine reserves nothing for a head that the config does not count
	default:
		d.layers = f.nextN
	}
	d.layers = min(d.layers, maxLayers)
	if f.localDrafts != nil {
		for _, id := range f.localDrafts {
			if id < d.layers {
				d.wide++
			}
		}
		return nil
	}
	if source.kinds != nil && !f.noHybrid {
		for _, k := range source.kinds {
			if k == slides && d.sliding < d.layers {
				d.sliding++
			}
		}
	}
	return nil
}

// draft reads the draft model, which must take a context that is asked for as well
// (model_config.py, _derive_context_length).
func (f *flags) draft() (*reading, *problem.Error) {
	own, refusal := readDraft(f.opts.Draft)
	if refusal == nil && f.opts.MaxModelLen > own.context {
		refusal = problem.New(problem.BadValue, "max_model_len", f.opts.MaxModelLen, "longer than the %d tokens of the draft model", own.context).
			WithHint("--context-length %d, or SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1", own.context).By(name)
	}
	return own, refusal
}

// blockDraft prices a draft with rows of its own (draft_kv_budget.py).
func (f *flags) blockDraft(d *draft) *problem.Error {
	own, refusal := f.blockModel()
	if refusal != nil {
		return refusal
	}
	if refusal := f.targetLayers(own); refusal != nil {
		return refusal
	}
	if f.spec.algorithm == "DSPARK" && own.markov <= 0 {
		return problem.New(problem.MissingField, "markov_rank", own.markov, "not above 0 in the draft's config, and DSPARK drafts with it").By(name)
	}
	compute := f.dtypeOf(own)
	element := compute.Bytes()
	switch f.kvDType {
	case "fp8_e4m3", "fp8_e5m2", "mxfp8", "nvfp4", "fp4_mx_block16":
		element = 1
	case "bf16", "bfloat16":
		element = dtype.BFloat16.Bytes()
	}
	if f.spec.algorithm == "DFLASH" && f.draftBackend(own) == "fa4" { // which reads keys of the queries' dtype alone
		element = compute.Bytes()
	}
	d.cell = mul(headsOf(own.kvHeads, f.attnTP), own.keyDim+own.valueDim, own.layers, element)
	return nil
}

// draftBackend is the attention backend of a block draft, the target's for prefill where it
// runs both ways (speculative_hook.py, _resolve_dflash_draft_attention_backend).
func (f *flags) draftBackend(own *reading) string {
	prefill, _ := f.phases()
	switch prefill {
	case "fa3", "fa4", "triton":
		return prefill
	case "trtllm_mha": // causal, or windows alone
		if causal, _ := own.config.text.Bool("is_causal"); causal || own.onlyLayerType("sliding_attention") {
			return prefill
		}
		if f.dev.sm100() {
			return "fa4"
		}
	}
	return "flashinfer"
}

// blockModel is the model that drafts blocks: one that is named, or with DSPARK the head that
// the target's own checkpoint bundles.
func (f *flags) blockModel() (*reading, *problem.Error) {
	switch {
	case f.opts.Draft != nil:
		return f.draft()
	case f.spec.algorithm == "DSPARK" && f.bundled:
		return f.reading, nil
	}
	return nil, problem.New(problem.MissingField, "speculative_draft_model_path", nil, "missing, and %s drafts with a model of its own", f.spec.algorithm).
		WithHint("--speculative-draft-model-path MODEL").By(name)
}

// targetLayers refuses a draft that reads layers which the target does not have
// (dflash_utils.py, resolve_target_layer_ids, build_target_layer_ids).
func (f *flags) targetLayers(own *reading) *problem.Error {
	ids, ok := own.blockField("target_layer_ids")
	if !ok || ids.Kind() == checkpoint.Null { // then they are spread between the second and the third from the end
		if own.layers > 1 && f.layers < 4 {
			return problem.New(problem.Unsupported, "num_hidden_layers", f.layers, "the draft reads several layers of the target between its second and its last three").By(name)
		}
		return nil
	}
	if len(ids.List()) == 0 {
		return problem.New(problem.BadValue, "target_layer_ids", ids.Any(), "names no layer of the target").By(name)
	}
	for _, id := range ids.List() {
		if n := intIn(id); n < 0 || n >= f.layers {
			return problem.New(problem.BadValue, "target_layer_ids", n, "not a layer of the target, which has %d", f.layers).
				WithHint("draft with a model that was trained for this one").By(name)
		}
	}
	return nil
}

// blockField is a field of a draft that drafts blocks: in dflash_config, else beside it.
func (r *reading) blockField(key string) (checkpoint.Value, bool) {
	if v, ok := r.config.top.Object("dflash_config").Get(key); ok {
		return v, true
	}
	return r.config.top.Value(key)
}

// blocks reads what block drafting asks of a config. Where the fields are prefixed, the
// checkpoint is a target that bundles the draft (dspark_config.py).
func (r *reading) blocks() {
	for _, key := range []string{"dspark_block_size", "dspark_markov_rank", "dspark_noise_token_id", "dspark_target_layer_ids"} {
		_, given := r.config.top.Value(key)
		r.bundled = r.bundled || given
	}
	block, _ := r.blockField("block_size")
	rank, ok := r.config.top.Object("dspark_config").Get("markov_rank")
	if !ok {
		rank, _ = r.blockField("markov_rank")
	}
	if v, prefixed := r.config.top.Value("dspark_block_size"); prefixed {
		block = v
	}
	if v, prefixed := r.config.top.Value("dspark_markov_rank"); prefixed {
		rank = v
	}
	r.block, r.markov = intIn(block), intIn(rank)
}

// draftKey is where a Model keeps what the engine took from it as a draft.
type draftKey struct{}

// readDraft takes from a draft model what its cache depends on. Whether the engine has a
// class for it is not asked: it may be one that only drafting algorithms load.
func readDraft(m *model.Model) (*reading, *problem.Error) {
	return once(m, draftKey{}, func() (*reading, *problem.Error) {
		r := newReading(m)
		if refusal := r.mistral(); refusal != nil {
			return nil, refusal
		}
		r.entry, _ = lookupArch(r.arch)
		r.context = r.contextLength()
		r.dtype = r.configDType()
		r.shape()
		r.windows()
		r.blocks()
		if err := r.config.err; err != nil {
			return nil, err.By(name)
		}
		return r, r.strict()
	})
}
