package sglang

import (
	"headcount/checkpoint"
	"headcount/problem"
)

// dsaModel is a DeepSeek sparse-attention indexer.
type dsaModel struct {
	on      bool
	headDim int64
	pool    int64  // tokens that share an index key
	skips   []bool // by layer: reuses an earlier layer's choice; nil: none does
	sinks   bool   // learnable_sink
}

// v4Model is DeepSeek-V4's compressed attention.
type v4Model struct {
	headDim, indexDim, window int64
	ratios                    []int64 // by layer: tokens per compressed latent, 0: window only
}

// sparseModel is MiniMax-M3's sparse attention.
type sparseModel struct {
	dim    int64  // of an index key
	sparse []bool // by layer
	keys   []bool // by layer: keeps index keys alone, without values
}

// qsaBytes is an element of Qwen4's compressed index keys, bfloat16.
const qsaBytes = 2

func (r *reading) isV4() bool {
	switch r.arch {
	case "DeepseekV4ForCausalLM", "DeepseekV4ForCausalLMNextN", "DeepseekV4ForCausalLMDSpark":
		return true
	}
	return false
}

// sparseModels reads what models with an index beside their cache keep there.
func (r *reading) sparseModels() {
	if r.config.err != nil {
		return
	}
	switch {
	case r.isV4():
		r.compressed()
	case r.arch == "MiniMaxM3SparseForCausalLM" || r.arch == "MiniMaxM3SparseForConditionalGeneration":
		r.blockSparse()
	}
	if n, ok := r.config.size("indexer_n_heads"); ok && n > 0 { // Qwen4's compressed indexer
		dim, _ := r.config.size("indexer_head_dim")
		ratio, _ := r.config.size("indexer_compress_ratio")
		if ratio < 2 {
			r.config.fail(problem.BadValue, "indexer_compress_ratio", ratio, "below 2, which the engine refuses")
			return
		}
		r.qsa = mul(dim, qsaBytes) / ratio
	}
	if r.mayIndex() {
		if n, ok := r.config.outer("index_topk"); ok && n >= 0 {
			r.indexer()
		}
	}
}

// mayIndex are the architectures whose index_topk means an indexer (is_deepseek_dsa).
func (r *reading) mayIndex() bool {
	switch r.arch {
	case "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "DeepseekV3ForCausalLMNextN", "MistralLarge3ForCausalLM",
		"PixtralForConditionalGeneration", "GlmMoeDsaForCausalLM", "GlmMoeDsaForCausalLMNextN",
		"Glm5NextForConditionalGenerationNextN", "Glm5NextForConditionalGeneration", "LongcatFlashForCausalLM",
		"LongcatFlashForCausalLMNextN", "Dots3NoteForCausalLM", "Dots3NoteForCausalLMNextN", "HYV4ForCausalLM", "HYV4ForCausalLMNextN":
		return true
	}
	return false
}

func (r *reading) indexer() {
	f := &r.config
	d := &r.dsa
	d.on, d.pool = true, 1
	d.headDim, _ = f.outer("index_head_dim")
	if n, ok := f.outer("index_kpool"); ok {
		d.pool = max(n, 1)
	}
	if d.pool > 1024 {
		f.fail(problem.BadValue, "index_kpool", d.pool, "more than 1024")
	}
	d.sinks, _ = f.top.Bool("learnable_sink")
	layers := min(max(r.layers, r.attnLayers), maxLayers)
	skips := make([]bool, layers)
	any := false
	for i := range skips {
		skips[i] = r.skipsIndex(int64(i))
		any = any || skips[i]
	}
	if any {
		d.skips = skips
	}
}

// skipsIndex: a layer may reuse the choice of an earlier one (dsa_layer_skips_topk).
func (r *reading) skipsIndex(layer int64) bool {
	f := &r.config
	value := func(key string) checkpoint.Value {
		if v, ok := f.top.Value(key); ok {
			return v
		}
		v, _ := f.text.Value(key)
		return v
	}
	if types := value("indexer_types"); types.Kind() == checkpoint.List {
		list := types.List()
		if layer >= int64(len(list)) {
			return false
		}
		text, _ := list[layer].Text()
		return text == "shared"
	}
	if n, _ := value("cli_factor").Int(); n > 1 {
		return layer%n != 0
	}
	if pattern, ok := value("index_topk_pattern").Text(); ok {
		return layer < int64(len(pattern)) && pattern[layer] == 'S'
	}
	freq, _ := value("index_topk_freq").Int()
	if freq <= 1 {
		return false
	}
	if offset, ok := value("index_skip_topk_offset").Int(); ok {
		return max(layer-offset+1, 0)%freq != 0
	}
	return max(layer-1, 0)%freq != 0
}

func (r *reading) compressed() {
	f := &r.config
	v := &v4Model{}
	v.headDim, _ = f.outer("head_dim")
	v.indexDim, _ = f.outer("index_head_dim")
	v.window, _ = f.outer("sliding_window")
	given, _ := f.text.Raw().Get("compress_ratios") // the engine's class is one that keeps it
	list := given.List()
	if len(list) > maxLayers {
		list = list[:maxLayers]
	}
	for i, value := range list {
		n, ok := value.Int()
		if !ok || n != 0 && n != 1 && n != 2 && n != 4 && n != 128 {
			f.fail(problem.BadValue, "compress_ratios", value.Any(), "entry %d is not 0, 1, 2, 4 or 128", i)
			return
		}
		v.ratios = append(v.ratios, n)
	}
	switch n := int64(len(v.ratios)); {
	case n == 0:
		f.fail(problem.MissingField, "compress_ratios", nil, "missing, and the engine sizes pools by it")
	case n < r.layers && r.layers <= maxLayers:
		f.fail(problem.BadValue, "compress_ratios", n, "%d entries for %d layers", n, r.layers)
	}
	r.v4 = v
}

func (r *reading) blockSparse() {
	f := &r.config
	given, ok := f.text.Raw().Get("sparse_attention_config") // no class of this engine's makes one up
	if !ok {
		given, _ = f.top.Raw().Get("sparse_attention_config")
	}
	o := given.Dict()
	if o == nil {
		f.fail(problem.MissingField, "sparse_attention_config", nil, "missing, and the engine sizes pools by it")
		return
	}
	marks := func(key string) []bool {
		v, _ := o.Get(key)
		list := v.List()
		out := make([]bool, min(int64(len(list)), maxLayers))
		for i := range out {
			n, isInt := list[i].Int()
			b, _ := list[i].Bool()
			out[i] = isInt && n != 0 || b
		}
		return out
	}
	r.sparse = &sparseModel{dim: sizeIn(o, "sparse_index_dim"), sparse: marks("sparse_attention_freq"), keys: marks("sparse_disable_index_value")}
}
