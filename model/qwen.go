package model

import (
	"strings"

	"headcount/dtype"
)

// qwen2 is a Llama-like decoder with biases on queries, keys and values (vllm qwen2.py).
var qwen2 = family{
	name:          "qwen2",
	architectures: []string{"Qwen2ForCausalLM", "Qwen2ForRewardModel", "Qwen2ForProcessRewardModel"},
	heads:         map[string]taskHead{"ForRewardModel": qwenReward(1), "ForProcessRewardModel": qwenReward(2)},
	types: []string{"qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_audio",
		"qwen2_5_omni_text", "qwen2_5_omni_thinker"},
	resolve: func(r *reader) *Model {
		d := decoder{gated: true, square: true, qkvBias: true}
		if r.flag("qk_norm", false) {
			d.qkNorm = normPerHead
		}
		return r.decoder(d)
	},
}

// qwenReward scores a state by two layers, of which the second is as wide as the task wants
// (vllm qwen2_rm.py).
func qwenReward(width int) taskHead {
	return func(_ *Config, hidden, _, _ int) []Param {
		params := []Param{
			linear("score.0", Head, sharded(hidden, "hidden_size"), whole(hidden)), bias("score.0", Head, sharded(hidden, "hidden_size")),
			linear("score.2", Head, whole(width), sharded(hidden, "hidden_size")), bias("score.2", Head, whole(width)),
		}
		for i := range params {
			params[i].DType, params[i].Stage = dtype.Float32, EveryStage
		}
		return params
	}
}

// qwen3 normalises queries and keys per head instead (vllm qwen3.py).
var qwen3 = family{
	name:          "qwen3",
	architectures: []string{"Qwen3ForCausalLM"},
	types:         []string{"qwen3", "qwen3_vl_text", "qwen3_asr_text"},
	resolve: func(r *reader) *Model {
		return r.decoder(decoder{gated: true, qkvBias: r.flag("attention_bias", false), qkNorm: normPerHead})
	},
}

// qwen is the first Qwen: intermediate_size counts gate and up together, and every head
// has its own keys and values (sglang models/qwen.py).
var qwen = family{
	name:          "qwen",
	architectures: []string{"QWenLMHeadModel"},
	types:         []string{"qwen"},
	resolve: func(r *reader) *Model {
		return r.decoder(decoder{
			gated:        true,
			qkvBias:      true,
			intermediate: r.size("intermediate_size") / 2,
			norms:        []string{"ln_1", "ln_2"},
			names:        qwenNames,
		})
	},
}

var qwenNames = strings.NewReplacer(
	"self_attn.q_proj", "attn.c_attn", "self_attn.k_proj", "attn.c_attn", "self_attn.v_proj", "attn.c_attn",
	"self_attn.o_proj", "attn.c_proj", "gate_proj", "w2", "up_proj", "w1", "down_proj", "c_proj",
	"model.embed_tokens", "transformer.wte", "model.norm", "transformer.ln_f")
