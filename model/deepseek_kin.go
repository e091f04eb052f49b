package model

import "headcount/dtype"

// glm4MoELite is GLM-4.7-Flash: latent attention with GLM-4's experts (vllm
// glm4_moe_lite.py).
var glm4MoELite = family{
	name:          "glm4_moe_lite",
	architectures: []string{"Glm4MoeLiteForCausalLM"},
	types:         []string{"glm4_moe_lite"},
	resolve: func(r *reader) *Model {
		d := r.latentDecoder(r.deepSeekDecoder())
		d.experts.routerDType = dtype.Float32
		d.experts.scoreBias = "mlp.gate.e_score_correction_bias"
		return r.decoder(d)
	},
}

// axk1 is DeepSeek-V3 with a third norm a layer, after the MLP (vllm AXK1.py).
var axk1 = family{
	name:          "axk1",
	architectures: []string{"AXK1ForCausalLM"},
	types:         []string{"axk1"},
	resolve: func(r *reader) *Model {
		d := r.latentDecoder(r.deepSeekDecoder())
		d.norms = []string{"input_layernorm", "post_attention_layernorm", "post_mlp_layernorm"}
		if _, ok := r.Text("topk_method"); !ok {
			d.experts.scoreBias = "mlp.gate.e_score_correction_bias"
		}
		if sparse := r.sparseByType(r.layers()); sparse != nil {
			d.sparse = sparse
		}
		return r.decoder(d)
	},
}

// youtu is DeepSeek's attention with an MLP in every layer, as Transformers' own modules
// build it (transformers modeling_youtu.py).
var youtu = family{
	name:          "youtu",
	architectures: []string{"YoutuForCausalLM"},
	types:         []string{"youtu", "youtu_llm"},
	resolve: func(r *reader) *Model {
		m := r.decoder(r.latentDecoder(decoder{gated: true, mlpBias: r.flag("mlp_bias", false)}))
		m.HeadDim = r.headDim(m.QueryHeads)
		return m
	},
}

// panguUltraMoE is DeepSeek-V3 with norms on both sides of each half of a layer where
// sandwich_norm says so (vllm openpangu.py).
var panguUltraMoE = family{
	name:          "pangu_ultra_moe",
	architectures: []string{"PanguUltraMoEForCausalLM"},
	types:         []string{"pangu_ultra_moe"},
	resolve: func(r *reader) *Model {
		d, l := r.deepSeekDecoder(), r.latent()
		d.latent, d.untied = &l, false
		d.mlpBias = r.flag("mlp_bias", false)
		d.experts.scoreBias = ""
		if r.flag("router_enable_expert_bias", false) {
			d.experts.scoreBias = "mlp.gate.e_score_correction_bias"
		}
		d.norms = r.sandwichNorms()
		return r.decoder(d)
	},
}

// sarvamMLA is DeepSeek's attention, queries compressed or not, with Ling's experts (vllm
// sarvam.py SarvamMLAForCausalLM).
var sarvamMLA = family{
	name:          "sarvam_mla",
	architectures: []string{"SarvamMLAForCausalLM"},
	types:         []string{"sarvam_mla"},
	resolve: func(r *reader) *Model {
		l := r.latent()
		e := r.lingExperts("e_score_correction_bias", true, 1)
		first, every := r.opt("first_k_dense_replace", 1), max(r.opt("moe_layer_freq", 1), 1)
		m := r.decoder(decoder{
			gated:   true,
			latent:  &l,
			experts: e,
			sparse:  func(layer int) bool { return layer >= first && (layer-first)%every == 0 },
		})
		m.HeadDim = r.headDim(l.query)
		return m
	},
}

// mistral4 is DeepSeek-V3 as Transformers' own modules build it, where the bias of the
// scores is no parameter (transformers modeling_mistral4.py).
var mistral4 = family{
	name:          "mistral4",
	architectures: []string{"Mistral4ForCausalLM"},
	types:         []string{"mistral4"},
	resolve: func(r *reader) *Model {
		d, l := r.deepSeekDecoder(), r.latent()
		d.latent, d.untied, d.experts.scoreBias = &l, false, ""
		m := r.decoder(d)
		m.HeadDim = r.headDim(l.query)
		return m
	},
}
