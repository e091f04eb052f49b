package model

import "headcount/attn"

// Axes, by what tensor parallelism does to them.

func whole(n int) Axis                 { return Axis{Size: n} }
func sharded(n int, field string) Axis { return Axis{Size: n, Split: Sharded, Field: field} }
func kvHeads(n, unit int) Axis {
	return Axis{Size: n * unit, Split: Heads, Unit: unit, Field: "num_key_value_heads"}
}
func vocabulary(n int) Axis { return Axis{Size: n, Split: Vocab, Field: "vocab_size"} }
func queryHeads(n, unit int) Axis {
	return Axis{Size: n * unit, Split: Sharded, Unit: unit, Field: "num_attention_heads"}
}

// linear is the weight of a projection, [rows out, cols in].
func linear(name string, part Part, rows, cols Axis) Param {
	return Param{Name: name + ".weight", Part: part, Rows: rows, Cols: cols, Linear: true}
}

// bias is a vector along a projection's output. Row-parallel projections keep it whole.
func bias(name string, part Part, rows Axis) Param {
	return Param{Name: name + ".bias", Part: part, Rows: rows}
}

// norm is the weight of a normalisation, whole on every rank.
func norm(name string, width int) Param {
	return Param{Name: name + ".weight", Part: Norm, Rows: whole(width)}
}

// layerNorm is a norm with a bias.
func layerNorm(name string, width int) []Param {
	return []Param{norm(name, width), {Name: name + ".bias", Part: Norm, Rows: whole(width)}}
}

// everywhere puts parameters outside of layers on each pipeline stage.
func everywhere(params ...Param) []Param {
	for i := range params {
		params[i].Stage = EveryStage
	}
	return params
}

// heads are the head counts and widths of one attention layer, whole model.
type heads struct {
	query, kv  int
	key, value int // elements of a head's key and value
}

// geometry is what a layer with these heads caches when it keeps K and V.
func (h heads) geometry() attn.Geometry {
	return attn.Geometry{Arch: attn.MHA, QueryHeads: h.query, KVHeads: h.kv, KeyDim: h.key, ValueDim: h.value}
}

// cache is one full-attention or, with window > 0, sliding-window cache.
func (h heads) cache(window int) Cache {
	if window > 0 {
		return Cache{Kind: Sliding, Attn: h.geometry(), Window: window}
	}
	return Cache{Kind: Full, Attn: h.geometry()}
}

// kvAliases are the names of the number of KV heads; the first present one counts
// (vllm model_arch_config_convertor.py get_total_num_kv_heads; sglang model_config.py).
var kvAliases = []string{"n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups"}

// heads reads the head counts that most families state: query heads, KV heads under any
// of their names or else as many, and the head dim as declared or else the quotient.
func (r *reader) heads() heads {
	var h heads
	h.query = r.count("num_attention_heads")
	r.from("query_heads", r.Where("num_attention_heads"))
	h.kv = h.query
	r.from("kv_heads", "num_attention_heads, as no KV heads are given")
	for _, key := range kvAliases {
		if _, ok := r.Value(key); ok {
			h.kv = r.count(key)
			r.from("kv_heads", r.Where(key))
			break
		}
	}
	h.key = r.headDim(h.query)
	h.value = h.key
	if r.err == nil && h.query%h.kv != 0 {
		r.fail("not_divisible", "num_attention_heads", "not a multiple of %d KV heads", h.kv)
	}
	return h
}

// headDim is head_dim where declared, else hidden_size // query heads.
func (r *reader) headDim(query int) int {
	for _, key := range []string{"head_dim", "hidden_size_per_head"} {
		if n := r.opt(key, 0); n > 0 {
			r.from("head_dim", r.Where(key))
			return n
		}
	}
	r.from("head_dim", "hidden_size / num_attention_heads")
	hidden := r.size("hidden_size")
	if r.err != nil {
		return 1
	}
	if hidden < query {
		r.fail("bad_value", "hidden_size", "less than num_attention_heads = %d", query)
		return 1
	}
	return hidden / query
}

// count reads a positive number, or a list of one number a layer that are all equal.
func (r *reader) count(key string) int {
	list, isList := r.List(key)
	if !isList {
		return max(r.size(key), 1)
	}
	if len(list) == 0 {
		r.fail("bad_value", key, "an empty list")
		return 1
	}
	first, ok := list[0].Int()
	for _, v := range list {
		if n, isInt := v.Int(); !isInt || !ok || n != first {
			r.fail("unsupported", key, "differs from layer to layer")
			return 1
		}
	}
	if first < 1 || first > maxSize {
		r.fail("bad_value", key, "%d is out of range", first)
		return 1
	}
	return int(first)
}

// layers reads the number of layers.
func (r *reader) layers() int { return r.depth("num_hidden_layers") }

// depth reads the number of layers under another name.
func (r *reader) depth(key string) int {
	n := r.size(key)
	if n > maxLayers {
		r.fail("bad_value", key, "more than %d layers", maxLayers)
		return 0
	}
	r.from("layers", r.Where(key))
	return n
}

// windows is each layer's sliding window in tokens, 0 for full attention: as layer_types
// says, or the model-wide window where there is no such list.
func (r *reader) windows(layers int) []int {
	out := make([]int, layers)
	window := r.opt("sliding_window", 0)
	if window > 0 {
		r.from("sliding_window", r.Where("sliding_window"))
	}
	types := r.layerTypes(layers)
	for i := range out {
		if types == nil || types[i] == "sliding_attention" {
			out[i] = window
		}
	}
	return out
}

// attentionParams are the four projections of attention over heads h.
func attentionParams(prefix string, h heads, hidden int, qkvBias, outBias bool) []Param {
	q, k, v, o := prefix+".q_proj", prefix+".k_proj", prefix+".v_proj", prefix+".o_proj"
	params := []Param{
		linear(q, Attention, queryHeads(h.query, h.key), whole(hidden)),
		linear(k, Attention, kvHeads(h.kv, h.key), whole(hidden)),
		linear(v, Attention, kvHeads(h.kv, h.value), whole(hidden)),
		linear(o, Attention, whole(hidden), queryHeads(h.query, h.value)),
	}
	if qkvBias {
		params = append(params,
			bias(q, Attention, queryHeads(h.query, h.key)),
			bias(k, Attention, kvHeads(h.kv, h.key)),
			bias(v, Attention, kvHeads(h.kv, h.value)))
	}
	for i, role := range []Role{Queries, Keys, Values, Output, Queries, Keys, Values}[:len(params)] {
		params[i].Role = role
	}
	if outBias {
		params = append(params, bias(o, Attention, whole(hidden)))
	}
	fuse(params)
	return params
}

// fuse marks projections that read one input, and the one that takes their result. An
// engine that runs Transformers' modules merges such siblings and then shards them, also
// without a plan (vllm models/transformers/fusers: qkv.py, glu.py).
func fuse(params []Param) {
	for i := range params {
		params[i].fused = true
	}
}

// mlpParams are a dense MLP of a width: gate, up and down, or up and down.
func mlpParams(prefix string, part Part, hidden, width int, gated, biased bool) []Param {
	in := []string{"up_proj"}
	if gated {
		in = []string{"gate_proj", "up_proj"}
	}
	var params []Param
	for _, name := range in {
		params = append(params, linear(prefix+"."+name, part, sharded(width, "intermediate_size"), whole(hidden)))
		if biased {
			params = append(params, bias(prefix+"."+name, part, sharded(width, "intermediate_size")))
		}
	}
	params = append(params, linear(prefix+".down_proj", part, whole(hidden), sharded(width, "intermediate_size")))
	if biased {
		params = append(params, bias(prefix+".down_proj", part, whole(hidden)))
	}
	if gated {
		fuse(params)
	}
	return params
}

// embeddings are the token embedding and the head, one tensor when tied.
func (r *reader) embeddings(vocab, hidden int, tied bool) []Param {
	embed := Param{Name: "model.embed_tokens.weight", Part: Embedding, Rows: vocabulary(vocab), Cols: whole(hidden)}
	if tied {
		embed.Stage = BothEnds
		return []Param{embed}
	}
	head := Param{Name: "lm_head.weight", Part: Head, Rows: vocabulary(vocab), Cols: whole(hidden), Stage: LastStage}
	return []Param{embed, head}
}

// repeat is n times the same layer; equal layers share one pointer.
func repeat(l *Layer, n int) []*Layer {
	out := make([]*Layer, n)
	for i := range out {
		out[i] = l
	}
	return out
}

// perKind is one layer for each entry of kinds, made by build once for each distinct one.
func perKind[K comparable](kinds []K, build func(K) *Layer) []*Layer {
	made := map[K]*Layer{}
	out := make([]*Layer, len(kinds))
	for i, k := range kinds {
		if made[k] == nil {
			made[k] = build(k)
		}
		out[i] = made[k]
	}
	return out
}
