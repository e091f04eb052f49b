package model

import "strings"

// phi3 is a Llama-like decoder whose checkpoint keeps fused projections and whose window,
// where it has one, covers every layer (vllm phi3.py).
var phi3 = family{
	name:          "phi3",
	architectures: []string{"Phi3ForCausalLM", "Phi3Model", "Phi3VForCausalLM"},
	types:         []string{"phi3", "phi3_v"},
	resolve: func(r *reader) *Model {
		return r.decoder(decoder{
			gated:   true,
			names:   fusedNames,
			qkvBias: r.flag("attention_bias", false),
			outBias: r.flag("attention_bias", false),
			mlpBias: r.flag("mlp_bias", false),
		})
	},
}

// fusedNames are a checkpoint's names for projections that it stores as one tensor: the
// parts keep their own splits and share the name.
var fusedNames = strings.NewReplacer(
	".q_proj.", ".qkv_proj.", ".k_proj.", ".qkv_proj.", ".v_proj.", ".qkv_proj.",
	".gate_proj.", ".gate_up_proj.", ".up_proj.", ".gate_up_proj.")

// rename gives parameters the checkpoint's own names.
func rename(params []Param, names *strings.Replacer) {
	for i := range params {
		params[i].Name = names.Replace(params[i].Name)
	}
}
