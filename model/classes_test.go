package model

import (
	"strings"
	"testing"

	"headcount/checkpoint"
)

// Every line of the table decodes, is found by its name, and is in order.
func TestClassesTable(t *testing.T) {
	last := ""
	for line := range strings.Lines(classesTable) {
		name, _, ok := strings.Cut(line, "\t")
		if !ok || name <= last {
			t.Errorf("line %.40q: no tab or out of order after %q", line, last)
		}
		if _, ok := lookupClass(name); !ok {
			t.Errorf("%s: not found", name)
		}
		last = name
	}
	for _, name := range []string{"", "llam", "llama ", "zzz", "\n"} {
		if _, ok := lookupClass(name); ok {
			t.Errorf("%q: found", name)
		}
	}
}

func TestLookupClass(t *testing.T) {
	c, _ := lookupClass("gpt2")
	if got := c.alias["hidden_size"]; got != "n_embd" {
		t.Errorf("gpt2: hidden_size is kept as %q, want n_embd", got)
	}
	c, _ = lookupClass("llama")
	v, _ := c.defaults.Get("vocab_size")
	if n, _ := v.Int(); n != 32000 || len(c.derived) != 2 {
		t.Errorf("llama: vocab_size %d, %d formulas, want 32000 and those of head_dim and num_key_value_heads", n, len(c.derived))
	}
	c, _ = lookupClass("gemma3")
	if c.textAttr != "text_config" || c.subConfigs["text_config"] != "gemma3_text" {
		t.Errorf("gemma3: text in %q of type %q", c.textAttr, c.subConfigs["text_config"])
	}
}

// Of some classes the file's text config is laid over the class's own; of others it stands
// in its place, and what it lacks is its own class's default.
func TestGivenTextConfig(t *testing.T) {
	for _, tt := range []struct {
		config string
		length int64
	}{
		{`{"model_type": "glmasr", "text_config": {"model_type": "llama", "num_hidden_layers": 1}}`, 8192},
		{`{"model_type": "glmasr", "text_config": {"model_type": "llama", "max_position_embeddings": 4096}}`, 4096},
		{`{"model_type": "glmasr"}`, 8192},
		{`{"model_type": "llava", "text_config": {"model_type": "llama", "num_hidden_layers": 1}}`, 2048}, // LLaMA's own
	} {
		src, err := checkpoint.FromBytes("config.json", checkpoint.Files{Config: []byte(tt.config)})
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := NewConfig(src).Int("max_position_embeddings"); n != tt.length {
			t.Errorf("%s: %d positions, want %d", tt.config, n, tt.length)
		}
	}
}

func TestClassNames(t *testing.T) {
	for _, tt := range []struct{ kind, base, causalLM string }{
		{"llama", "LlamaModel", "LlamaForCausalLM"},
		{"bert", "BertModel", "BertLMHeadModel"},
		{"nobody", "", ""},
	} {
		if base, causalLM := ClassNames(tt.kind); base != tt.base || causalLM != tt.causalLM {
			t.Errorf("%s: %q, %q, want %q, %q", tt.kind, base, causalLM, tt.base, tt.causalLM)
		}
	}
}
