package model

import (
	"strings"

	"headcount/problem"
)

// mpt is DBRX's forerunner: KV heads by attn_config, an MLP of expansion_ratio times the
// width, layer norms and biases unless no_bias (vLLM served it up to 0.28).
var mpt = family{
	name:          "mpt",
	architectures: []string{"MptForCausalLM", "MPTForCausalLM"},
	types:         []string{"mpt"},
	kvHeads: func(c *Config, n int) []Edit {
		if _, ok := c.Object("attn_config").Get("kv_n_heads"); !ok {
			return nil // Transformers' own class has no such field
		}
		return attnConfigKVHeads(c, n)
	},
	resolve: func(r *reader) *Model {
		h := heads{query: r.count("num_attention_heads")}
		h.kv = h.query
		h.key = r.headDim(h.query)
		h.value = h.key
		if v, ok := r.Object("attn_config").Get("kv_n_heads"); ok {
			n, isInt := v.Int()
			if !isInt || n < 1 || n > maxSize {
				r.fail(problem.BadValue, "attn_config", "kv_n_heads = %v is not a positive number", v.Any())
			}
			h.kv = int(n)
			r.from("kv_heads", "attn_config.kv_n_heads")
		}
		bias := !r.flag("no_bias", true)
		return r.decoder(decoder{
			heads:        h,
			intermediate: r.opt("expansion_ratio", 4) * r.size("hidden_size"),
			qkvBias:      bias,
			outBias:      bias,
			mlpBias:      bias,
			normBias:     bias,
			norms:        []string{"norm_1", "norm_2"},
			rotary:       rotary{none: true},
			names:        mptNames,
		})
	},
}

var mptNames = strings.NewReplacer(
	"self_attn.q_proj", "attn.Wqkv", "self_attn.k_proj", "attn.Wqkv", "self_attn.v_proj", "attn.Wqkv",
	"self_attn.o_proj", "attn.out_proj", "mlp", "ffn", "model.embed_tokens", "transformer.wte", "model.norm", "transformer.norm_f")
