package model

import (
	"headcount/attn"
	"headcount/dtype"
)

// latent is multi-head latent attention: a token is cached as one vector of rank elements
// that each head expands to keys and values, and rope elements that the heads share
// (DeepSeek-V2, arXiv 2405.04434, section 2.1; vllm deepseek_v2.py DeepseekV2MLAAttention).
type latent struct {
	query int // query heads, num_attention_heads
	kv    int // num_key_value_heads, which a config states though nothing is cached by it

	queryRank int // q_lora_rank; 0: queries are projected directly
	rank      int // kv_lora_rank
	nope      int // qk_nope_head_dim, elements of a head's key that carry no position
	rope      int // qk_rope_head_dim, elements of the key that do
	value     int // v_head_dim

	indexer *indexer // nil: attention over all tokens
}

// latent reads the fields of latent attention.
func (r *reader) latent() latent { return r.latentAt(r.size("qk_rope_head_dim")) }

// latentAt reads latent attention of which so many elements of a key have a position.
func (r *reader) latentAt(rope int) latent {
	l := latent{
		query:     r.count("num_attention_heads"),
		queryRank: r.opt("q_lora_rank", 0),
		rank:      r.size("kv_lora_rank"),
		nope:      r.size("qk_nope_head_dim"),
		rope:      rope,
		value:     r.opt("v_head_dim", 0),
	}
	if l.value == 0 && r.err == nil {
		l.value = r.size("hidden_size") / l.query
	}
	l.kv = l.query
	for _, key := range kvAliases {
		if n, ok := r.whole(key, 1); ok {
			l.kv = n
			break
		}
	}
	r.from("query_heads", r.Where("num_attention_heads"))
	r.from("kv_heads", "1 latent a token, whole on every rank")
	r.from("head_dim", "kv_lora_rank + qk_rope_head_dim")
	r.times("num_attention_heads", l.query, l.nope+l.rope+l.value)
	return l
}

// view is the attention as a config states it: its heads, and the width of what is cached.
func (l latent) view() heads {
	return heads{query: l.query, kv: l.kv, key: l.rank + l.rope}
}

// cache is the latent of a token: rank + rope elements, one for all heads.
func (l latent) cache() Cache {
	return Cache{
		Kind:     Latent,
		Attn:     attn.Geometry{Arch: attn.MLA, QueryHeads: l.query, KVHeads: 1, KeyDim: l.rank + l.rope, LatentDim: l.rank},
		Expanded: heads{query: l.query, kv: l.query, key: l.nope + l.rope, value: l.value}.geometry(),
	}
}

// params are the projections of one layer. Those into the latents are whole on every
// rank, those out of them are divided by heads.
func (l latent) params(prefix string, hidden int) []Param {
	name := func(s string) string { return prefix + "." + s }
	var params []Param
	if l.queryRank > 0 {
		params = append(params,
			linear(name("q_a_proj"), Attention, whole(l.queryRank), whole(hidden)),
			norm(name("q_a_layernorm"), l.queryRank),
			linear(name("q_b_proj"), Attention, queryHeads(l.query, l.nope+l.rope), whole(l.queryRank)))
	} else {
		params = append(params, linear(name("q_proj"), Attention, queryHeads(l.query, l.nope+l.rope), whole(hidden)))
	}
	params = append(params,
		linear(name("kv_a_proj_with_mqa"), Attention, whole(l.rank+l.rope), whole(hidden)),
		norm(name("kv_a_layernorm"), l.rank),
		linear(name("kv_b_proj"), Attention, queryHeads(l.query, l.nope+l.value), whole(l.rank)),
		linear(name("o_proj"), Attention, whole(hidden), queryHeads(l.query, l.value)))
	fuse(params)
	return params
}

// An indexer scores all earlier tokens for a sparse attention that then reads the best of
// them (DeepSeek-V3.2; vllm models/deepseek_v32/attention.py DeepseekV32Indexer). It is
// whole on every rank.
type indexer struct {
	heads, width int // index_n_heads, index_head_dim
}

// indexer reads the fields of an indexer.
func (r *reader) indexer() *indexer {
	x := &indexer{heads: r.size("index_n_heads"), width: r.size("index_head_dim")}
	r.times("index_n_heads", x.heads, x.width)
	return x
}

// cache is the key that the indexer keeps of a token.
func (x *indexer) cache() Cache {
	return Cache{Kind: Indexer, Attn: attn.Geometry{Arch: attn.MHA, QueryHeads: x.heads, KVHeads: 1, KeyDim: x.width}}
}

// params are the indexer's projections and the norm of its keys, which is float32.
func (x *indexer) params(prefix string, queryRank, hidden int) []Param {
	scale := Param{Name: prefix + ".k_norm.weight", Part: Norm, Rows: whole(x.width), DType: dtype.Float32}
	shift := scale
	shift.Name = prefix + ".k_norm.bias"
	weights := linear(prefix+".weights_proj", Attention, whole(x.heads), whole(hidden))
	key := linear(prefix+".wk", Attention, whole(x.width), whole(hidden))
	weights.Linear, key.Linear = false, false // vLLM fuses the two and keeps them in the model's dtype
	return []Param{
		linear(prefix+".wq_b", Attention, whole(x.heads*x.width), whole(queryRank)),
		key, weights, scale, shift,
	}
}

// indexed returns which layers have an indexer of their own; the others read the tokens
// that an earlier layer's chose: those with an S in index_topk_pattern, or where there is
// none, all but every index_topk_freq-th (vllm models/deepseek_v32/attention.py; it does not
// read indexer_types).
func (r *reader) indexed(layers int) []bool {
	out := make([]bool, layers)
	pattern, _ := r.Text("index_topk_pattern")
	every, offset := max(r.opt("index_topk_freq", 1), 1), r.opt("index_skip_topk_offset", 2)
	for i := range out {
		if pattern != "" {
			out[i] = i >= len(pattern) || pattern[i] != 'S'
		} else {
			out[i] = max(i-offset+1, 0)%every == 0
		}
	}
	return out
}

// latentDecoder gives d the attention that a config with kv_lora_rank describes: latent, and
// sparse where it says how many tokens an indexer chooses.
func (r *reader) latentDecoder(d decoder) decoder {
	l := r.latent()
	d.latent = &l
	if r.Has("index_topk") {
		l.indexer = r.indexer()
		d.indexed = r.indexed(r.layers())
	}
	return d
}
