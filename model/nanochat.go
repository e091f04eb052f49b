package model

import "strings"

// nanochat has no gate and normalises without weights (transformers modeling_nanochat.py).
var nanochat = family{
	name:          "nanochat",
	architectures: []string{"NanoChatForCausalLM"},
	types:         []string{"nanochat"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		return r.decoder(decoder{qkvBias: bias, outBias: bias, norms: []string{}, noFinalNorm: true, names: nanochatNames})
	},
}

var nanochatNames = strings.NewReplacer("up_proj", "fc1", "down_proj", "fc2")
