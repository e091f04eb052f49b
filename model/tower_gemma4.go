package model

import (
	"strings"

	"headcount/dtype"
	"headcount/problem"
)

// gemma4Tower sees and hears with Transformers' own modules, which every rank holds whole
// (vllm gemma4_mm.py; transformers modeling_gemma4.py).
func gemma4Tower(t *towers) {
	t.whole = true
	if t.has("vision_config") {
		t.gemma4Vision(t.sub("vision_config"))
	}
	if t.has("audio_config") {
		t.gemma4Audio(t.sub("audio_config"))
	}
}

func (t *towers) gemma4Vision(c *reader) {
	const name = "model.vision_tower"
	width, inner, head, patch := c.size("hidden_size"), c.size("intermediate_size"), c.size("head_dim"), c.size("patch_size")
	q, kv := c.size("num_attention_heads")*head, c.size("num_key_value_heads")*head
	clipped := c.flag("use_clipped_linears", false)
	t.plain(name+".patch_embedder.position_embedding_table", 2, c.size("position_embedding_size"), width)
	t.conv(name+".patch_embedder.input_proj", width, 3*patch*patch, false)
	t.layers(c.size("num_hidden_layers"), func() {
		at := name + ".encoder.layers.*."
		for _, p := range []struct {
			name    string
			out, in int
		}{{"self_attn.q_proj", q, width}, {"self_attn.k_proj", kv, width}, {"self_attn.v_proj", kv, width}, {"self_attn.o_proj", width, q},
			{"mlp.gate_proj", inner, width}, {"mlp.up_proj", inner, width}, {"mlp.down_proj", width, inner}} {
			t.clipped(at+p.name, p.out, p.in, clipped)
		}
		t.norm(at+"self_attn.q_norm", head, false)
		t.norm(at+"self_attn.k_norm", head, false)
		for _, norm := range []string{"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"} {
			t.norm(at+norm, width, false)
		}
	})
	if c.flag("standardize", false) {
		t.buffer(name+".std_bias", width, dtype.Unknown)
		t.buffer(name+".std_scale", width, dtype.Unknown)
	}
	t.buffer(name+".encoder.rotary_emb.inv_freq", 2*(head/4), dtype.Float32) // and once more as it was
	t.asMade(c, name, func(p *Param) bool { return p.Cols.Size == 0 || strings.HasSuffix(p.Name, "_table") })
	t.conv("model.embed_vision.embedding_projection", t.hidden, width, false)
}

// asMade gives what vLLM puts no layer of its own in the place of, and what is computed, the
// dtype that the tower's own config names: it stays as Transformers made it.
func (t *towers) asMade(c *reader, tower string, stays func(*Param) bool) {
	name, ok := c.Text("dtype")
	if !ok {
		name, _ = c.Text("torch_dtype")
	}
	made, ok := dtype.Parse(name)
	if !ok {
		return
	}
	for i := range t.params {
		if p := &t.params[i]; strings.HasPrefix(p.Name, tower+".") && stays(p) {
			p.DType = made
		}
	}
	for i := range t.buffers {
		if p := &t.buffers[i]; strings.HasPrefix(p.Name, tower+".") && p.DType == dtype.Unknown {
			p.DType = made
		}
	}
}

// gemma4Audio adds a Conformer.
func (t *towers) gemma4Audio(c *reader) {
	const name = "model.audio_tower"
	width, heads := c.size("hidden_size"), max(c.size("num_attention_heads"), 1)
	clipped := c.flag("use_clipped_linears", false)
	channels := 1
	const bins = 128 // of the spectrum, halved by each convolution
	left := bins
	for i, n := range c.ints("subsampling_conv_channels") {
		at := name + ".subsample_conv_projection.layer" + string(rune('0'+i))
		t.conv(at+".conv", n, 3*3*channels, false)
		t.norm(at+".norm", n, false)
		if n < 1 || n > maxTower || i > 9 {
			c.fail(problem.BadValue, "subsampling_conv_channels", "not a few numbers of channels")
			return
		}
		channels, left = n, left/2
	}
	t.conv(name+".subsample_conv_projection.input_proj_linear", width, channels*left, false)
	t.layers(c.size("num_hidden_layers"), func() {
		at := name + ".layers.*."
		for _, half := range []string{"feed_forward1", "feed_forward2"} {
			t.clipped(at+half+".ffw_layer_1", 4*width, width, clipped)
			t.clipped(at+half+".ffw_layer_2", width, 4*width, clipped)
			t.norm(at+half+".pre_layer_norm", width, false)
			t.norm(at+half+".post_layer_norm", width, false)
		}
		for _, part := range []string{"q_proj", "k_proj", "v_proj", "post"} {
			t.clipped(at+"self_attn."+part, width, width, clipped)
		}
		t.plain(at+"self_attn.per_dim_scale", width/heads)
		t.conv(at+"self_attn.relative_k_proj", width, width, false)
		t.buffer(at+"self_attn.softcap", 1, dtype.Unknown)
		t.clipped(at+"lconv1d.linear_start", 2*width, width, clipped)
		t.clipped(at+"lconv1d.linear_end", width, width, clipped)
		t.plain(at+"lconv1d.depthwise_conv1d.weight", width, c.size("conv_kernel_size"))
		for _, norm := range []string{"lconv1d.pre_layer_norm", "lconv1d.conv_norm", "norm_pre_attn", "norm_post_attn", "norm_out"} {
			t.norm(at+norm, width, false)
		}
	})
	out := c.size("output_proj_dims")
	t.conv(name+".output_proj", out, width, true)
	t.buffer(name+".rel_pos_enc.inv_timescales", width/2, dtype.Unknown)
	t.asMade(c, name, func(p *Param) bool {
		whole := p.Cols.Size == 0 && !strings.HasSuffix(p.Name, ".output_proj.bias")
		return whole || strings.HasSuffix(p.Name, ".conv.weight") || strings.Contains(p.Name, "depthwise_conv1d")
	})
	t.conv("model.embed_audio.embedding_projection", t.hidden, out, false)
}

// clipped adds a projection that may have bounds of what goes in and comes out.
func (t *towers) clipped(name string, out, in int, bounds bool) {
	if !bounds {
		t.linear(name+".linear", whole(out), whole(in), false)
		return
	}
	t.linear(name+".linear", whole(out), whole(in), false)
	t.buffer(name+".bounds", 4, dtype.Unknown)
}
