package model

import "headcount/dtype"

// step3p5 has sliding layers with more query heads than its full ones, a gate a head on
// the attention's result, and routed and shared experts behind a float32 router (vllm
// step3p5.py; step3p7.py wraps it beside a tower).
var step3p5 = family{
	name:          "step3p5",
	architectures: []string{"Step3p5ForCausalLM", "Step3p7ForConditionalGeneration", "Step3p5Model"},
	types:         []string{"step3p5"},
	resolve: func(r *reader) *Model {
		layers, hidden, h := r.layers(), r.size("hidden_size"), r.heads()
		e := r.experts("moe", "n_routed_experts", "moe_intermediate_size")
		e.routerDType, e.scoreBias, e.biasPart = dtype.Float32, "moe.router_bias", MLP
		if width := r.opt("share_expert_dim", 0); width > 0 {
			e.beside = gatedMLP("share_expert", MLP, [3]string{}, hidden, sharded(width, "share_expert_dim"))
		}
		biased, gated := r.flag("attention_bias", false), r.flag("use_head_wise_attn_gate", false)
		kinds := make([]attentionKind, layers)
		for i, window := range r.windows(layers) {
			kinds[i] = attentionKind{query: h.query, window: window}
			if window > 0 {
				kinds[i].query = r.sizeOr("num_sliding_attention_heads", h.query)
			}
		}
		build := func(k attentionKind) *form {
			h := h
			h.query = k.query
			params := append(attentionParams("self_attn", h, hidden, biased, false),
				norm("self_attn.q_norm", h.key), norm("self_attn.k_norm", h.key))
			if gated {
				params = append(params, linear("self_attn.g_proj", Attention, queryHeads(h.query, 1), whole(hidden)))
			}
			return &form{caches: []Cache{h.cache(k.window)}, params: params}
		}
		d := decoder{
			gated: true, heads: h, untied: true, experts: e, sparse: r.sparseByType(layers),
			form: formPerKind(kinds, build), nextN: r.nextN(),
		}
		if d.nextN > 0 {
			next := attentionKind{query: h.query}
			if r.stepNext("mtp_layer_types") == "sliding_attention" {
				next = attentionKind{query: r.sizeOr("num_sliding_attention_heads", h.query), window: r.opt("sliding_window", 0)}
			}
			d.nextForm, d.nextDense = build(next), r.stepNext("mtp_mlp_layer_types") != "sparse"
			d.nextJoin = append(deepSeekJoin(hidden), Param{Name: "shared_head.head.weight", Part: Other,
				Rows: vocabulary(r.size("vocab_size")), Cols: whole(hidden)})
		}
		m := embedAtBothEnds(r.decoder(d))
		for _, k := range kinds { // the whole-model value is the greatest
			m.QueryHeads = max(m.QueryHeads, k.query)
		}
		return m
	},
}

// stepNext is the first entry of a list that says what the MTP layers are, which are alike.
func (r *reader) stepNext(key string) string {
	list, _ := r.List(key)
	if len(list) == 0 {
		return ""
	}
	name, _ := list[0].Text()
	return name
}
