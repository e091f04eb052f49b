package vllm

import (
	"testing"

	"headcount/engine"
	"headcount/hw"
	"headcount/layout"
	"headcount/problem"
)

// What the engine's modules refuse while they are built, and what is just short of it.
func TestModules(t *testing.T) {
	const (
		qwen3MoE = `{"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_hidden_layers": 4, "hidden_size": 512, "vocab_size": 1024,
			"num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 64, "num_experts": 8, "num_experts_per_tok": 2,
			"moe_intermediate_size": 256, "intermediate_size": 1024, "mlp_only_layers": [0, 1], "torch_dtype": "bfloat16"`
		llama = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 512, "vocab_size": 1024,
			"num_attention_heads": 8, "intermediate_size": 1024, "torch_dtype": "bfloat16"`
		qwen2 = `{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 512, "vocab_size": 1024,
			"num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 1024, "torch_dtype": "bfloat16"`
		kimi = `{"architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "num_hidden_layers": 2, "hidden_size": 512, "vocab_size": 1024,
			"num_attention_heads": 16, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "intermediate_size": 1024,
			"linear_attn_config": {"kda_layers": [1], "full_attn_layers": [2], "num_heads": 16, "head_dim": 128, "short_conv_kernel_size": 4},
			"auto_map": {}, "is_causal": false}`
		qwen2VL = `{"architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl", "num_hidden_layers": 2, "hidden_size": 512, "vocab_size": 1024,
			"num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 1024, "torch_dtype": "bfloat16"` // heads of 128, of which 64 pairs turn
	)
	for _, tt := range []struct {
		name   string
		config string
		gpu    string
		layout layout.Layout
		opts   engine.Options
		code   problem.Code // "" when the engine takes it
	}{
		{"as many ranks as experts", qwen3MoE + `}`, "h100", layout.Layout{TP: 8}, engine.Options{}, ""},
		{"more ranks than experts", qwen3MoE + `}`, "h100", layout.Layout{TP: 16}, engine.Options{}, problem.IllegalLayout},
		{"a stage without experts", qwen3MoE + `}`, "h100", layout.Layout{PP: 2}, engine.Options{}, problem.IllegalLayout},
		{"float factor", llama + `, "rope_scaling": {"type": "linear", "factor": 2.0}}`, "h100", layout.Layout{}, engine.Options{}, ""},
		{"integer factor", llama + `, "rope_scaling": {"type": "linear", "factor": 2}}`, "h100", layout.Layout{}, engine.Options{}, problem.BadValue},
		{"sections of half a head", qwen2VL + `, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}`, "h100", layout.Layout{}, engine.Options{}, ""},
		{"sections of less", qwen2VL + `, "rope_scaling": {"type": "mrope", "mrope_section": [16, 16, 16]}}`, "h100", layout.Layout{}, engine.Options{}, problem.BadValue},
		{"sections of less, after columns of which a rank has 128", qwen2VL + `, "rope_scaling": {"type": "mrope", "mrope_section": [16, 16, 16]},
			"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 256]}}`, "h100", layout.Layout{TP: 4}, engine.Options{}, problem.NotDivisible},
		{"chunks of attention", qwen3MoE + `, "dual_chunk_attention_config": {"chunk_size": 262144, "local_size": 8192}}`, "h100", layout.Layout{}, engine.Options{}, problem.Unsupported},
		{"chunks of attention, of a class that reads none", llama + `, "dual_chunk_attention_config": {"chunk_size": 262144, "local_size": 8192}}`, "h100", layout.Layout{}, engine.Options{}, ""},
		{"windows after some layers", qwen2 + `, "use_sliding_window": true, "sliding_window": 512, "max_window_layers": 1}`, "h100", layout.Layout{}, engine.Options{}, problem.Unsupported},
		{"windows after all", qwen2 + `, "use_sliding_window": true, "sliding_window": 512, "max_window_layers": 2}`, "h100", layout.Layout{}, engine.Options{}, ""},
		{"latents that a class expands to look both ways", mla + `, "is_causal": false}`, "h100", layout.Layout{}, engine.Options{KVCacheMemory: 1 << 34}, ""},
		{"latents of a class that has nothing else", kimi, "h100", layout.Layout{}, engine.Options{KVCacheMemory: 1 << 34}, problem.NotKnown},
		{"e5m2 beside fp8 weights", llama + `, "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"}}`, "h100", layout.Layout{},
			engine.Options{KVCacheDType: "fp8_e5m2"}, problem.Unsupported},
		{"fp8 latents before Ada", mla + `}`, "a100", layout.Layout{}, engine.Options{KVCacheDType: "fp8"}, problem.Unsupported},
	} {
		gpu, err := hw.Lookup(tt.gpu)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Engine{}.Plan(engine.Job{Model: modelOf(t, tt.config), Layout: tt.layout, GPU: gpu, Options: &tt.opts})
		var code problem.Code
		if refusal, ok := err.(*problem.Error); ok {
			code = refusal.Code
		}
		if code != tt.code {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.code)
		}
	}
}

const mla = `{"architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "num_hidden_layers": 1, "hidden_size": 512, "vocab_size": 1024,
	"num_attention_heads": 16, "num_key_value_heads": 16, "kv_lora_rank": 512, "q_lora_rank": null, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
	"intermediate_size": 1024, "first_k_dense_replace": 1, "torch_dtype": "bfloat16"`
