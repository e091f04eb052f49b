package model

import "headcount/dtype"

// flint is Qwen3's sparse layer with a sink a query head. Some layers have a window, and
// those that mlp_only_layers lists a plain MLP (vllm models/flint/model.py).
var flint = family{
	name:          "flint",
	architectures: []string{"FlintForCausalLM"},
	types:         []string{"flint"},
	resolve: func(r *reader) *Model {
		h := r.heads()
		sink := sinks("self_attn.softmax_offset", h.query)
		sink.DType = dtype.Float32
		e := r.qwenExperts()
		e.routerPacks = true
		return r.decoder(decoder{
			gated:   true,
			heads:   h,
			qkvBias: r.flag("attention_bias", false),
			qkNorm:  normPerHead,
			experts: e,
			sparse:  r.qwenSparse(),
			extra:   func(int) []Param { return []Param{sink} },
		})
	},
}
