package model

// graniteHybrid mixes Mamba-2 layers with attention; every layer has a shared MLP, and
// routed experts beside it where the config has them (vllm granitemoehybrid.py).
var graniteHybrid = family{
	name:          "granitemoehybrid",
	architectures: []string{"GraniteMoeHybridForCausalLM", "GraniteMoeHybridModel"},
	types:         []string{"granitemoehybrid"},
	resolve: func(r *reader) *Model {
		layers, hidden, view := r.layers(), r.size("hidden_size"), r.heads()
		h := r.quotient(view)
		m := r.mambaMixer(r.times("mamba_expand", r.size("mamba_expand"), hidden), mamba2Fields{
			inner: "mamba_expand", heads: "mamba_n_heads", groups: "mamba_n_groups"})
		m.gatedNorm = true
		biased := r.flag("attention_bias", false)
		if r.err != nil || !r.valid(m.State, "mamba_n_heads") {
			return r.model()
		}
		e := r.experts("block_sparse_moe", "num_local_experts", "intermediate_size")
		shared := r.opt("shared_intermediate_size", 0)
		forms := map[string]*form{
			"linear_attention": {caches: []Cache{m.cache()}, params: m.params("mamba", hidden)},
			"full_attention":   {caches: []Cache{h.cache(0)}, params: attentionParams("self_attn", h, hidden, biased, biased)},
		}
		for _, f := range forms {
			f.alone = e.count == 0
			if shared > 0 {
				f.params = append(f.params, gatedMLP("shared_mlp", MoEShared, graniteShared, hidden, sharded(shared, "shared_intermediate_size"))...)
			}
		}
		positions, _ := r.Text("position_embedding_type")
		return r.decoder(decoder{everyStage: true, heads: view, experts: e, rotary: rotary{none: positions != "rope"},
			form: r.formByType(layers, forms)})
	},
}

// graniteShared are Granite's names of the shared MLP: gate and up in one.
var graniteShared = [3]string{"input_linear", "input_linear", "output_linear"}

// mambaMixer reads a Mamba-2 mixer of a width under the names that Granite, Bamba and
// Falcon-H1 share.
func (r *reader) mambaMixer(inner int, fields mamba2Fields) mamba2 {
	return mamba2{
		State: State{Mixer: Mamba2, Inner: inner, Heads: r.size("mamba_n_heads"), HeadDim: r.size("mamba_d_head"),
			StateSize: r.size("mamba_d_state"), Groups: r.size("mamba_n_groups"), Kernel: r.kernel("mamba_d_conv")},
		fields:   fields,
		projBias: r.flag("mamba_proj_bias", false),
		convBias: r.flag("mamba_conv_bias", true),
	}
}

// bamba mixes Mamba-2 layers with attention, each before an MLP (transformers
// modeling_bamba.py).
var bamba = family{
	name:          "bamba",
	architectures: []string{"BambaForCausalLM", "BambaModel"},
	types:         []string{"bamba"},
	resolve: func(r *reader) *Model {
		layers, hidden, h := r.layers(), r.size("hidden_size"), r.heads()
		m := r.mambaMixer(r.times("mamba_expand", r.size("mamba_expand"), hidden), mamba2Fields{
			inner: "mamba_expand", heads: "mamba_n_heads", groups: "mamba_n_groups"})
		m.gatedNorm = true
		biased := r.flag("attention_bias", false)
		if r.err != nil || !r.valid(m.State, "mamba_n_heads") {
			return r.model()
		}
		return r.decoder(decoder{
			gated: true, heads: h, mlpBias: r.flag("mlp_bias", false), norms: []string{"input_layernorm", "pre_ff_layernorm"}, names: jambaNames,
			form: r.formByType(layers, map[string]*form{
				"linear_attention": {caches: []Cache{m.cache()}, params: m.params("mamba", hidden)},
				"full_attention":   {caches: []Cache{h.cache(0)}, params: attentionParams("self_attn", h, hidden, biased, biased)},
			}),
		})
	},
}
