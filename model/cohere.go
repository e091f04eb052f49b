package model

// cohere is Command-R: attention and MLP side by side after one layer norm without a bias,
// a head that is the embedding (vllm commandr.py).
var cohere = family{
	name:          "cohere",
	architectures: []string{"CohereForCausalLM"},
	types:         []string{"cohere"},
	resolve: func(r *reader) *Model {
		d := decoder{gated: true, norms: []string{"input_layernorm"}, tied: true, everyStage: true,
			rotary: rotary{length: r.opt("model_max_length", 0)}}
		if r.flag("use_qk_norm", false) {
			d.qkNorm = normWhole
		}
		return r.decoder(d)
	},
}
