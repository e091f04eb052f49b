package model

import (
	"fmt"

	"headcount/dtype"
	"headcount/problem"
)

// k2Horizon is Qwen's sparse layer with a gate of attention's result and norms of queries and
// keys over all heads. Attention of a layer with experts may choose its values too: each token
// takes those of a few of mova_num_experts projections (vllm k2_horizon.py).
var k2Horizon = family{
	name:          "k2_horizon",
	architectures: []string{"K2HorizonForCausalLM"},
	types:         []string{"k2_horizon"},
	resolve: func(r *reader) *Model {
		hidden, h, biased := r.size("hidden_size"), r.heads(), r.flag("attention_bias", false)
		e := r.experts("mlp", "num_experts", "moe_intermediate_size")
		r.share(&e, "shared_experts", "num_shared_experts", 0)
		e.routerPacks = true
		if r.flag("moe_gate_bias", false) {
			e.scoreBias = "mlp.gate.bias"
		}
		d := decoder{
			gated: true, heads: h, qkvBias: biased, outBias: biased, experts: e, sparse: r.qwenSparse(), everyStage: true,
			rotary: rotary{dim: r.opt("rope_head_dim", 0)},
		}
		if r.flag("query_key_norm", false) {
			d.qkNorm = normWhole
		}
		if gate, _ := r.Text("attention_gate_func"); gate != "" {
			d.extra = func(int) []Param {
				return []Param{linear("self_attn.gate_proj", Attention, queryHeads(h.query, h.key), whole(hidden))}
			}
		}
		if groups := r.sizeOr("layernorm_num_groups", 1); r.err == nil && hidden%groups != 0 {
			r.fail(problem.NotDivisible, "layernorm_num_groups", "%d does not divide hidden_size = %d", groups, hidden)
		}
		if n := r.opt("mova_num_experts", 0); n > 0 {
			if n > maxValueExperts {
				r.fail(problem.BadValue, "mova_num_experts", "more than %d", maxValueExperts)
				return r.model()
			}
			chosen := &form{caches: []Cache{h.cache(0)}, params: valueExperts(d, hidden, n, e.scoreBias != "")}
			d.form = func(layer int) *form {
				if e.count > 0 && d.sparse(layer) {
					return chosen
				}
				return nil
			}
		}
		d.windows = make([]int, r.layers())
		return r.decoder(d)
	},
}

// maxValueExperts bounds the projections to values of one layer, of which each is a tensor.
const maxValueExperts = 4096

// valueExperts are the parameters of attention whose values a router chooses from n
// projections, each of all KV heads.
func valueExperts(d decoder, hidden, n int, biased bool) []Param {
	var params []Param
	for _, p := range append(attentionParams("self_attn", d.heads, hidden, d.qkvBias, d.outBias), d.qkNorms(d.heads)...) {
		if p.Role != Values {
			params = append(params, p)
		}
	}
	params = append(params, linear("self_attn.v_router", Attention, whole(n), whole(hidden)))
	if biased {
		params = append(params, Param{Name: "self_attn.v_router.bias", Part: Attention, Rows: whole(n), DType: dtype.Float32})
	}
	for i := range n {
		params = append(params, linear(fmt.Sprintf("self_attn.v_experts.%d", i), Attention, kvHeads(d.heads.kv, d.heads.value), whole(hidden)))
	}
	return params
}
