package model

import "headcount/dtype"

// What follows are towers of Transformers' own modules, which vLLM runs by its Transformers
// backend: projections of queries, keys and values are merged and divided, with the output,
// as are gated MLPs and tables of words; all else is whole, and all of it is on each stage
// (vllm models/transformers).

// wrapped says that what is added next is built so.
func (t *towers) wrapped() *towers {
	t.stage, t.torch = EveryStage, true
	return t
}

// videoLlavaTower has an encoder for pictures and one for films.
func videoLlavaTower(t *towers) {
	c := t.wrapped().sub("vision_config").clip()
	for _, name := range []string{"model.video_tower", "model.image_tower"} {
		t.clip(name, c, c.layers, true)
	}
	t.projectorWhole("model.multi_modal_projector.linear_1", "model.multi_modal_projector.linear_2", c.width)
}

// projectorWhole adds two projections to the text model's width.
func (t *towers) projectorWhole(first, second string, in int) {
	t.conv(first, t.hidden, in, true)
	t.conv(second, t.hidden, t.hidden, true)
}

// deepSeekVLTower is SigLIP and two projections.
func deepSeekVLTower(t *towers) {
	c := t.wrapped().sub("vision_config")
	t.siglip("model.vision_model", c, c.size("num_hidden_layers"), true)
	t.projectorWhole("model.aligner.linear1", "model.aligner.linear2", c.size("hidden_size"))
}

// deepSeekVLHybridTower has SAM beside SigLIP for pictures of higher resolution.
func deepSeekVLHybridTower(t *towers) {
	c, high := t.wrapped().sub("vision_config"), t.sub("high_res_vision_config")
	out := high.size("output_channels")
	t.plain("model.high_res_vision_alpha", 1)
	t.sam("model.high_res_vision_model.vision_encoder", high)
	t.neck("model.high_res_vision_neck", high.size("hidden_size"), out)
	t.upsampled("model.high_res_vision_proj.conv1", "model.high_res_vision_proj.conv2", out, 4*out)
	t.siglip("model.vision_model", c, c.size("num_hidden_layers"), true)
	t.conv("model.aligner.vision_proj", t.hidden/2, c.size("hidden_size"), true)
	t.conv("model.aligner.high_res_vision_proj", t.hidden/2, 4*out, true)
	t.conv("model.aligner.proj", t.hidden, t.hidden, true)
}

// gotOCR2Tower is SAM.
func gotOCR2Tower(t *towers) {
	c := t.wrapped().sub("vision_config")
	out := c.size("output_channels")
	t.sam("model.vision_tower", c)
	t.upsampled("model.multi_modal_projector.conv_upsampler1", "model.multi_modal_projector.conv_upsampler2", out, t.hidden)
	t.conv("model.multi_modal_projector.multimodal_projector", t.hidden, t.hidden, true)
}

// sam adds the encoder of Segment Anything: attention within windows, but for some layers,
// with positions of rows and of columns.
func (t *towers) sam(name string, c *reader) {
	width, heads, inner, patch := c.size("hidden_size"), max(c.size("num_attention_heads"), 1), c.size("mlp_dim"), c.size("patch_size")
	side := c.size("image_size") / max(patch, 1)
	t.plain(name+".pos_embed", side*side, width)
	t.conv(name+".patch_embed.projection", width, c.opt("num_channels", 3)*patch*patch, true)
	layers, global := c.size("num_hidden_layers"), len(c.ints("global_attn_indexes"))
	t.layers(layers, func() {
		t.wholeLayer(name+".layers.*.", [6]string{"layer_norm1", "layer_norm2", "attn.qkv", "attn.proj", "mlp.lin1", "mlp.lin2"}, width, inner, true)
	})
	t.layers(global, func() { t.relative(name, side, width/heads) })
	t.layers(layers-global, func() { t.relative(name, c.size("window_size"), width/heads) })
	t.neck(name+".neck", width, c.size("output_channels"))
}

// wholeLayer adds a layer of a vision transformer of which nothing is divided: two norms,
// queries with keys and values, what goes out, and an MLP, by their names in that order.
func (t *towers) wholeLayer(at string, names [6]string, width, inner int, attentionBias bool) {
	t.norm(at+names[0], width, true)
	t.norm(at+names[1], width, true)
	t.conv(at+names[2], 3*width, width, attentionBias)
	t.conv(at+names[3], width, width, attentionBias)
	t.conv(at+names[4], inner, width, true)
	t.conv(at+names[5], width, inner, true)
}

// relative adds the positions of a layer whose attention is so many patches wide.
func (t *towers) relative(name string, side, head int) {
	t.plain(name+".layers.*.attn.rel_pos_h", 2*side-1, head)
	t.plain(name+".layers.*.attn.rel_pos_w", 2*side-1, head)
}

// neck adds the convolutions that SAM ends in.
func (t *towers) neck(name string, width, out int) {
	t.conv(name+".conv1", out, width, false)
	t.norm(name+".layer_norm1", out, true)
	t.conv(name+".conv2", out, 3*3*out, false)
	t.norm(name+".layer_norm2", out, true)
}

// upsampled adds two convolutions: one doubles the channels, one makes out of them.
func (t *towers) upsampled(first, second string, channels, out int) {
	t.conv(first, 2*channels, 3*3*channels, false)
	t.conv(second, out, 3*3*2*channels, false)
}

// ayaVisionTower is SigLIP and a gated projection of shuffled patches.
func ayaVisionTower(t *towers) {
	c, top := t.wrapped().sub("vision_config"), t.topReader()
	t.siglip("model.vision_tower", c, c.size("num_hidden_layers"), true)
	factor, inner := top.opt("downsample_factor", 2), top.size("alignment_intermediate_size")
	in := c.size("hidden_size") * factor * factor
	t.norm("model.multi_modal_projector.layernorm", in, true)
	t.conv("model.multi_modal_projector.linear_1", inner, in, true)
	t.conv("model.multi_modal_projector.linear_2", t.hidden, inner/2, true)
}

// videoLlama3Tower is SigLIP whose heads turn instead of learned positions.
func videoLlama3Tower(t *towers) {
	const name = "model.vision_model"
	c := t.wrapped().sub("vision_config")
	width, heads, patch := c.size("hidden_size"), c.size("num_attention_heads"), c.size("patch_size")
	t.conv(name+".embeddings.patch_embedding", width, c.opt("num_channels", 3)*patch*patch, true)
	t.vit(vit{name: name + ".encoder.layers", layers: c.size("num_hidden_layers"), width: width, heads: heads, mlp: c.size("intermediate_size"),
		wholeOut: true, names: plainNames}.biased())
	t.norm(name+".post_layernorm", width, true)
	t.buffer(name+".rotary_pos_emb.inv_freq", 2*(width/max(heads, 1)/4), dtype.Float32) // and once more as it was
	t.projectorWhole("model.projector.readout.0", "model.projector.readout.2", width)
}

// fuyuTower is a projection of pixels.
func fuyuTower(t *towers) {
	top := t.wrapped().topReader()
	patch := top.size("patch_size")
	t.conv("model.vision_embed_tokens", t.hidden, top.opt("num_channels", 3)*patch*patch, true)
}

// glmImageTower keeps its attention in one matrix, which is not divided, and knows words of
// pictures.
func glmImageTower(t *towers) {
	const name = "model.visual"
	c, vq := t.wrapped().sub("vision_config"), t.sub("vq_config")
	width, inner, patch := c.size("hidden_size"), c.size("intermediate_size"), c.size("patch_size")
	t.plain(name+".embeddings.position_embedding.weight", square(c.size("image_size"), patch), width)
	t.conv(name+".patch_embed.proj", width, c.opt("in_channels", 3)*patch*patch, true)
	biased := c.flag("attention_bias", true)
	t.layers(c.size("depth"), func() {
		t.wholeLayer(name+".blocks.*.", [6]string{"norm1", "norm2", "attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"}, width, inner, biased)
	})
	embedded, latent := vq.size("embed_dim"), vq.size("latent_channels")
	t.plain("model.vqmodel.quantize.embedding.weight", vq.size("num_embeddings"), embedded)
	t.conv("model.vqmodel.quant_conv", embedded, latent, true)
	t.conv("model.vqmodel.post_quant_conv", latent, embedded, true)
}

// ovis2Tower is Ovis in Transformers' form.
func ovis2Tower(t *towers) {
	const name = "model.vision_tower"
	c := t.wrapped().sub("vision_config")
	width, patch, words, stride := c.size("hidden_size"), c.size("patch_size"), c.size("vocab_size"), c.opt("hidden_stride", 2)
	positions := square(c.size("image_size"), patch)
	t.conv(name+".transformer.embeddings.patch_embedding", width, c.opt("num_channels", 3)*patch*patch, true)
	t.plain(name+".transformer.embeddings.position_embedding.weight", positions, width)
	t.buffer(name+".transformer.embeddings.position_ids", positions, dtype.Int64)
	t.norm(name+".transformer.embeddings.rms_norm", width, false)
	bias := c.flag("qkv_bias", false)
	t.vit(vit{name: name + ".transformer.encoder.layers", layers: c.size("num_hidden_layers"), width: width, heads: c.size("num_attention_heads"),
		mlp: c.size("intermediate_size"), gated: true, rms: true, qkvBias: bias, outBias: bias, mlpBias: c.flag("mlp_bias", false),
		names: vitNames{"attention.q_proj attention.k_proj attention.v_proj", "attention.out_proj", "ffn.gate_proj ffn.up_proj", "ffn.down_proj",
			[]string{"rms_norm1", "rms_norm2"}}})
	t.norm(name+".transformer.rms_norm", width, false)
	said := words - c.opt("num_visual_indicator_tokens", 5)
	t.conv(name+".head_linear", said, width*stride*stride, false)
	t.norm(name+".head_norm", said, true)
	t.add(Param{Name: "model.visual_embeddings_table.weight", Rows: vocabulary(words), Cols: whole(t.topReader().opt("hidden_size", t.hidden))})
}

// instructBlipTower is a vision transformer of which nothing is divided, and a Q-Former that
// reads the instruction.
func instructBlipTower(t *towers) {
	const name, former = "model.vision_model", "model.qformer"
	c, q := t.wrapped().sub("vision_config"), t.sub("qformer_config")
	width, inner, patch := c.size("hidden_size"), c.size("intermediate_size"), c.size("patch_size")
	t.plain(name+".embeddings.class_embedding", width)
	t.plain(name+".embeddings.position_embedding", square(c.size("image_size"), patch)+1, width)
	t.conv(name+".embeddings.patch_embedding", width, 3*patch*patch, true)
	t.layers(c.size("num_hidden_layers"), func() {
		at := name + ".encoder.layers.*."
		t.conv(at+"self_attn.qkv", 3*width, width, false)
		if c.flag("qkv_bias", true) {
			t.plain(at+"self_attn.qkv.bias", 3*width)
		}
		t.conv(at+"self_attn.projection", width, width, true)
		t.conv(at+"mlp.fc1", inner, width, true)
		t.conv(at+"mlp.fc2", width, inner, true)
		t.norm(at+"layer_norm1", width, true)
		t.norm(at+"layer_norm2", width, true)
	})
	t.norm(name+".post_layernorm", width, true)
	narrow, positions := q.size("hidden_size"), q.size("max_position_embeddings")
	t.plain("model.query_tokens", t.topReader().opt("num_query_tokens", 32), narrow)
	t.add(Param{Name: former + ".embeddings.word_embeddings.weight", Rows: vocabulary(q.size("vocab_size")), Cols: whole(narrow)})
	t.plain(former+".embeddings.position_embeddings.weight", positions, narrow)
	t.buffer(former+".embeddings.position_ids", positions, dtype.Int64)
	t.norm(former+".embeddings.layernorm", narrow, true)
	layers, every := q.size("num_hidden_layers"), max(q.opt("cross_attention_frequency", 2), 1)
	t.layers(layers, func() {
		at := former + ".encoder.layer.*."
		t.looking(at+"attention", narrow, narrow)
		for _, kind := range []string{"", "_query"} { // of the instruction, and of queries
			t.conv(at+"intermediate"+kind+".dense", q.size("intermediate_size"), narrow, true)
			t.conv(at+"output"+kind+".dense", narrow, q.size("intermediate_size"), true)
			t.norm(at+"output"+kind+".LayerNorm", narrow, true)
		}
	})
	t.layers((layers+every-1)/every, func() { t.looking(former+".encoder.layer.*.crossattention", narrow, q.size("encoder_hidden_size")) })
	t.conv("model.language_projection", t.hidden, narrow, true)
}
