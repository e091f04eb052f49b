package model

import (
	"testing"

	"headcount/checkpoint"
)

// BenchmarkNewConfig presents a parsed file as its class does.
func BenchmarkNewConfig(b *testing.B) {
	for _, bb := range []struct{ name, config string }{
		{"llama", `{"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":8192,"intermediate_size":28672,
			"num_attention_heads":64,"num_hidden_layers":80,"num_key_value_heads":8,"rope_theta":500000.0,"vocab_size":128256}`},
		{"layers=62", `{"model_type":"gemma3","text_config":{"num_hidden_layers":62,"hidden_size":5376,"num_attention_heads":32}}`},
	} {
		b.Run(bb.name, func(b *testing.B) {
			o, _, err := checkpoint.Parse([]byte(bb.config))
			if err != nil {
				b.Fatal(err)
			}
			src := &checkpoint.Source{Config: o}
			b.ReportAllocs()
			for b.Loop() {
				NewConfig(src)
			}
		})
	}
}
