package model

// stablelm is Llama-like with layer norms (vllm stablelm.py).
var stablelm = family{
	name:          "stablelm",
	architectures: []string{"StableLmForCausalLM", "StableLMEpochForCausalLM"},
	types:         []string{"stablelm", "stablelm_epoch"},
	resolve: func(r *reader) *Model {
		return r.decoder(decoder{gated: true, qkvBias: r.flag("use_qkv_bias", false), normBias: true, everyStage: true})
	},
}

// orion is the same without biases around attention (vllm orion.py).
var orion = family{
	name:          "orion",
	architectures: []string{"OrionForCausalLM"},
	types:         []string{"orion"},
	resolve: func(r *reader) *Model {
		return r.decoder(decoder{gated: true, normBias: true, everyStage: true})
	},
}
