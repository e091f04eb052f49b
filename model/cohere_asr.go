package model

import (
	"cmp"
	"math/bits"
	"strings"

	"headcount/dtype"
	"headcount/problem"
)

// cohereASR is a Conformer and a decoder whose layers keep their own tokens and the
// encoder's output. The decoder is what transf_decoder says, whatever the fields beside it
// do; its words are whole on every rank, and the head has a tensor of its own (vllm
// cohere_asr.py).
var cohereASR = family{
	name:          "cohere_asr",
	architectures: []string{"CohereAsrForConditionalGeneration"},
	types:         []string{"cohere_asr"},
	resolve: func(r *reader) *Model {
		d, out := r.inside("transf_decoder", "config_dict"), r.inside("head")
		hidden, inner, positions := d.size("hidden_size"), d.size("inner_size"), d.size("max_sequence_length")
		h, layers, words := d.parts("num_attention_heads", hidden), d.depth("num_layers"), out.size("num_classes")
		head := out.size("hidden_size")
		if n := r.inside("encoder").size("n_heads"); n != h.query && d.err == nil {
			r.fail(problem.Unsupported, "encoder", "%d heads of the encoder and %d of the decoder: not as many", n, h.query)
		}
		if r.err = cmp.Or(r.err, d.err, out.err); r.err != nil {
			return r.model()
		}
		cross := h.cache(0)
		cross.Kind = Cross
		params := append(attentionParams("first_sub_layer", h, hidden, true, true), attentionParams("second_sub_layer", h, hidden, true, true)...)
		layer := &form{caches: []Cache{h.cache(0), cross}, params: params}
		m := r.decoder(decoder{
			rotary: rotary{none: true}, depth: layers, hidden: hidden, heads: h, intermediate: inner, mlpBias: true, normBias: true, vocab: words,
			norms: []string{"layer_norm_1", "layer_norm_2", "layer_norm_3"}, noFinalNorm: true, names: cohereASRNames, form: func(int) *form { return layer },
		})
		const embedding = "transf_decoder._embedding"
		m.Outer = append([]Param{
			{Name: embedding + ".token_embedding.weight", Part: Embedding, Rows: whole(words), Cols: whole(hidden)},
			{Name: "log_softmax.mlp.layer0.weight", Part: Head, Rows: vocabulary(words), Cols: whole(head)},
			{Name: "log_softmax.mlp.layer0.bias", Part: Head, Rows: vocabulary(words)},
		}, append(layerNorm(embedding+".layer_norm", hidden), layerNorm("transf_decoder._decoder.final_layer_norm", hidden)...)...)
		m.Buffers = []Param{{Name: embedding + ".position_embedding.pos_enc", Part: Other, Rows: whole(positions), Cols: whole(hidden)}}
		return m
	},
}

var cohereASRNames = strings.NewReplacer(".q_proj.", ".query_net.", ".k_proj.", ".key_net.", ".v_proj.", ".value_net.", ".o_proj.", ".out_projection.",
	"mlp.up_proj.", "third_sub_layer.dense_in.", "mlp.down_proj.", "third_sub_layer.dense_out.")

// inside reads a nested config of the outer level. Its errors are its own.
func (r *reader) inside(keys ...string) *reader {
	path := strings.Join(keys, ".")
	v, ok := r.top.nested(keys)
	if !ok {
		r.fail(problem.MissingField, path, "missing")
		v = newView(nil, "")
	}
	return newReader(&Config{top: v, text: v, path: path})
}

// parts are heads that share a width, which they must divide.
func (r *reader) parts(key string, width int) heads {
	n := max(r.size(key), 1)
	if width%n != 0 {
		r.fail(problem.NotDivisible, key, "does not divide the width %d", width)
	}
	return heads{query: n, kv: n, key: width / n, value: width / n}
}

// cohereASRTower is the Conformer, of torch's own modules, behind convolutions that halve the
// spectrum again and again.
func cohereASRTower(t *towers) {
	t.whole, t.torch = true, true
	c := t.sub("encoder")
	width, channels, bins := c.size("d_model"), c.size("subsampling_conv_channels"), c.size("feat_in")
	t.conv("encoder.pre_encode.conv.0", channels, 3*3, true)
	for i := range bits.Len(uint(c.size("subsampling_factor"))) - 1 {
		bins = (bins-1)/2 + 1
		if i > 0 {
			t.conv("encoder.pre_encode.conv.deep", channels, 3*3, true)
			t.conv("encoder.pre_encode.conv.across", channels, channels, true)
		}
	}
	t.conv("encoder.pre_encode.out", width, channels*bins, true)
	inner, biased, apart := width*c.size("ff_expansion_factor"), c.flag("use_bias", true), c.flag("untie_biases", true)
	t.layers(c.size("n_layers"), func() { t.conformer("encoder.layers.*.", width, inner, c.size("conv_kernel_size"), biased, apart) })
	if !apart {
		t.buffer("encoder.pos_bias", 2*width, dtype.Unknown)
	}
	if out, ok := c.Int("feat_out"); ok && out > 0 && out != int64(width) {
		t.conv("encoder.out_proj", c.size("feat_out"), width, true)
	}
	t.buffer("encoder.pos_enc.pe", (2*c.size("pos_emb_max_len")-1)*width, dtype.Unknown)
	if width != t.hidden {
		t.conv("encoder_decoder_proj", t.hidden, width, true)
	}
}

// conformer adds a layer of a Conformer, with biases of positions that are its own.
func (t *towers) conformer(at string, width, inner, taps int, biased, apart bool) {
	for _, norm := range []string{"norm_feed_forward1", "norm_conv", "norm_self_att", "norm_feed_forward2", "norm_out"} {
		t.norm(at+norm, width, true)
	}
	for _, half := range []string{"feed_forward1", "feed_forward2"} {
		t.conv(at+half+".linear1", inner, width, biased)
		t.conv(at+half+".linear2", width, inner, biased)
	}
	t.conv(at+"conv.pointwise_conv1", 2*width, width, biased)
	t.conv(at+"conv.depthwise_conv", width, taps, biased)
	t.conv(at+"conv.pointwise_conv2", width, width, biased)
	t.norm(at+"conv.batch_norm", width, true)
	t.buffer(at+"conv.batch_norm.running", 2*width, dtype.Unknown)
	t.buffer(at+"conv.batch_norm.num_batches_tracked", 1, dtype.Int64)
	for _, part := range []string{"linear_q", "linear_k", "linear_v", "linear_out"} {
		t.conv(at+"self_attn."+part, width, width, biased)
	}
	t.conv(at+"self_attn.linear_pos", width, width, false)
	if apart {
		t.plain(at+"self_attn.pos_bias_u", width)
		t.plain(at+"self_attn.pos_bias_v", width)
	}
}
