package model

import (
	"strings"

	"headcount/checkpoint"
	"headcount/dtype"
)

// gpt2 has a learned table of positions, layer norms and biases everywhere, and no gate;
// n_inner defaults to four times the hidden size (vllm gpt2.py).
var gpt2 = family{
	name:          "gpt2",
	architectures: []string{"GPT2LMHeadModel"},
	types:         []string{"gpt2"},
	resolve: func(r *reader) *Model {
		d := r.gpt()
		d.everyStage, d.squareOut, d.square, d.ungrouped = true, true, true, true
		d.transposed = true // Conv1D keeps [in, out]
		return r.decoder(d)
	},
}

// gptBigCode is GPT-2 with one KV head for all queries, unless multi_query is false. Its
// class has no tensor parallel plan, so that vLLM shards its attention alone, and with
// multi_query false, which packs heads otherwise, nothing (transformers
// modeling_gpt_bigcode.py).
var gptBigCode = family{
	name:          "gpt_bigcode",
	architectures: []string{"GPTBigCodeForCausalLM", "GPTBigCodeLMHeadModel"},
	types:         []string{"gpt_bigcode"},
	kvHeads: func(_ *Config, n int) []Edit {
		if n > 1 {
			return nil
		}
		return []Edit{set(checkpoint.NewBool(true), "multi_query")}
	},
	resolve: func(r *reader) *Model {
		d := r.gpt()
		d.byGroup = true
		if r.flag("multi_query", true) {
			d.heads.kv = 1
			r.from("kv_heads", r.Where("multi_query"))
			return causalMask(r.decoder(d), d.positions)
		}
		return causalMask(unfused(r.decoder(d)), d.positions)
	},
}

// causalMask adds the mask of all pairs of positions that the class keeps.
func causalMask(m *Model, positions int) *Model {
	m.Buffers = []Param{{Name: "transformer.bias", Part: Other, Rows: whole(positions), Cols: whole(positions), DType: dtype.Bool, Stage: EveryStage}}
	return m
}

// gpt is what GPT-2 and GPTBigCode share.
func (r *reader) gpt() decoder {
	return decoder{
		heads:        r.heads(),
		qkvBias:      true,
		outBias:      true,
		mlpBias:      true,
		normBias:     true,
		norms:        []string{"ln_1", "ln_2"},
		intermediate: r.gptInner(),
		positions:    r.size("max_position_embeddings"),
		rotary:       rotary{none: true},
		names:        gptNames,
	}
}

// gptInner is n_inner, four times the hidden size where it is null.
func (r *reader) gptInner() int {
	if n := r.opt("n_inner", 0); n > 0 {
		return n
	}
	return 4 * r.size("hidden_size")
}

var gptNames = strings.NewReplacer(
	"self_attn.q_proj", "attn.c_attn", "self_attn.k_proj", "attn.c_attn", "self_attn.v_proj", "attn.c_attn",
	"self_attn.o_proj", "attn.c_proj", "up_proj", "c_fc", "down_proj", "c_proj", "model.embed_tokens", "transformer.wte",
	"model.embed_positions", "transformer.wpe", "model.norm", "transformer.ln_f")

// gptJ and CodeGen have one norm for attention and MLP side by side, and a bias on the
// head but none around attention (vllm gpt_j.py; transformers modeling_codegen.py).
var gptJ = family{
	name:          "gptj",
	architectures: []string{"GPTJForCausalLM", "CodeGenForCausalLM"},
	types:         []string{"gptj", "codegen"},
	resolve: func(r *reader) *Model {
		return r.decoder(decoder{
			mlpBias:      true,
			normBias:     true,
			headBias:     true,
			squareOut:    true,
			square:       true,
			ungrouped:    true,
			norms:        []string{"ln_1"},
			intermediate: r.gptInner(),
			rotary:       rotary{dim: r.opt("rotary_dim", 0)},
			everyStage:   true,
			names:        gptJNames,
		})
	},
}

var gptJNames = strings.NewReplacer(
	"self_attn.q_proj", "attn.q_proj", "self_attn.k_proj", "attn.k_proj", "self_attn.v_proj", "attn.v_proj",
	"self_attn.o_proj", "attn.out_proj", "up_proj", "fc_in", "down_proj", "fc_out", "model.embed_tokens", "transformer.wte",
	"model.norm", "transformer.ln_f")

// gptNeoX is Pythia's and the 20B model's decoder. vLLM serves it by Transformers' own
// modules (transformers modeling_gpt_neox.py).
var gptNeoX = family{
	name:          "gpt_neox",
	architectures: []string{"GPTNeoXForCausalLM"},
	types:         []string{"gpt_neox"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", true)
		return r.decoder(decoder{
			qkvBias:  bias,
			outBias:  bias,
			mlpBias:  true,
			normBias: true,
			byGroup:  true,
			names:    gptNeoXNames,
		})
	},
}

var gptNeoXNames = strings.NewReplacer(
	"self_attn.q_proj", "attention.query_key_value", "self_attn.k_proj", "attention.query_key_value",
	"self_attn.v_proj", "attention.query_key_value", "self_attn.o_proj", "attention.dense",
	"up_proj", "dense_h_to_4h", "down_proj", "dense_4h_to_h", "model.embed_tokens", "gpt_neox.embed_in",
	"model.norm", "gpt_neox.final_layer_norm", "lm_head", "embed_out")
