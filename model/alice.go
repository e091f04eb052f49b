package model

import (
	"headcount/problem"
)

// aliceAI has layers of Kimi delta attention and, in their place every few layers, Qwen3-Next's
// gated attention, experts in each, and residuals over blocks of layers (vllm alice_ai.py).
var aliceAI = family{
	name:          "alice_ai",
	architectures: []string{"AliceAIForCausalLM"},
	types:         []string{"alice_ai"},
	resolve: func(r *reader) *Model {
		layers, hidden, h, k := r.layers(), r.size("hidden_size"), r.heads(), r.aliceKDA()
		e := r.qwenExperts()
		e.sharedGate, e.scoreBias = "mlp.shared_expert_gate", "mlp.gate.e_score_correction_bias"
		r.size("block_attn_res_block_size")
		types := r.strings("layer_types", layers)
		switch {
		case types == nil && r.err == nil:
			r.underived()
		case e.count == 0:
			r.fail(problem.BadValue, "num_experts", "the engine's class has experts in every layer")
		}
		if r.err != nil || !r.valid(k.State, k.field) {
			return r.model()
		}
		type kind struct {
			name  string
			first bool
		}
		kinds := make([]kind, layers)
		for i, name := range types {
			if name != "linear_attention" && name != "full_attention" {
				r.fail(problem.BadValue, "layer_types", "%q of layer %d is neither linear_attention nor full_attention", name, i)
			}
			kinds[i] = kind{name, i == 0}
		}
		m := r.decoder(decoder{
			gated: true, heads: h, experts: e, untied: true, windows: make([]int, layers),
			form: formPerKind(kinds, func(kind kind) *form {
				f := &form{caches: []Cache{h.cache(0)}, params: gatedAttention(h, hidden, true, false)}
				if kind.name == "linear_attention" {
					f = &form{caches: []Cache{k.cache()}, params: k.params("linear_attn", hidden)}
				}
				if !kind.first {
					f.params = append(f.params, residual("attn_res", Attention, hidden)...)
				}
				f.params = append(f.params, residual("mlp_res", MLP, hidden)...)
				return f
			}),
		})
		for _, p := range residual("model.attnres_final.res", Other, hidden) {
			p.Stage = LastStage
			m.Outer = append(m.Outer, p)
		}
		return m
	},
}

// residual are the weights by which one half of a layer reads earlier blocks' results.
func residual(name string, part Part, hidden int) []Param {
	return []Param{
		{Name: name + "_proj.weight", Part: part, Rows: whole(1), Cols: whole(hidden)},
		{Name: name + "_norm_weight", Part: Norm, Rows: whole(hidden)},
	}
}

// aliceKDA reads Kimi delta attention under Qwen's names; heads of keys and of values are as
// many and as wide.
func (r *reader) aliceKDA() kda {
	heads, width := r.size("linear_num_key_heads"), r.size("linear_key_head_dim")
	if values := r.size("linear_num_value_heads"); values != heads {
		r.fail(problem.Unsupported, "linear_num_value_heads", "AliceAI KDA requires as many heads of values as of keys, %d", heads)
	}
	if values := r.size("linear_value_head_dim"); values != width {
		r.fail(problem.Unsupported, "linear_value_head_dim", "AliceAI KDA requires values as wide as keys, %d", width)
	}
	return kda{field: "linear_num_key_heads", State: State{Mixer: KDA, Kernel: r.kernel("linear_conv_kernel_dim"),
		Groups: heads, Heads: heads, HeadDim: width, StateSize: width}}
}
