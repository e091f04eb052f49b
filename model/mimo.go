package model

// mimo is MiMo-7B, a Qwen2 with an MTP layer of its own form (vllm mimo.py, mimo_mtp.py).
var mimo = family{
	name:          "mimo",
	architectures: []string{"MiMoForCausalLM"},
	types:         []string{"mimo"},
	resolve: func(r *reader) *Model {
		return r.decoder(decoder{gated: true, qkvBias: true, nextN: r.nextN()})
	},
}

// pangu is openPangu Embedded; with sandwich_norm there are norms on both sides of the MLP
// (vllm openpangu.py).
var pangu = family{
	name:          "pangu",
	architectures: []string{"PanguEmbeddedForCausalLM"},
	types:         []string{"PanguEmbedded", "pangu_embedded"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false) || r.flag("bias", false)
		d := decoder{gated: true, qkvBias: r.flag("qkv_bias", bias), outBias: bias, mlpBias: r.flag("mlp_bias", false)}
		d.norms = r.sandwichNorms()
		return r.decoder(d)
	},
}

// sandwichNorms are Pangu's norms, on both sides of each half of a layer where the config
// says so; nil: the usual ones.
func (r *reader) sandwichNorms() []string {
	if !r.flag("sandwich_norm", false) {
		return nil
	}
	return []string{"input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"}
}
