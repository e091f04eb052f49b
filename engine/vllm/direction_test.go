package vllm

import (
	"testing"

	"headcount/engine"
	"headcount/hw"
	"headcount/problem"
)

// Whether is_causal: false leaves a decoder without a cache is its class's to say: of two
// configs that differ in nothing else one keeps pages and the other none.
func TestDirections(t *testing.T) {
	const sizes = `"num_hidden_layers": 4, "hidden_size": 512, "vocab_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64,
		"intermediate_size": 1024, "torch_dtype": "bfloat16", "is_causal": false`
	for _, tt := range []struct {
		name, config string
		cells        int64 // bytes of a token on a rank
	}{
		{"Llama asks", `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", ` + sizes + `}`, 0},
		{"Qwen3 asks", `{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", ` + sizes + `}`, 0},
		{"Granite does not", `{"architectures": ["GraniteForCausalLM"], "model_type": "granite", ` + sizes + `}`, 4 * 2 * 2 * 64 * 2},
		{"StarCoder2 runs in Transformers' class", `{"architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2", ` + sizes + `}`, 4 * 2 * 2 * 64 * 2},
		{"a wrapper's own flag is of no layer", `{"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "is_causal": false,
			"text_config": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8,
			"num_key_value_heads": 2, "head_dim": 64}, "vision_config": {"model_type": "clip_vision_model"}, "torch_dtype": "bfloat16"}`, 4 * 2 * 2 * 64 * 2},
		{"Gemma 4 looks both ways in its mask alone", `{"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "use_bidirectional_attention": "all",
			"global_head_dim": 64, "sliding_window": 512, "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"], ` + sizes + `}`, 4 * 2 * 2 * 64 * 2},
	} {
		plan, err := h100(t, tt.config)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if got := plan.Ranks[0].BytesPerToken; got != tt.cells {
			t.Errorf("%s: %d bytes a token, want %d", tt.name, got, tt.cells)
		}
	}
}

// Classes that only look back refuse to look in both directions, and of latents without
// another attention nothing is claimed.
func TestDirectionsRefused(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		code         problem.Code
	}{
		{"latents that a class expands", mla + `, "is_causal": false}`, ""},
		{"latents of Kimi Linear", `{"architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "num_hidden_layers": 2, "hidden_size": 512, "vocab_size": 1024,
			"num_attention_heads": 16, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "intermediate_size": 1024,
			"linear_attn_config": {"kda_layers": [1], "full_attn_layers": [2], "num_heads": 16, "head_dim": 128, "short_conv_kernel_size": 4},
			"auto_map": {}, "is_causal": false}`, problem.NotKnown},
	} {
		_, err := h100(t, tt.config)
		var code problem.Code
		if refusal, ok := err.(*problem.Error); ok {
			code = refusal.Code
		}
		if code != tt.code {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.code)
		}
	}
}

// h100 plans a config on one GPU.
func h100(t *testing.T, config string) (*engine.Result, error) {
	t.Helper()
	gpu, err := hw.Lookup("h100")
	if err != nil {
		t.Fatal(err)
	}
	return Engine{}.Plan(engine.Job{Model: modelOf(t, config), GPU: gpu, Options: &engine.Options{KVCacheMemory: 1 << 34}})
}
