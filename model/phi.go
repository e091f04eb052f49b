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
		normed := r.flag("qk_layernorm", false)
		if normed {
			d.qkNorm = normPerHead
		}
		m := r.decoder(d)
		if normed && r.err == nil { // of the width over the heads, whatever head_dim says
			for _, l := range distinct(m.Layers) {
				for i := range l.Params {
					if p := &l.Params[i]; strings.Contains(p.Name, "_layernorm") && strings.HasPrefix(p.Name, "self_attn.") {
						p.Rows = whole(m.HiddenSize / max(m.QueryHeads, 1))
					}
				}
			}
		}
		return m
	},
}

var phiNames = strings.NewReplacer("o_proj", "dense", "up_proj", "fc1", "down_proj", "fc2",
	"q_norm", "q_layernorm", "k_norm", "k_layernorm", "model.norm", "model.final_layernorm")
