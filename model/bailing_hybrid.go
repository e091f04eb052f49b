package model

import (
	"headcount/dtype"
	"headcount/problem"
)

// bailingLinear is Ling 2.5: layers of linear attention and, as each layer_group_size-th,
// of latent attention; dense first layers, then routed and shared experts (vllm
// bailing_moe_linear.py).
var bailingLinear = family{
	name:          "bailing_moe_linear",
	architectures: []string{"BailingMoeV2_5ForCausalLM"},
	types:         []string{"bailing_hybrid", "bailing_moe_linear"},
	resolve: func(r *reader) *Model {
		hidden, h, l := r.size("hidden_size"), r.heads(), r.latent()
		e := r.lingExperts("expert_bias", false, 0)
		if name, ok := r.Text("router_dtype"); ok && name != "fp32" {
			e.routerDType = dtype.BFloat16
		} else {
			e.routerDType = dtype.Float32
		}
		a := r.lightning(h)
		group := r.opt("layer_group_size", 1)
		if r.err != nil || !r.valid(a.State, "num_attention_heads") {
			return r.model()
		}
		linearForm := &form{caches: []Cache{a.cache()}, params: a.params("attention", hidden)}
		latentForm := &form{caches: []Cache{l.cache()}, params: l.params("attention", hidden)}
		return r.decoder(decoder{
			gated: true, heads: h, untied: true, mlpBias: r.flag("use_bias", false), experts: e, names: lingNames,
			sparse: sparseFrom(r.opt("first_k_dense_replace", 0), 1),
			nextN:  r.nextN(), nextForm: latentForm,
			form: func(layer int) *form {
				if group > 0 && (layer+1)%group != 0 {
					return linearForm
				}
				return latentForm
			},
		})
	},
}

// lightning are the parameters of a linear attention with an output gate and a group norm.
type lightning struct {
	State
	qkvBias, outBias, qkNorm bool
	h                        heads
}

func (r *reader) lightning(h heads) lightning {
	h.kv = h.query
	h.value = h.key
	bias := r.flag("use_bias", false)
	if groups := r.opt("group_norm_size", 1); groups == 0 || h.query%groups != 0 {
		r.fail(problem.NotDivisible, "group_norm_size", "does not divide %d heads", h.query)
	}
	return lightning{
		State:   State{Mixer: LinearAttention, Heads: h.query, HeadDim: h.key, StateSize: h.key},
		qkvBias: bias || r.flag("use_qkv_bias", false), outBias: bias, qkNorm: r.flag("use_qk_norm", false), h: h,
	}
}

func (a lightning) params(prefix string, hidden int) []Param {
	inner := queryHeads(a.h.query, a.h.key)
	params := append(attentionParams(prefix, a.h, hidden, a.qkvBias, a.outBias),
		linear(prefix+".g_proj", Attention, inner, whole(hidden)),
		Param{Name: prefix + ".g_norm.weight", Part: Norm, Rows: inner})
	if a.qkNorm {
		params = append(params, norm(prefix+".query_layernorm", a.h.key), norm(prefix+".key_layernorm", a.h.key))
	}
	return params
}
