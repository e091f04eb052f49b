package model

// olmoe normalises queries and keys over all heads, whole on every rank, and has routed
// experts in every layer (vllm olmoe.py).
var olmoe = family{
	name:          "olmoe",
	architectures: []string{"OlmoeForCausalLM"},
	types:         []string{"olmoe"},
	resolve: func(r *reader) *Model {
		h := r.heads()
		return r.decoder(decoder{
			gated:      true,
			heads:      h,
			experts:    r.experts("mlp", "num_experts", "intermediate_size"),
			untied:     true,
			everyStage: true,
			extra: func(int) []Param {
				return []Param{
					norm("self_attn.q_norm", h.query*h.key),
					norm("self_attn.k_norm", h.kv*h.key),
				}
			},
		})
	},
}
