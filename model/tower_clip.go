package model

import (
	"headcount/dtype"
	"headcount/problem"
)

// siglip adds a SigLIP encoder (vllm siglip.py): of so many layers, with the norm at its end
// or without. The head that pools is left out.
func (t *towers) siglip(name string, c *reader, layers int, postNorm bool) {
	width, heads := c.size("hidden_size"), c.size("num_attention_heads")
	patch, positions := c.size("patch_size"), square(c.size("image_size"), c.size("patch_size"))
	t.conv(name+".embeddings.patch_embedding", width, c.opt("num_channels", 3)*patch*patch, true)
	t.plain(name+".embeddings.position_embedding.weight", positions, width)
	t.buffer(name+".embeddings.position_ids", positions, dtype.Int64)
	t.vit(vit{name: name + ".encoder.layers", layers: layers, width: width, heads: heads, mlp: c.size("intermediate_size"), names: plainNames}.biased())
	if postNorm {
		t.norm(name+".post_layernorm", width, true)
	}
}

// A clipShape is the sizes of a CLIP encoder.
type clipShape struct{ width, heads, layers, mlp, patch, image, channels int }

func (c *reader) clip() clipShape {
	return clipShape{c.size("hidden_size"), c.size("num_attention_heads"), c.size("num_hidden_layers"), c.size("intermediate_size"),
		c.size("patch_size"), c.size("image_size"), c.opt("num_channels", 3)}
}

// clip adds a CLIP encoder of so many layers, with the norm at its end only where all are
// there, if at all (vllm clip.py).
func (t *towers) clip(name string, c clipShape, layers int, postNorm bool) {
	positions := square(c.image, c.patch) + 1
	t.plain(name+".embeddings.class_embedding", c.width)
	t.conv(name+".embeddings.patch_embedding", c.width, c.channels*c.patch*c.patch, false)
	t.plain(name+".embeddings.position_embedding.weight", positions, c.width)
	t.buffer(name+".embeddings.position_ids", positions, dtype.Int64)
	t.norm(name+".pre_layrnorm", c.width, true)
	t.vit(vit{name: name + ".encoder.layers", layers: layers, width: c.width, heads: c.heads, mlp: c.mlp, names: plainNames}.biased())
	if postNorm && layers == c.layers {
		t.norm(name+".post_layernorm", c.width, true)
	}
}

// pixtral adds Pixtral's encoder (vllm pixtral.py, PixtralHFVisionModel).
func (t *towers) pixtral(name string, c *reader, layers int) {
	width, heads, patch := c.size("hidden_size"), c.size("num_attention_heads"), c.size("patch_size")
	t.conv(name+".patch_conv", width, c.opt("num_channels", 3)*patch*patch, false)
	t.norm(name+".ln_pre", width, false)
	t.vit(vit{name: name + ".transformer.layers", layers: layers, width: width, heads: heads, mlp: c.size("intermediate_size"), gated: true, rms: true,
		names: vitNames{"attention.q_proj attention.k_proj attention.v_proj", "attention.o_proj", "feed_forward.gate_proj feed_forward.up_proj",
			"feed_forward.down_proj", []string{"attention_norm", "ffn_norm"}}})
	frequencies := width / max(heads, 1) / 2
	t.buffer(name+".patch_positional_embedding.inv_freq", frequencies, dtype.Float32)
	t.buffer(name+".patch_positional_embedding.original_inv_freq", frequencies, dtype.Float32)
}

// features is how many layers of an encoder there must be for the states that
// vision_feature_layer names (vllm llava.py, _get_num_hidden_layers).
func (t *towers) features(layers int) int {
	v, ok := t.top.Value("vision_feature_layer")
	deepest := 0
	list := v.List()
	if n, isInt := v.Int(); isInt {
		deepest = featureLayer(n, layers)
	}
	for _, one := range list {
		n, _ := one.Int()
		deepest = max(deepest, featureLayer(n, layers))
	}
	if !ok || deepest < 0 || deepest > layers {
		return layers
	}
	return deepest
}

func featureLayer(n int64, layers int) int {
	if n < 0 {
		return layers + int(max(n, int64(-layers)-1)) + 1
	}
	return int(min(n, int64(layers)))
}

// llavaEncoder adds the encoder of a Llava, by the kind of its vision config.
func (t *towers) llavaEncoder() (c *reader) {
	const name = "vision_tower"
	c = t.sub("vision_config")
	layers := t.features(c.size("num_hidden_layers"))
	switch c.ModelType() {
	case "clip_vision_model":
		t.clip(name+".vision_model", c.clip(), layers, false)
	case "siglip_vision_model":
		t.siglip(name+".vision_model", c, layers, false)
	case "pixtral":
		t.pixtral(name, c, layers)
	default:
		c.fail(problem.Unsupported, "model_type", "not an encoder that is known")
	}
	return c
}

// projector adds two projections to the text model's width, which ranks divide unless they
// are torch's own.
func (t *towers) projector(in, inner int, biased, divided bool) {
	middle := whole(inner)
	if divided {
		middle = sharded(inner, "hidden_size")
	}
	t.linear("multi_modal_projector.linear_1", middle, whole(in), biased)
	t.out("multi_modal_projector.linear_2", whole(t.hidden), middle, biased)
}

func (t *towers) projectorBias() bool { return t.topReader().flag("multimodal_projector_bias", true) }

func llavaTower(t *towers) {
	c := t.llavaEncoder()
	t.projector(c.size("hidden_size"), t.hidden, t.projectorBias(), true)
}

func llavaNextVideoTower(t *towers) {
	c := t.llavaEncoder()
	t.projector(c.size("hidden_size"), t.hidden, t.projectorBias(), false)
}

// llavaOnevisionTower has a state for the end of a line of patches, on each stage
// (vllm llava_onevision.py).
func llavaOnevisionTower(t *towers) {
	llavaNextVideoTower(t)
	t.stage = EveryStage
	t.plain("image_newline", t.hidden)
}

// rvlTower normalises what its projections take, which have biases and are on each stage
// (vllm rvl.py).
func rvlTower(t *towers) {
	width := t.llavaEncoder().size("hidden_size")
	t.stage = EveryStage
	t.norm("multi_modal_projector.pre_norm", width, true)
	t.projector(width, t.hidden, true, false)
	t.plain("image_newline", t.hidden)
}

// mistral3Tower merges Pixtral's patches (vllm mistral3.py).
func mistral3Tower(t *towers) {
	c := t.sub("vision_config")
	width, merge := c.size("hidden_size"), t.topReader().opt("spatial_merge_size", 2)
	t.pixtral("vision_tower", c, t.features(c.size("num_hidden_layers")))
	t.norm("multi_modal_projector.norm", width, false)
	t.conv("multi_modal_projector.patch_merger.merging_layer", width, width*merge*merge, false)
	t.projector(width, t.hidden, t.topReader().flag("multimodal_projector_bias", false), true)
}

// gemma3Tower is SigLIP and a projection without bias (vllm gemma3_mm.py).
func gemma3Tower(t *towers) {
	c := t.sub("vision_config")
	t.siglip("vision_tower.vision_model", c, c.size("num_hidden_layers"), true)
	t.plain("multi_modal_projector.mm_input_projection_weight", c.size("hidden_size"), t.hidden)
	t.norm("multi_modal_projector.mm_soft_emb_norm", c.size("hidden_size"), false)
}

// idefics3Tower is SigLIP without head and a projection of shuffled patches that is whole
// on each rank (vllm idefics3.py, idefics2_vision_model.py).
func idefics3Tower(t *towers) {
	c, top := t.sub("vision_config"), t.topReader()
	width, scale := c.size("hidden_size"), top.opt("scale_factor", 2)
	t.idefics("model.vision_model", c, c.size("num_hidden_layers"))
	t.conv("model.connector.modality_projection.proj", t.hidden, width*scale*scale, false)
}

// idefics adds the encoder of Idefics 2, with the norm at its end.
func (t *towers) idefics(name string, c *reader, layers int) {
	width, patch := c.size("hidden_size"), c.size("patch_size")
	t.conv(name+".embeddings.patch_embedding", width, c.opt("num_channels", 3)*patch*patch, true)
	t.plain(name+".embeddings.position_embedding.weight", square(c.size("image_size"), patch), width)
	t.vit(vit{name: name + ".encoder.layers", layers: layers, width: width, heads: c.size("num_attention_heads"),
		mlp: c.size("intermediate_size"), names: plainNames}.biased())
	t.norm(name+".post_layernorm", width, true)
}

// lfm2VLTower is SigLIP 2, whose patches are projected, not convolved (vllm lfm2_vl.py).
func lfm2VLTower(t *towers) {
	const name = "model.vision_tower.vision_model"
	c, top := t.sub("vision_config"), t.topReader()
	width, patch := c.size("hidden_size"), c.size("patch_size")
	t.conv(name+".embeddings.patch_embedding", width, c.opt("num_channels", 3)*patch*patch, true)
	t.plain(name+".embeddings.position_embedding.weight", c.size("num_patches"), width)
	t.vit(vit{name: name + ".encoder.layers", layers: c.size("num_hidden_layers"), width: width, heads: c.size("num_attention_heads"),
		mlp: c.size("intermediate_size"), names: plainNames}.biased())
	t.norm(name+".post_layernorm", width, true)
	factor, inner, biased := top.opt("downsample_factor", 2), top.size("projector_hidden_size"), top.flag("projector_bias", true)
	if in := width * factor * factor; top.flag("projector_use_layernorm", true) {
		t.norm("model.multi_modal_projector.layer_norm", in, true)
	}
	t.projector(width*factor*factor, inner, biased, false)
}

// cohere2VisionTower is SigLIP and a gated projection (vllm cohere2_vision.py).
func cohere2VisionTower(t *towers) {
	c, top := t.sub("vision_config"), t.topReader()
	factor := top.opt("downsample_factor", 2)
	t.siglip("vision_tower.vision_model", c, c.size("num_hidden_layers"), true)
	inner := top.size("alignment_intermediate_size") / 2
	in, width := whole(c.size("hidden_size")*factor*factor), sharded(inner, "alignment_intermediate_size")
	t.linear("multi_modal_projector.linear_1", width, in, true)
	t.linear("multi_modal_projector.linear_1", width, in, true)
	t.out("multi_modal_projector.linear_2", whole(t.hidden), width, true)
}

// phi3VTower is CLIP of a fixed size, to the layer that img_processor names, and a
// projection of four patches each (vllm phi3v.py).
func phi3VTower(t *towers) {
	clip := clipShape{width: 1024, heads: 16, layers: 24, mlp: 4096, patch: 14, image: 336, channels: 3}
	layer, ok := intOf(t.top.Object("img_processor"), "layer_idx")
	if !ok {
		layer = -2
	}
	layers := featureLayer(layer, clip.layers)
	if layer >= 0 {
		layers = min(layers+1, clip.layers)
	}
	t.clip("model.vision_embed_tokens.img_processor.vision_model", clip, layers, true)
	dim, ok := intOf(t.top.Object("img_processor"), "image_dim_out")
	if !ok || dim < 1 || dim > maxSize {
		dim = 1024
	}
	t.add(Param{Name: "model.embed_tokens.weight", Rows: vocabulary(t.size("vocab_size")), Cols: whole(t.hidden)}) // once more
	wide := 4 * int(dim)
	t.plain("model.vision_embed_tokens.glb_GN", wide)
	t.plain("model.vision_embed_tokens.sub_GN", wide)
	t.conv("model.vision_embed_tokens.img_projection", t.hidden, wide, true)
	t.conv("model.vision_embed_tokens.img_projection", t.hidden, t.hidden, true)
}

// ariaTower is the encoder of Idefics 3 without its last norm, and queries that look at its
// states (vllm aria.py).
func ariaTower(t *towers) {
	c, top := t.sub("vision_config"), t.topReader()
	width := c.size("hidden_size")
	n := len(t.params)
	t.idefics("vision_tower", c, c.size("num_hidden_layers"))
	t.params = t.params[:max(n, len(t.params)-2)] // not the norm at the end
	const name = "multi_modal_projector"
	t.plain(name+".query", top.ariaQueries(), width)
	t.conv(name+".cross_attn.q_proj", width, width, false)
	t.conv(name+".cross_attn.k_proj", width, width, false)
	t.conv(name+".cross_attn.v_proj", width, width, false)
	t.plain(name+".cross_attn.multihead_attn.in_proj_weight", 3*width, width)
	t.plain(name+".cross_attn.multihead_attn.in_proj_bias", 3*width)
	t.conv(name+".cross_attn.multihead_attn.out_proj", width, width, true)
	t.conv(name+".cross_attn.linear", width, width, true)
	t.norm(name+".cross_attn.layer_norm", width, true)
	t.norm(name+".cross_attn.layer_norm_kv", width, true)
	t.norm(name+".layer_norm", width, true)
	inner := sharded(t.hidden, "hidden_size")
	t.linear(name+".feed_forward.linear_in", inner, whole(width), false)
	t.out(name+".feed_forward.linear_out", whole(t.hidden), inner, false)
}

// ariaQueries is the most queries that projector_patch_to_query_dict has for a picture.
func (r *reader) ariaQueries() int {
	dict, most := r.Object("projector_patch_to_query_dict"), int64(0)
	for _, key := range dict.Keys() {
		n, _ := intOf(dict, key)
		most = max(most, n)
	}
	if most < 1 || most > maxSize {
		r.fail(problem.MissingField, "projector_patch_to_query_dict", "names no number of queries")
		return 1
	}
	return int(most)
}
