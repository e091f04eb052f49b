package sglang

import (
	"headcount/attn"
	"headcount/problem"
)

// mlaSource says where an MLA architecture keeps its ranks, and what the engine then
// takes for head_dim, which enters no size.
type mlaSource struct {
	headDim int64
	outer   bool // kv_lora_rank and qk_rope_head_dim at the outer level
	noValue bool // v_head_dim is left as it was
	outerV  bool // v_head_dim at the outer level
	noRope  bool // use_mla_nope drops the rope part
	sumDims bool // head_dim is nope + rope
	ownDim  bool // head_dim is the text config's
}

// mlaArchs are the architectures that the engine serves from latents; everything else
// keeps K and V per head (configs/model_config.py, _derive_model_shapes).
var mlaArchs = func() map[string]mlaSource {
	table := map[string]mlaSource{
		"DeepseekVL2ForCausalLM":                 {headDim: 256, noValue: true},
		"KimiVLForConditionalGeneration":         {headDim: 256},
		"MiniCPM3ForCausalLM":                    {headDim: 128, outer: true, noValue: true},
		"KimiLinearForCausalLM":                  {headDim: 72},
		"KimiK3LinearForCausalLM":                {headDim: 72},
		"KimiK3ForConditionalGeneration":         {headDim: 72},
		"BailingMoeV2_5ForCausalLM":              {ownDim: true, outerV: true},
		"BailingMoeForCausalLMNextN":             {ownDim: true, outerV: true},
		"BailingMoeV3ForCausalLM":                {headDim: 128, noRope: true},
		"BailingMoeV3VLForConditionalGeneration": {headDim: 128, noRope: true},
		"SarvamMLAForCausalLM":                   {sumDims: true, outer: true, outerV: true},
	}
	for _, arch := range []string{
		"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "DeepseekV3ForCausalLMNextN",
		"Glm4MoeLiteForCausalLM", "Glm4MoeLiteForCausalLMNextN", "GlmMoeDsaForCausalLM", "GlmMoeDsaForCausalLMNextN",
		"Glm5NextForConditionalGeneration", "Glm5NextForConditionalGenerationNextN", "LongcatFlashForCausalLM",
		"LongcatFlashForCausalLMNextN", "HYV4ForCausalLM", "HYV4ForCausalLMNextN", "DotsVLMForCausalLM",
		"Dots3NoteForCausalLM", "Dots3NoteForCausalLMNextN", "MistralLarge3ForCausalLM", "PixtralForConditionalGeneration",
		"MistralLarge3ForCausalLMEagle", "KimiK25ForConditionalGeneration", "Eagle3DeepseekV2ForCausalLM",
		"GigaChat35ForCausalLM", "GigaChat35ForCausalLMNextN",
	} {
		table[arch] = mlaSource{headDim: 256}
	}
	return table
}()

// isMLA decides by architecture, and by a field for the few that come in both kinds.
func (r *reading) isMLA() (mlaSource, bool) {
	source, ok := mlaArchs[r.arch]
	switch r.arch {
	case "PixtralForConditionalGeneration", "BailingMoeForCausalLMNextN":
		_, ok = r.config.text.Value("kv_lora_rank")
	case "DeepseekVL2ForCausalLM":
		if use, given := r.config.text.Bool("use_mla"); given && !use {
			ok = false
		}
	}
	return source, ok
}

// shape reads heads, dims and layers (_derive_model_shapes).
func (r *reading) shape() {
	f := &r.config
	switch r.arch {
	case "Mamba2ForCausalLM", "FalconMambaForCausalLM", "MambaForCausalLM":
		r.pureState = true
	}
	r.hidden = f.need("hidden_size")
	r.layers = f.need("num_hidden_layers")
	f.need("vocab_size")
	if !r.pureState {
		r.queryHeads = f.need("num_attention_heads")
	}
	if f.err != nil {
		return
	}
	for _, key := range []string{"head_dim", "sliding_window"} {
		if !r.gemma4() && f.perLayer(key) {
			f.fail(problem.BadValue, key, nil, "differs between layers, and the engine asks for one of %s", r.kind)
			return
		}
	}
	r.keyDim, _ = f.size("head_dim")
	if r.keyDim == 0 && !r.pureState {
		if r.queryHeads == 0 {
			f.fail(problem.BadValue, "num_attention_heads", r.queryHeads, "no heads to divide hidden_size by")
			return
		}
		r.keyDim = r.hidden / r.queryHeads
	}
	if r.valueDim, _ = f.size("v_head_dim"); r.valueDim == 0 || r.isV4() {
		r.valueDim = r.keyDim
	}
	w := &r.window
	w.kvHeads = -1
	if w.keyDim, _ = f.size("swa_head_dim"); w.keyDim == 0 {
		w.keyDim = r.keyDim
	}
	if w.valueDim, _ = f.size("swa_v_head_dim"); w.valueDim == 0 {
		w.valueDim = w.keyDim
	}
	r.latentShape()
	r.kvHeads = r.totalKVHeads()
	if r.gemma4() {
		r.gemma4Shapes()
	}
	r.layerCounts()
	if n, ok := f.size("num_nextn_predict_layers"); ok {
		r.nextN = n
	}
}

func (r *reading) latentShape() {
	source, ok := r.isMLA()
	if !ok {
		return
	}
	f := &r.config
	r.attention = attn.MLA
	read := f.size
	if source.outer {
		read = f.outer
	}
	l := &r.latent
	var has bool
	if l.rank, has = read("kv_lora_rank"); !has {
		f.fail(problem.MissingField, "kv_lora_rank", nil, "missing, and the engine serves %s from latents", r.arch)
	}
	l.rope, _ = read("qk_rope_head_dim")
	if skip := f.truth("use_mla_nope"); skip && source.noRope {
		l.rope = 0
	}
	l.swaRank, l.swaRope = l.rank, l.rope
	if n, ok := f.size("swa_kv_lora_rank"); ok && r.arch == "Dots3NoteForCausalLM" {
		l.swaRank = n
		l.swaRope, _ = f.size("swa_qk_rope_head_dim")
	}
	switch {
	case source.sumDims:
		nope, _ := f.outer("qk_nope_head_dim")
		r.keyDim = nope + l.rope
	case !source.ownDim:
		r.keyDim = source.headDim
	}
	if !source.noValue {
		value := f.size
		if source.outerV {
			value = f.outer
		}
		if n, ok := value("v_head_dim"); ok {
			r.valueDim = n
		}
	}
}

// totalKVHeads follows the engine's order of names (get_total_num_kv_heads).
func (r *reading) totalKVHeads() int64 {
	f := &r.config
	newFalcon := false
	switch r.kind {
	case "falcon", "RefinedWeb", "RefinedWebModel":
		newFalcon, _ = f.top.Bool("new_decoder_architecture")
	}
	if f.truth("multi_query") && !newFalcon {
		return 1
	}
	switch r.kind {
	case "mpt", "dbrx":
		if sub, ok := f.top.Sub("attn_config"); ok {
			if n, given := f.sized(level{Config: sub}, "kv_n_heads"); given {
				return n
			}
		}
		if n, given := f.top.Object("attn_config").Get("kv_n_heads"); given {
			return intIn(n)
		}
		return r.queryHeads
	case "nemotron-nas":
		return r.blockKVHeads()
	}
	for _, key := range []string{"n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups"} {
		if n, ok := f.size(key); ok {
			return n
		}
	}
	return r.queryHeads
}

// blockKVHeads is the one KV head count of a model whose blocks were pruned one by one.
func (r *reading) blockKVHeads() int64 {
	blocks, _ := r.config.top.List("block_configs")
	heads := int64(0)
	for _, b := range blocks {
		attention, _ := b.Dict().Get("attention")
		group, _ := attention.Dict().Get("n_heads_in_group")
		n, ok := group.Int()
		if !ok || n <= 0 {
			continue // a block without attention
		}
		if count := r.queryHeads / n; heads == 0 {
			heads = count
		} else if count != heads {
			r.config.fail(problem.Unsupported, "block_configs", heads, "blocks of %d and %d KV heads; the engine has one count for all", heads, count)
		}
	}
	if heads == 0 {
		r.config.fail(problem.MissingField, "block_configs", nil, "no block with attention to take the KV heads from")
	}
	return heads
}

// layerCounts are how often a token's cache is written, which looping models and
// encoder-decoders have more of than layers.
func (r *reading) layerCounts() {
	f := &r.config
	times := func(key string) int64 {
		if n, ok := f.size(key); ok {
			return n
		}
		return 1
	}
	r.attnLayers = r.layers
	switch r.arch {
	case "LongcatFlashForCausalLM":
		r.attnLayers = 2 * r.layers
	case "IQuestLoopCoderForCausalLM":
		r.attnLayers = mul(r.layers, times("loop_num"))
	case "NanbeigeForCausalLM":
		r.attnLayers = mul(r.layers, times("num_loops"))
	case "WhisperForConditionalGeneration":
		encoder, _ := f.size("encoder_layers")
		decoder, ok := f.size("decoder_layers")
		if !ok {
			decoder = r.layers
		}
		r.attnLayers = encoder + 2*decoder
	}
	r.loops = 1
	for _, key := range []string{"loop_num", "num_loops"} {
		if n, ok := f.outer(key); ok {
			r.loops = max(n, 1)
			break
		}
	}
	if r.layers > maxLayers || r.attnLayers > maxLayers*10 || r.loops > maxLayers {
		f.fail(problem.BadValue, "num_hidden_layers", r.layers, "more than %d", maxLayers)
	}
}

// maxLayers bounds what is listed layer by layer.
const maxLayers = 10_000
