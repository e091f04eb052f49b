package model

import "strings"

// mambaOnly is Mamba (arXiv 2312.00752) and Falcon-Mamba, whose norms inside the mixer have
// no weights: a state per layer and no attention (vllm mamba.py).
var mambaOnly = family{
	name:          "mamba",
	architectures: []string{"MambaForCausalLM", "FalconMambaForCausalLM", "MambaModel", "FalconMambaModel"},
	types:         []string{"mamba", "falcon_mamba"},
	resolve: func(r *reader) *Model {
		m := mamba1{
			State: State{Mixer: Mamba1, Inner: r.size("intermediate_size"), StateSize: r.size("state_size"),
				Kernel: r.kernel("conv_kernel")},
			rank:     r.size("time_step_rank"),
			field:    "intermediate_size",
			projBias: r.flag("use_bias", false),
			convBias: r.flag("use_conv_bias", true),
		}
		hidden := r.size("hidden_size")
		if !r.valid(m.State, "intermediate_size") {
			return r.model()
		}
		return r.stateOnly(m.cache(), m.params("mixer", hidden))
	},
}

// mamba2Only is Mamba-2 (arXiv 2405.21060; vllm mamba2.py). Its config states heads, head
// dim and expansion, of which the engines take each where they need it.
var mamba2Only = family{
	name:          "mamba2",
	architectures: []string{"Mamba2ForCausalLM", "Mamba2Model"},
	types:         []string{"mamba2"},
	resolve: func(r *reader) *Model {
		hidden := r.size("hidden_size")
		m := mamba2{
			State: State{Mixer: Mamba2, Inner: r.opt("intermediate_size", 0), StateSize: r.size("state_size"),
				Kernel: r.kernel("conv_kernel"), Groups: r.size("n_groups"), Heads: r.size("num_heads"), HeadDim: r.size("head_dim")},
			fields:    mamba2Fields{inner: "expand", heads: "num_heads", groups: "n_groups"},
			projBias:  r.flag("use_bias", false),
			convBias:  r.flag("use_conv_bias", true),
			gatedNorm: true,
		}
		if m.Inner == 0 {
			m.Inner = r.times("expand", r.size("expand"), hidden)
		}
		if !r.valid(m.State, "num_heads") {
			return r.model()
		}
		return r.stateOnly(m.cache(), m.params("mixer", hidden))
	},
}

// stateOnly resolves a model of which each layer is a norm and a recurrent mixer.
func (r *reader) stateOnly(state Cache, mixer []Param) *Model {
	layer := &form{caches: []Cache{state}, params: mixer, alone: true}
	return r.decoder(decoder{
		headless: true, everyStage: true, norms: []string{"norm"}, names: mambaNames,
		form: func(int) *form { return layer },
	})
}

// mambaNames are Mamba's names outside of the mixer for LLaMA's.
var mambaNames = strings.NewReplacer("model.embed_tokens", "backbone.embeddings", "model.norm", "backbone.norm_f")
