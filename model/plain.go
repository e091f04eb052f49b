package model

import (
	"slices"

	"headcount/problem"
)

// plain is a decoder of which only the caches are known: attention in every layer, by the
// fields that all classes have. It serves model types that Transformers has a class for
// and no family of ours resolves, as the engines' Transformers backends do, and some whose
// class is in the checkpoint's own repository.
var plain = family{
	name: "plain",
	architectures: []string{"Emu3ForCausalLM", "MiniCPMV", "MiniCPMO", "Phi3SmallForCausalLM", "GOTQwenForCausalLM",
		"Phi4MMForCausalLM", "Phi4ForCausalLMV", "DotsOCRForCausalLM", "KeyeForConditionalGeneration",
		"KeyeVL1_5ForConditionalGeneration", "IsaacForConditionalGeneration", "MoonshotKimiaForCausalLM"},
	resolve: func(r *reader) *Model {
		r.refuseUnlike()
		layers, h := r.layers(), r.heads()
		windows := r.windows(layers)
		m := r.model()
		if r.err != nil {
			return m
		}
		m.HiddenSize, m.VocabSize = r.opt("hidden_size", h.query*h.key), r.opt("vocab_size", 0)
		m.QueryHeads, m.KVHeads, m.HeadDim = h.query, h.kv, h.key
		m.TiedEmbeddings = r.flag("tie_word_embeddings", false)
		encoder := slices.Contains(bidirectional, r.ModelType()) && !r.flag("is_decoder", false)
		m.Layers = perKind(windows, func(window int) *Layer {
			if encoder {
				return &Layer{Caches: []Cache{{Kind: EncoderOnly, Attn: h.geometry()}}}
			}
			return &Layer{Caches: []Cache{h.cache(window)}}
		})
		m.Ropes = r.ropes(rotary{}, h.key)
		m.WeightsUnknown = "parameters of " + r.className() + " layers"
		return m
	},
}

// bidirectional are model types whose attention sees the whole text unless is_decoder is
// set (Transformers' modelling files: is_causal=config.is_decoder).
var bidirectional = []string{"bert-generation", "bridgetower", "data2vec-text", "electra", "ernie", "megatron-bert",
	"roberta-prelayernorm", "roc_bert", "xlm-roberta-xl", "xmod"}

// unlike are fields of layers that cache something else than keys and values per head.
var unlike = []string{"kv_lora_rank", "ssm_cfg", "state_size", "mamba_d_state", "ssm_state_size", "conv_kernel",
	"linear_conv_kernel_dim", "linear_num_key_heads", "compress_ratios", "index_topk", "attention_chunk_size", "block_configs"}

// refuseUnlike keeps the plain decoder from a config that says its layers are not plain.
func (r *reader) refuseUnlike() {
	for _, key := range unlike {
		if _, ok := r.Value(key); ok {
			r.fail(problem.Unsupported, key, "layers of this kind are not known of %s", r.className())
		}
	}
	list, _ := r.List("layer_types")
	for i, v := range list {
		if s, ok := v.Text(); ok && !slices.Contains([]string{"full_attention", "sliding_attention", "attention"}, s) {
			r.fail(problem.Unsupported, "layer_types", "%s of layer %d is not known of %s", s, i, r.className())
		}
	}
}
