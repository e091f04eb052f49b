package vllm

import (
	"testing"

	"headcount/engine"
	"headcount/layout"
	"headcount/problem"
)

// What the engine says of numbers of draft layers that its classes cannot build.
func TestOwnDrafts(t *testing.T) {
	const nemotron = `{"architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "hidden_size": 512, "vocab_size": 1024,
		"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 1024, "moe_intermediate_size": 256, "n_routed_experts": 8,
		"num_experts_per_tok": 2, "n_shared_experts": 1, "moe_shared_expert_intermediate_size": 256, "mamba_num_heads": 16, "mamba_head_dim": 64,
		"n_groups": 8, "ssm_state_size": 64, "layers_block_type": ["mamba", "moe", "attention"], "mtp_layers_block_type": ["attention", "moe"],
		"torch_dtype": "bfloat16", "num_nextn_predict_layers": `
	const qwen = `{"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "num_hidden_layers": 4, "hidden_size": 512, "vocab_size": 1024,
		"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 1024, "torch_dtype": "bfloat16", "mtp_num_hidden_layers": `
	for _, tt := range []struct {
		name, config string
		tokens       int
		field        string // "" when it is planned
	}{
		{"Nemotron-H's one layer", nemotron + "1}", 2, ""},
		{"two of them", nemotron + "2}", 2, "num_nextn_predict_layers"},
		{"Qwen's one layer", qwen + "1}", 1, ""},
		{"two for three tokens", qwen + "2}", 3, "speculative.num_speculative_tokens"},
		{"no layers", qwen + "0}", 1, "speculative.num_speculative_tokens"},
		{"null", qwen + "null}", 1, "mtp_num_hidden_layers"},
	} {
		_, err := Engine{}.Plan(engine.Job{Model: modelOf(t, tt.config), Layout: layout.Layout{}, Options: &engine.Options{
			KVCacheMemory: 1 << 34, Speculative: &engine.Speculative{Method: "mtp", Tokens: tt.tokens}}})
		field := ""
		if refusal, ok := err.(*problem.Error); ok {
			field = refusal.Field
		}
		if field != tt.field {
			t.Errorf("%s: %v, want a refusal of %q", tt.name, err, tt.field)
		}
	}
}
