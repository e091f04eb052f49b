package model

import (
	"math"

	"headcount/problem"
)

// falconH1 has attention and a Mamba-2 mixer side by side in every layer (vllm
// falcon_h1.py builds the attention first).
var falconH1 = family{
	name:          "falcon_h1",
	architectures: []string{"FalconH1ForCausalLM", "FalconH1Model"},
	types:         []string{"falcon_h1"},
	resolve: func(r *reader) *Model {
		hidden, h := r.size("hidden_size"), r.heads()
		m := r.mambaMixer(r.falconInner(hidden), mamba2Fields{
			inner: "mamba_d_ssm", heads: "mamba_n_heads", groups: "mamba_n_groups"})
		m.gatedNorm = r.flag("mamba_rms_norm", false)
		if r.err != nil || !r.valid(m.State, "mamba_n_heads") {
			return r.model()
		}
		layer := &form{
			caches: []Cache{h.cache(0), m.cache()},
			params: append(attentionParams("self_attn", h, hidden, false, false), m.params("mamba", hidden)...),
		}
		model := r.decoder(decoder{
			gated: true, heads: h, norms: []string{"input_layernorm", "pre_ff_layernorm"}, names: jambaNames,
			form: func(int) *form { return layer },
		})
		for _, l := range distinct(model.Layers) {
			for _, rows := range m.outputs() { // a multiplier for each
				l.Buffers = append(l.Buffers, Param{Name: "mamba.mup_vector", Part: Attention, Rows: rows})
			}
		}
		return model
	},
}

// falconInner is the width of the mixer, as given or expanded from the hidden size.
func (r *reader) falconInner(hidden int) int {
	if n, ok := r.whole("mamba_d_ssm", 1); ok || r.err != nil {
		return n
	}
	expand, _ := r.Float("mamba_expand")
	n := math.Floor(expand * float64(hidden))
	if !(n >= 1 && n <= maxSize) {
		r.fail(problem.BadValue, "mamba_expand", "does not expand %d to a width", hidden)
		return 1
	}
	return int(n)
}
