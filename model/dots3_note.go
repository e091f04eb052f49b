package model

import (
	"headcount/problem"
)

// dots3Note mixes DeepSeek's sparse attention with sliding layers of latents of their own
// sizes. Each gates its result and normalises the part of a key that turns (vllm
// models/dots3_note).
var dots3Note = family{
	name:          "dots3_note",
	architectures: []string{"Dots3NoteForCausalLM"},
	types:         []string{"dots3_note"},
	resolve: func(r *reader) *Model {
		d, hidden, full, window := r.deepSeekDecoder(), r.size("hidden_size"), r.latent(), r.size("sliding_window_size")
		full.indexer = r.indexer()
		sliding := r.slidingLatent()
		types, drafts := r.noteTypes(r.layers(), d.nextN)
		gates := [2]Param{r.noteGate("attention_gate_type", full, hidden), r.noteGate("swa_attention_gate_type", sliding, hidden)}
		if r.err != nil {
			return r.model()
		}
		forms := map[string]*form{
			"sliding_attention": {
				caches: []Cache{sliding.slidingCache(window)},
				params: append(sliding.params("self_attn", hidden), gates[1], norm("self_attn.k_rope_only_layernorm", sliding.rope)),
			},
			"full_attention": {
				caches: []Cache{full.indexer.cache(), full.cache()},
				params: append(append(full.params("self_attn", hidden), gates[0], norm("self_attn.k_rope_only_layernorm", full.rope)),
					full.indexer.params("self_attn.indexer", full.queryRank, hidden)...),
			},
		}
		join, next := deepSeekJoin(hidden), d
		d.heads, d.nextN, d.windows, d.rotary = full.view(), 0, make([]int, len(types)), rotary{none: true}
		d.form = func(layer int) *form { return forms[types[layer]] }
		m := r.decoder(d)
		next.intermediate = r.size("intermediate_size")
		for _, kind := range drafts {
			f := forms[kind]
			m.Draft = append(m.Draft, &Layer{Caches: f.caches, Params: append(next.params(layerKind{form: f}, hidden), join...)})
		}
		m.Ropes = r.noteRopes(full, sliding)
		return m
	},
}

// noteTypes reads the types of the layers and of those of MTP.
func (r *reader) noteTypes(layers, next int) (types, drafts []string) {
	types = r.strings("layer_types", layers)
	if types == nil && r.err == nil {
		r.underived()
	}
	drafts = r.strings("mtp_layer_types", next)
	for i := 0; drafts == nil && i < next; i++ {
		drafts = append(drafts, "sliding_attention")
	}
	for i := range types {
		if types[i] != "sliding_attention" {
			types[i] = "full_attention"
		}
	}
	for i := range drafts {
		if drafts[i] != "sliding_attention" {
			drafts[i] = "full_attention"
		}
	}
	return types, drafts
}

// slidingLatent reads the latent of sliding layers.
func (r *reader) slidingLatent() latent {
	l := latent{
		query: r.size("swa_num_attention_heads"), queryRank: r.size("swa_q_lora_rank"), rank: r.size("swa_kv_lora_rank"),
		nope: r.size("swa_qk_nope_head_dim"), rope: r.size("swa_qk_rope_head_dim"), value: r.size("swa_v_head_dim"),
	}
	r.times("swa_num_attention_heads", l.query, l.nope+l.rope+l.value)
	return l
}

// slidingCache is the latent of each of the last tokens.
func (l latent) slidingCache(window int) Cache {
	c := l.cache()
	c.Kind, c.Window = SlidingLatent, window
	return c
}

// noteGate is the projection to gates of attention's result: of each head, then whole on
// every rank, or of each element.
func (r *reader) noteGate(key string, l latent, hidden int) Param {
	if kind, ok := r.Text(key); !ok {
		r.fail(problem.MissingField, key, "missing, and the class has no default for it")
	} else if kind == "headwise" {
		return linear("self_attn.g_proj", Attention, whole(l.query), whole(hidden))
	}
	return linear("self_attn.g_proj", Attention, queryHeads(l.query, l.value), whole(hidden))
}

// noteRopes are the tables of the two kinds of layers, and the index's unless it turns as
// attention does.
func (r *reader) noteRopes(full, sliding latent) []Rope {
	length := r.opt("max_position_embeddings", 8192)
	theta, _ := r.Object("rope_parameters").Get("rope_theta")
	of := Rope{LayerType: "full_attention", Type: "default", Dim: full.rope, Length: length, Trained: length, Factor: 1}
	own := of
	of.Theta, _ = theta.Float()
	own.LayerType, own.Width, own.Dim = "sliding_attention", sliding.rope, sliding.rope
	own.Theta, _ = r.Float("swa_rope_theta")
	ropes := []Rope{of, own}
	if !r.flag("indexer_rope_interleave", true) {
		of.Apart = true
		ropes = append(ropes, of)
	}
	return ropes
}
