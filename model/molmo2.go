package model

import "strings"

// molmo2 is the text model of Molmo 2: Qwen3's layer or OLMo's, by its norms, with further
// words in the embedding alone. Of a scaled rope some layers may have the plain one (vllm
// molmo2.py).
var molmo2 = family{
	name:          "molmo2",
	architectures: []string{"Molmo2ForConditionalGeneration"},
	types:         []string{"molmo2_text"},
	resolve: func(r *reader) *Model {
		h, words := r.heads(), r.size("vocab_size")
		d := decoder{
			gated: true, heads: h, qkvBias: r.flag("qkv_bias", true), norms: []string{"attn_norm", "ff_norm"},
			vocab: words, untied: true, everyStage: true, names: molmo2Names,
		}
		if r.flag("use_qk_norm", false) {
			q, k := h.query*h.key, h.kv*h.key // of all heads, on each rank
			if kind, _ := r.Text("qk_norm_type"); kind == "qwen3" {
				q, k = h.key, h.key
			}
			d.extra = func(int) []Param { return []Param{norm("self_attn.q_norm", q), norm("self_attn.k_norm", k)} }
		}
		m := r.decoder(d)
		for i := range m.Outer {
			if p := &m.Outer[i]; p.Part == Embedding {
				p.Rows.Size += r.opt("additional_vocab_size", 0)
			}
		}
		if scaled, ok := r.List("rope_scaling_layers"); ok && len(m.Ropes) == 1 {
			m.scaleIn(listed(scaled, len(m.Layers)))
		}
		return m
	},
}

var molmo2Names = strings.NewReplacer(
	"self_attn.q_proj", "self_attn.att_proj", "self_attn.k_proj", "self_attn.att_proj", "self_attn.v_proj", "self_attn.att_proj", "self_attn.o_proj", "self_attn.attn_out",
	"mlp.gate_proj", "mlp.ff_proj", "mlp.up_proj", "mlp.ff_proj", "mlp.down_proj", "mlp.ff_out",
	"model.embed_tokens", "model.transformer.wte", "model.norm", "model.transformer.ln_f")

// scaleIn leaves a model's rope to some layers, and gives the others the same unscaled.
func (m *Model) scaleIn(some []bool) {
	plain := m.Ropes[0]
	plain.LayerType, plain.Type, plain.Trained, plain.Factor = "unscaled", "default", plain.Length, 1
	m.Ropes[0].LayerType = "scaled"
	m.Ropes = append(m.Ropes, plain)
	m.Layers = turned(m.Layers, func(layer int) string {
		if some[layer] {
			return "scaled"
		}
		return "unscaled"
	})
}

// molmo2Tower is SigLIP's encoder up to the last layer that is read, queries that pool
// patches of the layers that are, and a gated projection.
func molmo2Tower(t *towers) {
	const name = "model.vision_backbone"
	c, a := t.sub("vit_config"), t.sub("adapter_config")
	width, patch, layers, deepest := c.size("hidden_size"), c.size("image_patch_size"), c.size("num_hidden_layers"), 0
	read := a.ints("vit_layers")
	for _, n := range read {
		if n < 0 {
			n += layers
		}
		deepest = max(deepest, n+1)
	}
	t.plain(name+".image_vit.positional_embedding", c.size("image_num_pos"), width)
	t.conv(name+".image_vit.patch_embedding", width, 3*patch*patch, true)
	t.vit(vit{name: name + ".image_vit.transformer.resblocks", layers: min(deepest, layers), width: width, heads: c.size("num_attention_heads"),
		headDim: c.size("head_dim"), kv: c.size("num_key_value_heads"), mlp: c.size("intermediate_size"),
		names: vitNames{"attention.wq attention.wk attention.wv", "attention.wo", "feed_forward.w1", "feed_forward.w2", []string{"attention_norm", "ffn_norm"}}}.biased())
	head, inner := a.size("head_dim"), a.size("intermediate_size")
	queries, keys := headsOf(a.size("num_attention_heads"), head), sharded(a.size("num_key_value_heads")*head, "num_key_value_heads")
	t.linear(name+".image_pooling_2d.wq", queries, whole(len(read)*width), true)
	t.linear(name+".image_pooling_2d.wk", keys, whole(len(read)*width), true)
	t.linear(name+".image_pooling_2d.wv", keys, whole(len(read)*width), true)
	t.out(name+".image_pooling_2d.wo", whole(a.size("hidden_size")), queries, true)
	t.mlp([]string{name + ".image_projector.w1", name + ".image_projector.w3"}, name+".image_projector.w2", a.size("hidden_size"), inner, a.size("text_hidden_size"), true, false)
}
