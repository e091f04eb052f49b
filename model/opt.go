package model

import "strings"

// opt has a learned table of positions, two rows longer than the longest input, and may
// embed tokens in fewer dimensions than the decoder works in, with a projection on each
// side (vllm opt.py).
var opt = family{
	name:          "opt",
	architectures: []string{"OPTForCausalLM"},
	types:         []string{"opt"},
	resolve: func(r *reader) *Model {
		hidden := r.size("hidden_size")
		bias := r.flag("enable_bias", true)
		affine := r.flag("layer_norm_elementwise_affine", true)
		d := decoder{
			qkvBias:      bias,
			outBias:      bias,
			mlpBias:      bias,
			normBias:     true,
			square:       true,
			squareOut:    true,
			ungrouped:    true,
			norms:        []string{"self_attn_layer_norm", "final_layer_norm"},
			intermediate: r.size("ffn_dim"),
			positions:    r.size("max_position_embeddings") + 2,
			noFinalNorm:  !affine || !r.flag("do_layer_norm_before", true) || r.flag("_remove_final_layer_norm", false),
			rotary:       rotary{none: true},
			names:        optNames,
			everyStage:   true,
		}
		if !affine {
			d.norms = []string{}
		}
		m := r.decoder(d)
		if width := r.opt("word_embed_proj_dim", hidden); width != hidden {
			narrow(m.Outer, width)
			m.Outer = append(m.Outer, everywhere(
				linear("model.decoder.project_in", Other, whole(hidden), whole(width)),
				linear("model.decoder.project_out", Other, whole(width), whole(hidden)))...)
		}
		return m
	},
}

// narrow sets the width of embedding and head, which are split by vocabulary.
func narrow(outer []Param, width int) {
	for i := range outer {
		if outer[i].Rows.Split == Vocab && outer[i].Cols.Size > 0 {
			outer[i].Cols = whole(width)
		}
	}
}

var optNames = strings.NewReplacer(
	"self_attn.o_proj", "self_attn.out_proj", "mlp.up_proj", "fc1", "mlp.down_proj", "fc2",
	"model.embed_tokens", "model.decoder.embed_tokens", "model.embed_positions", "model.decoder.embed_positions",
	"model.norm", "model.decoder.final_layer_norm")
