package weights_test

import (
	"testing"

	"headcount/dtype"
	"headcount/internal/modeltest"
	"headcount/layout"
	"headcount/weights"
)

const llama70B = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
	"num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256}`

var resolve = modeltest.Resolve

func BenchmarkStages(b *testing.B) {
	m := resolve(b, llama70B)
	build := weights.Build{Layout: layout.Layout{TP: 8}, Spans: []layout.Span{{End: len(m.Layers)}}, DType: dtype.BFloat16}
	for b.Loop() {
		if _, err := weights.Stages(m, build); err != nil {
			b.Fatal(err)
		}
	}
}
