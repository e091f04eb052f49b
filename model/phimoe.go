package model

// phiMoE has layer norms and routed experts in every layer. The engines' own class gives
// attention and head a bias whatever the config says (vllm phimoe.py); Transformers' reads
// attention_bias and lm_head_bias.
var phiMoE = family{
	name:          "phimoe",
	architectures: []string{"PhiMoEForCausalLM", "PhimoeForCausalLM"},
	types:         []string{"phimoe"},
	resolve: func(r *reader) *Model {
		e := r.experts("block_sparse_moe", "num_local_experts", "intermediate_size")
		e.projections = mixtralProjections
		native := r.arch == "PhiMoEForCausalLM"
		bias := native || r.flag("attention_bias", false)
		d := decoder{
			gated:      true,
			qkvBias:    bias,
			outBias:    bias,
			normBias:   true,
			experts:    e,
			headBias:   native || r.flag("lm_head_bias", false),
			untied:     true,
			everyStage: true,
		}
		if e.count == 0 { // nothing is in their place
			h := r.heads()
			attention := &form{caches: []Cache{h.cache(0)}, params: attentionParams("self_attn", h, r.size("hidden_size"), bias, bias), alone: true}
			d.form = func(int) *form { return attention }
		}
		return r.decoder(d)
	},
}
