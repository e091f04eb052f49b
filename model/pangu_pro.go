package model

import "headcount/problem"

// panguProMoE is Pangu Ultra's layer with heads that keep values of another width than keys,
// of which the first part turns, after tokens of learned keys and values that all requests
// see (vllm openpangu.py, OpenPanguSinkAttention).
var panguProMoE = family{
	name:          "pangu_pro_moe",
	architectures: []string{"PanguProMoEV2ForCausalLM"},
	types:         []string{"pangu_pro_moe_v2", "PanguProMoEV2"},
	resolve: func(r *reader) *Model {
		d, hidden, sinks := r.deepSeekDecoder(), r.size("hidden_size"), r.opt("param_sink_number", 0)
		d.untied, d.mlpBias, d.experts.scoreBias, d.nextN = false, r.flag("mlp_bias", false), "", 0
		if r.flag("router_enable_expert_bias", false) {
			d.experts.scoreBias = "mlp.gate.e_score_correction_bias"
		}
		d.norms = r.sandwichNorms()
		if sinks == 0 {
			r.fail(problem.Unsupported, "param_sink_number", "attention of this model without tokens of learned keys is not known")
			return r.model()
		}
		h, rope := r.heads(), r.size("qk_rope_dim")
		h.key, h.value = r.size("qk_nope_dim")+rope, r.size("v_channels")
		r.from("head_dim", "qk_nope_dim + qk_rope_dim")
		r.times("num_attention_heads", h.query, h.key+h.value)
		r.times("param_sink_number", sinks, h.kv*max(h.key, h.value))
		if r.err != nil {
			return r.model()
		}
		f := &form{caches: []Cache{h.cache(0)}, params: r.sinkAttention(h, hidden, sinks)}
		f.caches[0].Sinks = sinks
		d.heads, d.windows, d.rotary = h, make([]int, r.layers()), rotary{none: true}
		d.form = func(int) *form { return f }
		m := r.decoder(d)
		length := r.opt("max_position_embeddings", 8192)
		m.Ropes = []Rope{{Type: "default", Theta: 10000, Dim: rope, Length: length, Trained: length, Factor: 1}}
		if !r.flag("param_sink_with_value", false) {
			for _, l := range distinct(m.Layers) {
				l.Buffers = append(l.Buffers, sinkTokens("self_attn.param_sink_value", h.kv, h.value, sinks))
			}
		}
		return m
	},
}

// sinkAttention are the parameters of attention after learned tokens. Ranks divide KV heads,
// and hold none twice.
func (r *reader) sinkAttention(h heads, hidden, sinks int) []Param {
	biased := r.flag("attention_bias", false) || r.flag("bias", false)
	params := attentionParams("self_attn", h, hidden, r.flag("qkv_bias", biased), biased)
	params = append(params, norm("self_attn.k_layernorm", h.key), sinkTokens("self_attn.param_sink_key", h.kv, h.key, sinks))
	if r.flag("param_sink_with_value", false) {
		params = append(params, sinkTokens("self_attn.param_sink_value", h.kv, h.value, sinks))
	}
	return params
}

// sinkTokens are the keys or the values of learned tokens.
func sinkTokens(name string, kv, width, tokens int) Param {
	return Param{Name: name, Part: Attention, Rows: kvHeads(kv, width), Cols: whole(tokens)}
}
