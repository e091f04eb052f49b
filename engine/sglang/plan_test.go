package sglang

import (
	"testing"

	"headcount/checkpoint"
	"headcount/model"
)

// Configs that tests plan, reduced to what a size depends on.
const (
	llama = `{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8192, "num_hidden_layers": 80,
		"num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072, "torch_dtype": "bfloat16"}`
	deepseekV3 = `{"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 7168, "num_hidden_layers": 61,
		"num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280, "max_position_embeddings": 163840, "torch_dtype": "bfloat16",
		"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "num_nextn_predict_layers": 1}`
	gptOSS = `{"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "hidden_size": 2880, "num_hidden_layers": 36,
		"num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088, "max_position_embeddings": 131072, "sliding_window": 128}`
	qwen3Next = `{"model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 48,
		"num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 151936, "max_position_embeddings": 262144, "torch_dtype": "bfloat16",
		"full_attention_interval": 4, "linear_num_value_heads": 32, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
		"linear_key_head_dim": 128, "linear_conv_kernel_dim": 4}`
)

// parse reads a config without the families of package model.
func parse(t testing.TB, config string) *model.Model {
	t.Helper()
	src, err := checkpoint.FromBytes("test", checkpoint.Files{Config: []byte(config)})
	if err != nil {
		t.Fatal(err)
	}
	return bare("test", src)
}

// bare is a Model with nothing but its config, which is all that this engine reads.
func bare(name string, src *checkpoint.Source) *model.Model {
	m := &model.Model{Name: name, Config: model.NewConfig(src)}
	kind, _ := src.Config.Get("model_type")
	m.ModelType, _ = kind.Text()
	archs, _ := src.Config.Get("architectures")
	if list := archs.List(); len(list) > 0 {
		m.Architecture, _ = list[0].Text()
	}
	return m
}
