package model

import "strings"

// molmo is the text model of Molmo, Llama-like under names of its own; intermediate_size
// counts gate and up together, and the vocabulary has 128 further tokens (vllm molmo.py).
var molmo = family{
	name:          "molmo",
	architectures: []string{"MolmoForCausalLM"},
	types:         []string{"molmo"},
	resolve: func(r *reader) *Model {
		d := decoder{
			gated:        true,
			square:       true,
			qkvBias:      r.flag("qkv_bias", false),
			intermediate: r.size("intermediate_size") / 2,
			vocab:        r.opt("embedding_size", r.size("vocab_size")),
			norms:        []string{"attn_norm", "ff_norm"},
			names:        molmoNames,
			everyStage:   true,
			tied:         r.flag("weight_tying", false),
			untied:       !r.flag("weight_tying", false), // whatever tie_word_embeddings says
		}
		if r.flag("attention_layer_norm", false) {
			d.qkNorm = normUndivided
		}
		m := r.decoder(d)
		const further = 128 // words of pictures, of the embedding alone
		for i := range m.Outer {
			if p := &m.Outer[i]; p.Part == Embedding {
				p.Rows.Size += further
			}
		}
		return m
	},
}

var molmoNames = strings.NewReplacer(
	"self_attn.q_proj", "att_proj", "self_attn.k_proj", "att_proj", "self_attn.v_proj", "att_proj",
	"self_attn.o_proj", "attn_out", "mlp.gate_proj", "ff_proj", "mlp.up_proj", "ff_proj", "mlp.down_proj", "ff_out",
	"model.embed_tokens", "model.transformer.wte", "model.norm", "model.transformer.ln_f")
