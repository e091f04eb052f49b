package sglang

import (
	"cmp"
	"math"

	"headcount/attn"
	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/model"
	"headcount/problem"
)

// A reading is what the engine takes from a model's config before it looks at flags,
// layouts or devices (configs/model_config.py, ModelConfig). Counts are of the whole model.
type reading struct {
	name   string // as the caller named the model; one of the engine's rules looks at it
	arch   string
	entry  archEntry
	kind   string // model_type of the file
	path   string // where the text config is nested, "" when it is not
	config fields

	context int64      // derived context length, tokens
	dtype   dtype.Type // of the config; Float32 when it names none
	quant   quantization

	queryHeads, kvHeads int64
	keyDim, valueDim    int64
	window              window // sliding layers' own shape, and the window
	latent              latent
	attention           attn.Arch // code path: MLA by architecture alone
	pureState           bool      // no attention at all
	rawMamba            bool      // a Mamba-1 checkpoint of before Transformers had the class

	hidden     int64
	layers     int64 // num_hidden_layers
	attnLayers int64 // num_attention_layers
	loops      int64 // times that each layer runs, with a cache of its own

	modal  modality
	slides bool  // some layers slide, whether the engine knows of it or not
	nextN  int64 // num_nextn_predict_layers; -1 when the key is missing

	sinks       bool    // learned attention sinks
	patterned   bool    // has a sliding_window_pattern
	onePass     bool    // reads a prompt in one pass, both ways
	delta       bool    // Kimi delta attention, whose prefill is not captured
	localDrafts []int64 // draft layers with window rows at the full pool's capacity; nil: no such field
	block       int64   // tokens that a block-drafting model writes at once
	markov      int64   // rank of its Markov head (DSPARK)
	bundled     bool    // has such a draft in the same checkpoint

	kinds  []layerKind // of a hybrid sliding-window model, by layer
	states *stateModel
	dsa    dsaModel
	v4     *v4Model
	sparse *sparseModel
	qsa    int64 // bytes per token and full-attention layer of Qwen4's compressed indexer
}

// latent is MLA's row.
type latent struct {
	rank, rope       int64
	swaRank, swaRope int64 // of sliding layers
}

// window is the shape of sliding layers and the window that pools see.
type window struct {
	kvHeads, keyDim, valueDim int64
	own                       bool  // the pool of sliding layers has heads of its own
	size                      int64 // of the class's report, else of the config; 0: none
	reported                  bool  // the model class reports size
	config                    int64 // sliding_window_size, sliding_window or window_size; 0: none
	chunk                     int64 // attention_chunk_size; 0: none
}

// modality is what the engine knows of towers.
type modality struct {
	listed       bool // multimodal by architecture or by a nested text config
	byDefault    bool // served multimodal unless told otherwise
	vision       bool // has a vision_config
	visionHidden int64
	visionLayers int64
}

// layerKind says which pool a layer of a hybrid sliding-window model is in.
type layerKind uint8

const (
	neither layerKind = iota
	slides
	whole
)

// fields reads a config as the engine does: the text config, and the outer level with the
// text config's keys where it has none of its own. It keeps the first field of no use.
type fields struct {
	text, top level
	err       *problem.Error
}

// A level is one level of a config with the engine's own class of it.
type level struct {
	*model.Config
	class ownClass
	known bool // the engine reads its model_type
}

func levelOf(c *model.Config, modelType string) level {
	l := level{Config: c}
	l.class, l.known = lookupClass(modelType)
	return l
}

// value is what the engine's class holds at key; null is no value. Where the engine has a
// class of its own, what Transformers' would make of absent fields does not count.
func (l level) value(key string) (checkpoint.Value, bool) {
	v, ok := l.Value(key)
	if given, inFile := l.Raw().Get(key); inFile {
		if l.class.defaults != nil { // whatever Transformers' class makes of it
			v = given
		}
		return v, v.Kind() != checkpoint.Null
	}
	if other, named := l.class.names[key]; named {
		if v, given := l.Raw().Get(other); given {
			return v, v.Kind() != checkpoint.Null
		}
	}
	if n, own := l.class.defaults[key]; own {
		return checkpoint.NewInt(n), true
	}
	return v, ok
}

// maxSize bounds what a field may claim; products are checked besides.
const maxSize = 1 << 31

// size reads a whole number of the text config that is not negative.
func (f *fields) size(key string) (int64, bool) { return f.sized(f.text, key) }

// outer reads it from the outer level first.
func (f *fields) outer(key string) (int64, bool) {
	if n, ok := f.sized(f.top, key); ok {
		return n, ok
	}
	return f.sized(f.text, key)
}

func (f *fields) sized(c level, key string) (int64, bool) {
	v, ok := c.value(key)
	if !ok {
		return 0, false
	}
	n, whole := v.Int()
	if !whole || n < 0 || n > maxSize {
		f.fail(problem.BadValue, key, v.Any(), "not a whole number between 0 and %d", int64(maxSize))
		return 0, false
	}
	return n, true
}

// need reads a size that the engine cannot do without.
func (f *fields) need(key string) int64 {
	n, ok := f.size(key)
	if !ok {
		f.fail(problem.MissingField, key, nil, "missing, and the engine has no default for it")
	}
	return n
}

// perLayer reports whether the class keeps a field apart for some layers: read as one of
// the whole model it raises (transformers, per_layer_config).
func (f *fields) perLayer(key string) bool {
	layers := f.text.Object("per_layer_config")
	for _, layer := range layers.Keys() {
		v, _ := layers.Get(layer)
		if _, own := v.Dict().Get(key); own {
			return true
		}
	}
	return false
}

// truth reads a flag of the text config; absent is false.
func (f *fields) truth(key string) bool {
	b, _ := f.text.Bool(key)
	return b
}

func (f *fields) fail(code problem.Code, key string, value any, format string, args ...any) {
	if f.err == nil {
		f.err = problem.New(code, key, value, format, args...)
	}
}

// newReading chooses the levels of m's config that the engine reads.
func newReading(m *model.Model) *reading {
	r := &reading{name: m.Name, arch: m.Architecture, kind: m.ModelType, nextN: -1}
	r.path, _ = m.Config.Nested()
	r.config.top = levelOf(m.Config.Top(), r.kind)
	r.config.text = r.config.top
	if _, named := r.config.top.Raw().Get("language_config"); named && r.path == "" {
		r.path = "language_config" // under another name in the class
	}
	if _, constructed := r.config.top.Sub("text_config"); constructed && r.path == "" {
		r.path = "text_config" // of keys at the outer level
	}
	switch r.path {
	case "thinker_config.text_config", "llm_config", "language_config", "text_config":
		r.config.text = levelOf(m.Config, r.kind+"."+r.path)
		if !r.config.text.known {
			r.config.text = levelOf(m.Config, m.Config.ModelType())
		}
	default: // nested for other readers; this engine reads the outer level
		r.path = ""
	}
	if keepsOuter(r.arch) {
		r.config.text, r.path = r.config.top, ""
	}
	for _, l := range m.Layers {
		for _, c := range l.Caches {
			r.slides = r.slides || c.Kind == model.Sliding || c.Kind == model.Chunked
		}
	}
	return r
}

// read takes what the engine takes from m.
func read(m *model.Model) (*reading, *problem.Error) {
	r := newReading(m)
	if refusal := r.readable(); refusal != nil {
		return nil, refusal
	}
	if refusal := r.identity(); refusal != nil {
		return nil, refusal
	}
	if refusal := cmp.Or(r.support(), notHere(m)); refusal != nil {
		return nil, refusal
	}
	r.modality()
	r.context = r.contextLength()
	r.dtype = r.configDType()
	r.shape()
	r.windows()
	r.stateModel()
	r.sparseModels()
	r.quantization()
	r.traits()
	if r.isV4() { // read by a class of DeepSeek-V3's fields, which are typed
		if v, given := r.config.text.Raw().Get("kv_lora_rank"); given && v.Kind() == checkpoint.Null {
			r.config.fail(problem.BadValue, "kv_lora_rank", nil, "null, and the engine's class wants a whole number")
		}
	}
	if r.config.err != nil {
		return nil, r.config.err.By(name)
	}
	return r, r.strict()
}

// traits are what rules of flags ask of the config.
func (r *reading) traits() {
	f := &r.config
	r.sinks = r.entry.has(sinks) || f.truth("learnable_sink")
	if r.entry.has(mimo) || r.arch == "MiMoV2MTP" {
		r.sinks = f.truth("add_swa_attention_sink_bias") || f.truth("add_full_attention_sink_bias")
	}
	_, r.patterned = f.top.Value("sliding_window_pattern")
	switch r.arch {
	case "EmbeddingGemma2Model":
		r.onePass = true
	case "HrmTextForCausalLM":
		prefix, given := f.top.Bool("prefix_lm")
		r.onePass = prefix || !given
	default: // EmbeddingGemma is a Gemma 3 text model
		r.onePass = f.text.ModelType() == "gemma3_text" && f.truth("use_bidirectional_attention")
	}
	r.delta = r.deltaAttention()
	r.blocks()
	if ids, ok := f.text.List("mtp_local_layer_ids"); ok {
		r.localDrafts = make([]int64, 0, min(len(ids), maxLayers))
		for _, id := range ids[:min(len(ids), maxLayers)] {
			r.localDrafts = append(r.localDrafts, intIn(id))
		}
	}
}

// notHere is a model for which vLLM's caches are known here, and SGLang's are not.
func notHere(m *model.Model) *problem.Error {
	keeps := map[string]string{"inkling": "convolutions", "glm5_next": "deltas and its pooled index", "qwen4_exp": "index and its rings",
		"k2_horizon": "values that tokens choose", "dots3_note": "two kinds of latents"}[m.Family]
	if keeps == "" {
		return nil
	}
	return problem.New(problem.NotKnown, "architectures", m.Architecture, "what SGLang keeps of its %s is not known here", keeps)
}

// support refuses architectures that the engine has no model for
// (model_loader/utils.py, get_model_architecture).
func (r *reading) support() *problem.Error {
	entry, known := lookupArch(r.arch)
	r.entry = entry
	switch {
	case entry.has(native | backend):
		return nil
	case entry.has(refused):
		return problem.New(problem.Unsupported, "architectures", r.arch,
			"no SGLang implementation, and its Transformers backend does not take the class").By(name)
	case !known || entry.traits == 0:
		err := problem.New(problem.UnknownArchitecture, "architectures", r.arch, "neither SGLang nor Transformers has a model class for it").By(name)
		if near := nearest(r.arch); near != "" {
			err = err.WithHint("the nearest that SGLang has is %s", near)
		}
		return err
	}
	return nil
}

// contextKeys are where the context length is looked for, first hit wins
// (utils/hf_transformers/common.py, CONTEXT_LENGTH_KEYS).
var contextKeys = []string{"max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings"}

// contextLength is the longest position times the rope factor (get_context_length).
func (r *reading) contextLength() int64 {
	for _, key := range contextKeys {
		n, ok := r.config.size(key)
		if !ok {
			continue
		}
		length := truncate(r.ropeFactor() * float64(n))
		if r.arch == "EmbeddingGemma2Model" {
			length = min(length, 8192)
		}
		if length <= 0 || length > maxSize {
			r.config.fail(problem.BadValue, key, n, "a context of %d tokens", length)
		}
		return length
	}
	return 2048
}

// ropeFactor is by how much rotary scaling lengthens the context. It is 1 where the
// config's length is the lengthened one already.
func (r *reading) ropeFactor() float64 {
	rope := r.config.text.Object("rope_parameters")
	if rope.Len() == 0 {
		rope = r.config.text.Object("rope_scaling")
	}
	if r.isV4() || r.kind == "olmo3" { // the engine's classes keep one set for all layers, as in the file
		given, _ := r.config.text.Raw().Get("rope_scaling")
		rope = given.Dict()
	}
	if _, original := rope.Get("original_max_position_embeddings"); original {
		return 1
	}
	kind, _ := rope.Get("rope_type")
	if text, _ := kind.Text(); text == "llama3" {
		return 1
	}
	if v, ok := rope.Get("factor"); ok {
		if v.Kind() == checkpoint.Null {
			r.config.fail(problem.BadValue, "rope_scaling.factor", nil, "null, and the engine multiplies by it")
		}
		if x, isNumber := v.Float(); isNumber && !math.IsNaN(x) {
			return x
		}
	}
	return 1
}

// keepsOuter: these wrappers keep text fields at the outer level and serve in float16
// (get_hf_text_config).
func keepsOuter(arch string) bool {
	const prefix, suffix = "Llava", "ForCausalLM"
	return len(arch) >= len(prefix)+len(suffix) && arch[:len(prefix)] == prefix && arch[len(arch)-len(suffix):] == suffix
}

// configDType is the dtype that the text config names, else the outer one; a thinker's
// text takes the thinker's.
func (r *reading) configDType() dtype.Type {
	if keepsOuter(r.arch) {
		return dtype.Float16
	}
	levels := []level{r.config.text, r.config.top}
	if r.path == "thinker_config.text_config" {
		if thinker, ok := r.config.top.Sub("thinker_config"); ok {
			levels[0] = level{Config: thinker}
		}
	}
	for _, c := range levels {
		for _, key := range []string{"dtype", "torch_dtype"} {
			if text, ok := c.Text(key); ok {
				if t, known := dtype.Parse(text); known {
					return t
				}
				return dtype.Float32
			}
		}
		if t, ok := dtype.Parse(c.class.dtype); ok {
			return t
		}
	}
	return dtype.Float32
}

// modality decides whether the engine takes the model for a multimodal one.
func (r *reading) modality() {
	m := &r.modal
	m.listed = r.entry.has(multimodal) || r.path != ""
	m.byDefault = !r.entry.has(textOnly)
	hasVision := r.vision()
	if r.entry.has(mimo) && r.entry.has(multimodal) && !(hasVision && r.config.top.Object("audio_config") != nil) {
		m.byDefault = false
	}
	if only, _ := r.config.top.Bool("language_model_only"); only {
		m.listed = false
	}
}

// vision reads what the engine takes for a vision tower's size, and reports whether there
// is one. Where no class constructs it, or the class has other names, the engine takes
// ViT-L/14's.
func (r *reading) vision() bool {
	m := &r.modal
	m.visionLayers, m.visionHidden = 24, 1024
	if r.arch == "Phi4MMForCausalLM" {
		m.vision, m.visionLayers, m.visionHidden = true, 26, 1152
		return true
	}
	top := r.config.top
	file := top.Object("vision_config")
	sub, constructed := top.Sub("vision_config")
	m.vision = constructed || file != nil || top.class.visual
	for i, field := range []struct {
		key  string
		size *int64
	}{{"num_hidden_layers", &m.visionLayers}, {"hidden_size", &m.visionHidden}} {
		given, inFile := file.Get(field.key)
		switch own := top.class.vision; {
		case own != nil && inFile:
			*field.size = intIn(given)
		case own != nil && own[i] >= 0:
			*field.size = own[i]
		case own == nil && constructed:
			if n, ok := r.config.sized(level{Config: sub}, field.key); ok {
				*field.size = n
			}
		}
	}
	return m.vision
}
