package vllm

import (
	"testing"

	"headcount/engine"
	"headcount/layout"
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
		plan := planned(t, Version, tt.config, "h100", layout.Layout{}, engine.Options{KVCacheMemory: 1 << 34})
		if got := plan.Ranks[0].BytesPerToken; got != tt.cells {
			t.Errorf("%s: %d bytes a token, want %d", tt.name, got, tt.cells)
		}
	}
}
