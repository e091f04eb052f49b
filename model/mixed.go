package model

import (
	"slices"
	"strconv"
	"strings"

	"headcount/checkpoint"
	"headcount/problem"
)

// layerKinds are what Transformers allows in layer_types, and mlp, which Nemotron-H has.
var layerKinds = []string{
	"full_attention", "sliding_attention", "chunked_attention", "window_attention", "indexed_attention",
	"compressed_sparse_attention", "heavily_compressed_attention", "minimax_m3_sparse", "conv", "moe", "mlp",
	"hybrid", "hybrid_sliding", "reference_sliding_attention", "linear_attention",
}

// oldLayerKinds are names in older files, which every class replaces (transformers
// configuration_utils.py remap_legacy_layer_types).
var oldLayerKinds = map[string]string{
	"attention": "full_attention", "mamba": "linear_attention",
	"deepseek_sparse_attention": "indexed_attention", "qwen_sparse_attention": "indexed_attention",
}

// layerTypes is what each layer is, from the file or as the class derives it; nil where
// neither has such a list.
func (r *reader) layerTypes(layers int) []string {
	types := r.strings("layer_types", layers)
	for i, name := range types {
		if now, ok := oldLayerKinds[name]; ok {
			name, types[i] = now, now
		}
		if !slices.Contains(layerKinds, name) {
			r.fail(problem.BadValue, "layer_types", "%q of layer %d is not a kind of layer", name, i)
			return nil
		}
	}
	if types != nil {
		r.from("layer_types", r.Where("layer_types"))
	}
	return types
}

// underived reports layer_types that are neither given nor derived: the fault of the field
// that they should come from, where the file has one.
func (r *reader) underived() {
	for _, key := range []string{"hybrid_override_pattern", "layers_block_type", "full_attention_interval"} {
		if _, given := r.Raw().Get(key); given {
			r.fail(problem.BadValue, key, "%s derives no list of layers from it", r.className())
		}
	}
	r.fail(problem.MissingField, "layer_types", "missing, and %s does not derive it", r.className())
}

// formByType gives layers of some types a form of their own; the others have attention. A
// type that is neither is an error.
func (r *reader) formByType(layers int, forms map[string]*form, attention ...string) func(layer int) *form {
	types := r.layerTypes(layers)
	if types == nil && r.err == nil {
		r.underived()
	}
	for i, name := range types {
		if forms[name] == nil && !slices.Contains(attention, name) {
			r.fail(problem.BadValue, "layer_types", "%q of layer %d is not a layer of %s", name, i, r.className())
		}
	}
	return func(layer int) *form {
		if layer >= len(types) {
			return nil
		}
		return forms[types[layer]]
	}
}

// distinct are the layers that differ, each once, in order of first appearance.
func distinct(layers []*Layer) []*Layer {
	seen := map[*Layer]bool{}
	var out []*Layer
	for _, l := range layers {
		if !seen[l] {
			seen[l] = true
			out = append(out, l)
		}
	}
	return out
}

// formPerKind gives each layer the form of its entry of kinds, made by build once for each
// distinct one.
func formPerKind[K comparable](kinds []K, build func(K) *form) func(layer int) *form {
	made := map[K]*form{}
	return func(layer int) *form {
		if layer >= len(kinds) {
			return nil
		}
		k := kinds[layer]
		if made[k] == nil {
			made[k] = build(k)
		}
		return made[k]
	}
}

// quotient are heads of the width that a class computes itself, hidden_size over query
// heads. A head_dim in the file only shows in the whole-model values.
func (r *reader) quotient(h heads) heads {
	hidden := r.size("hidden_size")
	if hidden < h.query {
		r.fail(problem.BadValue, "hidden_size", "less than num_attention_heads = %d", h.query)
		return h
	}
	h.key = hidden / h.query
	h.value = h.key
	return h
}

// sizeOr reads a positive integer, or def when it is absent or null.
func (r *reader) sizeOr(key string, def int) int {
	if n, ok := r.whole(key, 1); ok {
		return n
	}
	return def
}

// An attentionKind is what layers differ in whose windows go with their query heads.
type attentionKind struct{ query, window int }

// perLayer is key as a class gives it for one layer in per_layer_config, or def.
func (r *reader) perLayer(layer int, key string, def int) int {
	v, ok := numbered(r.Object("per_layer_config"), layer).Get(key)
	if !ok {
		return def
	}
	n, ok := v.Int()
	if !ok || n < 1 || n > maxSize {
		r.fail(problem.BadValue, "per_layer_config", "%s of layer %d is not a positive whole number", key, layer)
		return 1
	}
	return int(n)
}

// numbered is the object whose key is a number, with or without leading zeros: Transformers
// saves such keys as wide as the last one.
func numbered(o *checkpoint.Object, n int) *checkpoint.Object {
	if v, ok := o.Get(strconv.Itoa(n)); ok {
		return v.Dict()
	}
	for _, key := range o.Keys() {
		if i, err := strconv.Atoi(key); err == nil && i == n {
			v, _ := o.Get(key)
			return v.Dict()
		}
	}
	return nil
}

// embedAtBothEnds puts a tied embedding on the last stage too, though the head there is a
// tensor of its own.
func embedAtBothEnds(m *Model) *Model {
	if m.TiedEmbeddings && len(m.Outer) > 0 {
		m.Outer[0].Stage = BothEnds
	}
	return m
}

// sinks is one learned logit a query head that draws attention to nothing.
func sinks(name string, query int) Param {
	return Param{Name: name, Part: Attention, Rows: queryHeads(query, 1)}
}

// feedForwardNames name the MLP as some checkpoints do.
var feedForwardNames = strings.NewReplacer("mlp.", "feed_forward.")
