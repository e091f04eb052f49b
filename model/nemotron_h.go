package model

import (
	"slices"
	"strings"

	"headcount/problem"
)

// nemotronH has one thing a layer: a Mamba-2 mixer, attention, an MLP or routed experts,
// as its pattern says. Experts have no gate; in the larger models they work on a
// projection of the hidden state (vllm nemotron_h.py).
var nemotronH = family{
	name:          "nemotron_h",
	architectures: []string{"NemotronHForCausalLM", "NemotronHPuzzleForCausalLM", "NemotronHModel"},
	types:         []string{"nemotron_h"},
	resolve: func(r *reader) *Model {
		layers, hidden, h := r.layers(), r.size("hidden_size"), r.heads()
		m, e, width := r.nemotronMamba(), r.nemotronExperts(layers), r.count("intermediate_size")
		biased, window := r.flag("mlp_bias", false), r.opt("sliding_window", 0)
		if r.err != nil || !r.valid(m.State, "mamba_num_heads") {
			return r.model()
		}
		forms := map[string]*form{
			"linear_attention": {alone: true, caches: []Cache{m.cache()}, params: m.params("mixer", hidden)},
			"full_attention":   {alone: true, caches: []Cache{h.cache(window)}, params: attentionParams("mixer", h, hidden, false, false)},
			"mlp":              {alone: true, params: mlpParams("mixer", MLP, hidden, width, false, biased)},
			"moe":              {alone: true, params: e.params(hidden)},
		}
		model := r.decoder(decoder{
			everyStage: true, untied: true, heads: h, norms: []string{"norm"}, names: nemotronNames, experts: e,
			rotary: rotary{none: true},
			sparse: func(int) bool { return false },
			form:   r.formByType(layers, forms),
		})
		model.Draft = r.nemotronDraft(forms, hidden)
		return model
	},
}

// nemotronNames are Nemotron-H's names for LLaMA's.
var nemotronNames = strings.NewReplacer("model.embed_tokens", "backbone.embeddings", "model.norm", "backbone.norm_f")

// nemotronMamba reads the Mamba-2 mixer.
func (r *reader) nemotronMamba() mamba2 {
	m := mamba2{
		State: State{Mixer: Mamba2, Heads: r.size("mamba_num_heads"), HeadDim: r.size("mamba_head_dim"),
			StateSize: r.size("ssm_state_size"), Groups: r.size("n_groups"), Kernel: r.kernel("conv_kernel")},
		fields:    mamba2Fields{inner: "mamba_head_dim", heads: "mamba_num_heads", groups: "n_groups"},
		projBias:  r.flag("use_bias", false),
		convBias:  r.flag("use_conv_bias", true),
		gatedNorm: true,
	}
	m.Inner = r.times("mamba_num_heads", m.Heads, m.HeadDim)
	m.DType, _ = r.Text("mamba_ssm_cache_dtype")
	return m
}

// nemotronExperts reads the routed experts of the layers that have them.
func (r *reader) nemotronExperts(layers int) experts {
	var e experts
	if r.err != nil || !slices.Contains(r.layerTypes(layers), "moe") {
		return e
	}
	e = r.experts("mixer", "n_routed_experts", "moe_intermediate_size")
	e.ungated, e.scoreBias = true, "mixer.gate.e_score_correction_bias"
	e.shared = "mixer.shared_experts"
	e.sharedWidth = r.times("n_shared_experts", r.opt("n_shared_experts", 0), r.opt("moe_shared_expert_intermediate_size", 0))
	if e.hidden = r.opt("moe_latent_size", 0); e.hidden > 0 {
		e.beside = latentExperts(e.hidden, r.size("hidden_size"), r.flag("mlp_bias", false))
	}
	return e
}

// latentExperts are the projections into the width that routed experts work in and out of
// it. Their names put them on attention's bill.
func latentExperts(width, hidden int, biased bool) []Param {
	params := []Param{
		linear("mixer.fc1_latent_proj", Attention, whole(width), whole(hidden)),
		linear("mixer.fc2_latent_proj", Attention, whole(hidden), whole(width)),
	}
	if biased {
		params = append(params, bias("mixer.fc1_latent_proj", Attention, whole(width)), bias("mixer.fc2_latent_proj", Attention, whole(hidden)))
	}
	return params
}

// nemotronDraft are the layers of the checkpoint's MTP head, whose pattern is one of
// attention and experts. The first joins hidden state and embedding, the last has a norm
// (vllm nemotron_h_mtp.py).
func (r *reader) nemotronDraft(forms map[string]*form, hidden int) []*Layer {
	pattern, _ := r.List("mtp_layers_block_type")
	if r.opt("num_nextn_predict_layers", 0) == 0 || len(pattern) > maxLayers {
		return nil
	}
	var layers []*Layer
	for i, v := range pattern {
		name, _ := v.Text()
		f := forms[name]
		if f == nil || name != "full_attention" && name != "moe" {
			r.fail(problem.BadValue, "mtp_layers_block_type", "entry %d is neither attention nor experts", i)
			return nil
		}
		layers = append(layers, &Layer{Caches: f.caches, Params: append(slices.Clone(f.params), norm("norm", hidden))})
	}
	if len(layers) > 0 {
		first, last := layers[0], layers[len(layers)-1]
		first.Params = append(first.Params, linear("eh_proj", Other, sharded(hidden, "hidden_size"), whole(2*hidden)),
			norm("enorm", hidden), norm("hnorm", hidden))
		last.Params = append(last.Params, norm("final_layernorm", hidden))
	}
	return layers
}
