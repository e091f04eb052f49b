package model

import "headcount/problem"

// llama4 attends within chunks of attention_chunk_size tokens, save in layers without
// rotary positions, which see all; every interleave_moe_layer_step-th layer has routed
// experts and a shared one (vllm llama4.py; mllama4.py wraps it beside a tower).
var llama4 = family{
	name:          "llama4",
	architectures: []string{"Llama4ForCausalLM", "Llama4ForConditionalGeneration", "Llama4TextModel", "Llama4Model"},
	types:         []string{"llama4", "llama4_text"},
	resolve: func(r *reader) *Model {
		layers, hidden, h := r.layers(), r.size("hidden_size"), r.heads()
		e := r.experts("feed_forward", "num_local_experts", "intermediate_size")
		e.router, e.shared, e.sharedWidth = "feed_forward.router", "feed_forward.shared_expert", e.width
		e.routerPacks = true
		step, chunk := r.opt("interleave_moe_layer_step", 0), r.opt("attention_chunk_size", 0)
		params := attentionParams("self_attn", h, hidden, false, false)
		turns := r.llama4Turns(layers)
		m := r.decoder(decoder{
			gated: true, heads: h, intermediate: r.size("intermediate_size_mlp"), experts: e, names: feedForwardNames,
			sparse: func(layer int) bool { return step > 0 && (layer+1)%step == 0 },
			form: formPerKind(turns, func(turns bool) *form {
				cache := h.cache(0)
				if turns && chunk > 0 {
					cache.Kind, cache.Window = Chunked, chunk
				}
				return &form{caches: []Cache{cache}, params: params}
			}),
		})
		for i, l := range m.Layers {
			if !turns[i] {
				l.Turns = "none"
			}
		}
		return m
	},
}

// llama4Turns reads which layers have rotary positions: a non-zero entry of no_rope_layers.
func (r *reader) llama4Turns(layers int) []bool {
	turns, rope := make([]bool, layers), r.ints("no_rope_layers")
	if len(rope) != layers {
		r.fail(problem.BadValue, "no_rope_layers", "%d entries for %d layers", len(rope), layers)
		return nil
	}
	for i := range turns {
		turns[i] = rope[i] != 0
	}
	return turns
}
