package model

// minicpm is Llama-like, with embedding, norm and head on every pipeline stage (vllm
// minicpm.py).
var minicpm = family{
	name:          "minicpm",
	architectures: []string{"MiniCPMForCausalLM"},
	types:         []string{"minicpm"},
	resolve: func(r *reader) *Model {
		m := r.decoder(decoder{gated: true, everyStage: true})
		if r.opt("num_experts", 0) > 0 {
			m.WeightsUnknown = "routed experts of MiniCPM-MoE"
		}
		return m
	},
}

// minicpm3 has latent attention. vLLM expands the latent and keeps keys and values of
// every head, the values padded to the keys' width; SGLang keeps the latent (vllm
// minicpm3.py; sglang models/minicpm3.py).
var minicpm3 = family{
	name:          "minicpm3",
	architectures: []string{"MiniCPM3ForCausalLM"},
	types:         []string{"minicpm3"},
	resolve: func(r *reader) *Model {
		h, l := r.heads(), r.latent()
		m := r.decoder(decoder{gated: true, latent: &l, everyStage: true})
		m.QueryHeads, m.KVHeads, m.HeadDim = h.query, h.kv, h.key
		return m
	},
}
