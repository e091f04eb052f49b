package model

import (
	"fmt"

	"headcount/dtype"
	"headcount/problem"
)

// longcatFlash has two latent attentions and two dense MLPs in each layer, and beside them
// routed experts, some of which do nothing and have no weights (vllm longcat_flash.py). Its
// MTP layer has one of each and no experts (vllm longcat_flash_mtp.py). LongCat-Flash-Lite
// adds embeddings of the tokens before each (vllm longcat_flash_ngram.py).
var longcatFlash = family{
	name:          "longcat_flash",
	architectures: []string{"LongcatFlashForCausalLM", "LongcatFlashNgramForCausalLM"},
	types:         []string{"longcat_flash"},
	resolve: func(r *reader) *Model {
		l, e := r.latent(), r.experts("mlp", "n_routed_experts", "expert_ffn_hidden_size")
		e.router, e.routerDType, e.scoreBias = "mlp.router.classifier", dtype.Float32, "mlp.router.e_score_correction_bias"
		e.logits = e.count + r.opt("zero_expert_num", 0)
		layers, hidden, vocab := r.longcatLayers(), r.size("hidden_size"), r.size("vocab_size")
		width := r.size("ffn_hidden_size")
		m := r.model()
		if r.err != nil {
			return m
		}
		m.HiddenSize, m.VocabSize, m.TiedEmbeddings = hidden, vocab, r.flag("tie_word_embeddings", false)
		h := l.view()
		m.QueryHeads, m.KVHeads, m.HeadDim, m.Experts = h.query, h.kv, h.key, e.count
		params := e.params(hidden)
		for i := range 2 {
			params = append(params, l.params(fmt.Sprintf("self_attn.%d", i), hidden)...)
			params = append(params, gatedMLP(fmt.Sprintf("mlps.%d", i), MLP, [3]string{}, hidden, sharded(width, "ffn_hidden_size"))...)
			params = append(params,
				norm(fmt.Sprintf("input_layernorm.%d", i), hidden),
				norm(fmt.Sprintf("post_attention_layernorm.%d", i), hidden))
		}
		m.Layers = repeat(&Layer{Caches: []Cache{l.cache(), l.cache()}, Params: params}, layers)
		next := decoder{gated: true, latent: &l, intermediate: width, nextN: 1}
		m.Draft = next.draft(hidden)
		m.Outer = decoder{vocab: vocab}.outer(r, hidden, false)
		m.Ropes = r.ropes(rotary{}, l.rope)
		if m.Architecture == "LongcatFlashNgramForCausalLM" && r.Has("ngram_vocab_size_ratio") {
			r.longcatNgrams(m)
			exactRopes(m)
		}
		return m
	},
}

// longcatNgrams adds the embeddings of up to emb_neighbor_num tokens: emb_split_num tables for
// each length from two on, one after the other in one tensor and each a little longer than the
// last, and a projection from each to the hidden state. What hashes tokens to rows is computed.
func (r *reader) longcatNgrams(m *Model) {
	split, most := r.size("emb_split_num"), r.size("emb_neighbor_num")
	rows := r.times("ngram_vocab_size_ratio", r.size("ngram_vocab_size_ratio"), m.VocabSize)
	tables := r.times("emb_split_num", split, most-1)
	if r.err == nil && (tables < 1 || tables > m.HiddenSize) {
		r.fail(problem.BadValue, "emb_split_num", "%d tables of embeddings for hidden_size = %d", tables, m.HiddenSize)
	}
	all := r.times("emb_split_num", tables, rows+tables) // of which each has two rows more than the last, from one more than rows
	if r.err != nil {
		return
	}
	width := m.HiddenSize / tables
	m.Outer = append(m.Outer,
		Param{Name: "model.ngram_embeddings.embedders.weight", Part: Embedding, Rows: vocabulary(all), Cols: whole(width)},
		Param{Name: "model.ngram_embeddings.post_projs.weight", Part: Embedding, Rows: whole(tables * width), Cols: whole(m.HiddenSize)})
	for _, b := range []struct {
		name string
		n    int
	}{{"ne_weights", tables * most}, {"ne_mods", tables}, {"exclusive_sizes", tables + 1}} {
		m.Buffers = append(m.Buffers, Param{Name: "model.ngram_embeddings." + b.name, Part: Embedding, Rows: whole(b.n), DType: dtype.Int32})
	}
}

// longcatLayers is num_layers; num_hidden_layers counts each of them twice, once for each
// attention.
func (r *reader) longcatLayers() int {
	n := r.size("num_layers")
	if n > maxLayers {
		r.fail("bad_value", "num_layers", "more than %d layers", maxLayers)
		return 0
	}
	r.from("layers", r.Where("num_layers"))
	return n
}
