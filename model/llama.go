package model

// llama is the decoder that most open checkpoints share: RMS norm, rotary attention with
// grouped KV heads, a gated MLP. Mistral, Yi, Solar and many others are it under
// other names: they scale or rotate differently, which no size depends on (vllm llama.py,
// solar.py, ernie45.py, teleflm.py; transformers modeling_smollm3.py).
var llama = family{
	name: "llama",
	architectures: []string{"LlamaForCausalLM", "LLaMAForCausalLM", "MistralForCausalLM", "Ministral3ForCausalLM",
		"AquilaForCausalLM", "AquilaModel", "XverseForCausalLM", "InternLM3ForCausalLM", "TeleChat3ForCausalLM",
		"TeleFLMForCausalLM", "IQuestCoderForCausalLM", "SolarForCausalLM", "SmolLM3ForCausalLM",
		"Ernie4_5ForCausalLM", "YiForCausalLM", "CwmForCausalLM"},
	types: []string{"llama", "mistral", "ministral", "ministral3", "internlm3", "aquila", "xverse", "solar",
		"smollm3", "ernie4_5", "teleflm", "Yi", "paddleocr_vl_text", "cwm"},
	resolve: func(r *reader) *Model { return r.decoder(r.llama()) },
}

// llamaBidirectional reads in both directions, for embeddings (vllm llama.py,
// LlamaBidirectionalModel).
var llamaBidirectional = family{
	name:          "llama_bidirectional",
	architectures: []string{"LlamaBidirectionalModel", "LlamaBidirectionalForSequenceClassification"},
	types:         []string{"llama_bidirec"},
	resolve: func(r *reader) *Model {
		d := r.llama()
		d.encoder = true
		return r.decoder(d)
	},
}

// llama is what the two share.
func (r *reader) llama() decoder {
	bias := r.flag("attention_bias", false) || r.flag("bias", false)
	return decoder{
		gated:   true,
		qkvBias: r.flag("qkv_bias", bias),
		outBias: bias,
		mlpBias: r.flag("mlp_bias", false),
	}
}
