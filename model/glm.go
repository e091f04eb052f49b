package model

import (
	"strings"

	"headcount/checkpoint"
)

// chatglm is the second and third ChatGLM and GLM-4-9B as first published: KV heads only
// where multi_query_attention says so, one tensor each for attention's inputs and for
// gate and up (vllm chatglm.py).
var chatglm = family{
	name:          "chatglm",
	architectures: []string{"ChatGLMModel", "ChatGLMForConditionalGeneration"},
	types:         []string{"chatglm"},
	kvHeads: func(c *Config, n int) []Edit {
		return append(aliasedKVHeads(c, n), set(checkpoint.NewBool(true), "multi_query_attention"))
	},
	resolve: func(r *reader) *Model {
		h := r.heads()
		layer := r.quotient(h)
		grouped := r.flag("multi_query_attention", false)
		if !grouped {
			layer.kv = h.query
		}
		bias := r.flag("add_bias_linear", false)
		m := r.decoder(decoder{
			gated:        true,
			heads:        layer,
			vocab:        r.size("padded_vocab_size"),
			intermediate: r.size("ffn_hidden_size"),
			qkvBias:      bias || r.flag("add_qkv_bias", false),
			outBias:      bias,
			mlpBias:      bias,
			normBias:     !r.flag("rmsnorm", true),
			noFinalNorm:  !r.flag("post_layer_norm", true),
			everyStage:   true,
			byGroup:      !grouped,
			rotary:       rotary{dim: layer.key / 2, length: r.opt("seq_length", 8192)},
			names:        chatglmNames,
		})
		m.KVHeads, m.HeadDim = h.kv, h.key
		return m
	},
}

var chatglmNames = strings.NewReplacer(
	"self_attn.q_proj", "self_attention.query_key_value", "self_attn.k_proj", "self_attention.query_key_value",
	"self_attn.v_proj", "self_attention.query_key_value", "self_attn.o_proj", "self_attention.dense",
	"gate_proj", "dense_h_to_4h", "up_proj", "dense_h_to_4h", "down_proj", "dense_4h_to_h",
	"model.embed_tokens", "transformer.embedding.word_embeddings", "model.norm", "transformer.encoder.final_layernorm",
	"lm_head", "transformer.output_layer")

// glm is GLM-4-9B in Transformers' own form (transformers modeling_glm.py).
var glm = family{
	name:          "glm",
	architectures: []string{"GlmForCausalLM"},
	types:         []string{"glm"},
	resolve: func(r *reader) *Model {
		return r.decoder(decoder{gated: true, qkvBias: r.flag("attention_bias", false), names: gateUp})
	},
}

// glm4 normalises also after attention and after the MLP (vllm glm4.py). GLM-4.1V and
// GLM-OCR wrap it.
var glm4 = family{
	name:          "glm4",
	architectures: []string{"Glm4ForCausalLM"},
	types:         []string{"glm4", "glm4v_text", "glm_ocr_text", "glm_image_text"},
	resolve: func(r *reader) *Model {
		return r.decoder(decoder{
			gated:   true,
			qkvBias: r.flag("attention_bias", false),
			norms:   []string{"input_layernorm", "post_attention_layernorm", "post_self_attn_layernorm", "post_mlp_layernorm"},
			nextN:   r.nextN(),
			names:   gateUp,
		})
	},
}

// gateUp names gate and up where the checkpoint keeps them in one tensor.
var gateUp = strings.NewReplacer("gate_proj", "gate_up_proj", "up_proj", "gate_up_proj")
