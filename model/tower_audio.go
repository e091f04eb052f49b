package model

import "headcount/dtype"

// A listener is an encoder like Whisper's: two convolutions over the spectrum, then layers.
type listener struct {
	name              string
	width, heads, mlp int
	layers, mel       int
	keyBias           bool
	names             vitNames
}

var whisperLayer = vitNames{plainNames.qkv, "self_attn.out_proj", "fc1", "fc2", []string{"self_attn_layer_norm", "final_layer_norm"}}

// whisperLike reads an audio config by Whisper's names.
func (c *reader) whisperLike(name string) listener {
	return listener{name: name, width: c.size("d_model"), heads: c.size("encoder_attention_heads"), mlp: c.size("encoder_ffn_dim"),
		layers: c.size("encoder_layers"), mel: c.size("num_mel_bins"), names: whisperLayer}
}

// listen adds the convolutions and the layers.
func (t *towers) listen(l listener) {
	const taps = 3
	t.conv(l.name+".conv1", l.width, taps*l.mel, true)
	t.conv(l.name+".conv2", l.width, taps*l.width, true)
	t.hear(l)
}

// hear adds the layers. Whisper's keys have no bias, but for an engine that joins them with
// queries and values.
func (t *towers) hear(l listener) {
	n := len(t.params)
	t.vit(vit{name: l.name + ".layers", layers: l.layers, width: l.width, heads: l.heads, mlp: l.mlp, names: l.names}.biased())
	if l.keyBias {
		return
	}
	kept := t.params[:n]
	for _, p := range t.params[n:] {
		if p.Name != l.name+".layers.*.self_attn.k_proj.bias" {
			kept = append(kept, p)
		}
	}
	t.params = kept
}

// qwen2AudioTower is Whisper's encoder of Transformers, whole on each rank, and a projection
// (vllm qwen2_audio.py).
func qwen2AudioTower(t *towers) {
	c := t.sub("audio_config")
	t.whole, t.torch = true, true
	l := c.whisperLike("audio_tower")
	t.listen(l)
	t.plain("audio_tower.embed_positions.weight", c.opt("max_source_positions", 1500), l.width)
	t.norm("audio_tower.layer_norm", l.width, true)
	t.conv("multi_modal_projector.linear", t.hidden, l.width, true)
}

// qwen25OmniTower hears with a whole encoder and sees as Qwen2.5-VL does (vllm
// qwen2_5_omni_thinker.py).
func qwen25OmniTower(t *towers) {
	c := t.sub("thinker_config", "audio_config")
	l := c.whisperLike("thinker.audio_tower")
	t.whole, t.torch = true, true
	t.listen(l)
	out := c.size("output_dim")
	t.plain("thinker.audio_tower.audio_bos_eos_token.weight", 2, out)
	t.norm("thinker.audio_tower.ln_post", l.width, true)
	t.conv("thinker.audio_tower.proj", out, l.width, true)
	t.buffer("thinker.audio_tower.positional_embedding", c.opt("max_source_positions", 1500)*l.width, dtype.Float32)
	t.whole, t.torch = false, false
	t.qwen25VL(t.sub("thinker_config", "vision_config"))
}

// qwen3ASRTower convolves the spectrum as a picture (vllm qwen3_omni_moe_thinker.py,
// Qwen3OmniMoeAudioEncoder).
func qwen3ASRTower(t *towers) {
	const name = "thinker.audio_tower"
	c := t.sub("thinker_config", "audio_config")
	l := c.whisperLike(name)
	channels := c.size("downsample_hidden_size")
	t.conv(name+".conv2d1", channels, 3*3, true)
	t.conv(name+".conv2d2", channels, 3*3*channels, true)
	t.conv(name+".conv2d3", channels, 3*3*channels, true)
	mel := l.mel // halved three times
	for range 3 {
		mel = (mel + 1) / 2
	}
	t.conv(name+".conv_out", l.width, channels*mel, false)
	l.keyBias = true
	t.evenly = l.heads
	t.hear(l)
	t.evenly = 0
	t.norm(name+".ln_post", l.width, true)
	t.conv(name+".proj1", l.width, l.width, true)
	t.conv(name+".proj2", c.size("output_dim"), l.width, true)
	t.buffer(name+".positional_embedding", c.opt("max_source_positions", 1500)*l.width, dtype.Float32)
}

// glmASRTower turns its heads by half, and joins four states before it projects them (vllm
// glmasr.py).
func glmASRTower(t *towers) {
	const name = "audio_tower"
	c := t.sub("audio_config")
	l := listener{name: name, width: c.size("hidden_size"), heads: c.size("num_attention_heads"), mlp: c.size("intermediate_size"),
		layers: c.size("num_hidden_layers"), mel: c.size("num_mel_bins"), keyBias: true,
		names: vitNames{plainNames.qkv, "self_attn.o_proj", "mlp.fc1", "mlp.fc2", []string{"input_layernorm", "post_attention_layernorm"}}}
	t.listen(l)
	t.norm(name+".norm", l.width, true)
	in := sharded(2*t.hidden, "hidden_size")
	t.linear("multi_modal_projector.linear_1", in, whole(c.size("intermediate_size")), true)
	t.out("multi_modal_projector.linear_2", whole(t.hidden), in, true)
	t.buffer(name+".rotary_emb.inv_freq", l.width/max(l.heads, 1)/4, dtype.Float32)
}

// graniteSpeechTower is a Conformer, of which ranks divide the feed-forward parts alone, and
// queries that look at its states (vllm granite_speech.py).
func graniteSpeechTower(t *towers) {
	const name = "encoder"
	c := t.sub("encoder_config")
	width, out := c.size("hidden_dim"), c.size("output_dim")
	inside, inner := c.size("num_heads")*c.size("dim_head"), width*c.opt("conv_expansion_factor", 2)
	t.conv(name+".input_linear", width, c.size("input_dim"), true)
	t.layers(c.size("num_layers"), func() {
		at := name + ".layers.*."
		for _, half := range []string{"ff1", "ff2"} {
			t.norm(at+half+".pre_norm", width, true)
			t.mlp([]string{at + half + ".up_proj"}, at+half+".down_proj", width, width*c.opt("feedforward_mult", 4), width, false, true)
		}
		t.norm(at+"attn.pre_norm", width, true)
		t.conv(at+"attn.to_q", inside, width, false)
		t.conv(at+"attn.to_kv", 2*inside, width, false)
		t.conv(at+"attn.to_out", width, inside, true)
		t.plain(at+"attn.rel_pos_emb.weight", 2*c.opt("max_pos_emb", 512)+1, c.size("dim_head"))
		t.norm(at+"conv.norm", width, true)
		t.conv(at+"conv.up_conv", 2*inner, width, true)
		t.plain(at+"conv.depth_conv.conv.weight", inner, c.size("conv_kernel_size"))
		t.norm(at+"conv.batch_norm", inner, true)
		t.buffer(at+"conv.batch_norm.running", 2*inner, dtype.Unknown)
		t.buffer(at+"conv.batch_norm.num_batches_tracked", 1, dtype.Int64)
		t.conv(at+"conv.down_conv", width, inner, true)
		t.norm(at+"post_norm", width, true)
	})
	words := sharded(out, "output_dim")
	t.linear(name+".out", words, whole(width), true)
	t.out(name+".out_mid", whole(width), words, true)
	t.queries("projector", t.sub("projector_config"))
}

// looking adds the attention of queries to states of a width.
func (t *towers) looking(name string, width, from int) {
	t.conv(name+".attention.query", width, width, true)
	t.conv(name+".attention.key", width, from, true)
	t.conv(name+".attention.value", width, from, true)
	t.conv(name+".output.dense", width, width, true)
	t.norm(name+".output.LayerNorm", width, true)
}

// queries adds a Q-Former (BLIP-2) and the projection of what it finds.
func (t *towers) queries(name string, c *reader) {
	top := t.topReader()
	width, inner, from := c.size("hidden_size"), c.size("intermediate_size"), c.size("encoder_hidden_size")
	t.plain(name+".query", top.opt("window_size", 15)/max(top.opt("downsample_rate", 5), 1), width)
	t.norm(name+".qformer.layernorm", width, true)
	t.layers(c.size("num_hidden_layers"), func() {
		at := name + ".qformer.encoder.layer.*."
		t.looking(at+"attention", width, width)
		t.looking(at+"crossattention", width, from)
		t.conv(at+"intermediate_query.dense", inner, width, true)
		t.conv(at+"output_query.dense", width, inner, true)
		t.norm(at+"output_query.LayerNorm", width, true)
	})
	t.conv(name+".linear", t.hidden, width, true)
}
