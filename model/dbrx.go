package model

import (
	"strings"

	"headcount/problem"
)

// dbrx keeps KV heads and experts in objects of their own, and has layer norms without a
// bias (vllm dbrx.py). Its defaults are those of the class.
var dbrx = family{
	name:          "dbrx",
	architectures: []string{"DbrxForCausalLM"},
	types:         []string{"dbrx"},
	kvHeads:       attnConfigKVHeads,
	resolve: func(r *reader) *Model {
		h := heads{query: r.size("num_attention_heads"), kv: r.within("attn_config", "kv_n_heads", 1)}
		h.key = r.headDim(max(h.query, 1))
		h.value = h.key
		e := experts{
			prefix: "ffn",
			count:  r.within("ffn_config", "moe_num_experts", 4),
			width:  r.within("ffn_config", "ffn_hidden_size", 3584),
			field:  "ffn_config.ffn_hidden_size",
			router: "ffn.router.layer",

			projections: [3]string{"mlp.w1", "mlp.v1", "mlp.w2"},
		}
		r.from("kv_heads", "attn_config.kv_n_heads")
		r.from("experts", "ffn_config.moe_num_experts")
		m := r.decoder(decoder{
			gated:      true,
			square:     true,
			squareOut:  true,
			heads:      h,
			experts:    e,
			untied:     true,
			everyStage: true,
			names:      dbrxNames,
		})
		if m != nil {
			m.ExpertsPerToken = r.within("ffn_config", "moe_top_k", 1)
		}
		return m
	},
}

var dbrxNames = strings.NewReplacer(
	"self_attn.q_proj", "norm_attn_norm.attn.Wqkv", "self_attn.k_proj", "norm_attn_norm.attn.Wqkv",
	"self_attn.v_proj", "norm_attn_norm.attn.Wqkv", "self_attn.o_proj", "norm_attn_norm.attn.out_proj",
	"input_layernorm", "norm_attn_norm.norm_1", "post_attention_layernorm", "norm_attn_norm.norm_2",
	"model.embed_tokens", "transformer.wte", "model.norm", "transformer.norm_f")

// within reads a positive integer from an object of the config, or def when it is absent.
func (r *reader) within(object, key string, def int) int {
	v, ok := r.Object(object).Get(key)
	if !ok {
		return def
	}
	n, isInt := v.Int()
	if !isInt || n < 1 || n > maxSize {
		r.fail(problem.BadValue, object+"."+key, "not a whole number between 1 and %d", int64(maxSize))
		return def
	}
	return int(n)
}
