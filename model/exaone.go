package model

import "strings"

// exaone is the third EXAONE, Llama-like under GPT-2's names (vllm exaone.py).
var exaone = family{
	name:          "exaone",
	architectures: []string{"ExaoneForCausalLM"},
	types:         []string{"exaone"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false) || r.flag("bias", false)
		return r.decoder(decoder{
			gated:   true,
			qkvBias: bias,
			outBias: bias,
			mlpBias: r.flag("mlp_bias", false),
			norms:   []string{"ln_1", "ln_2"},
			names:   exaoneNames,
		})
	},
}

var exaoneNames = strings.NewReplacer("self_attn.o_proj", "attn.attention.out_proj", "self_attn", "attn.attention",
	"gate_proj", "c_fc_0", "up_proj", "c_fc_1", "down_proj", "c_proj", "model.embed_tokens", "transformer.wte",
	"model.norm", "transformer.ln_f")
