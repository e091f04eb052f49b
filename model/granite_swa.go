package model

// graniteSWA is Granite with sliding layers among full ones and, in all of them, a sink a
// query head (vllm granite.py granite_layer_attn_params).
var graniteSWA = family{
	name:          "granite_swa",
	architectures: []string{"GraniteSWAForCausalLM"},
	types:         []string{"granite_swa"},
	resolve: func(r *reader) *Model {
		h, biased := r.heads(), r.flag("attention_bias", false) || r.flag("bias", false)
		return r.decoder(decoder{gated: true, heads: h, qkvBias: biased, outBias: biased, mlpBias: r.flag("mlp_bias", false),
			extra: r.graniteSinks(h)})
	},
}

// graniteSinks returns the sinks of a Granite layer, which a config that tells layers apart
// has unless attention_sinks says otherwise.
func (r *reader) graniteSinks(h heads) func(int) []Param {
	_, typed := r.List("layer_types")
	if !r.flag("attention_sinks", typed) {
		return nil
	}
	return func(int) []Param { return []Param{sinks("self_attn.sinks", h.query)} }
}
