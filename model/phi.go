package model

import "strings"

// phi is Phi-1, 1.5 and 2: one layer norm for attention and MLP side by side, biases
// everywhere, also on the head (transformers modeling_phi.py).
var phi = family{
	name:          "phi",
	architectures: []string{"PhiForCausalLM"},
	types:         []string{"phi"},
	resolve: func(r *reader) *Model {
		d := decoder{
			qkvBias:  true,
			outBias:  true,
			mlpBias:  true,
			normBias: true,
			headBias: true,
			norms:    []string{"input_layernorm"},
			names:    phiNames,
		}
		if r.flag("qk_layernorm", false) {
			d.qkNorm = normPerHead
		}
		return r.decoder(d)
	},
}

var phiNames = strings.NewReplacer("o_proj", "dense", "up_proj", "fc1", "down_proj", "fc2",
	"q_norm", "q_layernorm", "k_norm", "k_layernorm", "model.norm", "model.final_layernorm")
