package model

// step1 is Llama-like with ALiBi and few KV groups (vllm step1.py).
var step1 = family{
	name:          "step1",
	architectures: []string{"Step1ForCausalLM"},
	types:         []string{"step1"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		return r.decoder(decoder{gated: true, qkvBias: bias, outBias: bias, mlpBias: r.flag("mlp_bias", false),
			tied: r.flag("tie_word_embeddings", true), rotary: rotary{none: true}})
	},
}
