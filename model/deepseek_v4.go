package model

import (
	"headcount/attn"
	"headcount/dtype"
	"headcount/problem"
)

// deepSeekV4 attends over one shared vector a token: the last sliding_window of them as
// they are, and all of them compressed, 4 or 128 tokens to one. Layers that compress by 4
// have an indexer to choose from the result. Every layer has routed experts; the first ones
// route by a table of tokens (vllm models/deepseek_v4).
var deepSeekV4 = family{
	name:          "deepseek_v4",
	architectures: []string{"DeepseekV4ForCausalLM"},
	types:         []string{"deepseek_v4"},
	resolve: func(r *reader) *Model {
		layers := r.layers()
		v, kinds := r.compressed(), r.compressedKinds(layers)
		vocab := r.size("vocab_size")
		e := r.experts("ffn", "n_routed_experts", "moe_intermediate_size")
		r.share(&e, "shared_experts", "n_shared_experts", 0)
		e.sharedBlock = r.quantBlock() // whole blocks on each rank, however many (vllm models/deepseek_v4, DeepseekV4MLP)
		e.projections = mixtralProjections
		v.experts = e
		v.table = Param{Name: "ffn.gate.tid2eid", Part: MoERouter, Rows: whole(vocab),
			Cols: whole(r.opt("num_experts_per_tok", 0)), DType: dtype.Int32}
		if method, _ := r.Text("topk_method"); method == "noaux_tc" {
			v.scoreBias = "ffn.gate.e_score_correction_bias"
		}
		next := r.nextN()
		m := r.model()
		if r.err != nil {
			return m
		}
		m.HiddenSize, m.VocabSize, m.Experts = v.hidden, vocab, e.count
		m.QueryHeads, m.KVHeads, m.HeadDim = v.query, 1, v.width
		m.Layers = perKind(kinds, v.layer)
		if next > 0 {
			m.Draft = repeat(v.draft(), next)
		}
		m.Outer = decoder{vocab: vocab}.outer(r, v.hidden, false)
		m.Outer = append(m.Outer, everywhere(v.head("model.hc_head")...)...)
		m.Ropes = r.compressedRopes()
		return m
	},
}

// compressedRopes are the tables of tokens as they are and of compressed ones, whose
// positions are stretched; both are float32.
func (r *reader) compressedRopes() []Rope {
	at := rotary{dim: r.opt("qk_rope_head_dim", 64), dtype: dtype.Float32}
	read := func(key string) Rope {
		params := r.Object("rope_parameters")
		if nested := params.Dict(key); nested != nil {
			params = nested
		}
		return r.rope(params, at, at.dim)
	}
	plain, stretched := read("main"), read("compress")
	plain.Type, plain.Factor, plain.LayerType = "default", 1, "uncompressed"
	stretched.LayerType = "compressed"
	return []Rope{plain, stretched}
}

// compressed is DeepSeek-V4's attention and what a layer has around it.
type compressed struct {
	hidden    int
	query     int // query heads
	width     int // head_dim, of the vector that all heads share
	queryRank int // q_lora_rank
	groups    int // o_groups, of heads whose results are projected together
	outRank   int // o_lora_rank, of each group
	window    int // sliding_window, tokens
	streams   int // hc_mult, vectors of the residual stream

	index     indexer
	experts   experts
	scoreBias string  // of layers whose router scores; "": none
	table     Param   // of layers that route by token
	beside    []Param // what else each router has
}

// compressed reads the fields of compressed attention.
func (r *reader) compressed() compressed {
	v := compressed{
		hidden:    r.size("hidden_size"),
		query:     r.count("num_attention_heads"),
		width:     r.size("head_dim"),
		queryRank: r.size("q_lora_rank"),
		groups:    r.size("o_groups"),
		outRank:   r.size("o_lora_rank"),
		window:    r.size("sliding_window"),
		streams:   r.size("hc_mult"),
		index:     *r.indexer(),
	}
	r.from("query_heads", r.Where("num_attention_heads"))
	r.from("kv_heads", "1 vector a token, whole on every rank")
	r.from("head_dim", r.Where("head_dim"))
	joined := r.times("num_attention_heads", v.query, v.width)
	r.times("o_groups", v.groups, v.outRank)
	r.times("hc_mult", r.times("hc_mult", v.streams, v.streams+2), v.hidden)
	if r.err == nil && joined%v.groups != 0 {
		r.fail(problem.NotDivisible, "num_attention_heads", "%d elements of all heads are not a multiple of o_groups = %d", joined, v.groups)
	}
	return v
}

// A compressedKind is what layers of DeepSeek-V4 differ in.
type compressedKind struct {
	ratio int  // tokens per compressed vector; 0: the layer has its window only
	table bool // routes by a table of tokens
}

// compressedKinds reads the kind of each layer: its ratio, from compress_ratios or as the
// class derives it, and whether it is one of the first num_hash_layers.
func (r *reader) compressedKinds(layers int) []compressedKind {
	kinds := make([]compressedKind, layers)
	tables, _ := r.Raw().Get("num_hash_layers") // the class takes it, and compress_ratios
	hash, ok := tables.Int()
	if !ok {
		hash = 3
	}
	for i, ratio := range r.ratios(layers) {
		if ratio != 0 && ratio != 4 && ratio != 128 {
			r.fail(problem.Unsupported, "compress_ratios", "%d of layer %d: not 0, 4 or 128", ratio, i)
			return kinds
		}
		kinds[i] = compressedKind{ratio: int(ratio), table: int64(i) < hash}
	}
	return kinds
}

// ratios reads each layer's ratio, from compress_ratios, which may go on with those of MTP
// layers, or else from its type.
func (r *reader) ratios(layers int) []int64 {
	out := make([]int64, layers)
	if given, ok := r.Raw().Get("compress_ratios"); ok {
		list := given.List()
		if len(list) < layers {
			r.fail(problem.BadValue, "compress_ratios", "%d entries for %d layers", len(list), layers)
			return nil
		}
		for i := range out {
			if out[i], ok = list[i].Int(); !ok {
				r.fail(problem.BadValue, "compress_ratios", "entry %d is not a whole number", i)
			}
		}
		return out
	}
	rates := r.Object("compress_rates")
	for i, name := range r.strings("layer_types", layers) {
		rate, _ := rates.Get(name)
		out[i], _ = rate.Int()
	}
	return out
}

// layer is one layer of a kind.
func (v compressed) layer(k compressedKind) *Layer {
	e := v.experts
	if k.table {
		e.beside = []Param{v.table}
	} else {
		e.scoreBias = v.scoreBias
	}
	params := append(v.attention(k.ratio), e.params(v.hidden)...)
	params = append(params, norm("attn_norm", v.hidden), norm("ffn_norm", v.hidden))
	params = append(params, v.mix("hc_attn")...)
	return &Layer{Caches: v.caches(k.ratio), Params: append(params, v.mix("hc_ffn")...)}
}

// caches are a layer's caches in the order in which vLLM builds them. Beside each compressed
// one is a window of what is not yet compressed, in float32: a vector and its scores for
// each token, and both twice where the runs that are compressed overlap, as those of 4 do.
func (v compressed) caches(ratio int) []Cache {
	shared := attn.Geometry{Arch: attn.MLA, QueryHeads: v.query, KVHeads: 1, KeyDim: v.width, LatentDim: v.width}
	expanded := heads{query: v.query, kv: 1, key: v.width, value: v.width}.geometry()
	window := Cache{Kind: SlidingLatent, Attn: shared, Expanded: expanded, Window: v.window}
	latent := Cache{Kind: Latent, Attn: shared, Expanded: expanded, Ratio: ratio}
	switch ratio {
	case 0:
		return []Cache{window}
	case 4:
		index := v.index.cache()
		index.Ratio = ratio
		return []Cache{index, pending(v.index.width, ratio), window, latent, pending(v.width, ratio)}
	}
	return []Cache{window, latent, pending(v.width, ratio)}
}

// overlaps is how many of the runs that a ratio compresses a token is part of.
func overlaps(ratio int) int {
	if ratio == 4 {
		return 2
	}
	return 1
}

// pending is the cache of tokens that wait to be compressed to vectors of a width.
func pending(width, ratio int) Cache {
	n := overlaps(ratio)
	return Cache{
		Kind:   SlidingLatent,
		Attn:   attn.Geometry{Arch: attn.MLA, QueryHeads: 1, KVHeads: 1, KeyDim: 2 * n * width, LatentDim: n * width},
		Window: n * ratio,
		DType:  dtype.Float32,
	}
}

// attention are the parameters of a layer's attention.
func (v compressed) attention(ratio int) []Param {
	outs := sharded(v.groups*v.outRank, "o_groups")
	params := []Param{
		linear("attn.wq_a", Attention, whole(v.queryRank), whole(v.hidden)),
		norm("attn.q_norm", v.queryRank),
		linear("attn.wq_b", Attention, queryHeads(v.query, v.width), whole(v.queryRank)),
		linear("attn.wkv", Attention, whole(v.width), whole(v.hidden)),
		norm("attn.kv_norm", v.width),
		linear("attn.wo_a", Attention, outs, whole(v.query*v.width/v.groups)),
		linear("attn.wo_b", Attention, whole(v.hidden), outs),
		// The kernel takes 64 or 128 heads a rank (vllm deepseek_v4/nvidia/flashmla.py).
		{Name: "attn.attn_sink", Part: Attention, DType: dtype.Float32,
			Rows: Axis{Size: v.query, Split: Sharded, Least: 64, Field: "num_attention_heads"}},
	}
	if ratio == 4 {
		weights := linear("attn.indexer.weights_proj", Attention, whole(v.index.heads), whole(v.hidden))
		weights.Linear = false
		params = append(params, weights,
			linear("attn.indexer.wq_b", Attention, whole(v.index.heads*v.index.width), whole(v.queryRank)))
		params = append(params, v.compressor("attn.indexer.compressor", v.index.width, ratio)...)
	}
	if ratio > 0 {
		params = append(params, v.compressor("attn.compressor", v.width, ratio)...)
	}
	return params
}

// compressor are the parameters that make one vector of a width from ratio tokens. They
// keep the model's dtype.
func (v compressed) compressor(prefix string, width, ratio int) []Param {
	n := overlaps(ratio) * width
	value := linear(prefix+".wkv", Attention, whole(n), whole(v.hidden))
	gate := linear(prefix+".wgate", Attention, whole(n), whole(v.hidden))
	value.Linear, gate.Linear = false, false
	return []Param{
		{Name: prefix + ".ape", Part: Attention, Rows: whole(ratio), Cols: whole(n), DType: dtype.Float32},
		value, gate, norm(prefix+".norm", width),
	}
}

// mix are the parameters that mix the streams before and after one half of a layer.
func (v compressed) mix(name string) []Param {
	n := (2 + v.streams) * v.streams
	return []Param{
		{Name: name + "_fn", Part: Other, Rows: whole(n), Cols: whole(v.streams * v.hidden), DType: dtype.Float32},
		{Name: name + "_base", Part: Other, Rows: whole(n), DType: dtype.Float32},
		{Name: name + "_scale", Part: Other, Rows: whole(3), DType: dtype.Float32},
	}
}

// head are the parameters that join the streams before a head.
func (v compressed) head(name string) []Param {
	return []Param{
		{Name: name + "_fn", Part: Other, Rows: whole(v.streams), Cols: whole(v.streams * v.hidden), DType: dtype.Float32},
		{Name: name + "_base", Part: Other, Rows: whole(v.streams), DType: dtype.Float32},
		{Name: name + "_scale", Part: Other, Rows: whole(1), DType: dtype.Float32},
	}
}

// draft is the checkpoint's MTP layer, which has its window only (vllm
// deepseek_v4/nvidia/mtp.py).
func (v compressed) draft() *Layer {
	l := v.layer(compressedKind{})
	l.Params = append(l.Params,
		linear("e_proj", Other, whole(v.hidden), whole(v.hidden)),
		linear("h_proj", Other, whole(v.hidden), whole(v.hidden)),
		norm("enorm", v.hidden), norm("hnorm", v.hidden), norm("shared_head.norm", v.hidden))
	l.Params = append(l.Params, v.head("hc_head")...)
	return l
}
