package checkpoint

import (
	"slices"
	"strings"

	"headcount/problem"
)

// paramsKeys are params.json's keys and config.json's names for them. A key without
// another name is kept as it is.
var paramsKeys = map[string]string{
	"dim":             "hidden_size",
	"norm_eps":        "rms_norm_eps",
	"n_kv_heads":      "num_key_value_heads",
	"n_layers":        "num_hidden_layers",
	"n_heads":         "num_attention_heads",
	"hidden_dim":      "intermediate_size",
	"activation":      "hidden_act",
	"tied_embeddings": "tie_word_embeddings",
}

// moeKeys are the same for the keys of "moe" in a model with shared experts.
var moeKeys = [...][2]string{
	{"route_every_n", "moe_layer_freq"},
	{"first_k_dense_replace", "first_k_dense_replace"},
	{"num_experts_per_tok", "num_experts_per_tok"},
	{"num_experts", "n_routed_experts"},
	{"expert_hidden_dim", "moe_intermediate_size"},
	{"routed_scale", "routed_scaling_factor"},
	{"num_shared_experts", "n_shared_experts"},
	{"num_expert_groups", "n_group"},
	{"num_expert_groups_per_tok", "topk_group"},
}

// defaultContext is the context length of a params.json that gives none, tokens.
const defaultContext = 128_000

// isParams tells a params.json from a config.json by its keys.
func isParams(o *Object) bool {
	has := func(key string) bool {
		_, ok := o.Get(key)
		return ok
	}
	return has("dim") && has("n_layers") && !has("architectures") && !has("hidden_size")
}

// FromParams rewrites a params.json, the format of Mistral's own checkpoints, in
// config.json's keys, as vLLM does when it reads one alone: the same architecture, the
// same defaults, the same refusals (vllm/transformers_utils/configs/mistral.py,
// adapt_config_dict; config.py, MistralConfigParser). The error names params.json's field.
func FromParams(params *Object) (*Object, error) {
	c := rename(params)
	for _, step := range []func(*Object) error{
		windows, quantization, experts, yarn, scaling,
	} {
		if err := step(c); err != nil {
			return nil, err
		}
	}
	multimodal := c.Dict("multimodal")
	_, encoder := multimodal.truthy("vision_encoder_args")
	_, standalone := c.truthy("vision_encoder")
	_, whisper := multimodal.Dict("whisper_model_args").truthy("encoder_args")
	switch {
	case (encoder || standalone) && whisper:
		return nil, problem.New(problem.BadValue, "multimodal", nil, "both a vision and an audio encoder")
	case encoder || standalone:
		return vision(c), nil
	case whisper:
		return audio(c)
	}
	return c, nil
}

// rename gives the keys their other names, and the defaults of those that are not there.
func rename(params *Object) *Object {
	c := NewObject()
	c.Set("model_type", NewText("transformer"))
	c.Set("hidden_act", NewText("silu"))
	c.Set("tie_word_embeddings", NewBool(false))
	c.Set("max_position_embeddings", NewInt(defaultContext))
	for _, key := range params.Keys() {
		v, _ := params.Get(key)
		switch _, renamed := paramsKeys[key]; {
		case renamed, key == "hidden_act", key == "tie_word_embeddings": // only under Mistral's names
		case key == "max_position_embeddings" && v.Kind() == Null:
		default:
			c.Set(key, v)
		}
	}
	for _, key := range params.Keys() {
		if name, renamed := paramsKeys[key]; renamed {
			v, _ := params.Get(key)
			c.Set(name, v)
		}
	}
	if _, ok := c.Get("max_seq_len"); !ok {
		context, _ := c.Get("max_position_embeddings")
		c.Set("max_seq_len", context)
	}
	return c
}

// windows turns a window, or a list of them that repeats over the layers with null for
// full attention, into sliding_window and layer_types.
func windows(c *Object) error {
	v, given := c.truthy("sliding_window")
	if !given {
		return nil
	}
	count, _ := c.Get("num_hidden_layers")
	layers, ok := count.Int()
	if !ok || layers < 0 || layers > maxElements {
		return problem.New(problem.BadValue, "n_layers", count.Any(), "not a number of layers")
	}
	pattern := []Value{v}
	switch v.Kind() {
	case List:
		pattern = v.List()
	case Int:
		if types, _ := c.Get("layer_types"); types.Kind() != Null {
			return problem.New(problem.BadValue, "sliding_window", v.Any(), "excludes layer_types")
		}
	default:
		return problem.New(problem.BadValue, "sliding_window", v.Any(), "neither a width nor a list of widths")
	}
	window := Value{}
	var types []Value
	for _, width := range pattern {
		kind := "sliding_attention"
		switch n, isInt := width.Int(); {
		case width.Kind() == Null:
			kind = "full_attention"
		case !isInt || n <= 0 || window.Kind() != Null && width != window:
			return problem.New(problem.BadValue, "sliding_window", width.Any(), "widths must be one positive number or null")
		default:
			window = width
		}
		types = append(types, NewText(kind))
	}
	if int(layers)%len(pattern) != 0 {
		return problem.New(problem.BadValue, "n_layers", layers, "not divisible by the %d widths of sliding_window", len(pattern))
	}
	types = slices.Repeat(types, int(layers)/len(pattern))
	c.Set("layer_types", NewList(types...))
	c.Set("sliding_window", window)
	return nil
}

// quantization turns "quantization" into quantization_config.
func quantization(c *Object) error {
	v, given := c.truthy("quantization")
	if !given {
		return nil
	}
	q := v.Dict()
	method := strings.ReplaceAll(strings.ToLower(q.Text("quant_method")), "_", "-")
	config := NewObject()
	switch {
	case q.Text("qformat_weight") == "fp8_e4m3":
		config.Set("quant_method", NewText("fp8"))
		switch scheme, _ := q.Get("qscheme_act"); {
		case scheme == NewText("NO_SCALES"):
			config.Set("activation_scheme", NewText("dynamic"))
		case scheme == NewText("TENSOR") || scheme.Kind() == Null:
			config.Set("activation_scheme", NewText("static"))
		default:
			return problem.New(problem.BadValue, "quantization.qscheme_act", scheme.Any(), "neither NO_SCALES nor TENSOR")
		}
	case method == "compressed-tensors":
		config = q.except()
		config.Set("quant_method", NewText(method))
	default:
		return problem.New(problem.BadValue, "quantization", v.Any(), "neither fp8_e4m3 weights nor compressed-tensors")
	}
	*c = *c.except("quantization")
	c.Set("quantization_config", NewDict(config))
	return nil
}

// experts chooses the architecture. A model with shared experts, or with a latent, is
// DeepSeek-V3's: one of the latter kind without experts has a single one that no layer uses.
func experts(c *Object) error {
	v, moe := c.truthy("moe")
	m := v.Dict()
	if _, latent := c.truthy("qk_nope_head_dim"); latent && !moe {
		m, moe = denseExperts(c), true
	}
	shared, _ := m.Get("num_shared_experts")
	n, _ := shared.Float()
	switch {
	case c.Text("model_type") == "mamba":
		c.Set("architectures", NewList(NewText("Mamba2ForCausalLM")))
	case moe && n > 0:
		if _, ok := c.truthy("llama_4_scaling"); !ok {
			return problem.New(problem.MissingField, "llama_4_scaling", nil, "not given; a model with shared experts or a latent needs it")
		}
		for _, key := range moeKeys {
			if value, ok := m.Get(key[0]); ok {
				c.Set(key[1], value)
			}
		}
		*c = *c.except("moe")
		c.Set("topk_method", Value{})
		c.Set("norm_topk_prob", NewBool(true))
		c.Set("scoring_func", NewText("softmax"))
		c.Set("model_type", NewText("deepseek_v3"))
		c.Set("architectures", NewList(NewText("MistralLarge3ForCausalLM")))
	case moe:
		c.Set("architectures", NewList(NewText("MixtralForCausalLM")))
	default:
		c.Set("architectures", NewList(NewText("MistralForCausalLM")))
	}
	return nil
}

// denseExperts is the "moe" of a model with a latent that has none.
func denseExperts(c *Object) *Object {
	m := NewObject()
	m.Set("num_experts", NewInt(1))
	layers, _ := c.Get("num_hidden_layers")
	m.Set("first_k_dense_replace", layers)
	m.Set("route_every_n", NewInt(1))
	m.Set("num_shared_experts", NewInt(1))
	width, _ := c.Get("intermediate_size")
	m.Set("expert_hidden_dim", width)
	m.Set("num_experts_per_tok", NewInt(1))
	m.Set("routed_scale", NewFloat(1))
	m.Set("num_expert_groups", NewInt(1))
	m.Set("num_expert_groups_per_tok", NewInt(1))
	return m
}

// yarn turns "yarn" and rope_theta into rope_parameters.
func yarn(c *Object) error {
	v, given := c.truthy("yarn")
	if !given {
		return nil
	}
	rope := NewObject()
	rope.Set("rope_type", NewText("yarn"))
	rope.Set("mscale_all_dim", NewInt(1))
	if theta, ok := c.truthy("rope_theta"); ok {
		rope.Set("rope_theta", theta)
	}
	for _, key := range v.Dict().Keys() {
		value, _ := v.Dict().Get(key)
		x, isNumber := value.Float()
		name := key
		switch key {
		case "factor":
		case "original_max_position_embeddings":
			n, isInt := value.Int()
			if !isInt {
				return problem.New(problem.BadValue, "yarn."+key, value.Any(), "not a whole number")
			}
			rope.Set(name, NewInt(n))
			continue
		case "beta":
			name = "beta_fast"
		case "alpha":
			name = "beta_slow"
		case "apply_scale":
			if !value.truthy() {
				rope.Set("attention_factor", NewFloat(1))
			}
			continue
		default:
			return problem.New(problem.BadValue, "yarn."+pathElement(key), value.Any(), "not a key of yarn that vLLM reads")
		}
		if !isNumber {
			return problem.New(problem.BadValue, "yarn."+key, value.Any(), "not a number")
		}
		rope.Set(name, NewFloat(x))
	}
	*c = *c.except("yarn", "rope_theta")
	c.Set("rope_parameters", NewDict(rope))
	return nil
}

// scaling checks llama_4_scaling.
func scaling(c *Object) error {
	v, given := c.truthy("llama_4_scaling")
	if !given {
		return nil
	}
	for _, key := range []string{"original_max_position_embeddings", "beta"} {
		if _, ok := v.Dict().Get(key); !ok {
			return problem.New(problem.MissingField, "llama_4_scaling."+key, nil, "not given")
		}
	}
	return nil
}

// vision nests the language model beside its vision encoder.
func vision(c *Object) *Object {
	encoder, ok := c.truthy("multimodal")
	if !ok {
		encoder, _ = c.Get("vision_encoder")
	}
	return nest("pixtral", "PixtralForConditionalGeneration", c, "vision_config", encoder)
}

// audio nests the language model beside its Whisper encoder.
func audio(c *Object) (*Object, error) {
	const path = "multimodal.whisper_model_args."
	args := c.Dict("multimodal").Dict("whisper_model_args")
	encoder, encoding := args.Dict("encoder_args"), args.Dict("encoder_args").Dict("audio_encoding_args")
	out := NewObject()
	out.Set("model_type", NewText("whisper"))
	out.Set("is_encoder_decoder", NewBool(false))
	for _, key := range []struct {
		from     *Object
		path     string
		old, new string
	}{
		{encoding, "encoder_args.audio_encoding_args.", "num_mel_bins", "num_mel_bins"},
		{encoding, "encoder_args.audio_encoding_args.", "window_size", "window_size"},
		{encoding, "encoder_args.audio_encoding_args.", "sampling_rate", "sampling_rate"},
		{encoding, "encoder_args.audio_encoding_args.", "hop_length", "hop_length"},
		{args.Dict("downsample_args"), "downsample_args.", "downsample_factor", "downsample_factor"},
		{encoder, "encoder_args.", "dim", "d_model"},
		{encoder, "encoder_args.", "n_layers", "encoder_layers"},
		{encoder, "encoder_args.", "hidden_dim", "encoder_ffn_dim"},
		{encoder, "encoder_args.", "n_heads", "encoder_attention_heads"},
		{encoder, "encoder_args.", "head_dim", "encoder_head_dim"},
		{encoder, "encoder_args.", "vocab_size", "vocab_size"},
	} {
		v, ok := key.from.Get(key.old)
		if !ok {
			return nil, problem.New(problem.MissingField, path+key.path+key.old, nil, "not given")
		}
		out.Set(key.new, v)
	}
	if v, ok := encoder.Get("max_source_positions"); ok && v.Kind() != Null {
		out.Set("max_source_positions", v)
	}
	out.Set("global_log_mel_max", encoding.or("global_log_mel_max", Value{}))
	out.Set("sliding_window", encoder.or("sliding_window", Value{}))
	out.Set("is_causal", encoder.or("causal", NewBool(false)))
	out.Set("pos_embed", encoder.or("pos_embed", NewText("sinusoidal")))

	// A causal encoder's blocks hold as many frames as become one token.
	architecture, pool := "VoxtralForConditionalGeneration", int64(1)
	if _, causal := encoder.truthy("causal"); causal {
		architecture = "VoxtralRealtimeGeneration"
		factor, _ := out.Get("downsample_factor")
		width, _ := out.Get("d_model")
		frames, framesOK := factor.Int()
		dim, dimOK := width.Int()
		if !framesOK || !dimOK || frames < 1 || frames > maxElements || dim < 1 || dim > maxElements {
			return nil, problem.New(problem.BadValue, path+"downsample_args.downsample_factor", factor.Any(), "not a number of frames")
		}
		pool = frames
		c.Set("projection_size", NewInt(frames*dim))
	}
	out.Set("block_pool_size", NewInt(pool))
	context, _ := c.Get("max_position_embeddings")
	tokens, ok := context.Int()
	if !ok || tokens < 1 || tokens > 1<<40 {
		return nil, problem.New(problem.BadValue, "max_position_embeddings", context.Any(), "not a context length")
	}
	out.Set("max_position_embeddings", NewInt(pool*tokens)) // ≤ 2^17 · 2^40
	return nest("voxtral", architecture, c, "audio_config", NewDict(out)), nil
}

// nest is a config with a language model and an encoder.
func nest(modelType, architecture string, text *Object, encoderKey string, encoder Value) *Object {
	c := NewObject()
	c.Set("model_type", NewText(modelType))
	c.Set("architectures", NewList(NewText(architecture)))
	c.Set("text_config", NewDict(text.except("multimodal", "vision_encoder")))
	c.Set(encoderKey, encoder)
	if quant, ok := text.truthy("quantization_config"); ok {
		c.Set("quantization_config", quant)
	}
	return c
}

// truthy is Python's truth value.
func (v Value) truthy() bool {
	switch v.kind {
	case Null:
		return false
	case String:
		return v.text != ""
	case List, Dict:
		return len(v.node.values) > 0
	}
	x, isNumber := v.Float()
	return !isNumber && v.bits != 0 || isNumber && x != 0
}

// truthy returns the value at key if Python takes it as true.
func (o *Object) truthy(key string) (Value, bool) {
	v, _ := o.Get(key)
	return v, v.truthy()
}

// or returns the value at key, or that given if the key is not there.
func (o *Object) or(key string, absent Value) Value {
	if v, ok := o.Get(key); ok {
		return v
	}
	return absent
}

// except returns a copy without some keys; values are shared.
func (o *Object) except(keys ...string) *Object {
	c := NewObject()
	for i, key := range o.Keys() {
		if !slices.Contains(keys, key) {
			c.Set(key, o.values[i])
		}
	}
	return c
}
