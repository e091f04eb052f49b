package model

import "strings"

// bloom has layer norms and biases everywhere and one more norm after the embedding; its
// MLP is always four times the hidden size (vllm bloom.py).
var bloom = family{
	name:          "bloom",
	architectures: []string{"BloomForCausalLM"},
	types:         []string{"bloom"},
	resolve: func(r *reader) *Model {
		hidden := r.size("hidden_size")
		m := r.decoder(decoder{
			qkvBias:      true,
			outBias:      true,
			mlpBias:      true,
			normBias:     true,
			square:       true,
			ungrouped:    true,
			intermediate: 4 * hidden,
			rotary:       rotary{none: true},
			everyStage:   true,
			byGroup:      true,
			names:        bloomNames,
		})
		m.Outer = append(m.Outer, everywhere(layerNorm("transformer.word_embeddings_layernorm", hidden)...)...)
		return m
	},
}

var bloomNames = strings.NewReplacer(
	"self_attn.q_proj", "self_attention.query_key_value", "self_attn.k_proj", "self_attention.query_key_value",
	"self_attn.v_proj", "self_attention.query_key_value", "self_attn.o_proj", "self_attention.dense",
	"up_proj", "dense_h_to_4h", "down_proj", "dense_4h_to_h", "model.embed_tokens", "transformer.word_embeddings",
	"model.norm", "transformer.ln_f")
