package model_test

import (
	"testing"

	"headcount/checkpoint"
	"headcount/model"
)

const llama70B = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
	"num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256,
	"max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": false,
	"torch_dtype": "bfloat16", "attention_bias": false, "hidden_act": "silu"}`

func BenchmarkResolve(b *testing.B) {
	src, err := checkpoint.FromBytes("config.json", checkpoint.Files{Config: []byte(llama70B)})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := model.Resolve(src); err != nil {
			b.Fatal(err)
		}
	}
}
