package model

import "headcount/problem"

// cohereCompass is Cohere 2 whose windows are as the config says, beside Qwen's tower (vllm
// cohere_compass.py).
var cohereCompass = family{
	name:          "cohere_compass",
	architectures: []string{"CohereCompassForConditionalGeneration"},
	types:         []string{"cohere_compass_text"},
	resolve: func(r *reader) *Model {
		if !r.tied() {
			r.fail(problem.Unsupported, "tie_word_embeddings", "the class has no head of its own")
		}
		bias := r.flag("attention_bias", false)
		d := decoder{gated: true, qkvBias: bias, outBias: bias, norms: []string{"input_layernorm"}, tied: true, everyStage: true}
		ropes := r.Object("rope_parameters") // of a layer type; others are not looked at
		d.rotary = rotary{served: true, none: ropes.Dict("sliding_attention") == nil && ropes.Dict("full_attention") == nil}
		return r.decoder(d)
	},
}
