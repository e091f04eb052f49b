package model

import (
	"slices"

	"headcount/checkpoint"
)

// A ropeRule is how a class brings the rotary parameters of a file, old or new, into one
// attribute rope_parameters: a dict, or a dict a layer type
// (transformers/modeling_rope_utils.py, RotaryEmbeddingConfigMixin.convert_rope_params_to_dict
// and what classes put in its place).
type ropeRule struct {
	none       bool             // left as the file has it, or as the constructor made it
	layersOnly bool             // none: beside dicts of layer types nothing else is kept
	keepPart   bool             // partial_rotary_factor stays an attribute of its own
	noPart     bool             // and is not among the rotary parameters
	layers     bool             // one dict for full, one for sliding attention, always
	scaleBoth  bool             // layers: rope_scaling is for both, not for full attention alone
	asLongrope bool             // "su" and "yarn" are old names of longrope
	asDefault  bool             // "mrope" is an old name of default
	ownTrained bool             // scaled ones give the class their length trained at
	kind       string           // rope_type that stands for "default"
	theta      checkpoint.Value // default; layers: of full attention
	local      checkpoint.Value // layers: default of sliding attention
	thetaKey   string           // the file's name for it
	localKey   string
	partialKey string
	partial    checkpoint.Value // default of partial_rotary_factor, null for none
}

func newRopeRule(o *checkpoint.Object) ropeRule {
	rope := o.Dict("rope")
	value := func(key string, missing checkpoint.Value) checkpoint.Value {
		if v, ok := rope.Get(key); ok {
			return v
		}
		return missing
	}
	name := func(key, missing string) string {
		if s := rope.Text(key); s != "" {
			return s
		}
		return missing
	}
	is := func(key string) bool { b, _ := value(key, checkpoint.Value{}).Bool(); return b }
	r := ropeRule{
		none: is("none"), layersOnly: is("layers_only"), keepPart: is("keep_partial"), noPart: is("no_partial"), layers: is("layers"), scaleBoth: is("scale_both"),
		asLongrope: is("as_longrope"), asDefault: is("as_default"), ownTrained: is("own_trained"), kind: name("type", "default"),
		theta:    value("theta", checkpoint.NewFloat(10000)),
		thetaKey: name("theta_key", "rope_theta"), localKey: name("local_key", "rope_theta"),
		partialKey: name("partial_key", "partial_rotary_factor"), partial: value("partial", checkpoint.Value{}),
	}
	r.local = value("local", r.theta)
	return r
}

// scaledTypes are the rope types that need the length a model was trained with.
var scaledTypes = []string{"llama3", "yarn", "longrope"}

// joinRope sets rope_parameters and consumes the file's older names.
func (a *attributes) joinRope() {
	rule := a.class.rope
	_, has := a.Get("rope_parameters")
	if !has {
		scaling, _ := a.Given("rope_scaling")
		theta, _ := a.Given("rope_theta")
		if scaling.Dict().Len() == 0 || theta.Kind() == checkpoint.Null {
			return
		}
	}
	if rule.none {
		if rule.layersOnly {
			a.keepLayers()
		}
		return
	}
	scaling, _ := a.Take("rope_scaling")
	params, from, _ := a.lookup("rope_parameters")
	if rule.layers {
		a.layerRope(rule, scaling, params)
		return
	}
	if scaling.Dict().Len() > 0 {
		params, from = scaling, ""
	}
	theta := a.takeOr(rule.thetaKey, rule.theta)
	read := a.takeOr
	if rule.keepPart {
		read = a.givenOr
	}
	var partial checkpoint.Value
	if !rule.noPart {
		partial = read(rule.partialKey, rule.partial)
	}
	dict := params.Dict()
	nested := a.ropeLayers(dict)
	if len(nested) == 0 {
		out := a.completed(dict, theta, partial, true)
		a.storeRope(out, from)
		if v, ok := out.Get(trainedLength); ok && rule.ownTrained && out.Text("rope_type") != "default" {
			a.store(trainedLength, v, from)
		}
		return
	}
	out := checkpoint.NewObject()
	for _, key := range dict.Keys() {
		v, _ := dict.Get(key)
		if slices.Contains(nested, key) && v.Kind() == checkpoint.Dict {
			v = checkpoint.NewDict(a.completed(v.Dict(), theta, partial, false))
		}
		out.Set(key, v)
	}
	a.storeRope(out, from)
}

func (a *attributes) storeRope(o *checkpoint.Object, from string) {
	a.store("rope_parameters", checkpoint.NewDict(o), from)
}

// takeOr consumes a key of the file, or reads it as an attribute, or returns missing.
func (a *attributes) takeOr(key string, missing checkpoint.Value) checkpoint.Value {
	if v, ok := a.Take(key); ok {
		return v
	}
	if v, ok := a.Get(key); ok {
		return v
	}
	return missing
}

func (a *attributes) givenOr(key string, missing checkpoint.Value) checkpoint.Value {
	if v, ok := a.Given(key); ok {
		return v
	}
	return missing
}

// keepLayers drops what stands beside the dicts of layer types, which vLLM takes for
// parameters shared by all (vllm/transformers_utils/config.py,
// _patch_hf_transformers_nested_rope_validation).
func (a *attributes) keepLayers() {
	params, from, _ := a.lookup("rope_parameters")
	dict := params.Dict()
	out := checkpoint.NewObject()
	for _, key := range dict.Keys() {
		if slices.Contains(layerTypes, key) {
			v, _ := dict.Get(key)
			out.Set(key, v)
		}
	}
	if out.Len() > 0 && out.Len() < dict.Len() {
		a.storeRope(out, from)
	}
}

// layerTypes are the names that Transformers allows in layer_types
// (transformers/configuration_utils.py, ALLOWED_LAYER_TYPES).
var layerTypes = []string{
	"full_attention", "sliding_attention", "chunked_attention", "window_attention", "indexed_attention",
	"compressed_sparse_attention", "heavily_compressed_attention", "minimax_m3_sparse", "conv", "moe", "hybrid",
	"hybrid_sliding", "reference_sliding_attention", "linear_attention", "sparse", "dense",
}

// nameRope gives every set of rotary parameters a rope_type, as the base class's check does.
func (a *attributes) nameRope() {
	params, from, _ := a.lookup("rope_parameters")
	dict := params.Dict()
	if dict.Len() == 0 {
		return
	}
	nested := a.ropeLayers(dict)
	if len(nested) == 0 {
		if _, ok := dict.Get("rope_type"); !ok {
			a.storeRope(named(dict), from)
		}
		return
	}
	out := checkpoint.NewObject()
	for _, key := range dict.Keys() {
		v, _ := dict.Get(key)
		if slices.Contains(nested, key) && v.Kind() == checkpoint.Dict {
			v = checkpoint.NewDict(named(v.Dict()))
		}
		out.Set(key, v)
	}
	a.storeRope(out, from)
}

func named(dict *checkpoint.Object) *checkpoint.Object {
	out := checkpoint.NewObject()
	for _, key := range dict.Keys() {
		v, _ := dict.Get(key)
		out.Set(key, v)
	}
	kind := out.Text("type")
	if kind == "" {
		kind = "default"
	}
	setDefault(out, "rope_type", checkpoint.NewText(kind))
	return out
}

// ropeLayers are the keys of dict that are layer types of this config, or DeepSeek-V4's two
// kinds of attention.
func (a *attributes) ropeLayers(dict *checkpoint.Object) []string {
	types, _ := a.Get("layer_types")
	var out []string
	for _, key := range dict.Keys() {
		if key == "main" || key == "compress" ||
			slices.ContainsFunc(types.List(), func(v checkpoint.Value) bool { s, _ := v.Text(); return s == key }) {
			out = append(out, key)
		}
	}
	return out
}

// completed returns a copy of one set of rotary parameters with what it lacks.
func (a *attributes) completed(dict *checkpoint.Object, theta, partial checkpoint.Value, flat bool) *checkpoint.Object {
	rule := a.class.rope
	out := checkpoint.NewObject()
	for _, key := range dict.Keys() {
		v, _ := dict.Get(key)
		out.Set(key, v)
	}
	setDefault(out, "rope_theta", theta)
	if partial.Kind() != checkpoint.Null {
		setDefault(out, "partial_rotary_factor", partial)
	}
	kind := out.Text("type")
	if rule.asDefault && (kind == "mrope" || out.Text("rope_type") == "mrope") {
		out.Set("rope_type", checkpoint.NewText("default"))
	}
	if kind == "" {
		kind = "default"
	}
	setDefault(out, "rope_type", checkpoint.NewText(kind))
	kind = out.Text("rope_type")
	if kind == "default" && rule.kind != "default" {
		kind = rule.kind
		out.Set("rope_type", checkpoint.NewText(kind))
	}
	if slices.Contains(scaledTypes, kind) {
		a.setTrainedLength(out, flat)
	}
	if rule.asLongrope && (kind == "su" || kind == "yarn") {
		out.Set("rope_type", checkpoint.NewText("longrope"))
	}
	return out
}

// trainedLength is the field of the length before positions were stretched.
const trainedLength = "original_max_position_embeddings"

// setTrainedLength gives rotary parameters the length trained at. A field of the class
// stands above what the dict says; one that only the file has does not.
func (a *attributes) setTrainedLength(out *checkpoint.Object, flat bool) {
	if v, ok := a.Get(trainedLength); ok && flat {
		out.Set(trainedLength, v)
		return
	}
	if v, ok := a.Get("max_position_embeddings"); ok {
		setDefault(out, trainedLength, v)
	}
}

func setDefault(o *checkpoint.Object, key string, v checkpoint.Value) {
	if _, ok := o.Get(key); !ok {
		o.Set(key, v)
	}
}

// layerRope sets a dict for full and one for sliding attention.
func (a *attributes) layerRope(rule ropeRule, scaling, params checkpoint.Value) {
	dict := params.Dict()
	out := checkpoint.NewObject()
	for _, key := range dict.Keys() {
		v, _ := dict.Get(key)
		out.Set(key, v)
	}
	for _, part := range []struct {
		key, thetaKey string
		theta         checkpoint.Value
		scaled        bool
	}{
		{"full_attention", rule.thetaKey, rule.theta, true},
		{"sliding_attention", rule.localKey, rule.local, rule.scaleBoth},
	} {
		one := checkpoint.NewObject()
		inner := dict.Dict(part.key)
		for _, key := range inner.Keys() {
			v, _ := inner.Get(key)
			one.Set(key, v)
		}
		if inner == nil {
			one.Set("rope_type", checkpoint.NewText("default"))
		}
		if part.scaled {
			for _, key := range scaling.Dict().Keys() {
				v, _ := scaling.Dict().Get(key)
				one.Set(key, v)
			}
		}
		theta := part.theta
		if _, ok := one.Get("rope_theta"); !ok {
			if v, ok := a.Take(part.thetaKey); ok {
				theta = v
			}
		}
		out.Set(part.key, checkpoint.NewDict(a.completed(one, theta, checkpoint.Value{}, false)))
	}
	a.storeRope(out, "")
}
