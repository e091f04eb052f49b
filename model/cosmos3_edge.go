package model

// cosmos3Edge is a plain decoder that the engine builds of halves: attention and MLP are a
// layer each, with one norm (vllm cosmos3_edge.py).
var cosmos3Edge = family{
	name:          "cosmos3_edge",
	architectures: []string{"Cosmos3EdgeForConditionalGeneration"},
	types:         []string{"cosmos3_edge_text"},
	resolve: func(r *reader) *Model {
		layers, hidden, h := r.layers(), r.size("hidden_size"), r.heads()
		if r.err != nil {
			return r.model()
		}
		attention := &form{caches: []Cache{h.cache(0)}, params: attentionParams("mixer", h, hidden, false, false), alone: true}
		mlp := &form{}
		return r.decoder(decoder{
			depth: 2 * layers, heads: h, norms: []string{"norm"},
			form: func(layer int) *form {
				if layer%2 == 0 {
					return attention
				}
				return mlp
			},
		})
	},
}
