package model

// cohere2MoE is Cohere 2 with routed experts of the width that a plain MLP has, after
// dense first layers whose width is their own, and shared experts (vllm cohere2_moe.py).
var cohere2MoE = family{
	name:          "cohere2_moe",
	architectures: []string{"Cohere2MoeForCausalLM"},
	types:         []string{"cohere2_moe"},
	resolve: func(r *reader) *Model {
		layers := r.layers()
		e := r.experts("mlp", "num_experts", "intermediate_size")
		r.share(&e, "shared_experts", "num_shared_experts", 0)
		d := decoder{
			gated: true, norms: []string{"input_layernorm"}, tied: true, everyStage: true,
			experts: e, sparse: r.sparseByType(layers), intermediate: r.opt("prefix_dense_intermediate_size", 0),
		}
		d.windows = r.windows(layers)
		for i := range d.windows {
			if d.windows[i] > 0 {
				d.windows[i]++ // as in Cohere 2
			}
		}
		return r.decoder(d)
	},
}
