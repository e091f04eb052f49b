package convert_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"headcount/checkpoint"
	"headcount/convert"
	"headcount/internal/dummy"
	"headcount/model"
)

func ExampleNew() {
	folder, err := dummy.Checkpoint{DType: "BF16", Config: `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
		"intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 256}`}.Folder()
	if err != nil {
		panic(err)
	}
	c, err := convert.New(folder, "Tiny", convert.Options{KVHeads: 2})
	if err != nil {
		panic(err)
	}
	for _, change := range c.Changes[:2] {
		fmt.Println(change.Tensor.Name, change.Tensor.Shape, "to", change.Shape)
	}
	_, err = convert.New(folder, "Tiny", convert.Options{KVHeads: 3})
	fmt.Println(err)
	// Output:
	// model.layers.0.self_attn.k_proj.weight [64 64] to [16 64]
	// model.layers.0.self_attn.v_proj.weight [64 64] to [16 64]
	// kv_heads = 3: does not divide the 8 KV heads of Tiny
}

func ExampleConversion_Write() {
	folder, err := dummy.Checkpoint{DType: "F16", Config: `{"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_size": 64,
		"intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 256}`}.Folder()
	if err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "convert")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	c, err := convert.New(folder, "Tiny", convert.Options{KVHeads: 1})
	if err != nil {
		panic(err)
	}
	out := filepath.Join(dir, "Tiny-MQA")
	if err := c.Write(context.Background(), out, nil); err != nil {
		panic(err)
	}
	src, err := checkpoint.FromFS(os.DirFS(out), "Tiny-MQA")
	if err != nil {
		panic(err)
	}
	m, err := model.Resolve(src)
	fmt.Println(m.Layers[0].Caches[0].Attn.Variant(), err)
	// Output: MQA <nil>
}
