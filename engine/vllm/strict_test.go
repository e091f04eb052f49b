package vllm

import (
	"testing"

	"headcount/checkpoint"
)

func TestStrictConfig(t *testing.T) {
	for _, tt := range []struct {
		kind, config string
		field        string // refused; "" for none
	}{
		{"llama", `{"hidden_size": 4096, "num_attention_heads": 32, "rms_norm_eps": 1e-5, "attention_dropout": 0}`, ""},
		{"llama", `{"rms_norm_eps": 1}`, "rms_norm_eps"},
		{"llama", `{"hidden_size": 4096.0}`, "hidden_size"},
		{"llama", `{"hidden_size": null}`, "hidden_size"},
		{"llama", `{"head_dim": null}`, ""},
		{"llama", `{"vocab_size": true}`, "vocab_size"},
		{"llama", `{"use_cache": 1}`, "use_cache"},
		{"llama", `{"eos_token_id": [1, 2]}`, ""},
		{"llama", `{"eos_token_id": [1, "2"]}`, "eos_token_id"},
		{"llama", `{"no_such_field": {}}`, ""},
		{"llama", `{"hidden_size": 100, "num_attention_heads": 12, "head_dim": 8}`, "hidden_size"},
		{"qwen2", `{"hidden_size": 100, "num_attention_heads": 12, "head_dim": 8}`, ""},
		{"llama", `{"hidden_size": 100, "num_attention_heads": 0}`, "hidden_size"},
		{"llama", `{"num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"]}`, ""},
		{"llama", `{"num_hidden_layers": 3, "layer_types": ["full_attention", "sliding_attention"]}`, "num_hidden_layers"},
		{"llama", `{"num_hidden_layers": 1, "layer_types": ["wide_attention"]}`, "layer_types"},
		{"llama4", `{"text_config": {"attn_temperature_tuning": 4}}`, "text_config.attn_temperature_tuning"},
		{"aria", `{"vision_config": {"model_type": "aria_vision_model"}}`, "vision_config.model_type"},
		{"aria", `{"vision_config": {"model_type": "siglip_vision_model"}}`, ""},
		{"no_such_type", `{"hidden_size": "wide"}`, ""},
	} {
		o, _, err := checkpoint.Parse([]byte(tt.config))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if refusal := strictConfig(tt.kind, o, ""); refusal != nil {
			got = refusal.Field
		}
		if got != tt.field {
			t.Errorf("%s %s: refused for %q, want %q", tt.kind, tt.config, got, tt.field)
		}
	}
}

func TestTypeName(t *testing.T) {
	for code, want := range map[string]string{
		"i":          "an int",
		"i[i]n":      "an int or a list of an int or null",
		`"cls""eos"`: `"cls" or "eos"`,
		"[i[f]]n":    "a list of an int or a list of a float or null",
	} {
		if got := typeName(code); got != want {
			t.Errorf("typeName(%q) = %q, want %q", code, got, want)
		}
	}
}
