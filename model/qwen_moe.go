package model

import "slices"

// qwen2MoE has biased queries, keys and values, and a shared expert that a gate of one row
// weighs (vllm qwen2_moe.py). Some layers may have a plain MLP instead.
var qwen2MoE = family{
	name:          "qwen2_moe",
	architectures: []string{"Qwen2MoeForCausalLM"},
	types:         []string{"qwen2_moe"},
	resolve: func(r *reader) *Model {
		e := r.qwenExperts()
		e.sharedGate = "mlp.shared_expert_gate"
		return r.decoder(decoder{gated: true, qkvBias: true, experts: e, sparse: r.qwenSparse(), everyStage: true})
	},
}

// qwen3MoE normalises queries and keys a head at a time and has no shared expert unless its
// config gives it a width (vllm qwen3_moe.py; qwen3_vl_moe.py wraps it beside a tower).
var qwen3MoE = family{
	name: "qwen3_moe",
	architectures: []string{"Qwen3MoeForCausalLM", "Qwen3VLMoeForConditionalGeneration",
		"Qwen3OmniMoeForConditionalGeneration", "InternS1ProForConditionalGeneration", "SDARMoeForCausalLM"},
	types: []string{"qwen3_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text", "sdar_moe"},
	resolve: func(r *reader) *Model {
		e := r.qwenExperts()
		e.routerPacks = true
		if e.sharedWidth > 0 {
			e.sharedGate = "mlp.shared_expert_gate"
		}
		return r.decoder(decoder{
			gated:      true,
			qkvBias:    r.flag("attention_bias", false),
			qkNorm:     normPerHead,
			experts:    e,
			sparse:     r.qwenSparse(),
			everyStage: true,
		})
	},
}

// mellum is Qwen3's layer with a type of its own for each layer's attention and MLP, as
// Transformers' own modules build it (transformers modeling_mellum.py).
var mellum = family{
	name:          "mellum",
	architectures: []string{"MellumForCausalLM"},
	types:         []string{"mellum"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		return r.decoder(decoder{
			gated:   true,
			qkvBias: bias,
			outBias: bias,
			qkNorm:  normPerHead,
			experts: r.qwenExperts(),
			sparse:  r.sparseByType(r.layers()),
		})
	},
}

// kolibri1 is Qwen3's layer with norms on both sides of each half and a shared expert
// without a gate (transformers modeling_kolibri1.py).
var kolibri1 = family{
	name:          "kolibri1",
	architectures: []string{"Kolibri1ForCausalLM"},
	types:         []string{"kolibri1"},
	resolve: func(r *reader) *Model {
		e := r.qwenExperts()
		e.shared = "mlp.shared_experts"
		return corrected(r.decoder(decoder{
			gated:  true,
			qkNorm: normPerHead,
			norms: []string{"input_layernorm", "post_attention_layernorm", "post_self_attn_layernorm",
				"post_mlp_layernorm"},
			experts: e,
		}))
	},
}

// qwenExperts reads routed experts under Qwen's names.
func (r *reader) qwenExperts() experts {
	e := r.experts("mlp", "num_experts", "moe_intermediate_size")
	e.shared, e.sharedWidth = "mlp.shared_expert", r.opt("shared_expert_intermediate_size", 0)
	return e
}

// qwenSparse returns whether a layer has experts: every decoder_sparse_step-th one, unless
// mlp_only_layers lists it.
func (r *reader) qwenSparse() func(layer int) bool {
	plain, step := r.ints("mlp_only_layers"), max(r.opt("decoder_sparse_step", 1), 1)
	return func(layer int) bool { return (layer+1)%step == 0 && !slices.Contains(plain, layer) }
}
