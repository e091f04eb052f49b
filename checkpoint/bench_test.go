package checkpoint_test

import (
	"fmt"
	"os"
	"testing"

	"headcount/checkpoint"
	"headcount/internal/forge"
)

// deepSeekV3 is a checkpoint of the size and the names of DeepSeek-V3's: 61 layers, 58 of
// them with 256 routed experts, each weight with its scales, in 163 shards of 700 GB.
func deepSeekV3(tb testing.TB) string {
	tb.Helper()
	var tensors []forge.Tensor
	add := func(name string, rows, cols int64) {
		tensors = append(tensors,
			forge.Tensor{Name: name + ".weight", DType: "F8_E4M3", Shape: []int64{rows, cols}, Bytes: rows * cols},
			forge.Tensor{Name: name + ".weight_scale_inv", DType: "F32", Shape: []int64{rows / 128, cols / 128}, Bytes: rows / 128 * (cols / 128) * 4})
	}
	mlp := func(name string, width int64) {
		add(name+".gate_proj", width, 7168)
		add(name+".up_proj", width, 7168)
		add(name+".down_proj", 7168, width)
	}
	for i := range 61 {
		layer := fmt.Sprintf("model.layers.%d.", i)
		add(layer+"self_attn.q_a_proj", 1536, 7168)
		add(layer+"self_attn.q_b_proj", 24576, 1536)
		add(layer+"self_attn.kv_a_proj_with_mqa", 576, 7168)
		add(layer+"self_attn.kv_b_proj", 32768, 512)
		add(layer+"self_attn.o_proj", 7168, 16384)
		for _, norm := range []string{"input_layernorm", "post_attention_layernorm"} {
			tensors = append(tensors, forge.Tensor{Name: layer + norm + ".weight", DType: "BF16", Shape: []int64{7168}, Bytes: 7168 * 2})
		}
		if i < 3 {
			mlp(layer+"mlp", 18432)
			continue
		}
		mlp(layer+"mlp.shared_experts", 2048)
		for e := range 256 {
			mlp(fmt.Sprintf("%smlp.experts.%d", layer, e), 2048)
		}
	}
	const shards = 163
	parts := make([][]forge.Tensor, shards)
	for i, t := range tensors {
		at := i * shards / len(tensors)
		parts[at] = append(parts[at], t)
	}
	folder := tb.TempDir()
	if err := forge.Shards(folder, parts); err != nil {
		tb.Fatal(err)
	}
	return folder
}

// BenchmarkReadTensors reads the headers of 163 shards that stand for 700 GB.
func BenchmarkReadTensors(b *testing.B) {
	folder := os.DirFS(deepSeekV3(b))
	tensors, total := 0, int64(0)
	for b.Loop() {
		list, err := checkpoint.ReadTensors(folder)
		if err != nil {
			b.Fatal(err)
		}
		tensors, total = len(list), 0
		for i := range list {
			total += list[i].Bytes
		}
	}
	b.ReportMetric(float64(tensors), "tensors")
	b.ReportMetric(float64(total)/1e9, "GB")
}
