package model

import "headcount/dtype"

// nemotron is Nemotron-4 and Minitron: squared ReLU without a gate, layer norms (vllm
// nemotron.py; Jais 2, transformers modeling_jais2.py, has the same sizes).
var nemotron = family{
	name:          "nemotron",
	architectures: []string{"NemotronForCausalLM", "Jais2ForCausalLM"},
	types:         []string{"nemotron", "jais2"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false) || r.flag("bias", false)
		return r.decoder(decoder{qkvBias: bias, outBias: bias, mlpBias: r.flag("mlp_bias", false), normBias: true})
	},
}

// arcee is Llama-like but for a squared ReLU without a gate (transformers
// modeling_arcee.py).
var arcee = family{
	name:          "arcee",
	architectures: []string{"ArceeForCausalLM"},
	types:         []string{"arcee"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		return r.decoder(decoder{qkvBias: bias, outBias: bias, mlpBias: r.flag("mlp_bias", false)})
	},
}

// apertus has an activation with parameters of its own, no gate, and norms of queries and
// keys per head (vllm apertus.py).
var apertus = family{
	name:          "apertus",
	architectures: []string{"ApertusForCausalLM"},
	types:         []string{"apertus"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false) || r.flag("bias", false)
		m := r.decoder(decoder{
			qkvBias: r.flag("qkv_bias", bias),
			outBias: bias,
			mlpBias: r.flag("mlp_bias", false),
			norms:   []string{"attention_layernorm", "feedforward_layernorm"},
			qkNorm:  normPerHead,
			extra:   xielu,
		})
		for _, l := range distinct(m.Layers) {
			l.Buffers = []Param{{Name: "mlp.act_fn.beta", Part: MLP, Rows: whole(1), DType: dtype.BFloat16}, {Name: "mlp.act_fn.eps", Part: MLP, Rows: whole(1), DType: dtype.BFloat16}}
		}
		return m
	},
}

// xielu are the two parameters of the activation, in bfloat16 whatever the model is in.
func xielu(int) []Param {
	return []Param{
		{Name: "mlp.act_fn.alpha_p", Part: MLP, Rows: whole(1), DType: dtype.BFloat16},
		{Name: "mlp.act_fn.alpha_n", Part: MLP, Rows: whole(1), DType: dtype.BFloat16},
	}
}
