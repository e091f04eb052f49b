package model

// mixtral is Llama's attention with routed experts in every layer (vllm mixtral.py).
var mixtral = family{
	name:          "mixtral",
	architectures: []string{"MixtralForCausalLM", "QuantMixtralForCausalLM"},
	types:         []string{"mixtral"},
	resolve: func(r *reader) *Model {
		e := r.experts("block_sparse_moe", "num_local_experts", "intermediate_size")
		e.projections = mixtralProjections
		return r.decoder(decoder{gated: true, experts: e, everyStage: true})
	},
}
