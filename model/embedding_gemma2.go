package model

// embeddingGemma2 is Gemma 4's text model reading in both directions, with a signal for each
// layer that is made of the embedding, and a projection of the last state (vllm
// embedding_gemma2.py).
var embeddingGemma2 = family{
	name:          "embedding_gemma2",
	architectures: []string{"EmbeddingGemma2Model"},
	types:         []string{"embedding_gemma2_text"},
	resolve: func(r *reader) *Model {
		layers, hidden, h := r.layers(), r.size("hidden_size"), r.heads()
		side, out := r.size("hidden_size_per_layer_input"), r.size("embedding_dim")
		kinds := r.gemma4Kinds(layers, h)
		sides, biased := r.times("hidden_size_per_layer_input", side, layers), r.flag("attention_bias", false)
		if r.err != nil {
			return r.model()
		}
		m := r.decoder(decoder{
			gated: true, heads: h, norms: sandwich, tied: true, rotary: rotary{served: true, widths: gemma4Widths(kinds)},
			form: formPerKind(kinds, func(k gemmaKind) *form {
				f := k.form(hidden, biased)
				f.caches[0].Kind = EncoderOnly
				return f
			}),
			extra: func(int) []Param {
				return []Param{
					linear("ple_block.per_layer_input_gate", Other, whole(side), whole(hidden)),
					linear("ple_block.per_layer_projection", Other, whole(hidden), whole(side)),
					norm("ple_block.post_per_layer_input_norm", hidden),
				}
			},
		})
		m.mostHeads(kinds)
		m.turnWidths(kinds)
		m.Outer = append(m.Outer,
			linear("model.ple.per_layer_model_projection", Other, sharded(sides, "hidden_size_per_layer_input"), whole(hidden)),
			norm("model.ple.per_layer_projection_norm", side),
			linear("model.embedding_projection", Other, whole(out), whole(hidden)))
		m.Buffers = append(m.Buffers, Param{Name: "model.embed_scale", Part: Other, Rows: whole(1)})
		for _, l := range distinct(m.Layers) {
			l.Buffers = []Param{{Name: "layer_scalar", Part: Other, Rows: whole(1)}}
		}
		return m
	},
}
