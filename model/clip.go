package model

import "headcount/dtype"

// clip is the text encoder of CLIP, which reads in one direction and keeps keys and values,
// beside one of pictures (vllm clip.py, CLIPEmbeddingModel).
var clip = family{
	name:          "clip",
	architectures: []string{"CLIPModel"},
	types:         []string{"clip_text_model"},
	resolve: func(r *reader) *Model {
		m := r.textTower(false)
		if width, ok := r.Top().Int("projection_dim"); ok && width > 0 && width <= maxTower {
			m.Outer = append(m.Outer, Param{Name: "text_projection.weight", Part: Other, Rows: whole(int(width)), Cols: whole(m.HiddenSize)})
		}
		return m
	},
}

// siglip is the same of SigLIP, which reads in both directions (vllm siglip.py,
// SiglipEmbeddingModel).
var siglip = family{
	name:          "siglip",
	architectures: []string{"SiglipModel"},
	types:         []string{"siglip_text_model"},
	resolve: func(r *reader) *Model {
		m := r.textTower(true)
		out := whole(r.opt("projection_size", m.HiddenSize))
		m.Buffers = append(m.Buffers, Param{Name: "text_model.embeddings.position_ids", Part: Other,
			Rows: whole(r.size("max_position_embeddings")), DType: dtype.Int64})
		m.Outer = append(m.Outer, linear("text_model.head", Other, out, whole(m.HiddenSize)), bias("text_model.head", Other, out))
		return m
	},
}

// textTower is a text encoder with learned positions and biases everywhere.
func (r *reader) textTower(encoder bool) *Model {
	m := r.decoder(decoder{
		encoder: encoder, square: true, ungrouped: true, qkvBias: true, outBias: true, mlpBias: true, normBias: true, norms: []string{"layer_norm1", "layer_norm2"},
		rotary: rotary{none: true},
	})
	m.Outer = append([]Param{
		table("text_model.embeddings.token_embedding", m.VocabSize, m.HiddenSize),
		table("text_model.embeddings.position_embedding", r.size("max_position_embeddings"), m.HiddenSize),
	}, layerNorm("text_model.final_layer_norm", m.HiddenSize)...)
	return m
}

// clipTower is the encoder of pictures, and its projection.
func clipTower(t *towers) {
	c := t.sub("vision_config")
	shape := c.clip()
	t.clip("vision_model", shape, shape.layers, true)
	t.plain("visual_projection.weight", t.topReader().size("projection_dim"), shape.width)
	t.params[len(t.params)-1].Part = Other
}

// siglipTower is the encoder of pictures, and a head that attends to all of its states.
func siglipTower(t *towers) {
	c := t.sub("vision_config")
	width := c.size("hidden_size")
	t.siglip("vision_model", c, c.size("num_hidden_layers"), true)
	if !c.flag("vision_use_head", true) {
		return
	}
	t.plain("vision_model.head.probe", width)
	t.conv("vision_model.head.attention.in_proj", 3*width, width, true)
	t.conv("vision_model.head.attention.out_proj", width, width, true)
	t.norm("vision_model.head.layernorm", width, true)
	t.mlp([]string{"vision_model.head.mlp.fc1"}, "vision_model.head.mlp.fc2", width, c.size("intermediate_size"), width, false, true)
}
