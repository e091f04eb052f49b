package model

import "strings"

// hunyuan is Hunyuan's dense decoder, with norms of queries and keys per head (transformers
// modeling_hunyuan_v1_dense.py).
var hunyuan = family{
	name:          "hunyuan_v1_dense",
	architectures: []string{"HunYuanDenseV1ForCausalLM"},
	types:         []string{"hunyuan_v1_dense"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		return r.decoder(decoder{gated: true, qkvBias: bias, outBias: bias, qkNorm: normPerHead, names: hunyuanNames})
	},
}

var hunyuanNames = strings.NewReplacer("q_norm", "query_layernorm", "k_norm", "key_layernorm")
