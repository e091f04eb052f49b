package model

import (
	"strings"

	"headcount/problem"
)

// whisper is an encoder of audio and a decoder whose layers keep their own tokens and, for
// cross attention, the encoder's output (vllm whisper.py). The layers are the decoder's;
// the encoder, which keeps nothing, is among the parameters outside of them. Both
// embeddings are whole on every rank, and the head is that of tokens.
var whisper = family{
	name:          "whisper",
	architectures: []string{"WhisperForConditionalGeneration"},
	types:         []string{"whisper"},
	resolve: func(r *reader) *Model {
		hidden, vocab := r.size("d_model"), r.size("vocab_size")
		text, audio := r.whisperSide("decoder", hidden), r.whisperSide("encoder", hidden)
		if r.err != nil {
			return r.model()
		}
		cross := text.heads.cache(0)
		cross.Kind = Cross
		layer := &form{
			caches: []Cache{text.heads.cache(0), cross},
			params: append(text.attention("self_attn", hidden), text.attention("encoder_attn", hidden)...),
		}
		m := r.decoder(decoder{
			rotary: rotary{none: true}, depth: text.layers, heads: text.heads, intermediate: text.width, mlpBias: true, normBias: true,
			norms: []string{"self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"}, tied: true,
			noFinalNorm: true, names: whisperNames, form: func(int) *form { return layer },
		})
		m.Outer = append(audio.outer(hidden, r.size("num_mel_bins"), r.size("max_source_positions")),
			Param{Name: "model.decoder.embed_tokens.weight", Part: Embedding, Rows: whole(vocab), Cols: whole(hidden)},
			Param{Name: "model.decoder.embed_positions.weight", Part: Embedding, Rows: whole(r.size("max_target_positions")), Cols: whole(hidden)})
		m.Outer = append(m.Outer, layerNorm("model.decoder.layer_norm", hidden)...)
		m.QueryHeads, m.KVHeads, m.HeadDim = audio.query, audio.kv, audio.key // as num_attention_heads, which is the encoder's
		return m
	},
}

// whisperNames are Whisper's names for LLaMA's.
var whisperNames = strings.NewReplacer("mlp.up_proj.", "fc1.", "mlp.down_proj.", "fc2.")

// A whisperSide is the encoder or the decoder.
type whisperSide struct {
	heads
	layers, width int
}

func (r *reader) whisperSide(side string, hidden int) whisperSide {
	s := whisperSide{layers: r.size(side + "_layers"), width: r.size(side + "_ffn_dim")}
	if s.layers > maxLayers {
		r.fail(problem.BadValue, side+"_layers", "more than %d layers", maxLayers)
	}
	n := max(r.size(side+"_attention_heads"), 1)
	if hidden%n != 0 {
		r.fail(problem.NotDivisible, side+"_attention_heads", "does not divide the width %d", hidden)
	}
	s.heads = heads{query: n, kv: n, key: hidden / n, value: hidden / n}
	return s
}

// attention are the projections of one attention, all with biases.
func (s whisperSide) attention(prefix string, hidden int) []Param {
	params := attentionParams(prefix, s.heads, hidden, true, true)
	rename(params, strings.NewReplacer(".o_proj.", ".out_proj."))
	return params
}

// outer are the parameters of the encoder: two convolutions of three taps, a table of
// positions, its layers and a norm.
func (s whisperSide) outer(hidden, mel, positions int) []Param {
	var params []Param
	for i, channels := range []int{mel, hidden} {
		name := "model.encoder.conv" + string(rune('1'+i))
		params = append(params, Param{Name: name + ".weight", Part: Other, Rows: whole(hidden), Cols: whole(3 * channels)},
			bias(name, Other, whole(hidden)))
	}
	params = append(params, Param{Name: "model.encoder.embed_positions.weight", Part: Embedding, Rows: whole(positions), Cols: whole(hidden)})
	layer := append(s.attention("self_attn", hidden), mlpParams("mlp", MLP, hidden, s.width, false, true)...)
	layer = append(layer, layerNorm("self_attn_layer_norm", hidden)...)
	layer = append(layer, layerNorm("final_layer_norm", hidden)...)
	rename(layer, whisperNames)
	for range s.layers {
		params = append(params, layer...)
	}
	return append(params, layerNorm("model.encoder.layer_norm", hidden)...)
}
