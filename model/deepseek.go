package model

// deepSeek are DeepSeek-V2, V3, R1 and the models built on their code: latent attention,
// dense first layers, then routed and shared experts (vllm deepseek_v2.py). DeepSeek-V1 and
// small V2 ones keep K and V of heads instead, which a config shows by leaving the widths
// of the latent's parts 0.
var deepSeek = family{
	name: "deepseek",
	architectures: []string{"DeepseekForCausalLM", "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM",
		"DeepseekVLV2ForCausalLM", "DeepseekOCRForCausalLM", "DeepseekOCR2ForCausalLM",
		"KimiVLForConditionalGeneration", "KimiK25ForConditionalGeneration", "MistralLarge3ForCausalLM",
		"DotsVLMForCausalLM"},
	types: []string{"deepseek", "deepseek_v2", "deepseek_v3", "kimi_k2"},
	resolve: func(r *reader) *Model {
		d := r.deepSeekDecoder()
		if r.opt("qk_nope_head_dim", 0) > 0 || r.opt("qk_rope_head_dim", 0) > 0 {
			d = r.latentDecoder(d)
		}
		return r.decoder(d)
	},
}

// deepSeekDecoder is the part of a DeepSeek layer that does not depend on its attention.
func (r *reader) deepSeekDecoder() decoder {
	d := decoder{
		gated:   true,
		experts: r.deepSeekExperts(),
		sparse:  sparseFrom(r.opt("first_k_dense_replace", 0), r.opt("moe_layer_freq", 1)),
		untied:  true,
		nextN:   r.nextN(),
	}
	if method, _ := r.Text("topk_method"); method == "noaux_tc" {
		d.experts.scoreBias = "mlp.gate.e_score_correction_bias"
	}
	return d
}

// deepSeekExperts reads routed experts under DeepSeek's names, with n_shared_experts more
// of the same width as one shared expert.
func (r *reader) deepSeekExperts() experts {
	e := r.experts("mlp", "n_routed_experts", "moe_intermediate_size")
	r.share(&e, "shared_experts", "n_shared_experts", 0)
	return e
}
