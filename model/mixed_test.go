package model_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"headcount/checkpoint"
	"headcount/model"
	"headcount/problem"
)

// A mixedCase is a small config of a family whose layers differ: H 64, V 100, 8 query
// heads and 2 KV heads of 8, an MLP of 96 unless it says otherwise.
type mixedCase struct {
	config string
	caches string // of all layers, see cachesOf
	params int
}

// Sizes of the table's configs.
const (
	mh, mv, mi = 64, 100, 96
	mq, mkv    = 8 * 8 * mh, 2 * 8 * mh // q_proj or o_proj, k_proj or v_proj
	mattention = 2*mq + 2*mkv
	mbiases    = 8*8 + 2*2*8 // of q, k and v
	mmlp       = 3 * mi * mh
	mends      = 2*mv*mh + mh // embedding, head and final norm
	mtied      = mv*mh + mh
	mperHead   = 2 * 8 // norms of a query head and a key head
)

const mixedCommon = `"hidden_size": 64, "vocab_size": 100, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 8,
	"intermediate_size": 96, "num_experts_per_tok": 2, `

// windowCases mix attention over windows, chunks and everything.
var windowCases = []mixedCase{
	{`"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "num_hidden_layers": 3, "sliding_window": 16`,
		"S2x8+8/16 F2x8+8 S2x8+8/16", 3*(mattention+mmlp+4*mh) + mtied},
	{`"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "num_hidden_layers": 3, "sliding_window": 16, "sliding_window_pattern": 3`,
		"2*S2x8+8/16 F2x8+8", 3*(mattention+mperHead+mmlp+4*mh) + mtied},
	{`"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "num_hidden_layers": 2, "sliding_window": 0, "tie_word_embeddings": false`,
		"2*F2x8+8", 2*(mattention+mperHead+mmlp+4*mh) + mends}, // a window of 0 is none
	{`"architectures": ["Cohere2ForCausalLM"], "model_type": "cohere2", "num_hidden_layers": 4, "sliding_window": 16`,
		"3*S2x8+8/17 F2x8+8", 4*(mattention+mmlp+mh) + mtied}, // the engine adds the token itself
	{`"architectures": ["Exaone4ForCausalLM"], "model_type": "exaone4", "num_hidden_layers": 2, "sliding_window": 16, "sliding_window_pattern": 2`,
		"S2x8+8/16 F2x8+8", 2*(mattention+mperHead+mmlp+2*mh) + mends},
	{`"architectures": ["Olmo3ForCausalLM"], "model_type": "olmo3", "num_hidden_layers": 4, "sliding_window": 16`,
		"3*S2x8+8/16 F2x8+8", 4*(mattention+(8+2)*8+mmlp+2*mh) + mends},
	{`"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "num_hidden_layers": 2, "sliding_window": 16`,
		"2*S2x8+8/16", 2*(mattention+mmlp+2*mh) + mends},
	{`"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "num_hidden_layers": 2, "sliding_window": 16, "num_local_experts": 4`,
		"S2x8+8/16 F2x8+8", 2*(mattention+mbiases+mh+8+4*(mmlp+2*mi+mh)+4*(mh+1)+2*mh) + mends}, // biases everywhere, a sink a head
	{`"architectures": ["LagunaForCausalLM"], "model_type": "laguna", "num_hidden_layers": 2, "sliding_window": 16, "num_experts": 4,
		"moe_intermediate_size": 32, "shared_expert_intermediate_size": 48, "layer_types": ["full_attention", "sliding_attention"],
		"num_attention_heads_per_layer": [8, 16]`,
		"F2x8+8 S2x8+8/16", mattention + 8*mh + (2*mattention - 2*mkv) + 16*mh + 2*(mperHead+2*mh) + mmlp + 4*(3*32*mh+mh+1) + 3*48*mh + mends},
	{`"architectures": ["DomynEdgeForCausalLM"], "model_type": "domyn_edge", "num_hidden_layers": 2, "position_layers": ["rope", "nope"],
		"window_sizes": [[16, 0], [-1, -1]], "per_layer_config": {"1": {"head_dim": 16}}`, // a token more than lie before it
		"S2x8+8/17 F2x16+16", 3*mattention + 8 + 16 + 2*(mmlp+4*mh) + mends},
	{`"architectures": ["PanguProMoEV2ForCausalLM"], "model_type": "pangu_pro_moe_v2", "num_hidden_layers": 2, "n_routed_experts": 4, "n_shared_experts": 1,
		"first_k_dense_replace": 1, "moe_intermediate_size": 32, "qk_nope_dim": 4, "qk_rope_dim": 2, "v_channels": 8, "param_sink_number": 10,
		"param_sink_with_value": true, "sandwich_norm": true`, // ten learned keys and values of each KV head
		"2*F2x6+8", 2*((8+2)*6*mh+(2+8)*8*mh+6+10*2*(6+8)+4*mh) + mmlp + 5*3*32*mh + 4*mh + mends},
	{`"architectures": ["DoryForCausalLM"], "model_type": "dory", "num_hidden_layers": 4, "sliding_window": 16, "n_output_layers": 2, "n_recurrent_loops": 2,
		"layer_types": ["sliding_attention", "mlp", "full_attention", "mlp"]`, // two passes through the first two
		"(S2x8+8/16 S2x8+8/16) - F2x8+8 -", 2*(mattention+mq+2*64+mh) + 2*(mmlp+2*mi+mh) + 2*mv*mh + mv},
	{`"architectures": ["MiMoV2FlashForCausalLM"], "model_type": "mimo_v2_flash", "num_hidden_layers": 3, "n_routed_experts": 4, "v_head_dim": 4,
		"moe_intermediate_size": 32, "hybrid_layer_pattern": [0, 1, 1], "moe_layer_freq": [0, 1, 1], "sliding_window_size": 16,
		"swa_num_attention_heads": 8, "swa_num_key_value_heads": 4, "swa_head_dim": 8, "swa_v_head_dim": 4, "add_swa_attention_sink_bias": true`,
		"F2x8+4 2*S4x8+4/16", mq + mkv + mkv/2 + mq/2 + mmlp + 2*(mq+3*mkv+mq/2+8+4*(3*32*mh+mh+1)) + 3*2*mh + mends},
	{`"architectures": ["Llama4ForCausalLM"], "model_type": "llama4_text", "num_hidden_layers": 4, "attention_chunk_size": 32,
		"num_local_experts": 4, "interleave_moe_layer_step": 2, "intermediate_size_mlp": 48`,
		"3*C2x8+8/32 F2x8+8", 4*(mattention+2*mh) + 2*3*48*mh + 2*(5*mmlp+4*mh) + mends},
	{`"architectures": ["Gemma3nForCausalLM"], "model_type": "gemma3n_text", "num_hidden_layers": 6, "num_kv_shared_layers": 1, "sliding_window": 16,
		"vocab_size_per_layer_input": 10, "hidden_size_per_layer_input": 4, "laurel_rank": 2, "altup_num_inputs": 2`,
		"4*S2x8+8/16 F2x8+8 -", 5*(mattention+mperHead) + 2*mq + 8 + 6*(mmlp+5*mh+2*2+4*2+2*mh+2*mh+2*2*mh+mh+2*4*mh) + mtied +
			10*6*4 + 6*4*mh + 4 + 2*mh*mh},
	{`"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "num_hidden_layers": 4, "num_kv_shared_layers": 2, "sliding_window": 16,
		"global_head_dim": 16, "use_double_wide_mlp": true, "hidden_size_per_layer_input": 0,
		"layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]`,
		"S2x8+8/16 F2x16+16 2*-", 3*mattention + 2*8 + 2*16 + 3*2*mq + 8 + 16 + 2*mmlp + 2*2*mmlp + 4*4*mh + mtied},
	{`"architectures": ["MuseGlimmerForCausalLM"], "model_type": "muse_glimmer_text", "num_hidden_layers": 2, "sliding_window": 16,
		"layer_types": ["sliding_attention", "full_attention"]`,
		"S2x8+8/16 F2x8+8", 2*(mattention+mq+mmlp+4*mh) + mends},
	{`"model_type": "openelm", "num_transformer_layers": 2, "model_dim": 64, "num_query_heads": [4, 8], "num_kv_heads": [1, 2],
		"ffn_multipliers": [0.5, 1.5], "ffn_dim_divisor": 32`,
		"F1x8+8 F2x8+8", mattention/2 + mattention + 3*(32+96)*mh + 2*(mperHead+2*mh) + mtied},
	{`"architectures": ["Cohere2MoeForCausalLM"], "model_type": "cohere2_moe", "num_hidden_layers": 2, "sliding_window": 16, "num_experts": 4,
		"num_shared_experts": 1, "mlp_layer_types": ["dense", "sparse"], "layer_types": ["sliding_attention", "full_attention"]`,
		"S2x8+8/17 F2x8+8", 2*(mattention+mh) + mmlp + 5*mmlp + 4*mh + mtied},
}

// stateCases mix attention with layers that keep a state.
var stateCases = []mixedCase{
	{`"architectures": ["MambaForCausalLM"], "model_type": "mamba", "num_hidden_layers": 2, "state_size": 4, "intermediate_size": 128`,
		"2*mamba1(k4 i128 n4)", 2*(256*mh+(4+2*4)*128+128*4+128+128*mh+128*4+128+128*4+128+mh) + mtied},
	{`"architectures": ["Mamba2ForCausalLM"], "model_type": "mamba2", "num_hidden_layers": 2, "state_size": 4, "n_groups": 1, "num_heads": 8, "head_dim": 16, "intermediate_size": 128`,
		"2*mamba2(k4 i128 g1 h8x16 n4)", 2*((2*128+2*4+8)*mh+(128+2*4)*5+3*8+128+128*mh+mh) + mends},
	{`"architectures": ["JambaForCausalLM"], "model_type": "jamba", "num_hidden_layers": 2, "attn_layer_period": 2, "attn_layer_offset": 1,
		"num_experts": 4, "mamba_d_state": 4`, // experts in layer 1, by expert_layer_period and expert_layer_offset
		"mamba1(k4 i128 n4) F2x8+8", 256*mh + 12*128 + 5*128 + 128*mh + 5*128 + 5*128 + (4 + 2*4) + mattention + mmlp + 4*(mmlp+mh) + 4*mh + mends},
	{`"architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "hybrid_override_pattern": "M-*E", "mamba_num_heads": 8,
		"mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 4, "n_routed_experts": 4, "moe_intermediate_size": 32,
		"moe_shared_expert_intermediate_size": 48, "moe_latent_size": 16, "mlp_bias": false`,
		"mamba2(k4 i128 g2 h8x16 n4) - F2x8+8 -", (2*128+4*4+8)*mh + (128+4*4)*5 + 3*8 + 128 + 128*mh + 2*mi*mh + mattention +
			4*(2*32*16+mh+1) + 2*48*mh + 2*16*mh + 4*mh + mends},
	{`"architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid", "num_hidden_layers": 2, "layer_types": ["mamba", "attention"],
		"mamba_n_heads": 8, "mamba_d_state": 4, "num_local_experts": 4, "shared_intermediate_size": 48`,
		"mamba2(k4 i128 g1 h8x16 n4) F2x8+8", (2*128+2*4+8)*mh + (128+2*4)*5 + 3*8 + 128 + 128*mh + mattention + 2*(4*(mmlp+mh)+3*48*mh+2*mh) + mends},
	{`"architectures": ["FalconH1ForCausalLM"], "model_type": "falcon_h1", "num_hidden_layers": 2, "mamba_d_ssm": 128, "mamba_n_heads": 8,
		"mamba_d_state": 4, "mamba_rms_norm": false`,
		"2*(F2x8+8 mamba2(k4 i128 g1 h8x16 n4))", 2*((2*128+2*4+8)*mh+(128+2*4)*5+3*8+128*mh+mattention+mmlp+2*mh) + mends},
	{`"architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "num_hidden_layers": 2, "full_attn_idxs": [1], "block_multiple_of": 10`,
		"short_conv(k3 i64) F2x8+8", 3*mh*mh + mh*mh + 3*mh + mattention + mperHead + 2*(3*70*mh+2*mh) + mtied}, // 2·96/3 = 64, up to 70
	{`"architectures": ["Lfm2MoeForCausalLM"], "model_type": "lfm2_moe", "num_hidden_layers": 2, "layer_types": ["conv", "full_attention"],
		"num_experts": 4, "moe_intermediate_size": 32, "num_dense_layers": 1`,
		"short_conv(k3 i64) F2x8+8", 3*mh*mh + mh*mh + 3*mh + mattention + mperHead + mmlp + 4*(3*32*mh+mh+1) + 4*mh + mtied},
	{`"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "num_hidden_layers": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
		"linear_key_head_dim": 8, "linear_value_head_dim": 16, "num_experts": 4, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48`,
		"3*gated_delta_net(k4 g2 h4x16 n8) F2x8+8", 3*((2*16+2*64+2*4)*mh+4*(2*16+64)+2*4+16+64*mh) + mattention + mq + mperHead +
			4*(4*(3*32*mh+mh)+3*48*mh+mh+2*mh) + mends},
	{`"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "num_hidden_layers": 2, "full_attention_interval": 2, "linear_num_key_heads": 2,
		"linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 16, "tie_word_embeddings": true`,
		"gated_delta_net(k4 g2 h4x16 n8) F2x8+8", (2*16+2*64+2*4)*mh + 4*(2*16+64) + 2*4 + 16 + 64*mh + mattention + mq + mperHead + 2*(mmlp+2*mh) + mtied},
	{`"architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "num_hidden_layers": 2, "kv_lora_rank": 16, "qk_nope_head_dim": 8,
		"qk_rope_head_dim": 4, "v_head_dim": 8, "num_experts": 4, "moe_intermediate_size": 32, "num_shared_experts": 1, "first_k_dense_replace": 1,
		"linear_attn_config": {"kda_layers": [1], "full_attn_layers": [2], "num_heads": 4, "head_dim": 8, "short_conv_kernel_size": 4}`,
		"kda(k4 g4 h4x8 n8) L20", 3*32*mh + 4*mh + 2*8*mh + 2*32*8 + 3*32*4 + 4 + 32 + 8 + 32*mh + 8*12*mh + 20*mh + 16 + 8*16*16 + 8*8*mh +
			mmlp + 5*3*32*mh + 4*mh + 4 + 4*mh + mends},
	{`"architectures": ["AliceAIForCausalLM"], "model_type": "alice_ai", "num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"],
		"linear_num_key_heads": 4, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4,
		"num_experts": 4, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48, "block_attn_res_block_size": 2`, // residuals before each half but the first
		"kda(k4 g4 h4x8 n8) F2x8+8", 3*32*mh + 4*mh + 2*8*mh + 2*32*8 + 3*32*4 + 4 + 32 + 8 + 32*mh + mattention + mq + 2*8 +
			2*(4*(3*32*mh+mh+1)+3*48*mh+mh+2*mh) + 4*2*mh + mends},
	{`"architectures": ["OlmoHybridForCausalLM"], "model_type": "olmo_hybrid", "num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"],
		"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 16`,
		"gated_delta_net(k4 g2 h4x16 n8) F2x8+8", (2*16+2*64+2*4)*mh + 4*(2*16+64) + 2*4 + 16 + 64*mh + mattention + mh + 2*8 + 2*(mmlp+2*mh) + mends},
	{`"architectures": ["BailingMoeV2_5ForCausalLM"], "model_type": "bailing_hybrid", "num_hidden_layers": 2, "layer_group_size": 2, "kv_lora_rank": 16,
		"q_lora_rank": null, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "num_experts": 4, "moe_intermediate_size": 32,
		"num_shared_experts": 1, "first_k_dense_replace": 1, "group_norm_size": 2`,
		"linear_attention(h8x8 n8) L24", 5*mq + mh + 8*16*mh + 24*mh + 16 + 8*16*16 + 8*8*mh + mmlp + 5*3*32*mh + 4*mh + 4*mh + mends},
	{`"architectures": ["RecurrentGemmaForCausalLM"], "model_type": "recurrent_gemma", "num_hidden_layers": 3, "attention_window_size": 16`,
		"2*rg_lru(k4 i64) S2x8+8/16", 2*(3*mh*mh+3*mh+mh+2*(mh*8+mh)+5*mh) + mattention + mh + 3*(mmlp/2+2*mi/2+mh+2*mh) + mtied},
	{`"architectures": ["BambaForCausalLM"], "model_type": "bamba", "num_hidden_layers": 2, "attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_state": 4`,
		"mamba2(k4 i128 g1 h8x16 n4) F2x8+8", (2*128+2*4+8)*mh + (128+2*4)*5 + 3*8 + 128 + 128*mh + mattention + 2*(mmlp+2*mh) + mends},
	{`"architectures": ["Zamba2ForCausalLM"], "model_type": "zamba2", "num_hidden_layers": 3, "layers_block_type": ["mamba", "hybrid", "hybrid"],
		"n_mamba_heads": 8, "mamba_d_state": 4, "num_mem_blocks": 1, "adapter_rank": 2, "head_dim": 16`, // both blocks' caches come first
		"(F8x16+16 F8x16+16 mamba2(k4 i128 g1 h8x16 n4)) 2*mamba2(k4 i128 g1 h8x16 n4)",
		3*((2*128+2*4+8)*mh+(128+2*4)*5+3*8+128+128*mh+mh) + 2*(mh*mh+2*mh+2*mi*2) + 3*128*128 + 128*mh + mmlp + 3*mh + mtied},
	{`"architectures": ["MiniMaxForCausalLM"], "model_type": "minimax", "num_hidden_layers": 2, "num_local_experts": 4`,
		"F2x8+8 linear_attention(h8x8 n8)", mattention + 5*mq + mh + 2*(4*(mmlp+mh)+2*mh) + mends},
	{`"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 64, "encoder_layers": 1, "decoder_layers": 2,
		"encoder_attention_heads": 8, "decoder_attention_heads": 8, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "num_mel_bins": 10,
		"max_source_positions": 30, "max_target_positions": 20`,
		"2*(F8x8+8 X8x8+8)", (2+2+1)*(4*mh*mh+4*mh) + 3*(2*mi*mh+mi+mh) + 3*10*mh + 3*mh*mh + 2*mh + (30+20+mv)*mh + (2*3+2)*2*mh + 2*2*mh},
}

func TestMixed(t *testing.T) {
	for _, tt := range append(windowCases, stateCases...) {
		m := resolve(t, "{"+mixedCommon+tt.config+"}")
		if got := cachesOf(m.Layers); got != tt.caches {
			t.Errorf("%s: caches %s, want %s", m.Architecture, got, tt.caches)
		}
		if got := parameters(m); got != tt.params || m.WeightsUnknown != "" {
			t.Errorf("%s: %d parameters, want %d (%s)", m.Architecture, got, tt.params, m.WeightsUnknown)
		}
	}
}

// Transformers saves the numbers of layers as wide as the last one's.
func TestPerLayerConfigIsNumbered(t *testing.T) {
	for _, key := range []string{"10", "010"} {
		config := fmt.Sprintf(`{"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "num_hidden_layers": 11, "hidden_size": 64,
			"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 96, "vocab_size": 100, "sliding_window": 16,
			"hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "per_layer_config": {%q: {"head_dim": 32}},
			"layer_types": [%s"full_attention"]}`, key, strings.Repeat(`"sliding_attention", `, 10))
		if got, want := cachesOf(resolve(t, config).Layers), "10*S2x8+8/16 F2x32+32"; got != want {
			t.Errorf("key %q: caches %s, want %s", key, got, want)
		}
	}
}

// cachesOf writes the caches of layers in order: F full attention of 2 KV heads of 8 + 8
// elements, S over a window, C over chunks, L a latent, X across, - nothing; equal layers
// are counted, several caches of one layer bracketed.
func cachesOf(layers []*model.Layer) string {
	var out []string
	for i := 0; i < len(layers); {
		n := 1
		for i+n < len(layers) && cachesOfOne(layers[i+n]) == cachesOfOne(layers[i]) {
			n++
		}
		s := cachesOfOne(layers[i])
		if n > 1 {
			s = fmt.Sprintf("%d*%s", n, s)
		}
		out = append(out, s)
		i += n
	}
	return strings.Join(out, " ")
}

func cachesOfOne(l *model.Layer) string {
	var out []string
	for _, c := range l.Caches {
		out = append(out, cacheOf(c))
	}
	switch len(out) {
	case 0:
		return "-"
	case 1:
		return out[0]
	}
	return "(" + strings.Join(out, " ") + ")"
}

func cacheOf(c model.Cache) string {
	mha := fmt.Sprintf("%dx%d+%d", c.Attn.KVHeads, c.Attn.KeyDim, c.Attn.ValueDim)
	switch c.Kind {
	case model.Full:
		return "F" + mha
	case model.Sliding:
		return fmt.Sprintf("S%s/%d", mha, c.Window)
	case model.Chunked:
		return fmt.Sprintf("C%s/%d", mha, c.Window)
	case model.Latent:
		return fmt.Sprintf("L%d", c.Attn.KeyDim)
	case model.Cross:
		return "X" + mha
	case model.Recurrent:
		return stateOf(c.State)
	}
	return "-"
}

// stateOf writes what applies to a state's mixer: k taps, i inner width, g groups, h heads
// × their width, n state size.
func stateOf(s model.State) string {
	var out []string
	if s.Kernel > 0 {
		out = append(out, fmt.Sprintf("k%d", s.Kernel))
	}
	if s.Inner > 0 {
		out = append(out, fmt.Sprintf("i%d", s.Inner))
	}
	if s.Groups > 0 {
		out = append(out, fmt.Sprintf("g%d", s.Groups))
	}
	if s.Heads > 0 {
		out = append(out, fmt.Sprintf("h%dx%d", s.Heads, s.HeadDim))
	}
	if s.StateSize > 0 {
		out = append(out, fmt.Sprintf("n%d", s.StateSize))
	}
	return fmt.Sprintf("%s(%s)", s.Mixer, strings.Join(out, " "))
}

// TestMixedProblems names the field of each list, type, window or size that is of no use.
func TestMixedProblems(t *testing.T) {
	arch := func(name, kind string) string {
		return fmt.Sprintf(`"num_hidden_layers": 2, "architectures": [%q], "model_type": %q, `, name, kind)
	}
	gemma := arch("Gemma3ForCausalLM", "gemma3_text")
	qwen := arch("Qwen3NextForCausalLM", "qwen3_next")
	kimi := arch("KimiLinearForCausalLM", "kimi_linear") + `"kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, `
	for _, tt := range []struct {
		config string
		code   problem.Code
		field  string
	}{
		{gemma + `"layer_types": ["full_attention"]`, problem.BadValue, "layer_types"},
		{gemma + `"layer_types": ["full_attention", "local"]`, problem.BadValue, "layer_types"},
		{gemma + `"layer_types": ["full_attention", 3]`, problem.BadValue, "layer_types"},
		{gemma + `"sliding_window": -1`, problem.BadValue, "sliding_window"},
		{gemma + `"sliding_window": "4096"`, problem.BadValue, "sliding_window"},
		{gemma + `"num_hidden_layers": 100000`, problem.BadValue, "num_hidden_layers"},
		{arch("Gemma3nForCausalLM", "gemma3n_text") + `"num_kv_shared_layers": 3`, problem.BadValue, "num_kv_shared_layers"},
		{arch("Gemma3nForCausalLM", "gemma3n_text") + `"num_kv_shared_layers": 1, "intermediate_size": [96, 0]`, problem.BadValue, "intermediate_size"},
		{arch("LagunaForCausalLM", "laguna") + `"num_attention_heads_per_layer": [8]`, problem.BadValue, "num_attention_heads_per_layer"},
		{arch("MiMoV2FlashForCausalLM", "mimo_v2_flash") + `"hybrid_layer_pattern": [1]`, problem.BadValue, "hybrid_layer_pattern"},
		{arch("MiMoV2FlashForCausalLM", "mimo_v2_flash") + `"swa_num_key_value_heads": 3`, problem.NotDivisible, "swa_num_attention_heads"},
		{arch("Llama4ForCausalLM", "llama4_text") + `"no_rope_layers": [1]`, problem.BadValue, "no_rope_layers"},
		{qwen + `"layer_types": ["linear_attention", "sliding_attention"]`, problem.BadValue, "layer_types"},
		{qwen + `"linear_key_head_dim": 0`, problem.BadValue, "linear_key_head_dim"},
		{qwen + `"linear_num_value_heads": 2000000000, "linear_value_head_dim": 2000000000`, problem.BadValue, "linear_num_value_heads"},
		{arch("MambaForCausalLM", "mamba") + `"state_size": -16`, problem.BadValue, "state_size"},
		{arch("MambaForCausalLM", "mamba") + `"conv_kernel": 100000`, problem.BadValue, "conv_kernel"},
		{arch("NemotronHForCausalLM", "nemotron_h") + `"hybrid_override_pattern": "M*", "mamba_num_heads": 0`, problem.BadValue, "mamba_num_heads"},
		{kimi + `"linear_attn_config": {"kda_layers": [3], "num_heads": 4, "head_dim": 8, "short_conv_kernel_size": 4}`, problem.MissingField, "linear_attn_config"},
		{kimi + `"linear_attn_config": {"kda_layers": [1], "num_heads": 4, "short_conv_kernel_size": 4}`, problem.MissingField, "linear_attn_config"},
		{`"model_type": "openelm", "model_dim": 64, "num_transformer_layers": 2, "num_query_heads": [4]`, problem.BadValue, "num_query_heads"},
		{arch("Lfm2ForCausalLM", "lfm2") + `"block_ffn_dim_multiplier": 1e300`, problem.BadValue, "block_ffn_dim_multiplier"},
		{arch("FalconH1ForCausalLM", "falcon_h1") + `"mamba_d_ssm": null, "mamba_expand": -2`, problem.BadValue, "mamba_expand"},
		{`"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "decoder_layers": 100000`, problem.BadValue, "decoder_layers"},
	} {
		src, err := checkpoint.FromBytes("config.json", checkpoint.Files{Config: []byte("{" + mixedCommon + tt.config + "}")})
		if err != nil {
			t.Fatal(err)
		}
		_, err = model.Resolve(src)
		p, ok := errors.AsType[*problem.Error](err)
		if !ok || p.Code != tt.code || p.Field != tt.field || strings.Contains(p.Message, "\n") {
			t.Errorf("%s: %v, want %s of %s", tt.config, err, tt.code, tt.field)
		}
	}
}

// A depth that is refused is not built first.
func TestRefusedDepthTakesNoMemory(t *testing.T) {
	o, _, err := checkpoint.Parse([]byte(`{"architectures": ["HrmTextForCausalLM"], "model_type": "hrm_text", "num_layers_per_stack": 100000000, "H_cycles": 1000,
		"L_cycles": 1000, "hidden_size": 64, "num_attention_heads": 8, "vocab_size": 100, "intermediate_size": 96}`))
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = model.Resolve(&checkpoint.Source{Config: o})
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > 16<<20 {
		t.Errorf("%v, after %d bytes", err, took)
	}
}

// EXAONE 4.5 has an MTP layer, whatever its text config calls itself.
func TestExaoneDraft(t *testing.T) {
	const text = `"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 96,
		"vocab_size": 100, "sliding_window": 16, "sliding_window_pattern": "LLLG", "num_nextn_predict_layers": 1`
	for _, kind := range []string{"exaone4_5_text", "exaone4"} {
		m := resolve(t, `{"architectures": ["Exaone4_5_ForConditionalGeneration"], "model_type": "exaone4_5", "text_config": {"model_type": "`+kind+`", `+text+`}}`)
		if len(m.Draft) != 1 || m.Draft[0].Caches[0].Window != 16 {
			t.Errorf("%s: %d draft layers", kind, len(m.Draft))
		}
	}
}
