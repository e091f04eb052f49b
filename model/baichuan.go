package model

import "strings"

// baichuan is Llama-like with queries, keys and values in one tensor and no KV groups; the
// 13B takes positions by ALiBi, which no size depends on (sglang models/baichuan.py).
var baichuan = family{
	name:          "baichuan",
	architectures: []string{"BaichuanForCausalLM", "BaiChuanForCausalLM"},
	types:         []string{"baichuan"},
	resolve: func(r *reader) *Model {
		return r.decoder(decoder{gated: true, names: baichuanNames})
	},
}

var baichuanNames = strings.NewReplacer("q_proj", "W_pack", "k_proj", "W_pack", "v_proj", "W_pack")
