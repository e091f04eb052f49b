package model

import "headcount/checkpoint"

// falcon comes in two generations. The first has one KV head, or as many as query heads
// when multi_query is false, and one norm before attention and MLP side by side; the
// second (new_decoder_architecture) has num_kv_heads and two norms. Without parallel_attn
// the MLP follows and has its own norm (vllm falcon.py).
var falcon = family{
	name:          "falcon",
	architectures: []string{"FalconForCausalLM", "RWForCausalLM"},
	types:         []string{"falcon", "RefinedWeb", "RefinedWebModel"},
	kvHeads:       falconKVHeads,
	resolve: func(r *reader) *Model {
		h := r.heads()
		second := r.flag("new_decoder_architecture", false)
		total := h.kv
		if !second {
			h.kv = h.query
			if r.flag("multi_query", true) {
				h.kv, total = 1, 1
				r.from("kv_heads", r.Where("multi_query"))
			}
		}
		bias := r.flag("bias", false)
		m := r.decoder(decoder{
			heads:        h,
			qkvBias:      bias,
			outBias:      bias,
			mlpBias:      bias,
			normBias:     true,
			norms:        r.falconNorms(second),
			intermediate: 4 * r.size("hidden_size"),
			rotary:       rotary{none: r.flag("alibi", false)},
			everyStage:   true,
			tied:         r.flag("tie_word_embeddings", true),
			byGroup:      true,
			names:        bloomNames,
		})
		m.KVHeads = total
		return m
	},
}

// falconKVHeads: one KV head is the first generation's multi_query, any other number the
// second's, which has no form with the MLP after attention. The second has two norms
// before both unless told that there is one (transformers modeling_falcon.py).
func falconKVHeads(c *Config, n int) []Edit {
	second, _ := c.Bool("new_decoder_architecture")
	parallel, ok := c.Bool("parallel_attn")
	switch {
	case second:
		return aliasedKVHeads(c, n)
	case n == 1:
		return []Edit{set(checkpoint.NewBool(true), "multi_query")}
	case ok && !parallel:
		return nil
	}
	edits := append(aliasedKVHeads(c, n), set(checkpoint.NewBool(true), "new_decoder_architecture"))
	if _, ok := c.Int("num_ln_in_parallel_attn"); !ok {
		edits = append(edits, set(checkpoint.NewInt(1), "num_ln_in_parallel_attn"))
	}
	return edits
}

func (r *reader) falconNorms(second bool) []string {
	n := 1
	if second {
		n = 2
	}
	switch {
	case !r.flag("parallel_attn", true):
		return []string{"input_layernorm", "post_attention_layernorm"}
	case r.opt("num_ln_in_parallel_attn", n) == 2:
		return []string{"ln_attn", "ln_mlp"}
	}
	return []string{"input_layernorm"}
}
