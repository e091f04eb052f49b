package vllm

import (
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/engine"
	"headcount/model"
	"headcount/problem"
)

// Traits are what the engine's registry makes of a config: the class that serves it, and
// what that class can do.
type traits struct {
	arch        string // the architecture that the engine settles on
	pooling     bool   // served by the pooling runner
	ownPooler   bool   // its class pools; otherwise a pooler is put on one that generates
	encoderOnly bool   // counts as a model that attends in both directions
	directions
	bidirectional   bool // its layers attend in both directions and cache nothing
	seqPooling      string
	tokPooling      string
	hybrid          bool // layers that keep a state beside attention
	attentionFree   bool
	encoderDecode   bool
	pipelines       bool
	multimodal      bool
	onlySilu        []model.Part   // parts whose modules know no other activation
	transformers    bool           // runs the Transformers class
	replacesExperts bool           // of that class, the one that puts the engine's experts in place of its own
	embeds          bool           // the class has a pooler in place of a language-model head
	drafter         bool           // drafts for a target
	mtp             bool           // loads the checkpoint's own draft head
	remote          bool           // needs --trust-remote-code for its config class
	experts         int64          // routed experts, by the fields that the engine looks at
	refusal         *problem.Error // why the engine does not serve the config at all
}

// traitsOf looks a model's architectures up.
func traitsOf(m *model.Model) (t traits) {
	c, top := m.Config, m.Config.Top()
	t.seqPooling, t.tokPooling = "LAST", "ALL"
	t.arch = m.Architecture
	if t.refusal = knownConfig(m); t.refusal == nil {
		t.refusal = top.Refused()
	}
	if t.refusal != nil {
		return t
	}
	_, nested := c.Nested()
	t.experts = expertsOf(c)
	r, err := resolveArch(architectures(m), nested, t.experts > 0)
	if err != nil {
		t.refusal = err
		return t
	}
	if m.Guessed && !r.transformers {
		t.refusal = problem.New(problem.NotKnown, "architectures", r.arch, "served by a class of the engine's own, %s, whose layers are not known", r.class)
		return t
	}
	if !r.transformers {
		if t.refusal = unmet(r.arch, top); t.refusal != nil {
			return t
		}
	}
	if t.refusal = uncounted(c); t.refusal != nil {
		return t
	}
	info := r.info
	t.arch, t.pooling, t.transformers = r.arch, r.pooling, r.transformers
	t.replacesExperts = strings.HasPrefix(r.class, "Transformers") && strings.Contains(r.class, "MoE")
	t.embeds = strings.Contains(r.class, "Embedding")
	t.pipelines, t.multimodal, t.attentionFree, t.ownPooler = info.is('P'), info.is('m'), info.is('f'), info.is('p')
	switch {
	case info.is('U'):
		t.onlySilu = []model.Part{model.MLP, model.MoEShared, model.MoEExperts}
	case info.is('u'):
		t.onlySilu = []model.Part{model.MLP, model.MoEShared}
	}
	t.drafter = info.is('d')
	t.hybrid = info.is('h') && !onlyAttention(top)
	t.remote = !top.Known() || top.ReadByCode()
	t.mtp = servesMTP(c, r)
	for _, level := range []*model.Config{top, c} {
		b, _ := level.Bool("is_encoder_decoder")
		t.encoderDecode = t.encoderDecode || b
	}
	switch {
	case info.is('c'):
		t.seqPooling = "CLS"
	case info.is('e'):
		t.seqPooling = "MEAN"
	}
	if info.is('S') {
		t.tokPooling = "STEP"
	}
	t.directions = t.directionsOf(c, top)
	t.bidirectional = info.is('b') || t.textBoth && !t.transformers && asksDirection(m)
	t.encoderOnly = t.pooling && (t.seqPooling == "CLS" || t.outerBoth || info.is('b'))
	if !t.transformers {
		t.refusal = t.directions.refuse(m)
	}
	return t
}

// hook is what the hook of an architecture makes of attention's directions, where it has a word
// in that.
func (t *traits) hook(c, top *model.Config) (both, ruled bool) {
	flag := func(key string, def bool) bool {
		if b, ok := top.Bool(key); ok {
			return b
		}
		return def
	}
	switch t.arch {
	case "LlamaBidirectionalModel", "LlamaBidirectionalForSequenceClassification",
		"LlamaNemotronVLModel", "LlamaNemotronVLForSequenceClassification":
		for _, level := range []*model.Config{top, c} {
			switch pooling, _ := level.Text("pooling"); pooling {
			case "avg":
				t.seqPooling = "MEAN"
			case "cls":
				t.seqPooling = "CLS"
			}
		}
		return true, true
	case "VoyageQwen3BidirectionalEmbedModel":
		return true, true
	case "Gemma3TextModel":
		return flag("use_bidirectional_attention", false), true
	case "D3ForSequenceClassification":
		mode, _ := top.Object("decision_config").Get("attention_mode")
		name, _ := mode.Text()
		return name == "noncausal_full_attention", true
	case "JinaEmbeddingsV5Model":
		if !flag("is_decoder", true) {
			return true, true
		}
	}
	return false, false
}

// ownArchitectures are what the engine's own config classes say when a config names no
// architecture (transformers_utils/configs).
var ownArchitectures = map[string]string{
	"bailing_moe_v3_vl": "BailingMoeV3VLForConditionalGeneration", "beam": "BeamForCausalLM",
	"colultravbert": "ColUltraVBertForRetrieval", "deepseek_vl_v2": "DeepseekVLV2ForCausalLM",
	"minimax_m3_vl": "MiniMaxM3SparseForCausalLM",
}

// Unserved is why the engine serves no checkpoint of a config that headcount itself cannot
// resolve either, or not at the length that is asked for, which it checks before it builds
// anything. It is nil when the registry takes the architecture, and when nobody knows its
// model_type.
func (Engine) Unserved(c *model.Config, opt *engine.Options) *problem.Error {
	m := &model.Model{Config: c, ModelType: c.Top().ModelType(), TextType: c.ModelType()}
	if list, _ := c.Top().List("architectures"); len(list) > 0 {
		m.Architecture, _ = list[0].Text()
	}
	if !c.Top().Known() {
		return nil
	}
	_, nested := c.Nested()
	if _, refusal := resolveArch(architectures(m), nested, expertsOf(c) > 0); refusal != nil {
		return refusal.By("vllm")
	}
	if c.Refused() != nil || opt.MaxModelLen <= 0 {
		return nil
	}
	asked := setup{opt: opt, v: &view{length: newLengthRule(c, c.Top().ModelType())}}
	if refusal := asked.resolveLength(); refusal != nil && refusal.Field == "max_model_len" {
		return refusal.By("vllm")
	}
	return nil
}

// architectures lists what the config names, first the one that it was resolved as. A
// config that names none is the base model of its model_type (get_config).
func architectures(m *model.Model) []string {
	var out []string
	list, _ := m.Config.Top().List("architectures")
	for _, v := range list {
		if s, ok := v.Text(); ok {
			out = append(out, s)
		}
	}
	if len(out) > 0 && out[0] == m.Architecture {
		return out
	}
	arch := m.Architecture
	if arch == "" {
		arch = ownArchitectures[m.ModelType]
	}
	if arch == "" {
		arch, _ = model.ClassNames(m.ModelType)
	}
	if arch == "" {
		return nil
	}
	return []string{arch}
}

// expertsOf counts routed experts as the engine does
// (model_arch_config_convertor.py, get_num_experts): the first field that is there, even if
// the class reads another.
func expertsOf(c *model.Config) int64 {
	for _, key := range []string{"num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts"} {
		v, ok := c.Value(key)
		if !ok {
			continue
		}
		if list := v.List(); len(list) > 0 {
			v = list[0]
		}
		if n, _ := v.Int(); n != 0 {
			return n
		}
		break
	}
	most := int64(0)
	blocks, _ := c.List("block_configs")
	for _, b := range blocks {
		if b.Dict().Text("block_type") == "moe" {
			v, _ := b.Dict().Get("n_routed_experts")
			n, _ := v.Int()
			most = max(most, n)
		}
	}
	return most
}

// onlyAttention tells that a class for hybrids got a config without any other layer
// (granite-4.0-micro).
func onlyAttention(top *model.Config) bool {
	list, ok := top.List("layer_types")
	for _, v := range list {
		if s, _ := v.Text(); s != "attention" && s != "full_attention" {
			return false
		}
	}
	return ok
}

// bareConfigs are model types whose own config class, shipped with the checkpoint, adds
// nothing that the engine reads: with --trust-remote-code they plan as config.json stands.
var bareConfigs = []string{"internlm2", "molmo", "phi3_v", "plamo3", "new", "gte"}

// bareClasses are the architectures of the engine whose config class is shipped with the
// checkpoint and adds nothing either.
var bareClasses = []string{"K2HorizonForCausalLM", "PanguProMoEV2ForCausalLM", "DomynEdgeForCausalLM", "AliceAIForCausalLM", "RForConditionalGeneration"}

// needs are fields that the engine's class for a model_type reads, of either level, and that
// the configuration class has no value for.
var needs = map[string][]string{
	"granite4_vision": {"deepstack_layer_map", "downsample_rate"},
	"molmo2":          {"vit_config"}, // which Transformers' own class does not keep
	"glm5_next":       {"mhc", "mla_use_nope", "topk_method", "scoring_func"},
	"glm5_next_text":  {"mhc", "mla_use_nope", "topk_method", "scoring_func"},
}

// lacking refuses a config without a field that the class needs.
func lacking(modelType string, levels ...*model.Config) *problem.Error {
	for _, key := range needs[modelType] {
		if !slices.ContainsFunc(levels, func(c *model.Config) bool { _, ok := c.Value(key); return ok }) {
			err := problem.New(problem.Unsupported, key, nil, "missing, and the engine's class has no default for it")
			if _, given := levels[1].Raw().Get(key); given {
				err.Hint = "Transformers' own class drops it: keep the checkpoint's, auto_map and its code, and pass --trust-remote-code"
			}
			return err
		}
	}
	return nil
}

// uncounted refuses null for the number of KV heads where the configuration class leaves it at
// that (model_arch_config_convertor.py, get_total_num_kv_heads).
func uncounted(c *model.Config) *problem.Error {
	const key = "num_key_value_heads"
	if _, given := c.Raw().Get(key); !given || !c.IsNull(key) || slices.Contains([]string{"mamba", "falcon_mamba", "falcon", "dbrx", "nemotron-nas"}, c.ModelType()) {
		return nil
	}
	return problem.New(problem.BadValue, key, nil, "null, and %s derives no number of KV heads", c.ModelType()).WithHint("the number of attention heads")
}

// A wish is what the class of an architecture, or its hook, wants of a field (models/config.py,
// clef_joint_schema.py): one of some values as JSON writes them, null for a field that is not
// there, or any but that.
type wish struct {
	in, key string   // in: the object that holds the field, "" for the outer level
	values  []string // nil: any
}

// jointHead are the wishes of a joint schema head.
var jointHead = []wish{
	{"joint_head_config", "hidden_size", nil}, {"joint_head_config", "width", nil}, {"joint_head_config", "routing_layers", nil},
	{"joint_head_config", "layers", nil}, {"joint_head_config", "heads", nil}, {"joint_head_config", "feedforward", nil},
}

var wishes = map[string][]wish{
	"AliceAIForCausalLM": {
		{"", "kda_allow_negative_eigenvalues", []string{"false"}}, {"", "router_score_function", []string{`"sigmoid"`}},
		{"", "router_bias_correction", []string{"true"}},
	},
	"NomicBertModel": {
		{"", "activation_function", []string{"null", `"swiglu"`, `"gelu"`}}, {"", "rotary_emb_scale_base", []string{"null"}},
		{"", "rotary_emb_interleaved", []string{"null", "false"}},
	},
	"ClefFlashForJointSchema": jointHead,
	"ClefOmniForJointSchema":  jointHead,
	"D3ForSequenceClassification": {
		{"decision_config", "format_version", []string{"1"}}, {"decision_config", "pooling", []string{"null", `"last"`}},
		{"decision_config", "attention_mode", []string{"null", `"causal"`, `"noncausal_full_attention"`}},
	},
}

// oneBias tells whether Nomic's BERT has biases everywhere or nowhere.
func oneBias(c *model.Config) bool {
	first := isTrue(c, "mlp_fc1_bias")
	return first == isTrue(c, "mlp_fc2_bias") && first == isTrue(c, "qkv_proj_bias")
}

// unmet refuses a config that the hook of its architecture does not take.
func unmet(arch string, top *model.Config) *problem.Error {
	for _, w := range wishes[arch] {
		object, key := top.Raw(), w.key
		if w.in != "" {
			object, key = top.Object(w.in), w.in+"."+w.key
		}
		v, _ := object.Get(w.key)
		switch {
		case w.values == nil && v.Kind() == checkpoint.Null:
			return problem.New(problem.Unsupported, key, nil, "missing, and %s has no default for it", arch)
		case w.values != nil && !slices.Contains(w.values, string(v.AppendJSON(nil))):
			return problem.New(problem.Unsupported, key, v.Any(), "%s requires %s", arch, w.values[len(w.values)-1])
		}
	}
	switch {
	case arch == "NomicBertModel" && !oneBias(top):
		return problem.New(problem.Unsupported, "mlp_fc1_bias", nil, "%s takes mlp_fc1_bias, mlp_fc2_bias and qkv_proj_bias that are the same", arch)
	case arch != "D3ForSequenceClassification":
		return nil
	}
	codes, _ := top.Object("decision_config").Get("codes")
	tokens, _ := top.Object("decision_config").Get("token_ids")
	if n := len(codes.List()); n == 0 || n != len(tokens.List()) {
		return problem.New(problem.Unsupported, "decision_config.codes", n, "decision_config.json must list one token id per answer code")
	}
	return nil
}

// knownConfig refuses a config for whose model_type neither Transformers nor the engine has
// a class. The code of one that brings its own is not run: what it makes of the config
// cannot be told from the file.
func knownConfig(m *model.Model) *problem.Error {
	top := m.Config.Top()
	_, code := top.Object("auto_map").Get("AutoConfig")
	switch {
	case m.ModelType == "":
		return problem.New(problem.Unsupported, "model_type", nil, "Unrecognized model: config.json has no model_type").
			WithHint("add the checkpoint's model_type")
	case top.Known(), code && (slices.Contains(bareConfigs, m.ModelType) || slices.Contains(bareClasses, m.Architecture)):
		return nil
	case code && !servedByName(m):
		return problem.New(problem.Unsupported, "architectures", m.Architecture, "contains custom code which must be executed to correctly load the model, and no model class of the engine's own").
			WithHint("--trust-remote-code runs it, if it follows Transformers' attention interface")
	case code:
		return problem.New(problem.Unsupported, "auto_map", nil, "contains custom code which must be executed to correctly load the model").
			WithHint("--trust-remote-code runs it; what it adds to the config is not known here")
	}
	return problem.New(problem.Unsupported, "model_type", m.ModelType, "Transformers does not recognize this architecture").
		WithHint("a model_type that Transformers 5.20 or vLLM %s knows", Version)
}

// servedByName tells whether the engine has a model class for an architecture of the config.
func servedByName(m *model.Model) bool {
	return slices.ContainsFunc(architectures(m), func(arch string) bool {
		info, _ := lookupArch(arch)
		return info.native()
	})
}
