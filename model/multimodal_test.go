package model_test

import (
	"testing"

	"headcount/model"
)

// TestMultimodal resolves small configs of families that are known with their towers alone:
// the caches of all layers, and the parameters of text model and towers as arithmetic. The
// text models are of 64, with 8 query heads and 2 KV heads of 8 unless they say otherwise.
func TestMultimodal(t *testing.T) {
	const (
		tau       = 8 + 2*8*3*mh
		experts   = 4*(2*32*mh+mh*32) + 4*mh + 4
		biased    = mattention + mbiases + mh
		plainMLP  = 2*96*mh + 96 + mh
		side      = 2*4*mh + mh // a layer's own signal of 4 and its norm
		square    = 4 * (mh*mh + mh)
		vit       = 4*(32*32+32) + 32*128 + 128 + 128*32 + 32 + 4*32
		patches   = 3*14*14*32 + 32 + 2*2*32
		conformer = 5*2*32 + 2*(32*128+128+128*32+32) + (64*32 + 64) + (32*9 + 32) + 2*32 + (32*32 + 32) + 4*(32*32+32) + 32*32 + 2*32
		small     = 4*(384*384+384) + 2*384*1536 + 1536 + 384 + 6*384 // of RADIO
	)
	for _, tt := range []struct {
		name, config, caches string
		text, towers         int64
	}{
		{"Moondream 3", `{"architectures": ["HfMoondream"], "model_type": "moondream3", "config": {
			"text": {"dim": 64, "n_heads": 8, "n_kv_heads": 2, "ff_dim": 96, "n_layers": 3, "vocab_size": 100, "moe": {"start_layer": 1, "n_experts": 4, "expert_inner_dim": 32}},
			"vision": {"enc_dim": 32, "enc_n_heads": 4, "enc_n_layers": 2, "enc_ff_dim": 128, "proj_inner_dim": 48, "crop_size": 28}}}`,
			"3*F2x8+8", 3*(biased+tau+2*mh) + plainMLP + 2*experts + 2*mv*mh + mv + 2*mh,
			patches + 2*vit + 2*32 + (2*32*48 + 48) + (48*mh + mh)},
		{"EmbeddingGemma 2", `{"architectures": ["EmbeddingGemma2Model"], "model_type": "embedding_gemma2", "text_config": {"model_type": "embedding_gemma2_text", "hidden_size": 64,
			"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 96, "vocab_size": 100, "sliding_window": 16,
			"layer_types": ["sliding_attention", "full_attention"], "per_layer_config": {"1": {"head_dim": 16, "num_key_value_heads": 1}},
			"hidden_size_per_layer_input": 4, "embedding_dim": 16}}`,
			"2*-", mattention + 2*8 + 4*mq + 2*mkv + 2*16 + 2*(mmlp+4*mh+side) + mtied + 2*4*mh + 4 + 16*mh, 0},
		// OLMo's norms are of all heads; of the encoder's four layers the last is not read.
		{"Molmo 2", `{"architectures": ["Molmo2ForConditionalGeneration"], "model_type": "molmo2", "auto_map": {"AutoConfig": "configuration_molmo2.Molmo2Config"},
			"text_config": {"model_type": "molmo2_text", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 8,
				"intermediate_size": 96, "vocab_size": 100, "additional_vocab_size": 28, "qkv_bias": false, "use_qk_norm": true, "qk_norm_type": "olmo"},
			"vit_config": {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8, "num_hidden_layers": 4, "intermediate_size": 128, "image_num_pos": 4},
			"adapter_config": {"vit_layers": [-2, 0], "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8, "intermediate_size": 48, "text_hidden_size": 64}}`,
			"2*F2x8+8", 2*(mattention+8*8+2*8+mmlp+2*mh) + mends + 28*mh,
			patches + 3*vit + 3*(32*2*32+32) + (32*32 + 32) + 2*32*48 + 48*mh},
		{"Cohere ASR", `{"architectures": ["CohereAsrForConditionalGeneration"], "model_type": "cohere_asr", "head": {"hidden_size": 64, "num_classes": 100},
			"transf_decoder": {"config_dict": {"hidden_size": 64, "inner_size": 96, "num_attention_heads": 8, "num_layers": 2, "max_sequence_length": 16}},
			"encoder": {"d_model": 32, "n_heads": 8, "n_layers": 3, "feat_in": 20, "subsampling_factor": 4, "subsampling_conv_channels": 16, "ff_expansion_factor": 4,
				"conv_kernel_size": 9, "pos_emb_max_len": 50, "untie_biases": true}}`,
			"2*(F8x8+8 X8x8+8)", 2*(2*square+plainMLP+3*2*mh) + mv*mh + 2*2*mh + mv*mh + mv,
			(9*16 + 16) + (9*16 + 16) + (16*16 + 16) + (16*5*32 + 32) + 3*conformer + 32*mh + mh},
		{"Nemotron Parse", `{"architectures": ["NemotronParseForConditionalGeneration"], "model_type": "nemotron_parse", "auto_map": {"AutoConfig": "hf_nemotron_parse_config.NemotronParseConfig"},
			"encoder": {"args": {"model": "vit_small_patch16_224", "cpe_max_size": 64, "register_multiple": 8, "teachers": [{"name": "clip"}, {"name": "sam", "use_summary": false}]}},
			"decoder": {"model_type": "mbart", "d_model": 64, "decoder_layers": 2, "decoder_attention_heads": 8, "encoder_attention_heads": 8, "encoder_ffn_dim": 96, "vocab_size": 100,
				"tie_word_embeddings": false}}`,
			"2*(F8x8+8 X8x8+8)", 2*(2*square+plainMLP+3*2*mh) + 2*mv*mh + 2*2*mh,
			3*16*16*384 + (4*4+8)*384 + 12*small + (1280*1024 + 1024) + 4*1024*1024 + (3840*1024 + 1024) + 3*2*1024},
	} {
		towers, m := towerOf(t, tt.config)
		text := int64(parameters(m))
		for _, p := range m.Outer {
			if p.Part == model.Tower {
				text -= int64(p.Rows.Size) * int64(max(p.Cols.Size, 1))
			}
		}
		if m.WeightsUnknown != "" {
			t.Errorf("%s: parameters not known: %s", tt.name, m.WeightsUnknown)
		}
		if got := cachesOf(m.Layers); got != tt.caches || text != tt.text || towers != tt.towers {
			t.Errorf("%s: %s with %d elements and %d of towers, want %s with %d and %d", tt.name, got, text, towers, tt.caches, tt.text, tt.towers)
		}
	}
}
