package model

import (
	"slices"

	"headcount/dtype"
	"headcount/problem"
)

// mimoV2 has five sliding layers to each full one, each kind with head counts and widths
// of its own, values narrower than keys, and routed experts (vllm mimo_v2.py).
var mimoV2 = family{
	name: "mimo_v2",
	architectures: []string{"MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM", "MiMoV2FlashModel", "MiMoV2Model",
		"MiMoV2OmniForCausalLM"},
	types: []string{"mimo_v2_flash", "mimo_v2", "mimo_v2_omni"},
	resolve: func(r *reader) *Model {
		layers, hidden, full := r.layers(), r.size("hidden_size"), r.heads()
		full.value = r.sizeOr("v_head_dim", full.key)
		window := heads{query: r.sizeOr("swa_num_attention_heads", full.query), kv: r.sizeOr("swa_num_key_value_heads", full.kv),
			key: r.sizeOr("swa_head_dim", full.key)}
		window.value = r.sizeOr("swa_v_head_dim", window.key)
		e := r.experts("mlp", "n_routed_experts", "moe_intermediate_size")
		e.scoreBias, e.routerDType = "mlp.gate.e_score_correction_bias", dtype.Float32
		if name, ok := r.Text("moe_router_dtype"); ok {
			e.routerDType, _ = dtype.Parse(name)
		}
		biased, sunk := r.flag("attention_bias", false), r.flag("add_swa_attention_sink_bias", false)
		width := r.mimoWindow()
		isSliding := r.mimoSliding(layers)
		if slices.Contains(isSliding, true) {
			r.mimoHeads(window)
		}
		if r.err != nil {
			return r.model()
		}
		all := &form{caches: []Cache{full.cache(0)}, params: attentionParams("self_attn", full, hidden, biased, false)}
		sliding := &form{caches: []Cache{window.cache(width)}, params: attentionParams("self_attn", window, hidden, biased, false)}
		if sunk {
			sliding.params = append(sliding.params, sinks("self_attn.attention_sink_bias", window.query))
		}
		m := embedAtBothEnds(r.decoder(decoder{
			gated: true, heads: full, untied: true, experts: e, sparse: r.mimoSparse(layers),
			nextN: 1, nextForm: sliding, nextDense: true,
			rotary: rotary{none: true},
			form: func(layer int) *form {
				if layer < len(isSliding) && isSliding[layer] {
					return sliding
				}
				return all
			},
		}))
		m.Ropes = r.mimoRopes(full.key, window.key)
		return m
	},
}

// mimoRopes are the tables of full and sliding layers, of fields that the file has beside
// rope_parameters, or else of what its class makes of them there.
func (r *reader) mimoRopes(full, sliding int) []Rope {
	params := r.Object("rope_parameters")
	build := func(layerType, base string, width int) Rope {
		number := func(key, inside string) float64 {
			v, ok := r.Raw().Get(key)
			if !ok {
				v, _ = params.Dict(layerType).Get(inside)
			}
			x, _ := v.Float()
			return x
		}
		rope := Rope{Type: "default", Factor: 1, Length: r.opt("max_position_embeddings", 32768)}
		rope.Trained, rope.Theta = rope.Length, number(base, "rope_theta")
		rope.Dim = width
		if part := number("partial_rotary_factor", "partial_rotary_factor"); part > 0 && part <= 1 {
			rope.Dim = int(float64(width) * part)
		}
		return rope
	}
	all, window := build("full_attention", "rope_theta", full), build("sliding_attention", "swa_rope_theta", sliding)
	if _, own := r.Raw().Get("swa_rope_theta"); !own && r.Has("rope_theta") {
		window.Theta = all.Theta
	}
	all.LayerType, window.LayerType = "full_attention", "sliding_attention"
	return []Rope{all, window}
}

// mimoWindow reads the window, whose name in the file is not the class's.
func (r *reader) mimoWindow() int {
	if n, ok := r.whole("sliding_window_size", 1); ok {
		return n
	}
	return r.size("sliding_window")
}

// mimoHeads checks the head counts of sliding layers.
func (r *reader) mimoHeads(h heads) {
	if h.kv > 0 && h.query%h.kv != 0 {
		r.fail(problem.NotDivisible, "swa_num_attention_heads", "not a multiple of %d KV heads", h.kv)
	}
}

// mimoSliding reads which layers are sliding: those with 1 in hybrid_layer_pattern.
func (r *reader) mimoSliding(layers int) []bool {
	sliding := make([]bool, layers)
	if !r.Has("hybrid_layer_pattern") {
		for i, name := range r.layerTypes(layers) {
			sliding[i] = name == "sliding_attention"
		}
		return sliding
	}
	pattern := r.ints("hybrid_layer_pattern")
	if len(pattern) < layers {
		r.fail(problem.BadValue, "hybrid_layer_pattern", "%d entries for %d layers", len(pattern), layers)
		return nil
	}
	for i := range sliding {
		sliding[i] = pattern[i] == 1
	}
	return sliding
}

// mimoSparse returns which layers have experts: those whose entry of moe_layer_freq is not
// 0. A single number means none.
func (r *reader) mimoSparse(layers int) func(layer int) bool {
	if _, isList := r.List("moe_layer_freq"); !isList {
		return func(int) bool { return false }
	}
	freq := r.ints("moe_layer_freq")
	if len(freq) < layers {
		r.fail(problem.BadValue, "moe_layer_freq", "%d entries for %d layers", len(freq), layers)
		return nil
	}
	return func(layer int) bool { return freq[layer] != 0 }
}
