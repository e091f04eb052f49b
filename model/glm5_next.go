package model

import (
	"headcount/attn"
	"headcount/dtype"
)

// glm5Next has three layers of Kimi delta attention to each one of latent attention without
// positions, whose indexer scores runs of tokens: each run is pooled to one key, and the run
// that is not complete waits in a ring. Halves of a layer read and write several streams
// (vllm models/glm5next).
var glm5Next = family{
	name:          "glm5_next",
	textOnly:      true,
	architectures: []string{"Glm5NextForCausalLM", "Glm5NextForConditionalGeneration"},
	types:         []string{"glm5_next", "glm5_next_text"},
	resolve: func(r *reader) *Model {
		layers, hidden := r.layers(), r.size("hidden_size")
		l, k := r.latentAt(r.opt("qk_rope_head_dim", 0)), r.glmDelta()
		e := r.deepSeekExperts()
		if method, _ := r.Text("topk_method"); method == "noaux_tc" {
			e.scoreBias = "mlp.gate.e_score_correction_bias"
		}
		streams := compressed{hidden: hidden, streams: r.opt("hc_mult", 4)}
		r.times("hc_mult", r.times("hc_mult", streams.streams, streams.streams+2), hidden)
		attention := &form{caches: []Cache{l.cache()}, params: l.params("self_attn", hidden)}
		if r.Has("index_topk") {
			attention = r.pooledIndex(l, hidden)
		}
		if r.err != nil || !r.valid(k.State, "linear_num_heads") {
			return r.model()
		}
		delta := &form{caches: []Cache{k.cache()}, params: k.params("self_attn", hidden)}
		for i := range delta.params {
			delta.params[i].Linear = false // in the model's dtype, however the rest is quantised
		}
		next := attention
		if r.flag("mhc", true) {
			mix := append(streams.mix("hc_attn"), streams.mix("hc_ffn")...)
			attention, delta = attention.with(mix), delta.with(mix)
		}
		types := map[string]*form{"linear_attention": delta, "indexed_attention": attention, "full_attention": attention}
		return r.decoder(decoder{
			gated: true, latent: &l, untied: true, experts: e, sparse: r.sparseByType(layers), rotary: rotary{none: true},
			form: r.formByType(layers, types), nextN: r.nextN(), nextForm: next,
		})
	},
}

// with is a form that has further parameters.
func (f *form) with(params []Param) *form {
	out := *f
	out.params = append(append([]Param(nil), f.params...), params...)
	return &out
}

// glmDelta reads Kimi delta attention from fields of its own.
func (r *reader) glmDelta() kda {
	heads, width := r.size("linear_num_heads"), r.size("linear_head_dim")
	return kda{field: "linear_num_heads", State: State{Mixer: KDA, Kernel: r.kernel("linear_conv_kernel_dim"),
		Groups: heads, Heads: heads, HeadDim: width, StateSize: width}}
}

// pooledIndex is latent attention with an indexer of one key for each run of tokens. Beside
// the keys of complete runs it keeps, of the last run, each token's key and score.
func (r *reader) pooledIndex(l latent, hidden int) *form {
	x, run := r.indexer(), r.size("index_kpool")
	keys := x.cache()
	keys.Ratio = run
	tail := Cache{Kind: Ring, Ratio: run, DType: dtype.BFloat16,
		Attn: attn.Geometry{Arch: attn.MHA, QueryHeads: x.heads, KVHeads: 2, KeyDim: x.width}}
	params := append(l.params("self_attn", hidden), x.params("self_attn.indexer", l.queryRank, hidden)...)
	const name = "self_attn.indexer.index_kpool_compress_"
	return &form{
		caches: []Cache{keys, tail, l.cache()},
		params: append(params,
			Param{Name: name + "ape", Part: Attention, Rows: whole(run), Cols: whole(x.width), DType: dtype.Float32},
			Param{Name: name + "gate", Part: Attention, Rows: whole(x.width), Cols: whole(hidden), DType: dtype.BFloat16}),
	}
}

// glm5NextTower is GLM-OCR's with an inner width of its own in the merger, and a table of
// positions as long as the text's (vllm models/glm5next/common/multimodal.py).
func glm5NextTower(t *towers) {
	t.torch = true
	c := t.sub("vision_config")
	width, heads, out := c.size("hidden_size"), max(c.size("num_heads"), 1), c.size("out_hidden_size")
	t.patches("visual.patch_embed.proj", c, width, true)
	v := vit{name: "visual.blocks", layers: c.size("depth"), width: width, heads: heads, mlp: c.size("intermediate_size"), gated: true, rms: true, names: gatedNames}
	v.qkNorm = width / heads
	t.vit(v.biased())
	t.glmMerger(c, width, out, c.size("projection_intermediate_size"))
	t.buffer("rotary_pos_emb.cos_sin_cache", t.size("max_position_embeddings")*(width/heads/2), dtype.Unknown)
}
