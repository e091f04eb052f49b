package model

import (
	"headcount/dtype"
	"headcount/problem"
)

// hyV4 is DeepSeek's sparse attention with a gate and sinks, over several residual channels
// that each half of a layer reads and writes by learned weights; the router is float32 (vllm
// models/hy_v4/nvidia). Its layers say by indexer_types whose indexer is their own.
var hyV4 = family{
	name:          "hy_v4",
	architectures: []string{"HYV4ForCausalLM"},
	types:         []string{"hy_v4"},
	resolve: func(r *reader) *Model {
		layers, hidden, l := r.layers(), r.size("hidden_size"), r.latent()
		l.indexer = r.indexer()
		e := r.deepSeekExperts()
		e.routerDType, e.scoreBias = dtype.Float32, "mlp.expert_bias"
		d := decoder{
			gated: true, untied: true, latent: &l, indexed: r.ownIndexers(layers), nextN: r.nextN(),
			experts: e, sparse: r.sparseByType(layers),
		}
		gate, channels := r.gates(l), r.channels(hidden)
		if r.err != nil {
			return r.model()
		}
		d.extra = func(int) []Param {
			var params []Param
			if gate > 0 {
				params = append(params, linear("self_attn.linear_gate", Attention, queryHeads(l.query, gate), whole(hidden)))
			}
			if r.flag("learnable_sink", false) {
				sink := queryHeads(l.query, 1)
				params = append(params, Param{Name: "self_attn.learnable_sink_param", Part: Attention, Rows: sink, DType: dtype.Float32})
			}
			params = append(params, channels.weights("hc_attn_layer.pre", 2)...)
			return append(params, channels.weights("hc_mlp_layer.pre", 2)...)
		}
		m := r.decoder(d)
		for _, p := range channels.weights("model.hc_head", 1) {
			p.Stage = LastStage
			m.Outer = append(m.Outer, p)
		}
		return m
	},
}

// ownIndexers reads which layers have an indexer of their own: "full" in indexer_types, or
// what [reader.indexed] says where there is no such list.
func (r *reader) ownIndexers(layers int) []bool {
	types := r.strings("indexer_types", layers)
	if types == nil {
		return r.indexed(layers)
	}
	out := make([]bool, layers)
	for i, kind := range types {
		switch kind {
		case "full", "shared":
			out[i] = kind == "full"
		default:
			r.fail(problem.BadValue, "indexer_types", "%q of layer %d is neither full nor shared", kind, i)
		}
	}
	return out
}

// gates is how many gates a head of the attention's result has; 0: none.
func (r *reader) gates(l latent) int {
	if !r.flag("gated_mla", false) {
		return 0
	}
	switch kind, _ := r.Text("gating_type"); kind {
	case "elementwise":
		return l.value
	case "headwise":
		return 1
	default:
		r.fail(problem.BadValue, "gating_type", "neither elementwise nor headwise")
		return 0
	}
}

// channels are residual channels of the width of the hidden state; none: 0.
type channels struct{ count, hidden int }

func (r *reader) channels(hidden int) channels {
	n := r.opt("hc_mult", 4)
	r.times("hc_mult", n, hidden)
	return channels{n, hidden}
}

// weights are a projection from all channels to some gates for each, float32, with a scale
// for each kind of gate and a base for each gate.
func (c channels) weights(prefix string, kinds int) []Param {
	gates := whole(kinds * c.count)
	return []Param{
		{Name: prefix + ".hc_fn.weight", Part: Other, Rows: gates, Cols: whole(c.count * c.hidden), DType: dtype.Float32},
		{Name: prefix + ".hc_scale", Part: Other, Rows: whole(kinds), DType: dtype.Float32},
		{Name: prefix + ".hc_base", Part: Other, Rows: gates, DType: dtype.Float32},
	}
}
