package headcount_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headcount"
	"headcount/engine"
	"headcount/internal/forge"
	"headcount/internal/source"
	"headcount/layout"
)

// llamaGGUF writes a Llama of 4 layers in Q4_K, norms in F32, head and embedding in Q6_K.
func llamaGGUF(t *testing.T) string {
	t.Helper()
	const q4, q6 = 12, 14 // blocks of 256 elements: 144 and 210 bytes
	matrix := func(name string, kind uint32, rows, cols int64) forge.Tensor {
		size := map[uint32]int64{q4: 144, q6: 210}[kind]
		return forge.Tensor{Name: name + ".weight", Type: kind, Shape: []int64{rows, cols}, Bytes: rows * cols / 256 * size}
	}
	norm := func(name string) forge.Tensor {
		return forge.Tensor{Name: name + ".weight", Shape: []int64{2048}, Bytes: 2048 * 4}
	}
	tensors := []forge.Tensor{matrix("token_embd", q6, 32000, 2048), norm("output_norm"), matrix("output", q6, 32000, 2048)}
	for _, i := range []string{"0", "1", "2", "3"} {
		in := "blk." + i + "."
		tensors = append(tensors, norm(in+"attn_norm"), norm(in+"ffn_norm"),
			matrix(in+"attn_q", q4, 2048, 2048), matrix(in+"attn_k", q4, 512, 2048), matrix(in+"attn_v", q6, 512, 2048), matrix(in+"attn_output", q4, 2048, 2048),
			matrix(in+"ffn_gate", q4, 5632, 2048), matrix(in+"ffn_up", q4, 5632, 2048), matrix(in+"ffn_down", q6, 2048, 5632))
	}
	keys := []forge.Key{{Name: "general.architecture", Value: "llama"}}
	for key, n := range map[string]uint32{"block_count": 4, "context_length": 4096, "embedding_length": 2048, "feed_forward_length": 5632,
		"attention.head_count": 16, "attention.head_count_kv": 4, "vocab_size": 32000} {
		keys = append(keys, forge.Key{Name: "llama." + key, Value: n})
	}
	path := filepath.Join(t.TempDir(), "small-Q4_K_M.gguf")
	if err := os.WriteFile(path, forge.GGUF(keys, tensors), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A GGUF file is a model: its metadata is the config, its tensors are what ranks hold.
func TestGGUF(t *testing.T) {
	planner := headcount.Planner{Resolver: source.Files{}}
	path := llamaGGUF(t)
	plan := func(engineName string, tp int) *headcount.Report {
		r, err := planner.Plan(context.Background(), headcount.Request{Model: path, Engine: engineName, GPU: "h100",
			Layout: layout.Layout{TP: tp}, Options: engine.Options{KVCacheMemory: 1 << 30}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	outer := int64(2 * 32000 * 2048 / 256 * 210)
	// Queries, keys and values are one matrix, as wide as the widest of them.
	split := int64(4 * ((2048*2048+2*5632*2048)/256*144 + ((2048+2*512)*2048+2048*5632)/256*210))
	norms := int64((4*2 + 1) * 2048 * 4)
	one := plan("sglang", 1)
	if got := *one.Ranks[0].WeightBytes; got != outer+split+norms {
		t.Errorf("TP 1: %d bytes, want %d", got, outer+split+norms)
	}
	if one.Model.Name != "small-Q4_K_M" || one.Model.KVHeads != 4 || one.Model.HeadDim != 128 {
		t.Errorf("%+v", one.Model)
	}
	// 5632/2 = 11 blocks of 256; 2048/2 = 4: whole blocks on each rank.
	if got := *plan("sglang", 2).Ranks[0].WeightBytes; got != (outer+split)/2+norms {
		t.Errorf("TP 2: %d bytes, want %d", got, (outer+split)/2+norms)
	}
	if r := plan("sglang", 4); !slices.ContainsFunc(r.Notes, func(n engine.Note) bool {
		return n.ID == "weights-not-divisible" && strings.Contains(n.Text, "the 1408 inputs of a rank to mlp.down_proj are not whole blocks of 256")
	}) {
		t.Errorf("TP 4: %+v", r.Notes)
	}
	if r := plan("vllm", 1); r.Error == nil || !strings.Contains(r.Error.Error(), "gguf") {
		t.Errorf("vLLM: %v", r.Error)
	}
}
