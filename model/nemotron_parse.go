package model

import (
	"math"
	"strings"

	"headcount/dtype"
	"headcount/problem"
)

// nemotronParse is a decoder of mBART's without positions, whose layers keep their own
// tokens and what the encoder saw. Its MLPs are as wide as the encoder's would be (vllm
// nemotron_parse.py).
var nemotronParse = family{
	name:          "nemotron_parse",
	architectures: []string{"NemotronParseForConditionalGeneration"},
	types:         []string{"nemotron_parse_text"},
	resolve: func(r *reader) *Model {
		hidden := r.size("hidden_size")
		h, named := r.parts("decoder_attention_heads", hidden), r.heads()
		cross := h.cache(0)
		cross.Kind = Cross
		params := append(attentionParams("self_attn", h, hidden, true, true), attentionParams("encoder_attn", h, hidden, true, true)...)
		layer := &form{caches: []Cache{h.cache(0), cross}, params: params}
		own, _ := r.Top().Bool("tie_word_embeddings")
		tied := own || r.flag("tie_word_embeddings", false)
		m := r.decoder(decoder{
			rotary: rotary{none: true}, depth: r.depth("decoder_layers"), heads: h, intermediate: r.size("encoder_ffn_dim"), mlpBias: true, normBias: true,
			norms: []string{"self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"}, noFinalNorm: true, tied: tied, untied: !tied,
			names: nemotronParseNames, form: func(int) *form { return layer },
		})
		m.Outer = append(m.Outer, layerNorm("decoder.layernorm_embedding", hidden)...)
		m.Outer = append(m.Outer, layerNorm("decoder.layer_norm", hidden)...)
		m.QueryHeads, m.KVHeads, m.HeadDim = named.query, named.kv, named.key
		return m
	},
}

var nemotronParseNames = strings.NewReplacer(".o_proj.", ".out_proj.", "mlp.up_proj.", "fc1.", "mlp.down_proj.", "fc2.", "model.embed_tokens", "decoder.embed_tokens")

// A radioShape is the sizes of a vision transformer that RADIO is known by.
type radioShape struct{ width, layers, heads, mlp int }

var radioShapes = map[string]radioShape{
	"vit_small_patch16_224": {384, 12, 6, 1536}, "vit_base_patch16_224": {768, 12, 12, 3072}, "vit_large_patch16_224": {1024, 24, 16, 4096},
	"vit_huge_patch16_224": {1280, 32, 16, 5120}, "vit_so400m_patch16_224": {1152, 27, 16, 4304},
}

// nemotronParseTower is RADIO and a neck, which joins four patches of a line and adds what
// the encoder makes of the whole (vllm radio.py).
func nemotronParseTower(t *towers) {
	const name = "encoder.model_encoder.radio_model.model"
	c := t.sub("encoder", "args")
	kind, _ := c.Text("model")
	v, ok := radioShapes[kind]
	if !ok {
		c.fail(problem.Unsupported, "model", "not a vision transformer that is known")
		return
	}
	patch := c.sizeOr("patch_size", 16)
	side := int(math.RoundToEven(float64(c.sizeOr("cpe_max_size", 2048)) / float64(patch)))
	words, summaries := 1, 0
	names := map[string]bool{}
	teachers, _ := c.List("teachers")
	for _, v := range teachers {
		one := v.Dict()
		names[one.Text("name")] = true
		if use, given := one.Get("use_summary"); !given || use.Any() == true {
			summaries++
		}
	}
	if c.flag("cls_token_per_teacher", false) {
		words = len(names)
	}
	if n := c.opt("register_multiple", 0); n > 0 {
		words += n - words%n
	}
	t.conv(name+".patch_generator.embedder", v.width, 3*patch*patch, false)
	t.plain(name+".patch_generator.pos_embed", side*side, v.width)
	t.plain(name+".patch_generator.cls_token.token", words, v.width)
	t.radio(name+".blocks", v, c.flag("qkv_bias", true))
	t.buffer(name+".summary_idxs", summaries, dtype.Int64)
	const neck, read, seen = 1024, 1280, 3840
	t.conv("encoder.conv1", neck, read, true)
	t.norm("encoder.layer_norm1", neck, true)
	t.conv("encoder.conv2", neck, 4*neck, false)
	t.norm("encoder.layer_norm2", neck, true)
	t.linear("encoder.sum_proj", sharded(neck, "hidden_size"), whole(seen), true)
	t.norm("encoder.layer_norm3", neck, true)
}

// radio adds InternViT's layers, of which ranks divide attention where they divide its heads.
func (t *towers) radio(name string, v radioShape, biased bool) {
	at, heads := name+".*.", headsOf(v.heads, v.width/v.heads)
	t.layers(v.layers, func() {
		t.evenly = v.heads
		for range 3 {
			t.linear(at+"attn.qkv", heads, whole(v.width), biased)
		}
		t.out(at+"attn.proj", whole(v.width), heads, true)
		t.evenly = 0
		t.mlp([]string{at + "mlp.fc1"}, at+"mlp.fc2", v.width, v.mlp, v.width, false, true)
		t.norm(at+"norm1", v.width, true)
		t.norm(at+"norm2", v.width, true)
		t.plain(at+"ls1", v.width)
		t.plain(at+"ls2", v.width)
	})
}
