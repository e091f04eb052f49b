package model

import "headcount/dtype"

// olmoHybrid has layers of gated delta net with norms before each half, and layers of
// attention with norms after, over whole queries and keys (vllm olmo_hybrid.py).
var olmoHybrid = family{
	name:          "olmo_hybrid",
	architectures: []string{"OlmoHybridForCausalLM", "OlmoHybridModel"},
	types:         []string{"olmo_hybrid"},
	resolve: func(r *reader) *Model {
		layers, hidden, view := r.layers(), r.size("hidden_size"), r.heads()
		h := r.quotient(view)
		d := r.deltaNet(olmoProjections)
		if r.err != nil || !r.valid(d.State, "linear_num_value_heads") {
			return r.model()
		}
		delta := append(d.params("linear_attn", hidden), norm("input_layernorm", hidden), norm("post_attention_layernorm", hidden))
		for i := range delta {
			if delta[i].DType == dtype.Float32 { // A_log is in the model's dtype here
				delta[i].DType = dtype.Unknown
			}
		}
		attention := append(attentionParams("self_attn", h, hidden, false, false),
			norm("self_attn.q_norm", hidden), norm("self_attn.k_norm", h.kv*h.key),
			norm("post_attention_layernorm", hidden), norm("post_feedforward_layernorm", hidden))
		return r.decoder(decoder{
			gated: true, heads: view, norms: []string{}, everyStage: true,
			form: r.formByType(layers, map[string]*form{
				"linear_attention": {caches: []Cache{d.cache()}, params: delta},
				"full_attention":   {caches: []Cache{h.cache(0)}, params: attention},
			}),
		})
	},
}

// olmoProjections are the checkpoint's names of a delta net's projections.
var olmoProjections = [6]string{"q_proj", "k_proj", "v_proj", "g_proj", "b_proj", "a_proj"}
