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
			gated: true, heads: l.view(), untied: true, mlpBias: r.flag("use_bias", false), experts: e, names: lingNames,
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

// bailingV3 is Ling 3: layers of Kimi delta attention, whose gates are projected from the
// hidden state, and of latent attention as each layer_group_size-th and in a remainder;
// latent attention may have a gate of its result (vllm bailing_moe_v3.py).
var bailingV3 = family{
	name:          "bailing_moe_v3",
	architectures: []string{"BailingMoeV3ForCausalLM", "BailingMoeV3VLForConditionalGeneration"},
	types:         []string{"BailingMoeV3TextConfig"},
	resolve: func(r *reader) *Model {
		layers, hidden, h, l := r.layers(), r.size("hidden_size"), r.heads(), r.latent()
		k := kda{decay: true, field: "num_attention_heads", State: State{Mixer: KDA, Kernel: r.kernel("short_conv_kernel_size"),
			Groups: h.query, Heads: h.query, HeadDim: h.key, StateSize: h.key}}
		e := r.lingExperts("expert_bias", true, 0)
		e.routerDType, e.scoreBias = dtype.Float32, "mlp.gate.expert_bias"
		group, biased := max(r.opt("layer_group_size", 1), 1), r.flag("use_bias", false)
		if r.err != nil || !r.valid(k.State, "num_attention_heads") {
			return r.model()
		}
		linearForm := &form{caches: []Cache{k.cache()}, params: k.params("attention", hidden)}
		latentForm := &form{caches: []Cache{l.cache()}, params: append(l.params("attention", hidden), r.lingGate(l, hidden)...)}
		return r.decoder(decoder{
			gated: true, heads: l.view(), untied: true, mlpBias: biased, experts: e, names: lingNames,
			sparse: sparseFrom(r.opt("first_k_dense_replace", 0), 1),
			form: func(layer int) *form {
				if (layer+1)%group == 0 || layer >= layers/group*group {
					return latentForm
				}
				return linearForm
			},
		})
	},
}

// lingGate is the gate of latent attention's result, one a head or one an element.
func (r *reader) lingGate(l latent, hidden int) []Param {
	switch kind, _ := r.Text("gated_attention_proj_granularity_type"); kind {
	case "head_wise":
		return []Param{linear("attention.g_proj", Attention, queryHeads(l.query, 1), whole(hidden))}
	case "element_wise":
		return []Param{linear("attention.g_proj", Attention, queryHeads(l.query, l.value), whole(hidden))}
	}
	return nil
}
