package model

import (
	"headcount/dtype"
	"headcount/problem"
)

// llama4Tower shuffles the patches of its encoder into fewer, wider ones (vllm mllama4.py).
func llama4Tower(t *towers) {
	t.torch = true // as far as quantisation goes
	const name = "vision_model"
	c := t.sub("vision_config")
	width, heads, patch := c.size("hidden_size"), c.size("num_attention_heads"), c.size("patch_size")
	patches := square(c.size("image_size"), patch)
	t.linear(name+".patch_embedding.linear", sharded(width, "hidden_size"), whole(c.opt("num_channels", 3)*patch*patch), false)
	t.plain(name+".class_embedding", width)
	t.plain(name+".positional_embedding_vlm", patches+1, width)
	t.norm(name+".layernorm_pre", width, true)
	t.norm(name+".layernorm_post", width, true)
	inner := c.size("intermediate_size")
	t.vit(vit{name: name + ".model.layers", layers: c.size("num_hidden_layers"), width: width, heads: heads, mlp: inner,
		names: vitNames{plainNames.qkv, "self_attn.o_proj", "mlp.fc1", "mlp.fc2", []string{"input_layernorm", "post_attention_layernorm"}}}.biased())
	in, out := c.size("projector_input_dim"), c.size("projector_output_dim")
	biased := c.flag("multi_modal_projector_bias", false)
	t.linear(name+".vision_adapter.mlp.fc1", sharded(in, "projector_input_dim"), whole(inner), biased)
	t.linear(name+".vision_adapter.mlp.fc2", whole(out), sharded(in, "projector_input_dim"), biased)
	t.linear("multi_modal_projector.linear_1", sharded(t.hidden, "hidden_size"), whole(c.size("vision_output_dim")), false)
	const complex64 = 8 // bytes
	t.buffer(name+".rotary_emb.cos_sin_cache", complex64*(patches+1)*(width/max(heads, 1)/2), dtype.UInt8)
}

// kimiTower is MoonViT. The engine puts it into the model's dtype as a whole, unless its
// modules know a quantisation, which those of compressed-tensors do not (vllm kimi_k25.py).
func kimiTower(t *towers) {
	method, _ := t.Quantization()
	t.moonViT(method == "" || method == "compressed-tensors")
}

// kimiK3Tower knows MXFP4, which its checkpoint calls compressed-tensors.
func kimiK3Tower(t *towers) {
	method, _ := t.Quantization()
	t.moonViT(method == "")
}

// moonViT adds MoonViT in space and time (vllm kimi_k25_vit.py).
func (t *towers) moonViT(cast bool) {
	t.torch = cast
	c := t.sub("vision_config")
	width, heads, patch := c.size("hidden_size"), c.size("num_attention_heads"), c.size("patch_size")
	inside := c.opt("qkv_hidden_size", width)
	t.evenly = heads
	rms := false
	if kind, ok := c.Text("norm_type"); ok && kind != "layernorm" {
		rms = true
	}
	t.conv("vision_tower.patch_embed.proj", width, 3*patch*patch, c.flag("patch_embed_proj_bias", true))
	height, _ := c.first("init_pos_emb_height", "pos_emb_height")
	wide, _ := c.first("init_pos_emb_width", "pos_emb_width")
	frames, _ := c.first("init_pos_emb_time", "pos_emb_time")
	t.plain("vision_tower.patch_embed.pos_emb.weight", height*wide, width)
	times := dtype.Float32
	if cast {
		times = dtype.Unknown
	}
	t.buffer("vision_tower.patch_embed.pos_emb.time_weight", frames*width, times)
	v := vit{name: "vision_tower.encoder.blocks", layers: c.size("num_hidden_layers"), width: width, heads: heads, headDim: inside / max(heads, 1),
		mlp: c.size("intermediate_size"), rms: rms, names: vitNames{"wqkv", "wo", "mlp.fc0", "mlp.fc1", []string{"norm0", "norm1"}}}
	v.qkvBias = c.flag("attn_bias", true)
	v.outBias, v.mlpBias = v.qkvBias, c.flag("linear_bias", true)
	t.vit(v)
	t.norm("vision_tower.encoder.final_layernorm", width, !rms)
	kernel := c.pair("merge_kernel_size")
	merge := kernel[0] * kernel[1]
	kind, _ := c.Text("mm_projector_type")
	second := kind == "patchmergerv2"
	if !second {
		t.norm("mm_projector.pre_norm", width, true)
	}
	t.conv("mm_projector.linear_1", width*merge, width*merge, !second)
	t.conv("mm_projector.linear_2", t.hidden, width*merge, !second)
	if second {
		t.norm("mm_projector.post_norm", t.hidden, false)
	}
}

// glm4vTower has gated MLPs as wide as what goes out, and a convolution that merges patches
// (vllm glm4_1v.py).
func glm4vTower(t *towers) {
	const name = "visual"
	c := t.sub("vision_config")
	width, heads, out := c.size("hidden_size"), c.size("num_heads"), c.size("out_hidden_size")
	t.patches(name+".patch_embed.proj", c, width, true)
	t.vit(vit{name: name + ".blocks", layers: c.size("depth"), width: width, heads: heads, mlp: out, gated: true, rms: true, names: t.glmNames("compressed-tensors")})
	t.glmMerger(c, width, out, c.size("intermediate_size"))
	positions := square(c.size("image_size"), c.size("patch_size"))
	t.plain(name+".embeddings.position_embedding.weight", positions, width)
	t.buffer(name+".embeddings.position_ids", positions, dtype.Int64)
	t.norm(name+".post_conv_layernorm", width, false)
	t.turned(width / max(heads, 1))
}

// glmOCRTower has biases, norms of queries and keys, and no positions (vllm glm_ocr.py).
func glmOCRTower(t *towers) {
	c := t.sub("vision_config")
	width, heads, out := c.size("hidden_size"), c.size("num_heads"), c.size("out_hidden_size")
	t.patches("visual.patch_embed.proj", c, width, true)
	v := vit{name: "visual.blocks", layers: c.size("depth"), width: width, heads: heads, mlp: c.size("intermediate_size"), gated: true, rms: true, names: t.glmNames("")}
	v.qkNorm = width / max(heads, 1)
	t.vit(v.biased())
	t.glmMerger(c, width, out, t.size("intermediate_size"))
	t.turned(width / max(heads, 1))
}

// glmNames are names of GLM's layers: lists of quantised checkpoints call queries, keys and
// values otherwise, of one method or of all (vllm glm4_1v.py, glm_ocr.py).
func (t *towers) glmNames(method string) vitNames {
	names := gatedNames
	if m, _ := t.Quantization(); m != "" && (method == "" || m == method) {
		names.qkv = "attn.qkv_proj"
	}
	return names
}

// glmMerger adds what GLM's towers end in.
func (t *towers) glmMerger(c *reader, width, out, inner int) {
	const name = "visual.merger"
	merge := c.opt("spatial_merge_size", 2)
	t.linear(name+".proj", sharded(out, "out_hidden_size"), whole(out), false)
	t.norm(name+".post_projection_norm", out, true)
	t.mlp([]string{name + ".gate_proj", name + ".up_proj"}, name+".down_proj", out, inner, out, true, false)
	t.conv("visual.downsample", out, width*merge*merge, true)
	t.norm("visual.post_layernorm", width, false)
}

// internS1Tower is InternViT in Transformers' form: attention that every rank holds whole,
// MLPs that they divide (vllm interns1_vit.py).
func internS1Tower(t *towers) {
	const name = "vision_tower"
	c, top := t.sub("vision_config"), t.topReader()
	width, inner := c.size("hidden_size"), c.size("intermediate_size")
	patch, image := c.pair("patch_size"), c.pair("image_size")
	t.plain(name+".embeddings.cls_token", width)
	if c.flag("use_mask_token", false) {
		t.plain(name+".embeddings.mask_token", width)
	}
	t.conv(name+".embeddings.patch_embeddings.projection", width, c.opt("num_channels", 3)*patch[0]*patch[1], true)
	if c.flag("use_absolute_position_embeddings", true) {
		t.plain(name+".embeddings.position_embeddings", image[0]/max(patch[0], 1)*(image[1]/max(patch[1], 1))+1, width)
	}
	biased, rms := c.flag("attention_bias", false), false
	if kind, ok := c.Text("norm_type"); ok && kind == "rms_norm" {
		rms = true
	}
	t.layers(c.size("num_hidden_layers"), func() {
		at := name + ".encoder.layer.*."
		for _, part := range []string{"q_proj", "k_proj", "v_proj"} {
			t.conv(at+"attention."+part, width, width, biased)
		}
		if c.flag("use_qk_norm", false) {
			t.norm(at+"attention.q_norm", width, false)
			t.norm(at+"attention.k_norm", width, false)
		}
		t.conv(at+"attention.projection_layer", width, width, true)
		t.mlp([]string{at + "mlp.fc1"}, at+"mlp.fc2", width, inner, width, false, true)
		t.norm(at+"layernorm_before", width, !rms)
		t.norm(at+"layernorm_after", width, !rms)
		t.plain(at+"lambda_1", width)
		t.plain(at+"lambda_2", width)
	})
	if !c.flag("use_mean_pooling", true) {
		t.norm(name+".layernorm", width, true)
	}
	ratio, ok := top.Float("downsample_ratio")
	if !ok || ratio <= 0 || ratio > 1 {
		ratio = 0.5
	}
	in := width * int(1/ratio) * int(1/ratio)
	t.norm("multi_modal_projector.layer_norm", in, true)
	t.projector(in, t.hidden, true, false)
}

// pair reads two sizes, or one that counts for both.
func (r *reader) pair(key string) [2]int {
	if n, ok := r.Int(key); ok && n > 0 && n <= maxTower {
		return [2]int{int(n), int(n)}
	}
	list, _ := r.List(key)
	if len(list) != 2 {
		r.fail(problem.MissingField, key, "not two sizes")
		return [2]int{1, 1}
	}
	var out [2]int
	for i := range out {
		n, ok := list[i].Int()
		if !ok || n < 1 || n > maxTower {
			r.fail(problem.BadValue, key, "not two sizes")
			n = 1
		}
		out[i] = int(n)
	}
	return out
}

// widened is a width times the ratio at key.
func (r *reader) widened(width int, key string) int {
	const most = 64
	ratio, ok := r.Float(key)
	if !ok || !(ratio > 0 && ratio <= most) {
		r.fail(problem.BadValue, key, "not between 0 and %d", most)
		return width
	}
	return int(float64(width) * ratio)
}

// ovisTower is AIMv2, whose states become probabilities over a vocabulary of pictures, of
// which each word has an embedding (vllm ovis.py, aimv2.py).
func ovisTower(t *towers) {
	const name = "visual_tokenizer"
	c := t.sub("visual_tokenizer_config")
	b := t.sub("visual_tokenizer_config", "backbone_config")
	if kind, _ := b.Text("model_type"); kind != "aimv2" && kind != "aimv2_vision_model" {
		b.fail(problem.Unsupported, "model_type", "not an encoder that is known")
	}
	width, patch := b.size("hidden_size"), b.size("patch_size")
	const trunk = name + ".backbone.trunk.blocks"
	t.conv(name+".backbone.preprocessor.patchifier.proj", width, b.opt("num_channels", 3)*patch*patch, true)
	t.norm(name+".backbone.preprocessor.patchifier.norm", width, false)
	t.plain(name+".backbone.preprocessor.pos_embed", square(b.size("image_size"), patch), width)
	v := vit{name: trunk, layers: b.size("num_hidden_layers"), width: width, heads: b.size("num_attention_heads"), mlp: b.size("intermediate_size"),
		gated: true, rms: true, qkvBias: b.flag("qkv_bias", false), outBias: b.flag("mlp_bias", false),
		names: vitNames{"attn.qkv", "attn.proj", "mlp.fc1 mlp.fc3", "mlp.fc2", []string{"norm_1", "norm_2"}}}
	v.mlpBias = v.outBias
	t.vit(v)
	const indicators = 5 // words that no picture becomes
	words, stride := c.size("vocab_size"), c.opt("hidden_stride", 1)
	t.conv(name+".head.0", words-indicators, width*stride*stride, false)
	t.norm(name+".head.1", words-indicators, true)
	t.plain("vte.weight", words, t.topReader().size("hidden_size"))
}

// paddleOCRTower is SigLIP whose heads turn, and an MLP that merges patches, whole on each
// rank (vllm paddleocr_vl.py).
func paddleOCRTower(t *towers) {
	c := t.sub("vision_config")
	width, merge := c.size("hidden_size"), c.opt("spatial_merge_size", 2)
	t.siglip("visual.vision_model", c, c.size("num_hidden_layers"), true)
	t.buffer("visual.vision_model.encoder.rotary_pos_emb.inv_freq", width/max(c.size("num_attention_heads"), 1)/4, dtype.Float32)
	wide := width * merge * merge
	t.norm("mlp_AR.pre_norm", width, true)
	t.conv("mlp_AR.linear_1", wide, wide, true)
	t.conv("mlp_AR.linear_2", t.hidden, wide, true)
}

// museGlimmerTower has an MLP in each layer, and an adapter, that are whole on each rank
// (vllm muse_glimmer.py).
func museGlimmerTower(t *towers) {
	const name = "vision_encoder"
	c, top := t.sub("vision_config"), t.topReader()
	width, inner, patch, merge := c.size("hidden_size"), c.size("intermediate_size"), c.size("patch_size"), c.opt("merge_size", 2)
	t.evenly = c.size("num_attention_heads")
	t.plain(name+".positional_embedding_vlm", c.size("max_position_embeddings"), width)
	t.conv(name+".conv1_linear", width, 3*c.opt("patch_temporal", 2)*patch*patch, false)
	t.norm(name+".ln_pre", width, true)
	heads := headsOf(c.size("num_attention_heads"), width/max(c.size("num_attention_heads"), 1))
	t.layers(c.size("num_hidden_layers"), func() {
		at := name + ".transformer.*."
		t.norm(at+"ln_1", width, true)
		t.norm(at+"ln_2", width, true)
		for _, part := range []string{"q_proj", "k_proj", "v_proj"} {
			t.linear(at+"attn."+part, heads, whole(width), true)
		}
		t.out(at+"attn.o_proj", whole(width), heads, true)
		t.conv(at+"mlp.c_fc", inner, width, true)
		t.conv(at+"mlp.c_proj", width, inner, true)
	})
	t.norm(name+".ln_post", width, true)
	adapted := top.size("projector_hidden_size")
	t.conv("vision_adapter.c_fc", adapted, width*merge*merge, false)
	t.conv("vision_adapter.c_proj", adapted, adapted, false)
	t.conv("vision_projection", t.hidden, adapted, false)
}

// miniCPMV46Tower is Idefics' encoder, with one more attention that merges patches amid its
// layers, and mergers that are whole on each rank (vllm minicpmv4_6.py).
func miniCPMV46Tower(t *towers) {
	c := t.sub("vision_config")
	width, inner := c.size("hidden_size"), c.size("intermediate_size")
	layers := c.size("num_hidden_layers")
	if t.topReader().flag("drop_vision_last_layer", false) {
		layers--
	}
	t.idefics("vpm", c, layers)
	heads := headsOf(c.size("num_attention_heads"), width/max(c.size("num_attention_heads"), 1))
	for _, part := range []string{"q_proj", "k_proj", "v_proj"} {
		t.linear("vit_merger.self_attn."+part, heads, whole(width), true)
	}
	const four = 4 // patches that are merged
	t.out("vit_merger.self_attn.out_proj", whole(width), heads, true)
	t.norm("vit_merger.layer_norm1", width, true)
	t.norm("vit_merger.pre_norm", four*width, true)
	t.conv("vit_merger.linear_1", four*inner, four*width, true)
	t.conv("vit_merger.linear_2", width, four*inner, true)
	t.norm("merger.mlp.0.pre_norm", four*width, true)
	t.conv("merger.mlp.0.linear_1", four*width, four*width, true)
	t.conv("merger.mlp.0.linear_2", t.hidden, four*width, true)
}

// colPaliTower is PaliGemma's, and a projection of the text model's states to embeddings (vllm
// colpali.py).
func colPaliTower(t *towers) {
	c := t.sub("vlm_config", "vision_config")
	t.siglip("vlm.vision_tower.vision_model", c, c.size("num_hidden_layers"), true)
	t.conv("vlm.multi_modal_projector.linear", c.size("projection_dim"), c.size("hidden_size"), true)
	t.stage = EveryStage
	t.plain("embedding_proj_layer.weight", t.topReader().opt("embedding_dim", 128), t.hidden)
	t.params[len(t.params)-1].DType = dtype.Float32
}

// molmoTower is CLIP of a fixed size without its last layers, queries that pool patches, and
// a gated projection as wide as the text model's (vllm molmo.py, VisionBackboneConfig).
func molmoTower(t *towers) {
	const (
		name   = "model.vision_backbone"
		width  = 1024
		heads  = 16
		layers = 23
		inner  = 4096
		patch  = 14
		image  = 336
		read   = 2 // layers whose states are pooled, side by side
	)
	t.plain(name+".pad_embed", 2, read*width)
	t.plain(name+".image_vit.class_embedding", width)
	t.plain(name+".image_vit.positional_embedding", square(image, patch)+1, width)
	t.conv(name+".image_vit.patch_embedding", width, 3*patch*patch, false)
	t.norm(name+".image_vit.pre_ln", width, true)
	t.vit(vit{name: name + ".image_vit.transformer.resblocks", layers: layers, width: width, heads: heads, mlp: inner,
		names: vitNames{"attention.wq attention.wk attention.wv", "attention.wo", "feed_forward.w1", "feed_forward.w2", []string{"attention_norm", "ffn_norm"}}}.biased())
	inside := headsOf(heads, width/heads)
	for _, part := range []string{"wq", "wk", "wv"} {
		t.linear(name+".image_pooling_2d."+part, inside, whole(read*width), true)
	}
	t.out(name+".image_pooling_2d.wo", whole(width), inside, true)
	projected := sharded(t.size("intermediate_size")/2, "intermediate_size")
	t.linear(name+".image_projector.w1", projected, whole(width), false)
	t.linear(name+".image_projector.w3", projected, whole(width), false)
	t.out(name+".image_projector.w2", whole(t.hidden), projected, false)
}

// deepSeekVL2Tower is timm's SigLIP with the head that pools, of which ranks divide MLPs
// alone, an MLP over four patches, and states for the end of a line and of a view, on each stage (vllm
// deepseek_vl2.py).
func deepSeekVL2Tower(t *towers) {
	const name = "vision"
	c, p := t.sub("vision_config"), t.sub("projector_config")
	width, patch := c.size("width"), c.size("patch_size")
	inner := c.widened(width, "mlp_ratio")
	t.plain(name+".pos_embed", square(c.opt("image_size", 384), patch), width)
	t.conv(name+".patch_embed.proj", width, 3*patch*patch, true)
	t.layers(c.size("layers"), func() {
		at := name + ".blocks.*."
		t.conv(at+"attn.qkv", 3*width, width, true)
		t.conv(at+"attn.proj", width, width, true)
		t.mlp([]string{at + "mlp.fc1"}, at+"mlp.fc2", width, inner, width, false, true)
		t.norm(at+"norm1", width, true)
		t.norm(at+"norm2", width, true)
	})
	t.norm(name+".norm", width, true)
	const pool = name + ".attn_pool"
	t.plain(pool+".latent", width)
	t.conv(pool+".q", width, width, true)
	t.conv(pool+".kv", 2*width, width, true)
	t.conv(pool+".proj", width, width, true)
	t.norm(pool+".norm", width, true)
	t.mlp([]string{pool + ".mlp.fc1"}, pool+".mlp.fc2", width, inner, width, false, true)
	out := p.size("n_embed")
	t.conv("projector.layers.0", out, 4*width, true)
	t.conv("projector.layers.2", out, out, true)
	t.stage = EveryStage
	t.plain("image_newline", out)
	t.plain("view_seperator", out)
}

// colModernVBertTower is SigLIP whose patches are shuffled, beside an encoder of text, and a
// projection to embeddings (vllm colmodernvbert.py).
func colModernVBertTower(t *towers) {
	c, top := t.sub("vision_config"), t.topReader()
	t.siglip("vision_model.vision_model", c, c.size("num_hidden_layers"), true)
	factor := top.opt("pixel_shuffle_factor", 4)
	t.conv("connector.proj", t.hidden, c.size("hidden_size")*factor*factor, false)
	for _, one := range []Param{{Rows: whole(top.opt("embedding_dim", 128)), Cols: whole(t.hidden)}, {Rows: whole(top.opt("embedding_dim", 128))}} {
		one.Name, one.DType = "custom_text_proj", dtype.Float32
		t.add(one)
	}
}
