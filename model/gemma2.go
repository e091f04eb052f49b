package model

// sandwich are the four norms of a layer that normalises before and after each half.
var sandwich = []string{"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"}

// gemma2 alternates sliding-window and full attention, with norms on both sides of each
// half of a layer and a head that is always the embedding (vllm gemma2.py).
var gemma2 = family{
	name:          "gemma2",
	architectures: []string{"Gemma2ForCausalLM", "Gemma2Model"},
	types:         []string{"gemma2"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		return normalized(r.decoder(decoder{gated: true, qkvBias: bias, outBias: bias, norms: sandwich, tied: true, everyStage: true}))
	},
}

// gemma3 has five sliding layers to each full one, and norms of queries and keys (vllm
// gemma3.py; gemma3_mm.py wraps it beside a SigLIP tower).
var gemma3 = family{
	name:          "gemma3",
	architectures: []string{"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "Gemma3TextModel", "Gemma3Model"},
	types:         []string{"gemma3", "gemma3_text"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		return normalized(r.decoder(decoder{gated: true, qkvBias: bias, outBias: bias, norms: sandwich, qkNorm: normPerHead, everyStage: true}))
	},
}
