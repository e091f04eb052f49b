package model

import (
	"headcount/dtype"
	"headcount/problem"
)

// turned adds the table of rotary positions of a tower whose heads turn by half: 8192 rows
// of cosines and sines (vllm rotary_embedding, get_rope).
func (t *towers) turned(headDim int) {
	t.buffer("rotary_pos_emb.cos_sin_cache", 8192*(headDim/2), dtype.Unknown)
}

// qwen2VLTower is a vision transformer whose patches are merged by an MLP (vllm qwen2_vl.py).
func qwen2VLTower(t *towers) {
	c := t.sub("vision_config")
	width, heads := c.size("embed_dim"), c.size("num_heads")
	t.patches("visual.patch_embed.proj", c, width, false)
	t.vit(vit{name: "visual.blocks", layers: c.size("depth"), width: width, heads: heads, mlp: c.widened(width, "mlp_ratio"), names: qkvNames}.biased())
	t.merger("visual.merger", mergerMLP, width, width, c.opt("spatial_merge_size", 2), c.size("hidden_size"), true)
	t.turned(width / max(heads, 1))
}

// qwen25VLTower has RMS norms and gated MLPs (vllm qwen2_5_vl.py).
func qwen25VLTower(t *towers) { t.qwen25VL(t.sub("vision_config")) }

// exaone45Tower is the same with fewer heads of keys and values (vllm exaone4_5.py).
func exaone45Tower(t *towers) { t.qwen25VL(t.sub("vision_config")) }

func (t *towers) qwen25VL(c *reader) {
	width, heads := c.size("hidden_size"), c.size("num_heads")
	t.patches("visual.patch_embed.proj", c, width, false)
	v := vit{name: "visual.blocks", layers: c.size("depth"), width: width, heads: heads, kv: c.opt("num_key_value_heads", 0), mlp: c.size("intermediate_size"), gated: true, rms: true, names: gatedNames}
	t.vit(v.biased())
	t.merger("visual.merger", mergerMLP, width, width, c.opt("spatial_merge_size", 2), c.size("out_hidden_size"), false)
	t.turned(width / max(heads, 1))
}

// qwen3VLTower has learned positions, and mergers of the states of some of its layers that
// are added to the text model's (vllm qwen3_vl.py).
func qwen3VLTower(t *towers) {
	c := t.sub("vision_config")
	width, heads, merge, out := c.size("hidden_size"), c.size("num_heads"), c.opt("spatial_merge_size", 2), c.size("out_hidden_size")
	t.patches("visual.patch_embed.proj", c, width, true)
	t.plain("visual.pos_embed.weight", c.size("num_position_embeddings"), width)
	t.vit(vit{name: "visual.blocks", layers: c.size("depth"), width: width, heads: heads, mlp: c.size("intermediate_size"), names: linearNames}.biased())
	t.merger("visual.merger", mergerLinear, width, width, merge, out, true)
	deep, _ := c.List("deepstack_visual_indexes")
	t.layers(len(deep), func() {
		t.merger("visual.deepstack_merger_list.*", mergerLinear, width*merge*merge, width, merge, out, true)
	})
	t.turned(width / max(heads, 1))
}

// patches adds the convolution that makes a patch of several frames a state.
func (t *towers) patches(name string, c *reader, width int, biased bool) {
	side := c.size("patch_size")
	channels, _ := c.first("in_channels", "in_chans", "num_channels")
	frames := c.opt("temporal_patch_size", 2)
	if frames > 1<<10 {
		c.fail(problem.BadValue, "temporal_patch_size", "more than %d frames in a patch", 1<<10)
	}
	t.conv(name, width, max(channels, 3)*frames*side*side, biased)
}

// Names of a merger's norm and its two projections.
var (
	mergerMLP    = [3]string{"ln_q", "mlp.0", "mlp.2"}
	mergerLinear = [3]string{"norm", "linear_fc1", "linear_fc2"}
)

// merger adds an MLP over the states of merge × merge patches, after a norm of normed
// elements.
func (t *towers) merger(name string, names [3]string, normed, width, merge, out int, normBias bool) {
	wide := width * merge * merge
	t.norm(name+"."+names[0], normed, normBias)
	t.mlp([]string{name + "." + names[1]}, name+"."+names[2], wide, wide, out, false, true)
}
