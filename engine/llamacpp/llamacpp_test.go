package llamacpp

import (
	"testing"

	"headcount/internal/modeltest"
)

var resolved = modeltest.Resolve

// Llama-3-8B: 32 layers of 8 heads × 128 for keys, and as many for values. q8_0 stores 32
// elements in 34 bytes.
func TestBytes(t *testing.T) {
	m := resolved(t, `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
		"num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256}`)
	full, window := Caches(m, false)
	if full.Layers() != 32 || window.Layers() != 0 {
		t.Fatalf("%d and %d layers", full.Layers(), window.Layers())
	}
	for _, tt := range []struct {
		k, v         string
		keys, values int64
	}{
		{"f16", "f16", 4096 * 32 * 1024 * 2, 4096 * 32 * 1024 * 2},
		{"q8_0", "q4_0", 4096 * 32 * 1024 / 32 * 34, 4096 * 32 * 1024 / 32 * 18},
	} {
		k, okK := FormatOf(tt.k)
		v, okV := FormatOf(tt.v)
		keys, values := full.Bytes(4096, k, v)
		if !okK || !okV || keys != tt.keys || values != tt.values {
			t.Errorf("%s, %s: %d and %d bytes, want %d and %d", tt.k, tt.v, keys, values, tt.keys, tt.values)
		}
	}
	if _, ok := FormatOf("q9"); ok {
		t.Error("q9 is a format")
	}
}

// DeepSeek-V2-Lite: one latent of 512 + 64 a layer, or 16 heads of 192 and 128.
func TestLatents(t *testing.T) {
	m := resolved(t, `{"architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "num_hidden_layers": 27, "hidden_size": 2048,
		"num_attention_heads": 16, "num_key_value_heads": 16, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64}`)
	f16, _ := FormatOf("f16")
	for _, tt := range []struct {
		expanded     bool
		keys, values int64
	}{{false, 27 * 576 * 2, 0}, {true, 27 * 16 * 192 * 2, 27 * 16 * 128 * 2}} {
		full, _ := Caches(m, tt.expanded)
		if keys, values := full.Bytes(1, f16, f16); keys != tt.keys || values != tt.values {
			t.Errorf("expanded %v: %d and %d bytes a cell, want %d and %d", tt.expanded, keys, values, tt.keys, tt.values)
		}
	}
}

// Mamba-1 of 64 layers, 5,120 channels, state 16, four taps: 3 inputs a channel are kept.
func TestStates(t *testing.T) {
	m := resolved(t, `{"architectures": ["MambaForCausalLM"], "model_type": "mamba", "hidden_size": 2560, "intermediate_size": 5120, "num_hidden_layers": 64,
		"state_size": 16, "conv_kernel": 4, "vocab_size": 50280}`)
	conv, state, layers := States(m)
	if conv != 64*3*5120*4 || state != 64*5120*16*4 || layers != 64 {
		t.Errorf("%d and %d bytes of %d layers", conv, state, layers)
	}
}
