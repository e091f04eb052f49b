package model

import "headcount/problem"

// miniMax is MiniMax-Text-01 in Transformers' own form: lightning attention, with each few
// layers one of softmax attention, and routed experts (transformers modeling_minimax.py).
// The checkpoint's own config, which MiniMax-M1's has too, tells the kinds by attn_type_list.
var miniMax = family{
	name:          "minimax",
	architectures: []string{"MiniMaxForCausalLM", "MiniMaxModel", "MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM"},
	types:         []string{"minimax", "minimax_text_01", "minimax_m1"},
	resolve: func(r *reader) *Model {
		layers, hidden, h := r.layers(), r.size("hidden_size"), r.heads()
		e := r.experts("block_sparse_moe", "num_local_experts", "intermediate_size")
		e.projections = mixtralProjections
		s := State{Mixer: LinearAttention, Heads: h.query, HeadDim: h.key, StateSize: h.key}
		if r.err != nil || !r.valid(s, "num_attention_heads") {
			return r.model()
		}
		inner := queryHeads(h.query, h.key)
		lightning := []Param{
			linear("self_attn.qkv_proj", Attention, queryHeads(3*h.query, h.key), whole(hidden)),
			linear("self_attn.output_gate", Attention, inner, whole(hidden)),
			linear("self_attn.out_proj", Attention, whole(hidden), inner),
			{Name: "self_attn.norm.weight", Part: Norm, Rows: inner},
		}
		forms := map[string]*form{
			"linear_attention": {caches: []Cache{s.cache()}, params: lightning},
			"full_attention":   {caches: []Cache{h.cache(0)}, params: attentionParams("self_attn", h, hidden, false, false)},
		}
		d := decoder{heads: h, experts: e}
		if _, ok := r.List("layer_types"); ok || !r.Has("attn_type_list") {
			d.form = r.formByType(layers, forms)
			return r.decoder(d)
		}
		types := r.ints("attn_type_list")
		if len(types) != layers {
			r.fail(problem.BadValue, "attn_type_list", "%d entries for %d layers", len(types), layers)
		}
		d.form = func(layer int) *form {
			if layer < len(types) && types[layer] == 1 {
				return forms["full_attention"]
			}
			return forms["linear_attention"]
		}
		return r.decoder(d)
	},
}
