package model

import (
	"headcount/attn"
	"headcount/dtype"
	"headcount/problem"
)

// qwen4Exp is Qwen3.5's layers around several streams, of which each half of a layer reads
// and writes a mix of low rank. Attention may choose tokens by an index of one key for each
// run of them; the keys of the last run wait in a ring (vllm models/qwen4_exp).
var qwen4Exp = family{
	name:          "qwen4_exp",
	textOnly:      true,
	architectures: []string{"Qwen4ExpForCausalLM", "Qwen4ExpForConditionalGeneration"},
	types:         []string{"qwen4_exp", "qwen4_exp_text"},
	resolve: func(r *reader) *Model {
		if ids, _ := r.List("ple_layer_ids"); len(ids) > 0 {
			r.fail(problem.NotKnown, "ple_layer_ids", "layers with embeddings of their own are not known of %s", r.className())
		}
		layers, hidden, h := r.layers(), r.size("hidden_size"), r.heads()
		d := r.deltaNet(qwen3_5Projections)
		e := r.qwenExperts()
		e.sharedGate = "mlp.shared_expert_gate"
		mix := lowRankMix{hidden: hidden, streams: r.size("hc_count"), rank: r.size("hc_lowrank")}
		if mix.streams < 2 && r.err == nil {
			r.fail(problem.Unsupported, "hc_count", "less than 2 streams")
		}
		if n := r.opt("num_experts_per_tok", 1); r.err == nil && (n < 1 || n > e.count) {
			r.fail(problem.BadValue, "num_experts_per_tok", "not between 1 and num_experts = %d", e.count)
		}
		r.times("hc_lowrank", r.times("hc_count", mix.streams, hidden), mix.rank)
		if r.err != nil || !r.valid(d.State, "linear_num_value_heads") {
			return r.model()
		}
		mixes := append(mix.params("attn_hyper_connection", Attention, true), mix.params("mlp_hyper_connection", MLP, true)...)
		attention := &form{caches: []Cache{h.cache(0)}, params: gatedAttention(h, hidden, true, r.flag("attention_bias", false))}
		if r.Has("indexer_n_heads") {
			r.indexRuns(attention, hidden)
		}
		delta := &form{caches: []Cache{d.cache()}, params: d.params("linear_attn", hidden)}
		attention, delta = attention.with(mixes), delta.with(mixes)
		m := r.decoder(decoder{
			nextN: r.nextAt("mtp_num_hidden_layers", 1), nextForm: attention, nextJoin: shardedJoin(hidden),
			gated: true, heads: h, experts: e, untied: true, norms: []string{}, noFinalNorm: true, everywhere: []Part{Embedding, Head},
			form: r.formByType(layers, map[string]*form{
				"linear_attention": delta, "indexed_attention": attention, "full_attention": attention,
			}),
		})
		if budget := r.opt("indexer_budget", 0) + r.opt("indexer_compress_ratio", 0); r.Has("indexer_n_heads") {
			for _, l := range append(distinct(m.Layers), m.Draft...) {
				if len(l.Caches) > 1 { // the tokens that the index chooses, and how many they are
					l.Buffers = []Param{{Name: "self_attn.topk_indices_buffer", Part: Attention, Rows: whole(budget), DType: dtype.Int32, PerToken: true}}
				}
			}
		}
		for _, p := range mix.params("model.hyper_connection_mixer", Other, false) {
			p.Stage = LastStage
			m.Outer = append(m.Outer, p)
		}
		return m
	},
}

// A lowRankMix joins streams of the model's width to what a half of a layer takes.
type lowRankMix struct{ hidden, streams, rank int }

// params are a norm of all streams and projections down and up. One that gives back has a
// weight for each stream beside the first, and both in whole rows of 16.
func (x lowRankMix) params(name string, part Part, back bool) []Param {
	all, down := x.streams*x.hidden, x.rank
	if back {
		down = (x.rank + x.streams + 15) / 16 * 16
	}
	return []Param{
		norm(name+".hc_norm", all),
		{Name: name + ".input_mix_weight_down.weight", Part: part, Rows: whole(down), Cols: whole(all), DType: dtype.BFloat16},
		{Name: name + ".input_mix_weight_up.weight", Part: part, Rows: whole(all), Cols: whole(x.rank), DType: dtype.BFloat16},
	}
}

// indexRuns gives attention an index of runs of tokens: a ring of keys, and one key for each
// complete run.
func (r *reader) indexRuns(f *form, hidden int) {
	n, keys, width := r.size("indexer_n_heads"), r.size("indexer_kv_heads"), r.size("indexer_head_dim")
	run := r.size("indexer_compress_ratio")
	index := attn.Geometry{Arch: attn.MHA, QueryHeads: n, KVHeads: 1, KeyDim: width}
	f.caches = append([]Cache{
		{Kind: Ring, Attn: index, Ratio: run, DType: dtype.BFloat16},
		{Kind: Indexer, Attn: index, Ratio: run, DType: dtype.BFloat16},
	}, f.caches...)
	f.params = append(f.params,
		linear("self_attn.indexer.index_qk_proj", Attention, whole(r.times("indexer_n_heads", n+keys, width)), whole(hidden)),
		norm("self_attn.indexer.q_layernorm", width), norm("self_attn.indexer.k_layernorm", width))
}
