package model

// llama is the decoder that most open checkpoints share: RMS norm, rotary attention with
// grouped KV heads, a gated MLP. Mistral, Yi and many fine-tunes are it under other names.
var llama = family{
	name:          "llama",
	architectures: []string{"LlamaForCausalLM", "MistralForCausalLM", "LLaMAForCausalLM", "AquilaForCausalLM", "AquilaModel", "CwmForCausalLM", "InternLM3ForCausalLM", "TeleChat3ForCausalLM", "IQuestCoderForCausalLM", "XverseForCausalLM"},
	types:         []string{"llama", "mistral", "ministral", "ministral3", "internlm3", "aquila"},
	resolve: func(r *reader) *Model {
		return r.decoder(decoder{
			gated:   true,
			qkvBias: r.flag("attention_bias", r.flag("bias", false)),
			outBias: r.flag("attention_bias", r.flag("bias", false)),
			mlpBias: r.flag("mlp_bias", false),
		})
	},
}
