package model

import "strings"

// persimmon has layer norms and biases everywhere and norms of queries and keys per head.
// Its class has no tensor parallel plan and nothing in it fuses, so that vLLM keeps every
// layer whole on every rank (transformers modeling_persimmon.py). Fuyu wraps it.
var persimmon = family{
	name:          "persimmon",
	architectures: []string{"PersimmonForCausalLM"},
	types:         []string{"persimmon", "fuyu"},
	resolve: func(r *reader) *Model {
		h := r.heads()
		h.kv = h.query
		d := decoder{heads: h, qkvBias: true, outBias: true, mlpBias: true, normBias: true, byGroup: true, names: persimmonNames}
		if r.flag("qk_layernorm", true) {
			d.qkNorm = normPerHead
		}
		return unfused(r.decoder(d))
	},
}

var persimmonNames = strings.NewReplacer(
	"self_attn.q_proj", "self_attn.query_key_value", "self_attn.k_proj", "self_attn.query_key_value",
	"self_attn.v_proj", "self_attn.query_key_value", "o_proj", "dense", "up_proj", "dense_h_to_4h",
	"down_proj", "dense_4h_to_h", "q_norm", "q_layernorm", "k_norm", "k_layernorm", "model.norm", "model.final_layernorm")
