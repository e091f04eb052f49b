package model

// museGlimmer has sliding and full layers, a gate on the attention's result, and norms on
// both sides of each half of a layer (vllm muse_glimmer.py).
var museGlimmer = family{
	name:          "muse_glimmer",
	architectures: []string{"MuseGlimmerForCausalLM", "MuseGlimmerForConditionalGeneration", "MuseGlimmerModel"},
	types:         []string{"muse_glimmer", "muse_glimmer_text"},
	resolve: func(r *reader) *Model {
		h, hidden := r.heads(), r.size("hidden_size")
		return r.decoder(decoder{
			gated: true, heads: h, norms: sandwich, untied: true, everyStage: true,
			extra: func(int) []Param {
				return []Param{linear("self_attn.output_gate_proj", Attention, queryHeads(h.query, h.key), whole(hidden))}
			},
		})
	},
}
