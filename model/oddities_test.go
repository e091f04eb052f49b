package model_test

import (
	"slices"
	"strings"
	"testing"
)

// TestOddities holds what is said of configs that are legal and seldom meant, and that
// ordinary ones have nothing said of them.
func TestOddities(t *testing.T) {
	llama := `"architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8,
		"num_key_value_heads": 2, "intermediate_size": 2048, "vocab_size": 1000, "max_position_embeddings": 4096`
	gemma := `"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "num_hidden_layers": 2, "sliding_window": 512, "layer_types": ["sliding_attention", "full_attention"]`
	kimi := `"architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
		"head_dim": 32, "intermediate_size": 128, "vocab_size": 1000, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32,
		"linear_attn_config": {"kda_layers": [1, 9, 10], "full_attn_layers": [2], "num_heads": 2, "head_dim": 32, "short_conv_kernel_size": 4}`
	for _, tt := range []struct {
		config string
		want   []string
	}{
		{llama + `, "sliding_window": null`, nil},
		{llama + `, "sliding_window": 1024`, nil},
		{llama + `, "sliding_window": 0`, []string{"window-zero"}},
		{llama + `, "sliding_window": 8192`, []string{"window-beyond-context"}},
		{gemma, nil},
		{gemma + `, "sliding_window_pattern": 2`, nil},
		{gemma + `, "sliding_window_pattern": 3`, []string{"pattern-beside-list"}},
		{`"architectures": ["MambaForCausalLM"], "model_type": "mamba"`, []string{"no-attention"}},
		{kimi, []string{"no-such-layer"}},
	} {
		var got []string
		for _, o := range resolve(t, "{"+tt.config+"}").Oddities {
			got = append(got, o.ID)
			if o.Text == "" || strings.Contains(o.Text, "%!") {
				t.Errorf("%s: %q", o.ID, o.Text)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.config, got, tt.want)
		}
	}
}
