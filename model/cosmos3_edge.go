package model

// cosmos3Edge is a plain decoder that the engine builds of halves: attention and MLP are a
// layer each, with one norm (vllm cosmos3_edge.py).
var cosmos3Edge = family{
	name:          "cosmos3_edge",
	architectures: []string{"Cosmos3EdgeForConditionalGeneration"},
	types:         []string{"cosmos3_edge_text"},
	resolve: func(r *reader) *Model {
		layers, hidden, h := r.layers(), r.size("hidden_size"), r.heads()
		if r.err != nil {
			return r.model()
		}
		attention := &form{caches: []Cache{h.cache(0)}, params: attentionParams("mixer", h, hidden, false, false), alone: true}
		mlp := &form{}
		return r.decoder(decoder{
			depth: 2 * layers, heads: h, norms: []string{"norm"}, everyStage: true, mlpBias: r.flag("mlp_bias", false),
			form: func(layer int) *form {
				if layer%2 == 0 {
					return attention
				}
				return mlp
			},
		})
	},
}

// cosmos3EdgeTower is SigLIP 2, and an MLP over the states of some patches (vllm
// cosmos3_edge.py).
func cosmos3EdgeTower(t *towers) {
	const name = "visual.encoder"
	c, top := t.sub("vision_config"), t.topReader()
	width, patch, merge := c.size("hidden_size"), c.size("patch_size"), c.opt("spatial_merge_size", 2)
	t.conv(name+".embeddings.patch_embedding", width, c.opt("num_channels", 3)*patch*patch, true)
	t.plain(name+".embeddings.position_embedding.weight", c.size("num_patches"), width)
	t.vit(vit{name: name + ".encoder.layers", layers: c.size("num_hidden_layers"), width: width, heads: c.size("num_attention_heads"),
		mlp: c.size("intermediate_size"), names: plainNames}.biased())
	t.norm(name+".post_layernorm", width, true)
	t.norm("visual.projector.norm", width, true)
	t.mlp([]string{"visual.projector.linear_fc1"}, "visual.projector.linear_fc2", width*merge*merge, top.size("projector_hidden_size"), t.hidden, false, true)
}
