package model

import (
	"strings"

	"headcount/dtype"
)

// bailingMoE is Ling: fused queries, keys and values, dense first layers, then routed and
// shared experts (vllm bailing_moe.py; sarvam.py serves Sarvam's by the same code).
var bailingMoE = family{
	name:          "bailing_moe",
	architectures: []string{"BailingMoeForCausalLM", "BailingMoeV2ForCausalLM", "SarvamMoEForCausalLM", "LLaDA2MoeModelLM"},
	types:         []string{"bailing_moe", "bailing_moe_v2", "sarvam_moe", "llada2_moe"},
	resolve: func(r *reader) *Model {
		e := r.lingExperts("expert_bias", false, 0)
		e.routerDType = dtype.Unknown
		switch name, _ := r.Text("router_dtype"); name {
		case "":
		case "fp32":
			e.routerDType = dtype.Float32
		default:
			e.routerDType = dtype.BFloat16
		}
		h, bias := r.heads(), r.flag("use_bias", false)
		return r.decoder(decoder{
			gated:   true,
			heads:   h,
			qkvBias: bias || r.flag("use_qkv_bias", false),
			outBias: bias,
			mlpBias: bias,
			experts: e,
			sparse:  sparseFrom(r.opt("first_k_dense_replace", 0), 1),
			extra:   r.lingNorms(h),
			names:   lingNames,
		})
	},
}

// lingNorms returns the norms of queries and keys, which have a bias where they are layer
// norms.
func (r *reader) lingNorms(h heads) func(int) []Param {
	if !r.flag("use_qk_norm", false) {
		return nil
	}
	d := decoder{normBias: !r.flag("use_rmsnorm", false)}
	return func(int) []Param {
		return append(d.norm("attention.query_layernorm", h.key), d.norm("attention.key_layernorm", h.key)...)
	}
}

// lingExperts reads experts under Ling's names. bias is the parameter below the router that
// holds the bias of the scores, if moe_router_enable_expert_bias says so.
func (r *reader) lingExperts(bias string, biased bool, shared int) experts {
	e := r.experts("mlp", "num_experts", "moe_intermediate_size")
	n := r.opt("num_shared_experts", shared)
	width := e.width
	if w := r.opt("moe_shared_expert_intermediate_size", 0); w > 0 {
		width = w
	}
	e.shared, e.sharedWidth = "mlp.shared_experts", r.times("num_shared_experts", n, width)
	if r.flag("moe_router_enable_expert_bias", biased) {
		e.scoreBias = "mlp.gate." + bias
	}
	return e
}

var lingNames = strings.NewReplacer(
	"self_attn.q_proj", "attention.query_key_value", "self_attn.k_proj", "attention.query_key_value",
	"self_attn.v_proj", "attention.query_key_value", "self_attn.o_proj", "attention.dense",
	"model.embed_tokens", "model.word_embeddings")

// param2MoE is Ling's layer with projections of their own and a float32 router (vllm
// param2moe.py). Its shared expert's width is not multiplied where the config gives one.
var param2MoE = family{
	name:          "param2moe",
	architectures: []string{"Param2MoEForCausalLM"},
	types:         []string{"param2moe"},
	resolve: func(r *reader) *Model {
		e := r.lingExperts("expert_bias", true, 1)
		e.routerDType = dtype.Float32
		if w := r.opt("moe_shared_expert_intermediate_size", 0); w > 0 && e.sharedWidth > 0 {
			e.sharedWidth = w
		}
		d := decoder{
			gated:   true,
			qkvBias: r.flag("use_qkv_bias", false),
			outBias: r.flag("use_bias", false),
			experts: e,
			sparse:  sparseFrom(r.opt("first_k_dense_replace", 1), 1),
		}
		if r.flag("use_qk_norm", false) {
			d.qkNorm = normPerHead
		}
		return r.decoder(d)
	},
}
