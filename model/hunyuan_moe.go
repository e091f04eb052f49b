package model

// hunyuanMoE has routed experts and a shared MLP in every layer and normalises queries and
// keys a head at a time (transformers modeling_hunyuan_v1_moe.py). Its config may give the
// number of experts, or the width of one, as a list of one entry a layer.
var hunyuanMoE = family{
	name:          "hunyuan_v1_moe",
	architectures: []string{"HunYuanMoEV1ForCausalLM"},
	types:         []string{"hunyuan_v1_moe", "hunyuan"},
	resolve: func(r *reader) *Model {
		e := experts{prefix: "mlp", count: r.count("num_experts"), field: "intermediate_size", router: "mlp.gate.wg"}
		e.width = r.size("intermediate_size")
		e.shared, e.sharedWidth = "mlp.shared_mlp", e.width
		if r.Has("moe_intermediate_size") {
			e.field, e.width = "moe_intermediate_size", r.count("moe_intermediate_size")
		}
		bias := r.flag("attention_bias", false)
		return r.decoder(decoder{gated: true, qkvBias: bias, outBias: bias, qkNorm: normPerHead, experts: e})
	},
}

// flexOlmo has norms after each half of a layer, norms of queries and keys over all heads,
// and routed experts in every layer (transformers modeling_flex_olmo.py).
var flexOlmo = family{
	name:          "flex_olmo",
	architectures: []string{"FlexOlmoForCausalLM"},
	types:         []string{"flex_olmo"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		return r.decoder(decoder{
			gated:   true,
			qkvBias: bias,
			outBias: bias,
			qkNorm:  normWhole,
			norms:   []string{"post_attention_layernorm", "post_feedforward_layernorm"},
			experts: r.experts("mlp", "num_experts", "intermediate_size"),
		})
	},
}
