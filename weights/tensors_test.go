package weights_test

import (
	"errors"
	"fmt"
	"testing"

	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
	"headcount/weights"
)

// stored are the tensors of a checkpoint of m in bfloat16, one for each parameter or part
// of one.
func stored(m *model.Model) []checkpoint.Tensor {
	var out []checkpoint.Tensor
	add := func(prefix string, params []model.Param) {
		at := map[string]int{}
		for _, p := range params {
			rows, cols := int64(p.Rows.Size), int64(p.Cols.Size)
			shape := []int64{rows, cols}
			if cols == 0 {
				shape = shape[:1]
			}
			if i, ok := at[p.Name]; ok { // parts of one tensor lie one below the other
				out[i].Shape[0] += rows
				out[i].Bytes += 2 * rows * max(cols, 1)
				continue
			}
			at[p.Name] = len(out)
			out = append(out, checkpoint.Tensor{Name: prefix + p.Name, DType: "BF16", Shape: shape, Bytes: 2 * rows * max(cols, 1)})
		}
	}
	for i, l := range m.Layers {
		add(fmt.Sprintf("model.layers.%d.", i), l.Params)
	}
	add("", m.Outer)
	return out
}

// TestStagesOfTensors divides an unquantised checkpoint's tensors as its config's
// parameters are divided.
func TestStagesOfTensors(t *testing.T) {
	for _, config := range []string{
		llama70B,
		`{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "num_hidden_layers": 4, "tie_word_embeddings": true}`,
		`{"architectures": ["InternLM2ForCausalLM"], "model_type": "internlm2", "hidden_size": 4096, "intermediate_size": 14336,
			"num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 92544}`,
		`{"architectures": ["FalconForCausalLM"], "model_type": "falcon", "num_attention_heads": 64, "hidden_size": 4096}`,
		`{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_head": 16, "n_embd": 1024, "vocab_size": 51200}`,
	} {
		m := resolve(t, config)
		for _, tp := range []int{1, 2, 8} {
			half := len(m.Layers) / 2
			build := weights.Build{Layout: layout.Layout{TP: tp, PP: 2}, Spans: []layout.Span{{End: half}, {Start: half, End: len(m.Layers)}}, DType: dtype.BFloat16}
			want, err := weights.Stages(m, build)
			if err != nil {
				t.Fatal(err)
			}
			asStored := resolve(t, config)
			asStored.Tensors, asStored.WeightsUnknown = stored(m), "for the test"
			got, err := weights.Stages(asStored, build)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("%s TP %d stage %d: %+v, want %+v", m.Architecture, tp, i, got[i], want[i])
				}
			}
		}
	}
}

// TestQuantisedTensors divides one layer's packed weights and scales.
func TestQuantisedTensors(t *testing.T) {
	of := func(tensors ...checkpoint.Tensor) *model.Model {
		m := resolve(t, `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096,
			"num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000,
			"quantization_config": {"quant_method": "awq"}}`)
		m.Tensors = tensors
		return m
	}
	build := weights.Build{Layout: layout.Layout{TP: 4}, Spans: []layout.Span{{End: 1}}, DType: dtype.Float16}
	for _, tt := range []struct {
		name  string
		dtype string
		shape []int64
		bytes int64 // stored
		want  int64 // on a rank
	}{
		{"mlp.down_proj.qweight", "I32", []int64{4096, 1024 / 8}, 4096 * 128 * 4, 4096 / 4 * 128 * 4},
		{"mlp.down_proj.scales", "F16", []int64{4096 / 128, 1024}, 32 * 1024 * 2, 32 / 4 * 1024 * 2},
		{"self_attn.k_proj.qweight", "I32", []int64{1024, 256 / 8}, 1024 * 32 * 4, 1024 * 16 * 4}, // 2 KV heads on 4 ranks: one each
		{"self_attn.o_proj.weight_scale", "F32", []int64{1024, 1}, 1024 * 4, 1024 * 4},            // a scale per output row, whole
		{"self_attn.q_proj.weight_scale", "F32", []int64{1024, 1}, 1024 * 4, 1024 / 4 * 4},
		{"mlp.up_proj.input_scale", "F32", nil, 4, 4},
		{"input_layernorm.weight", "F16", []int64{1024}, 1024 * 2, 1024 * 2},
		{"self_attn.rotary_emb.inv_freq", "F32", []int64{64}, 64 * 4, 0},
	} {
		tensor := checkpoint.Tensor{Name: "model.layers.0." + tt.name, DType: tt.dtype, Shape: tt.shape, Bytes: tt.bytes}
		got, err := weights.Stages(of(tensor), build)
		if err != nil || got[0].Bytes != tt.want {
			t.Errorf("%s: %+v, %v, want %d bytes", tt.name, got, err, tt.want)
		}
	}
	m := of(checkpoint.Tensor{Name: "visual.blocks.0.norm1.weight", Shape: []int64{8}, Bytes: 16}, checkpoint.Tensor{Bytes: 4})
	_, err := weights.Stages(m, build)
	if e, ok := errors.AsType[*problem.Error](err); !ok || e.Code != problem.NotKnown {
		t.Errorf("a tower's tensor: %v, want %s", err, problem.NotKnown)
	}
	if n, bytes, ok := weights.Whole(m, dtype.Float16); n != 8+1 || bytes != 16+4 || !ok {
		t.Errorf("Whole = %d, %d, %t", n, bytes, ok)
	}
}
