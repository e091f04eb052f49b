package vllm

import (
	"math"
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/model"
)

// A view is a model as the engine sees it before any flag, device or layout. It is derived
// once a model and never written afterwards.
type view struct {
	model *model.Model
	traits
	kind       string // model_type of the outer level
	mla        bool   // latents are cached and absorbed; otherwise they are expanded
	sparse     bool   // a sparse indexer chooses the tokens that attention reads
	compressed bool   // the config gives tokens per latent
	windowOnly int64  // window of a model that windows every layer alike, tokens; 0: none

	queries, kv, head int64 // whole-model totals, for checks and alignment
	nope, rope, value int64 // of expanded latents, elements of a head
	rank, topK, pool  int64 // of latents; tokens that an indexer pools

	dtype      dtype.Type // the config's
	quant      string     // the engine's method, "" for none
	quantBlock *checkpoint.Object
	cacheDType string // kv_cache_dtype that the checkpoint asks for; "auto": nothing said
	layerFP8   bool   // its layers turn an auto cache into fp8
	headScales bool   // scales per KV head

	length     lengthRule
	activation string // of the layers, "" when the config names none
	softcap    bool   // logits of attention are capped
	alibi      bool   // positions are biases of attention
	prefix     bool   // images are attended to in both directions
	item       int64  // tokens of the largest image or video, which a step must hold; 0: not known
	towers     bool   // it takes images, audio or video, and the checkpoint has what for
	image      item   // on which the towers are profiled
	chunked    bool   // attention_chunk_size is set
	sinks      sinkRule
	latentSink bool // sinks of latent attention
	fa4        bool // head sizes differ and the engine wants one kernel for all: FlashAttention 4, or Triton
	triton     bool // the architecture's hook asks for Triton
	ssm        string

	layers []*model.Layer // distinct
	runs   []layerRun     // of all layers, in order
	draft  []layerRun
	states []model.State // distinct recurrent states, as the config tells them
}

// A layerRun is n equal layers in a row.
type layerRun struct {
	layer int32 // index of the distinct layer
	n     int32
}

// A sinkRule says which layers have attention sinks.
type sinkRule uint8

const (
	noSinks sinkRule = iota
	allSinks
	windowSinks
	fullSinks
)

// latentTypes are the text model types whose latents the engine absorbs
// (model_arch_config_convertor.py, is_deepseek_mla).
var latentTypes = map[string]bool{
	"axk1": true, "deepseek_v2": true, "deepseek_v3": true, "deepseek_v32": true, "deepseek_v4": true, "deepseek_v41": true,
	"dots3_note": true, "deepseek_mtp": true, "k3_dspark": true, "glm5_next": true, "glm5_next_text": true,
	"glm_moe_dsa": true, "glm4_moe_lite": true, "glm4_moe_lite_mtp": true, "kimi_k2": true, "kimi_linear": true,
	"longcat_flash": true, "pangu_ultra_moe": true, "pangu_ultra_moe_mtp": true, "bailing_hybrid": true,
	"bailing_hybrid_mtp": true, "bailing_hybrid_v3_mtp": true, "hy_v4": true, "hy_v4_mtp": true,
}

// prefixTypes are the model types whose images are attended to in both directions
// (is_mm_prefix_lm).
var prefixTypes = map[string]bool{"bagel": true, "gemma3": true, "molmo2": true, "moondream3": true, "paligemma": true}

// newView derives a model's view.
func newView(m *model.Model) *view {
	c, top := m.Config, m.Config.Top()
	v := &view{model: m, traits: traitsOf(m), kind: m.ModelType,
		queries: int64(m.QueryHeads), kv: int64(m.KVHeads), head: int64(m.HeadDim)}
	v.nope, _ = c.Int("qk_nope_head_dim")
	v.value, _ = c.Int("v_head_dim")
	v.rope, _ = c.Int("qk_rope_head_dim")
	v.rank, _ = c.Int("kv_lora_rank")
	v.topK, _ = c.Int("index_topk")
	v.pool, _ = c.Int("index_kpool")
	v.compressed = compressed(c)
	v.mla = v.absorbs(c)
	if n, ok := c.Int("head_dim"); ok && v.head == 0 && v.kind != "mamba" && v.kind != "falcon_mamba" {
		v.head = n
	}
	v.sparse = v.mla && v.topK > 0
	v.layout(m)

	v.dtype = configDType(c, top)
	v.quantisation(m)
	v.length = newLengthRule(c, v.kind)
	v.activation, _ = c.Text("hidden_act")
	if cap, ok := c.Float("attn_logit_softcapping"); ok {
		v.softcap = cap != 0
	}
	if n, ok := c.Int("attention_chunk_size"); ok && n != 0 && !strings.HasPrefix(v.kind, "mimo_v2") {
		v.chunked = true
	}
	v.alibi = alibi(m)
	_, nested := c.Nested()
	v.prefix = (v.multimodal || nested) && prefixLM(c, top, v.kind)
	v.sinks = sinksOf(m)
	if m.TextType == "hy_v4" {
		v.latentSink, _ = m.Config.Bool("learnable_sink")
	}
	v.windowOnly = windowOfAll(c)
	if strings.HasPrefix(m.TextType, "gemma4") || strings.HasPrefix(v.kind, "gemma4") {
		v.fa4 = v.headSizes() > 1
		if v.prefix && v.multimodal {
			v.item = gemma4Video
		}
	}
	v.triton = v.arch == "EmbeddingGemma2Model"
	v.towers = v.multimodal && (m.Towers || slices.ContainsFunc(m.Outer, func(p model.Param) bool { return p.Part == model.Tower }))
	v.image = profiled(top)
	v.ssm = ssmDType(m, c, top)
	return v
}

// gemma4Video is a video of Gemma-4: 32 frames of 70 tokens, two marks and a time stamp of
// 6 (models/gemma4_mm.py, get_mm_max_tokens_per_item).
const gemma4Video = 32 * (70 + 2 + 6)

// absorbs tells whether the engine caches latents (ModelConfig.use_mla).
func (v *view) absorbs(c *model.Config) bool {
	if v.transformers {
		return v.rank > 0
	}
	if v.textBoth || !latentTypes[v.model.TextType] {
		return false
	}
	if v.compressed {
		_, ok := c.Int("head_dim")
		return ok
	}
	return v.rank > 0
}

// v4 tells whether the model packs its latents as DeepSeek-V4 does.
func (v *view) v4() bool { return v.mla && v.compressed }

// mrope tells whether positions have a part for each of several axes.
func (v *view) mrope() bool {
	sections, _ := v.model.Config.Object("rope_parameters").Get("mrope_section")
	return v.multimodal && len(sections.List()) > 0
}

// v41 tells whether it is DeepSeek-V4.1.
func (v *view) v41() bool { return v.model.Family == "deepseek_v41" }

// latentsV4 is the backend of DeepSeek-V4's compressed latents.
func (v *view) latentsV4() backend {
	if v.v41() {
		return flashMLASparseV41
	}
	return flashMLASparseV4
}

// compressed tells whether the config gives tokens per latent (get_compress_ratios).
func compressed(c *model.Config) bool {
	for _, key := range []string{"compress_ratios", "compress_rates"} {
		if _, ok := c.Value(key); ok {
			return true
		}
	}
	return false
}

// runsOf are the runs of layers; those not seen before join the distinct ones.
func (v *view) runsOf(layers []*model.Layer) (runs []layerRun) {
	var last *model.Layer
	for _, l := range layers {
		if l == last {
			runs[len(runs)-1].n++
			continue
		}
		last = l
		i := slices.Index(v.layers, l)
		if i < 0 {
			i = len(v.layers)
			v.layers = append(v.layers, l)
		}
		runs = append(runs, layerRun{int32(i), 1})
	}
	return runs
}

// layout finds the distinct layers and their runs.
func (v *view) layout(m *model.Model) {
	layers := m.Layers
	if m.TextType == "gpt_oss" {
		layers = alternating(m)
	}
	v.runs = v.runsOf(layers)
	v.draft = v.runsOf(m.Draft)
	for _, l := range v.layers {
		for i := range l.Caches {
			if c := &l.Caches[i]; c.Kind == model.Recurrent {
				if s := asConfigured(m, c.State); !slices.Contains(v.states, s) {
					v.states = append(v.states, s)
				}
			}
		}
	}
	if m.State != nil && v.hybrid && len(v.states) == 0 {
		v.states = []model.State{*m.State}
	}
}

// alternating are gpt-oss's layers as its class builds them: every other one has the window,
// the first too, whatever layer_types say (models/gpt_oss.py).
func alternating(m *model.Model) []*model.Layer {
	window, _ := m.Config.Int("sliding_window")
	if len(m.Layers) == 0 || window <= 0 || window > math.MaxInt32 {
		return m.Layers
	}
	full, sliding := *m.Layers[0], *m.Layers[0]
	c := full.Caches[0]
	if c.Kind == model.EncoderOnly {
		return m.Layers
	}
	c.Kind, c.Window = model.Full, 0
	full.Caches = []model.Cache{c}
	c.Kind, c.Window = model.Sliding, int(window)
	sliding.Caches = []model.Cache{c}
	layers := make([]*model.Layer, len(m.Layers))
	for i := range layers {
		if layers[i] = &full; i%2 == 0 {
			layers[i] = &sliding
		}
	}
	return layers
}

// asConfigured is a layer's state as the engine takes it from the config before there is a
// layer. Zamba2 computes the head size, and yet reads the file's where it has one
// (models/zamba2.py, get_mamba_state_shape_from_config).
func asConfigured(m *model.Model, s model.State) model.State {
	if n, ok := m.Config.Int("mamba_headdim"); ok && m.TextType == "zamba2" && n > 0 && n <= maxHeadDim {
		s.HeadDim = int(n)
	}
	if m.Architecture == "Lfm2VlForConditionalGeneration" { // models/lfm2_vl.py: the width of a layer, not of its convolution
		s.Inner = max(m.HiddenSize, 1)
	}
	return s
}

// maxHeadDim bounds a head size that no other check has seen.
const maxHeadDim = 1 << 20

// headSizes counts the different head sizes of attention layers.
func (v *view) headSizes() int {
	var sizes []int
	for _, l := range v.layers {
		for _, c := range l.Caches {
			if c.Attn.KeyDim > 0 && !slices.Contains(sizes, c.Attn.KeyDim) {
				sizes = append(sizes, c.Attn.KeyDim)
			}
		}
	}
	return len(sizes)
}

// configDType is the dtype that the config states, of whichever level states one
// (get_torch_dtype); float32 when none does.
func configDType(c, top *model.Config) dtype.Type {
	for _, level := range []*model.Config{top, c} {
		for _, key := range []string{"dtype", "torch_dtype"} {
			if s, ok := level.Text(key); ok {
				t, _ := dtype.Parse(s)
				return t
			}
		}
	}
	for _, part := range []string{"vision_config", "encoder_config"} {
		for _, key := range []string{"dtype", "torch_dtype"} {
			if value, ok := top.Object(part).Get(key); ok {
				if s, isText := value.Text(); isText {
					t, _ := dtype.Parse(s)
					return t
				}
			}
		}
	}
	return dtype.Float32
}

// alibi tells whether positions enter as biases (ModelConfig.uses_alibi).
func alibi(m *model.Model) bool {
	if m.Architecture == "BloomForCausalLM" || m.TextType == "bloom" {
		return true
	}
	if b, _ := m.Config.Bool("alibi"); b {
		return true
	}
	for _, key := range []string{"position_encoding_type", "position_embedding_type"} {
		if s, _ := m.Config.Text(key); s == "alibi" {
			return true
		}
	}
	value, _ := m.Config.Object("attn_config").Get("alibi")
	b, _ := value.Bool()
	return b
}

// prefixLM tells whether images are attended to in both directions.
func prefixLM(c, top *model.Config, kind string) bool {
	if strings.HasPrefix(kind, "gemma4") || strings.HasPrefix(kind, "diffusion_gemma") {
		s, _ := c.Text("use_bidirectional_attention")
		return s == "vision"
	}
	if b, ok := top.Bool("is_mm_prefix_lm"); ok {
		return b
	}
	return prefixTypes[kind]
}

// sinksOf tells which layers have attention sinks (the sinks= of each model class).
func sinksOf(m *model.Model) sinkRule {
	flag := func(key string) bool {
		b, _ := m.Config.Bool(key)
		return b
	}
	switch {
	case hasSinks(m):
		return allSinks
	case strings.HasPrefix(m.TextType, "mimo_v2"):
		window, full := flag("add_swa_attention_sink_bias"), flag("add_full_attention_sink_bias")
		switch {
		case window && full:
			return allSinks
		case window:
			return windowSinks
		case full:
			return fullSinks
		}
	}
	return noSinks
}

// hasSinks tells whether layers have sinks among their parameters.
func hasSinks(m *model.Model) bool {
	return len(m.Layers) > 0 && slices.ContainsFunc(m.Layers[0].Params, func(p model.Param) bool { return strings.HasSuffix(p.Name, ".sinks") })
}

// ssmDType is the dtype of recurrent states that a hook of the architecture takes from the
// config (model_executor/models/config.py): "auto" where none does.
func ssmDType(m *model.Model, c, top *model.Config) string {
	switch {
	case strings.HasPrefix(m.Architecture, "NemotronH"):
		for _, level := range []*model.Config{top, c} {
			if s, ok := level.Text("mamba_ssm_cache_dtype"); ok {
				return s
			}
		}
		return "float32"
	case strings.HasPrefix(m.Architecture, "Qwen3_5"), m.Architecture == "D3ForSequenceClassification", strings.HasPrefix(m.Architecture, "Qwen4Exp"):
		if s, ok := c.Text("mamba_ssm_dtype"); ok {
			return s
		}
	}
	return "auto"
}

// A lengthRule is how long the checkpoint says a request may be.
type lengthRule struct {
	derived  float64 // tokens, RoPE scaling included; +Inf: nothing said
	key      string  // the field it comes from
	standard int64   // the default: derived, or a long-context RoPE's original length
	limit    float64 // model_max_length, which allows more than derived; 0: none
}

// lengthKeys are where a config states its length, first of equals named.
var lengthKeys = []string{"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
	"max_target_positions", "max_sequence_length", "max_seq_length", "seq_len"}

// unscaled are the RoPE types whose factor is in max_position_embeddings already.
var unscaled = []string{"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "telechat3-yarn"}

// newLengthRule derives the length (derive_max_model_len_and_key, _get_and_verify_max_len).
func newLengthRule(c *model.Config, kind string) lengthRule {
	r := lengthRule{derived: math.Inf(1)}
	for _, key := range lengthKeys {
		if n, ok := c.Float(key); ok && n < r.derived {
			r.derived, r.key = n, key
		}
	}
	if n, ok := c.Float("model_max_length"); ok && n != 0 {
		r.derived, r.key, r.limit = n, "model_max_length", n
	}
	if math.IsInf(r.derived, 1) {
		r.standard = 2048
		return r
	}
	scale, original := ropeScale(c, kind)
	r.derived *= scale
	r.standard = whole(r.derived)
	if n, ok := c.Int(trainedLength); ok && original {
		r.standard = n
	}
	return r
}

// ropeScale is the factor of the RoPE parameters, the last of nested ones; original tells
// that a long-context RoPE is served at the length it was trained at.
func ropeScale(c *model.Config, kind string) (scale float64, original bool) {
	scale = 1
	rope := c.Object("rope_parameters")
	if rope.Len() == 0 {
		rope = c.Object("rope_scaling")
	}
	each := func(p *checkpoint.Object) {
		name := ropeType(p)
		original = original || name == "longrope" || name == "su"
		if slices.Contains(unscaled, name) || strings.Contains(kind, "gemma3") {
			return
		}
		if value, ok := p.Get("factor"); ok {
			if scale, ok = value.Float(); !ok {
				scale = 1
			}
		}
	}
	nested := false
	for _, key := range rope.Keys() {
		value, _ := rope.Get(key)
		if p := value.Dict(); p.Len() > 0 && strings.HasSuffix(key, "_attention") {
			nested = true
			each(p)
		}
	}
	if !nested && rope.Len() > 0 {
		each(rope)
	}
	return scale, original
}

func ropeType(p *checkpoint.Object) string {
	for _, key := range []string{"rope_type", "type"} {
		if value, ok := p.Get(key); ok {
			if s, isText := value.Text(); isText {
				return s
			}
		}
	}
	return "default"
}

// whole is a length in tokens; one beyond maxLength counts as that.
func whole(f float64) int64 {
	if !(f < maxLength+1) {
		return maxLength + 1
	}
	return int64(f)
}

// maxLength bounds a request's length, tokens, so that no product of a few lengths
// overflows.
const maxLength = 1 << 48

// viewOf is the model's view, derived the first time that it is asked for. An expanded one
// caches keys and values of all heads where the engine would absorb latents.
func viewOf(m *model.Model, expanded bool) *view {
	v := m.Memo("vllm", func() any { return newView(m) }).(*view)
	if !expanded || !v.mla {
		return v
	}
	return m.Memo("vllm, expanded", func() any {
		e := *v
		e.mla, e.sparse = false, false
		e.head = e.nope + e.rope
		return &e
	}).(*view)
}
