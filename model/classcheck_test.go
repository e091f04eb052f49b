package model

import (
	"testing"

	"headcount/checkpoint"
)

func TestAccepts(t *testing.T) {
	value := func(text string) checkpoint.Value {
		o, _, err := checkpoint.Parse([]byte(`{"v":` + text + `}`))
		if err != nil {
			t.Fatal(err)
		}
		v, _ := o.Get("v")
		return v
	}
	for _, tt := range []struct {
		code, value string
		want        bool
	}{
		{"i", "8", true}, {"i", "8.0", false}, {"i", "true", false}, {"i", "null", false},
		{"i", "123456789012345678901234567890", true}, // Python's int has no bound
		{"f", "8", false}, {"f", "8.0", true}, {"f", "Infinity", true}, {"fi", "8", true},
		{"b", "4", false}, {"b", "true", true}, {"in", "null", true},
		{"nl(s)", `["a","b"]`, true}, {"nl(s)", `["a",1]`, false}, {"nl(s)", `"a"`, false}, {"l(l(i))", "[[1],[2,3]]", true},
		{"d", "{}", true}, {"d", "[]", false}, {"c(full|default)", `"full"`, true}, {"c(full|default)", `"other"`, false},
		{"", "1", false},
	} {
		if got := accepts(tt.code, value(tt.value)); got != tt.want {
			t.Errorf("accepts(%q, %s) = %t", tt.code, tt.value, got)
		}
	}
	if got := describeType("nl(i)"); got != "null or list of int" {
		t.Errorf("nl(i) reads %q", got)
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct{ config, want string }{
		{`{"model_type":"llama","hidden_size":4096,"num_attention_heads":32}`, ""},
		{`{"model_type":"llama","hidden_size":4096,"num_attention_heads":30}`,
			"hidden_size = 4096: llama takes no file where (hidden_size % num_attention_heads) != 0"},
		{`{"model_type":"llama","num_hidden_layers":2.5}`,
			"num_hidden_layers = 2.5: not of the type that llama declares: int"},
		{`{"model_type":"llama4","text_config":{"attn_temperature_tuning":4}}`,
			"text_config.attn_temperature_tuning = 4: not of the type that llama4_text declares: bool"},
		{`{"model_type":"qwen3","num_hidden_layers":3,"layer_types":["full_attention"]}`,
			"num_hidden_layers = 3: 1 entries of layer_types"},
		{`{"model_type":"mistral","hidden_size":4095,"num_attention_heads":7,"head_dim":585}`,
			"head_dim = 585: rotary embedding needs an even width"},
		{`{"model_type":"llama","rms_norm_eps":1}`,
			"rms_norm_eps = 1: not of the type that llama declares: float"},
		{`{"model_type":"aria","vision_config":{"model_type":"aria_vision_model"}}`,
			"vision_config.model_type = \"aria_vision_model\": not a model type that Transformers has a class for"},
		{`{"model_type":"nobody","num_hidden_layers":"many"}`, ""}, // no class, no types
	} {
		o, _, err := checkpoint.Parse([]byte(tt.config))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := NewConfig(&checkpoint.Source{Config: o}).Refused(); err != nil {
			got = err.Message
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.config, got, tt.want)
		}
	}
}
