package model

// gemma has wide heads that it declares and a head that is the embedding; engines build
// both on every pipeline stage (vllm gemma.py). PaliGemma and ColPali wrap it.
var gemma = family{
	name:          "gemma",
	architectures: []string{"GemmaForCausalLM"},
	types:         []string{"gemma"},
	resolve: func(r *reader) *Model {
		return r.decoder(decoder{gated: true, everyStage: true})
	},
}
