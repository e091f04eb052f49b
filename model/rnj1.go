package model

// rnj1 is Gemma 3's layer with windows that move a chunk at a time, in the layers whose
// type is chunked_attention (vllm rnj1.py).
var rnj1 = family{
	name:          "rnj1",
	architectures: []string{"Rnj1ForCausalLM"},
	resolve: func(r *reader) *Model {
		layers, window := r.layers(), r.opt("sliding_window", 0)
		windows, biased := make([]int, layers), r.flag("attention_bias", false)
		for i, name := range r.layerTypes(layers) {
			if name == "chunked_attention" {
				windows[i] = window
			}
		}
		return r.decoder(decoder{gated: true, qkvBias: biased, outBias: biased, norms: sandwich, qkNorm: normPerHead,
			everyStage: true, windows: windows})
	},
}
