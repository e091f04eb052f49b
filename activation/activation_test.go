package activation

import (
	"testing"

	"headcount/dtype"
	"headcount/internal/modeltest"
	"headcount/layout"
)

var resolve = modeltest.Resolve

const (
	llama = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 2,
		"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "torch_dtype": "bfloat16"}`
	qwen = `{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 5120, "intermediate_size": 25600, "num_hidden_layers": 2, "head_dim": 128,
		"num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 151936, "torch_dtype": "bfloat16"}`
	mixtral = `{"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 2,
		"num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000, "torch_dtype": "bfloat16"}`
)

// The widest point, T·e times what lives of a token: gate and up, the activation, and hidden
// states; a compiled piece holds the output of attention in place of one of them. Llama's MLP
// lets its gates go before it multiplies down; Qwen's holds them, and the product beside them.
func TestPeak(t *testing.T) {
	const tokens, e = 8192, 2
	for _, tt := range []struct {
		name, config string
		pass         Pass
		forward      int64 // elements a token
		at           Moment
		kept         int64
	}{
		{"eager", llama, Pass{}, 3*14336 + 4*4096, MLP, 0},
		{"compiled", llama, Pass{Compiled: true}, 3*14336 + 2*4096 + 4096, MLP, 0},
		{"many ranks: the product that writes back, and its sum", llama, Pass{Layout: layout.Layout{TP: 8}}, 14336/8 + 6*4096, MLP, 0},
		{"gates are held", qwen, Pass{}, 3*25600 + 5*5120, MLP, 0},
		{"gates are held on two ranks", qwen, Pass{Layout: layout.Layout{TP: 2}}, 3*12800 + 6*5120, MLP, 0},
		{"its input in bytes, a scale for 128", qwen, Pass{Packed: true}, 3*25600 + 5*5120 + 25600/2 + 25600/128*2, MLP, 0},
		{"experts: attention is wider, their rows lie in the workspace", mixtral, Pass{Layout: layout.Layout{TP: 2}},
			(32+2*8)*128/2 + 4096/2 + 6*4096, Attention, tokens * 2 * e * (2*14336/2 + 14336/2)},
	} {
		tt.pass.DType, tt.pass.Tokens = dtype.BFloat16, tokens
		m := resolve(t, tt.config)
		got := Of(m, layout.Span{End: len(m.Layers)}, tt.pass)
		if want := (Peak{Forward: tokens * e * tt.forward, At: tt.at, Kept: tt.kept}); got != want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, want)
		}
	}
}

// A stage holds what its own layers do; a stage without layers holds nothing.
func TestSpan(t *testing.T) {
	m := resolve(t, llama)
	if got := Of(m, layout.Span{Start: 1, End: 1}, Pass{DType: dtype.BFloat16, Tokens: 8}); got != (Peak{}) {
		t.Errorf("%+v of no layer", got)
	}
}
