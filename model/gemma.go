package model

// gemma has wide heads that it declares and a head that is the embedding; engines build
// both on every pipeline stage (vllm gemma.py). PaliGemma and ColPali wrap it.
var gemma = family{
	name:          "gemma",
	architectures: []string{"GemmaForCausalLM"},
	types:         []string{"gemma"},
	resolve: func(r *reader) *Model {
		return normalized(r.decoder(decoder{gated: true, everyStage: true}))
	},
}

// vaultGemma drops the norms after attention and MLP, and serves by Transformers' modules
// (transformers modeling_vaultgemma.py).
var vaultGemma = family{
	name:          "vaultgemma",
	architectures: []string{"VaultGemmaForCausalLM"},
	types:         []string{"vaultgemma"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		m := r.decoder(decoder{gated: true, qkvBias: bias, outBias: bias, norms: []string{"input_layernorm", "pre_feedforward_layernorm"}})
		m.Buffers = append(m.Buffers, Param{Name: "model.embed_scale", Part: Other, Rows: whole(1)})
		return m
	},
}

// normalized adds the factor that Gemma's embeddings are scaled by.
func normalized(m *Model) *Model {
	m.Buffers = append(m.Buffers, everywhere(Param{Name: "model.normalizer", Part: Other, Rows: whole(1)})...)
	return m
}
