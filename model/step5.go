package model

import (
	"slices"
	"strconv"
	"strings"

	"headcount/attn"
	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/problem"
)

// step5 is Step-3.5's layer whose full attention reads the regions of tokens that an index
// chooses by a summary of each. Beside keys and values such a layer keeps the summaries, and
// a ring of what the last region's is made of (vllm models/step5).
var step5 = family{
	name:          "step5",
	architectures: []string{"Step5ForCausalLM", "Step5ForConditionalGeneration"},
	types:         []string{"step5"},
	resolve: func(r *reader) *Model {
		layers, k := r.layers(), r.step5Layer()
		e := r.experts("moe", "moe_num_experts", "moe_intermediate_size")
		e.routerDType, e.scoreBias, e.biasPart = dtype.Float32, "moe.router_bias", MLP
		e.beside = gatedMLP("moe.share_expert", MLP, [3]string{}, k.hidden, sharded(r.size("share_expert_dim"), "share_expert_dim"))
		next := r.nextN()
		if r.err != nil { // a depth that was refused is not built
			return r.model()
		}
		types, sparse := r.step5Types(layers+next), r.step5Sparse(layers+next)
		if r.err != nil {
			return r.model()
		}
		d := decoder{
			gated: true, heads: k.full, experts: e, sparse: func(layer int) bool { return sparse[layer] },
			form: formPerKind(types[:layers], k.form), windows: make([]int, layers), rotary: rotary{none: true},
		}
		m := r.decoder(d)
		for i := layers; i < layers+next; i++ {
			f := k.form(types[i])
			params := append(d.params(layerKind{form: f, sparse: sparse[i]}, k.hidden), deepSeekJoin(k.hidden)...)
			m.Draft = append(m.Draft, &Layer{Caches: f.caches, Params: params})
		}
		m.Ropes = r.step5Ropes(types[:layers], k)
		return m
	},
}

// A step5Layer is the sizes of a layer's attention.
type step5Layer struct {
	hidden        int
	full, sliding heads
	window        int
	gated         bool
	indexed       bool // full attention chooses
	index         int  // heads of the index
	topRope       int  // elements of them that have a position
}

// proxy is the width of the index's heads, and of a summary; region is the tokens of one.
// The class takes no others (vllm models/step5/nvidia/config.py).
const proxy, region = 256, 8

// step5Layer reads the sizes.
func (r *reader) step5Layer() step5Layer {
	k := step5Layer{hidden: r.size("hidden_size"), full: r.heads(), window: r.opt("sliding_window", 0), gated: r.flag("use_head_wise_attn_gate", false)}
	k.sliding = k.full
	k.sliding.query = r.sizeOr("swa_num_attention_heads", k.full.query)
	if other := r.Object("attention_other_setting"); other != nil && other.Text("attention_type") == "sliding_attention" {
		k.sliding.query = r.within("attention_other_setting", "num_attention_heads", k.sliding.query)
		k.sliding.kv = r.within("attention_other_setting", "num_attention_groups", k.sliding.kv)
		k.sliding.key = r.within("attention_other_setting", "head_dim", k.sliding.key)
		k.sliding.value = k.sliding.key
	}
	const key = "sparse_config"
	sparse := r.Object(key)
	if sparse == nil {
		r.fail(problem.MissingField, key, "missing, and the class serves no checkpoint without it")
		return k
	}
	enabled, given := sparse.Get("enabled")
	on, _ := enabled.Bool()
	k.indexed = on || !given
	k.index, k.topRope = r.within(key, "sparse_indexer_num_heads", 16), r.within(key, "sparse_indexer_rope_dim", 32)
	groups := r.within(key, "index_tp_size", r.within(key, "num_provider_groups", 4))
	if k.indexed && r.err == nil && (groups != k.full.kv || k.index%groups != 0) {
		r.fail(problem.Unsupported, key, "%d heads of the index in %d groups: not as many groups as KV heads, %d", k.index, groups, k.full.kv)
	}
	return k
}

// step5Types reads each layer's type, those of MTP layers after the others.
func (r *reader) step5Types(layers int) []string {
	types := make([]string, layers)
	for i := range types {
		types[i] = []string{"sliding_attention", "full_attention"}[i%2]
	}
	list, ok := r.List("layer_types_with_mtp")
	if !ok {
		return types
	}
	if len(list) < layers {
		r.fail(problem.BadValue, "layer_types", "%d entries for %d layers", len(list), layers)
		return types
	}
	for i := range types {
		types[i], _ = list[i].Text()
	}
	return types
}

// step5Sparse reads which layers have experts: those that a list names, or all but the first.
func (r *reader) step5Sparse(layers int) []bool {
	out := make([]bool, layers)
	mark := func(key string, n int64) {
		if n < 0 || n >= int64(layers) {
			r.fail(problem.BadValue, key, "%d is not a layer of %d", n, layers)
			return
		}
		out[n] = true
	}
	for _, key := range []string{"moe_layers_enum", "moe_layer_list"} {
		if text, ok := r.Text(key); ok {
			for _, field := range strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' }) {
				n, err := strconv.ParseInt(field, 10, 32)
				if err != nil {
					n = -1
				}
				mark(key, n)
			}
			return out
		}
		if list, ok := r.List(key); ok {
			for _, v := range list {
				n, isInt := v.Int()
				if !isInt {
					n = -1
				}
				mark(key, n)
			}
			return out
		}
	}
	for i := range out {
		out[i] = i > 0 && i < r.opt("num_hidden_layers", 0)
	}
	return out
}

// form is the attention of a layer of a type.
func (k step5Layer) form(kind string) *form {
	h, window := k.full, 0
	if kind == "sliding_attention" && k.window > 0 {
		h, window = k.sliding, k.window
	}
	params := append(attentionParams("self_attn", h, k.hidden, false, false), norm("self_attn.q_norm", h.key), norm("self_attn.k_norm", h.key))
	if k.gated {
		params = append(params, linear("self_attn.g_proj", Attention, queryHeads(h.query, 1), whole(k.hidden)))
	}
	if window > 0 || !k.indexed || kind != "full_attention" {
		return &form{caches: []Cache{h.cache(window)}, params: params}
	}
	each := k.index / h.kv
	summary := attn.Geometry{Arch: attn.MHA, QueryHeads: k.index, KVHeads: 1, KeyDim: proxy}
	params = append(params,
		linear("self_attn.sparse_indexer_q", Attention, kvHeads(h.kv, each*proxy), whole(k.hidden)),
		linear("self_attn.sparse_indexer_k", Attention, whole(proxy), whole(k.hidden)),
		linear("self_attn.sparse_indexer_z", Attention, whole(proxy), whole(k.hidden)),
		linear("self_attn.sparse_indexer_w", Attention, kvHeads(h.kv, each), whole(k.hidden)),
		Param{Name: "self_attn.ssmax_s", Part: Attention, Rows: whole(h.query), DType: dtype.Float32},
		norm("self_attn.sparse_indexer_q_norm", proxy))
	params = append(params, layerNorm("self_attn.sparse_indexer_k_norm", proxy)...)
	return &form{params: params, caches: []Cache{
		h.cache(0),
		{Kind: Indexer, Attn: summary, Ratio: region, DType: dtype.UInt8},
		{Kind: Ring, Attn: summary, Ratio: region, DType: dtype.BFloat16},
	}}
}

// step5Ropes are the tables of positions: one for each part of a head that turns and base of
// its angles, and one for the index.
func (r *reader) step5Ropes(types []string, k step5Layer) []Rope {
	scaling := r.Object("rope_scaling")
	parts, _ := r.List("partial_rotary_factors")
	bases, _ := r.List("rope_theta")
	base, _ := r.Float("rope_theta")
	only, _ := r.List("yarn_only_types")
	var out []Rope
	add := func(rope Rope) {
		if !slices.Contains(out, rope) {
			out = append(out, rope)
		}
	}
	for i, kind := range types {
		h, theta, part := k.full, base, 1.0
		if kind == "sliding_attention" {
			h = k.sliding
		}
		if i < len(bases) {
			theta, _ = bases[i].Float()
		}
		if i < len(parts) {
			part, _ = parts[i].Float()
		}
		own := scaling
		if len(only) > 0 && !slices.ContainsFunc(only, func(v checkpoint.Value) bool { s, _ := v.Text(); return s == kind }) {
			own = nil
		}
		rope := r.rope(own, rotary{dim: int(float64(h.key) * part)}, h.key)
		rope.Theta, rope.LayerType = theta, kind
		add(rope)
		if kind == "full_attention" && k.indexed {
			index := r.rope(scaling, rotary{dim: k.topRope}, proxy)
			index.Theta, index.LayerType = theta, kind
			add(index)
		}
	}
	return out
}
