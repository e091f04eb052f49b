package model

import "strings"

// exaone4 normalises after attention and after the MLP, and queries and keys per head;
// with a window, each fourth layer is full (vllm exaone4.py).
var exaone4 = family{
	name:          "exaone4",
	architectures: []string{"Exaone4ForCausalLM", "Exaone4Model", "Exaone4_5_ForConditionalGeneration"},
	types:         []string{"exaone4", "exaone4_5", "exaone4_5_text"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false) || r.flag("bias", false)
		d := decoder{
			gated:   true,
			qkvBias: bias,
			outBias: bias,
			mlpBias: r.flag("mlp_bias", false),
			norms:   []string{"post_attention_layernorm", "post_feedforward_layernorm"},
			qkNorm:  normPerHead,
			windows: r.windows(r.layers()),
		}
		if r.ModelType() != "exaone4" || strings.HasPrefix(r.arch, "Exaone4_5") {
			d.nextN = r.nextAt("num_nextn_predict_layers", 1)
		}
		if d.nextN > 0 && len(d.windows) > 0 {
			d.nextJoin, d.nextWindow = shardedJoin(r.size("hidden_size")), d.windows[0] // counted as layer 0
		}
		return r.decoder(d)
	},
}
