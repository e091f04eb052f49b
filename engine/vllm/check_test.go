package vllm

import (
	"testing"

	"headcount/checkpoint"
	"headcount/engine"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
)

// A hint lists the sizes that every split width allows, whichever width refused.
func TestLegalTensorParallelSizes(t *testing.T) {
	const qwen7B = `{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 3584,
		"num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064}`
	const phi3Medium = `{"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "num_hidden_layers": 40, "hidden_size": 5120,
		"num_attention_heads": 40, "num_key_value_heads": 10, "intermediate_size": 17920, "vocab_size": 32064}`
	for _, tt := range []struct {
		config string
		tp     int
		field  string
		hint   string
	}{
		{qwen7B, 8, "num_attention_heads", "legal tensor parallel sizes: 1, 2, 4"},
		{qwen7B, 7, "num_key_value_heads", "legal tensor parallel sizes: 1, 2, 4"},
		{qwen7B, 28, "intermediate_size", "legal tensor parallel sizes: 1, 2, 4"}, // 18,944 = 2⁹ · 37
		{phi3Medium, 4, "num_key_value_heads", "legal tensor parallel sizes: 1, 2"},
		{phi3Medium, 5, "vocab_size", "legal tensor parallel sizes: 1, 2"}, // 32,064 = 64 · 501
	} {
		src, err := checkpoint.FromBytes("config.json", checkpoint.Files{Config: []byte(tt.config)})
		if err != nil {
			t.Fatal(err)
		}
		m, err := model.Resolve(src)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Engine{}.Plan(engine.Job{Model: m, Layout: layout.Layout{TP: tt.tp}, Options: &engine.Options{KVCacheMemory: 1}})
		p, ok := err.(*problem.Error)
		if !ok || p.Code != problem.NotDivisible || p.Field != tt.field || p.Hint != tt.hint {
			t.Errorf("%d heads over %d ranks: %v, hint %q; want %s with %q", m.QueryHeads, tt.tp, err, p.Hint, tt.field, tt.hint)
		}
	}
}
