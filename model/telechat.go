package model

import "strings"

// telechat2 is Llama-like with biases on the projections that leave attention and MLP, and
// fields under GPT-2's names (vllm telechat2.py).
var telechat2 = family{
	name:          "telechat2",
	architectures: []string{"TeleChat2ForCausalLM"},
	types:         []string{"telechat"},
	resolve: func(r *reader) *Model {
		d := decoder{gated: true, outBias: true, byGroup: true, names: telechatNames}
		d.extra = func(int) []Param { return []Param{bias("mlp.down_proj", MLP, whole(r.size("hidden_size")))} }
		return r.decoder(d)
	},
}

var telechatNames = strings.NewReplacer("self_attn.o_proj", "self_attention.dense",
	"self_attn.q_proj", "self_attention.query", "self_attn.k_proj", "self_attention.key_value",
	"self_attn.v_proj", "self_attention.key_value", "model.embed_tokens", "transformer.word_embeddings",
	"model.norm", "transformer.ln_f")
