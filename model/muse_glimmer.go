package model

import "headcount/problem"

// museGlimmer has sliding and full layers, a gate on the attention's result, and norms on
// both sides of each half of a layer. Heads of a layer without a base of angles do not turn
// (vllm muse_glimmer.py).
var museGlimmer = family{
	name:          "muse_glimmer",
	architectures: []string{"MuseGlimmerForCausalLM", "MuseGlimmerForConditionalGeneration", "MuseGlimmerModel"},
	types:         []string{"muse_glimmer", "muse_glimmer_text"},
	resolve: func(r *reader) *Model {
		h, hidden := r.heads(), r.size("hidden_size")
		m := r.decoder(decoder{
			gated: true, heads: h, norms: sandwich, untied: true, everyStage: true,
			extra: func(int) []Param {
				return []Param{linear("self_attn.output_gate_proj", Attention, queryHeads(h.query, h.key), whole(hidden))}
			},
		})
		if bases, ok := r.List("layer_rope_theta"); ok && r.err == nil {
			if len(bases) < len(m.Layers) {
				r.fail(problem.BadValue, "layer_rope_theta", "%d entries for %d layers", len(bases), len(m.Layers))
				return m
			}
			m.Layers = turned(m.Layers, func(layer int) string {
				if theta, _ := bases[layer].Float(); theta == 0 {
					return "never"
				}
				return ""
			})
		}
		return m
	},
}

// turned are layers with the ropes that turn their heads, "" where their caches tell.
func turned(layers []*Layer, by func(layer int) string) []*Layer {
	type kind struct {
		layer *Layer
		turns string
	}
	kinds := make([]kind, len(layers))
	for i, l := range layers {
		kinds[i] = kind{l, by(i)}
	}
	return perKind(kinds, func(k kind) *Layer {
		if k.turns == "" {
			return k.layer
		}
		l := *k.layer
		l.Turns = k.turns
		return &l
	})
}
