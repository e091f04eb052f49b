package model

// graniteMoE is Llama's attention with routed experts in every layer, and a shared one
// where the config gives its width (vllm granitemoe.py, granitemoeshared.py).
var graniteMoE = family{
	name:          "granitemoe",
	architectures: []string{"GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM", "GraniteMoeSWAForCausalLM"},
	types:         []string{"granitemoe", "granitemoeshared", "granitemoe_swa"},
	resolve: func(r *reader) *Model {
		e := r.experts("block_sparse_moe", "num_local_experts", "intermediate_size")
		e.shared, e.sharedWidth = "shared_mlp", r.opt("shared_intermediate_size", 0)
		h := r.heads()
		return r.decoder(decoder{gated: true, heads: h, experts: e, everyStage: true, extra: r.graniteSinks(h)})
	},
}
