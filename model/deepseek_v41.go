package model

import (
	"slices"

	"headcount/attn"
	"headcount/dtype"
	"headcount/problem"
)

// deepSeekV41 is DeepSeek-V4 whose layers share what is compressed: a few, the sources, keep
// one vector for each token or two, and a key of the index beside it; the others read the
// latest source's. Every layer keeps its window (vllm models/deepseek_v41).
var deepSeekV41 = family{
	name:          "deepseek_v41",
	architectures: []string{"DeepseekV41ForCausalLM"},
	types:         []string{"deepseek_v41"},
	resolve: func(r *reader) *Model {
		layers := r.layers()
		v := r.compressed()
		kinds := r.sharedKinds(layers)
		if r.err == nil && (v.width != 512 || r.opt("qk_rope_head_dim", 64) != 64) {
			r.fail(problem.Unsupported, "head_dim", "not 512 with 64 elements that have a position, which the compressor takes")
		}
		vocab := r.size("vocab_size")
		e := r.experts("ffn", "n_routed_experts", "moe_intermediate_size")
		r.share(&e, "shared_experts", "n_shared_experts", 0)
		e.sharedBlock = r.quantBlock()
		e.projections = mixtralProjections
		v.experts = e
		if method, _ := r.Text("topk_method"); method == "noaux_tc" {
			v.scoreBias = "ffn.gate.e_score_correction_bias"
		}
		vision, _ := intOf(r.Top().Object("vision_config"), "num_hidden_layers")
		if vision > 0 { // a bias of the scores of a picture's tokens
			v.beside = []Param{{Name: "ffn.gate.bias_vl", Part: MoERouter, Rows: whole(e.count), DType: dtype.Float32}}
		}
		m := r.model()
		if r.err != nil {
			return m
		}
		m.TextType = "deepseek_v41" // the class has the text model's fields at its own level
		m.HiddenSize, m.VocabSize, m.Experts = v.hidden, vocab, e.count
		m.QueryHeads, m.KVHeads, m.HeadDim = v.query, 1, v.width
		m.Layers = perKind(kinds, v.shared)
		m.Outer = decoder{vocab: vocab}.outer(r, v.hidden, false)
		m.Ropes = r.compressedRopes()
		m.Ropes[0].LayerType, m.Ropes[1].LayerType = "windowed", "pooled"
		if ids, _ := r.List("engram_layer_ids"); len(ids) > 0 {
			m.WeightsUnknown = "parameters of engrams"
		}
		return m
	},
}

// A sharedKind is what layers of DeepSeek-V4.1 differ in.
type sharedKind struct {
	ratio  int  // tokens per vector of the source that it reads; 0: its window only
	source bool // the vectors are its own
	index  bool // it chooses of them, for itself and those after it
}

// sharedKinds reads the kind of each layer.
func (r *reader) sharedKinds(layers int) []sharedKind {
	kinds := make([]sharedKind, layers)
	sources, indexers := r.ints("kv_source_layer_ids"), r.ints("index_source_layer_ids")
	for i, ratio := range r.ratios(layers) {
		k := sharedKind{ratio: int(ratio), source: slices.Contains(sources, i), index: slices.Contains(indexers, i)}
		kinds[i] = k
		switch {
		case ratio < 0 || ratio > 2:
			r.fail(problem.Unsupported, "compress_ratios", "%d of layer %d: only 0 (sliding window), 1 and 2 are supported", ratio, i)
			return kinds
		case ratio > 0 && !slices.ContainsFunc(sources, func(s int) bool { return s <= i }):
			r.fail(problem.Unsupported, "kv_source_layer_ids", "no source for layer %d", i)
			return kinds
		}
	}
	return kinds
}

// shared is one layer of a kind. Caches are in the order in which vLLM builds them; beside a
// source's is a ring of the vectors that wait for a second, and their scores.
func (v compressed) shared(k sharedKind) *Layer {
	latents := attn.Geometry{Arch: attn.MLA, QueryHeads: v.query, KVHeads: 1, KeyDim: v.width, LatentDim: v.width}
	expanded := heads{query: v.query, kv: 1, key: v.width, value: v.width}.geometry()
	window := Cache{Kind: SlidingLatent, Attn: latents, Expanded: expanded, Window: v.window, Ratio: k.ratio}
	caches := []Cache{window}
	if k.source && k.ratio > 0 {
		index := v.index.cache()
		index.Ratio = k.ratio
		caches = []Cache{{Kind: Latent, Attn: latents, Expanded: expanded, Ratio: k.ratio}, index, window}
		if k.ratio > 1 {
			caches = append(caches, Cache{Kind: Ring, Ratio: k.ratio, DType: dtype.Float32,
				Attn: attn.Geometry{Arch: attn.MHA, QueryHeads: v.query, KVHeads: 1, KeyDim: 2 * v.width}})
		}
	}
	e := v.experts
	e.scoreBias, e.beside = v.scoreBias, v.beside
	params := append(v.attention(0), v.sharing(k)...)
	params = append(params, e.params(v.hidden)...)
	params = append(params, norm("attn_norm", v.hidden), norm("ffn_norm", v.hidden))
	params = append(params, v.mix("hc_attn")...)
	return &Layer{Caches: caches, Params: append(params, v.mix("hc_ffn")...)}
}

// sharing are the parameters of a layer's index, and of what a source compresses.
func (v compressed) sharing(k sharedKind) []Param {
	var params []Param
	plain := func(name string, rows, cols int) {
		p := linear(name, Attention, whole(rows), whole(cols))
		p.Linear = false
		params = append(params, p)
	}
	if k.index && k.ratio > 0 {
		params = append(params, linear("attn.indexer.wq_b", Attention, whole(v.index.heads*v.index.width), whole(v.queryRank)))
		plain("attn.indexer.weights_proj", v.index.heads, v.hidden)
		if k.source {
			plain("attn.indexer.wk", v.index.width, v.width)
			params = append(params, norm("attn.indexer.k_norm", v.index.width))
		}
	}
	if k.source && k.ratio > 0 {
		plain("attn.compressor.wkv", v.width, v.hidden)
		if k.ratio > 1 {
			plain("attn.compressor.wgate", v.width, v.hidden)
		}
		params = append(params, norm("attn.compressor.norm", v.width))
	}
	return params
}

// deepSeekV41Tower is a vision transformer and an MLP over the states of some patches; beside
// them are three vectors that mark a picture, on each stage (vllm models/deepseek_v41/nvidia,
// vl_model.py).
func deepSeekV41Tower(t *towers) {
	c := t.sub("vision_config")
	width, patch, fold := c.opt("hidden_size", 1024), c.opt("patch_size", 14), c.opt("downsample_ratio", 3)
	t.conv("vision.patch_embed.proj", width, 3*patch*patch, true)
	t.vit(vit{name: "vision.blocks", layers: c.opt("num_hidden_layers", 0), width: width, heads: c.opt("num_attention_heads", 16),
		mlp: c.opt("intermediate_size", 2816), gated: true, qkvBias: true, outBias: true, rms: true,
		names: vitNames{"attn.wqkv", "attn.wo", "mlp.w1 mlp.w1", "mlp.w2", []string{"norm1", "norm2"}}})
	t.norm("vision.norm", width, false)
	t.mlp([]string{"aligner.w1"}, "aligner.w2", width*fold*fold, t.hidden, t.hidden, false, true)
	t.stage = EveryStage
	for _, mark := range []string{"image_start", "image_end", "image_newline"} {
		t.plain(mark, t.hidden)
		p := &t.params[len(t.params)-1]
		p.DType = dtype.Float32
		if mark != "image_newline" {
			p.Part = Other
		}
	}
}
