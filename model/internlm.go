package model

import (
	"strings"

	"headcount/dtype"
)

// internlm is Llama-like with biases around attention (sglang serves none; vLLM did to 0.23).
var internlm = family{
	name:          "internlm",
	architectures: []string{"InternLMForCausalLM"},
	types:         []string{"internlm"},
	resolve: func(r *reader) *Model {
		bias := r.flag("bias", true)
		return r.decoder(decoder{gated: true, qkvBias: bias, outBias: bias})
	},
}

// internlm2 keeps queries, keys and values in one tensor (vllm internlm2.py).
var internlm2 = family{
	name:          "internlm2",
	architectures: []string{"InternLM2ForCausalLM", "InternLM2ForRewardModel"},
	heads:         map[string]taskHead{"ForRewardModel": internlmReward},
	types:         []string{"internlm2"},
	resolve: func(r *reader) *Model {
		return r.decoder(decoder{
			gated:      true,
			square:     true,
			norms:      []string{"attention_norm", "ffn_norm"},
			everyStage: true,
			byGroup:    true,
			names:      internlm2Names,
		})
	},
}

// internlmReward scores a state by one layer that is split along its input.
func internlmReward(_ *Config, hidden, _, _ int) []Param {
	v := linear("v_head", Head, whole(1), sharded(hidden, "hidden_size"))
	v.DType, v.Stage = dtype.Float32, EveryStage
	return []Param{v}
}

var internlm2Names = strings.NewReplacer(
	"self_attn.q_proj", "attention.wqkv", "self_attn.k_proj", "attention.wqkv", "self_attn.v_proj", "attention.wqkv",
	"self_attn.o_proj", "attention.wo", "mlp.gate_proj", "feed_forward.w1", "mlp.up_proj", "feed_forward.w3",
	"mlp.down_proj", "feed_forward.w2", "model.embed_tokens", "model.tok_embeddings", "lm_head", "output")
