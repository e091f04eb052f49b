package model

// doge weighs cached values by a projection of them (dynamic mask attention) and scales
// each residual; with is_moe a layer's experts are rows of two embeddings beside its MLP
// (transformers modeling_doge.py).
var doge = family{
	name:          "doge",
	architectures: []string{"DogeForCausalLM"},
	types:         []string{"doge"},
	resolve: func(r *reader) *Model {
		bias := r.flag("attention_bias", false)
		h, hidden := r.heads(), r.size("hidden_size")
		experts := 0
		if r.flag("is_moe", false) {
			experts = r.size("num_experts")
		}
		return r.decoder(decoder{
			gated:   true,
			qkvBias: bias,
			outBias: bias,
			mlpBias: r.flag("mlp_bias", false),
			qkNorm:  normPerHead,
			heads:   h,
			extra: func(int) []Param {
				params := []Param{
					{Name: "self_attn.A", Part: Attention, Rows: whole(h.kv)},
					linear("self_attn.dt_proj", Attention, whole(h.kv), sharded(h.kv*h.value, "num_key_value_heads")),
					{Name: "input_residual", Part: Other, Rows: whole(hidden)},
					{Name: "post_attention_residual", Part: Other, Rows: whole(hidden)},
				}
				if bias {
					params = append(params, Param{Name: "self_attn.dt_proj.bias", Part: Attention, Rows: whole(h.kv)})
				}
				if experts > 0 {
					params = append(params, embeddedExperts(experts, hidden)...)
				}
				return params
			},
		})
	},
}

// embeddedExperts are experts of one row each, found by the product of two sets of keys.
func embeddedExperts(count, hidden int) []Param {
	keys := 1
	for (keys+1)*(keys+1) <= count {
		keys++
	}
	row := func(name string) Param {
		return Param{Name: name, Part: MoEExperts, Rows: whole(count), Cols: whole(hidden)}
	}
	return []Param{
		linear("mlp.router_gate", MoERouter, sharded(2*keys, "num_experts"), whole(hidden)),
		row("mlp.down_embed.weight"), row("mlp.up_embed.weight"),
	}
}
