package model

import "strings"

// starcoder2 has layer norms, biases by use_bias and no gate (transformers
// modeling_starcoder2.py).
var starcoder2 = family{
	name:          "starcoder2",
	architectures: []string{"Starcoder2ForCausalLM"},
	types:         []string{"starcoder2"},
	resolve: func(r *reader) *Model {
		bias := r.flag("use_bias", true)
		return r.decoder(decoder{qkvBias: bias, outBias: bias, mlpBias: bias, normBias: true, names: starcoder2Names})
	},
}

var starcoder2Names = strings.NewReplacer("up_proj", "c_fc", "down_proj", "c_proj")
