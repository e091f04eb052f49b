package headcount_test

import (
	"context"
	"fmt"
	"log"

	"headcount"
	"headcount/checkpoint"
	"headcount/engine"
	"headcount/layout"
)

// A catalogue model, a layout, and the pool of one rank: what vLLM will log.
func ExamplePlan() {
	report, err := headcount.Plan(context.Background(), headcount.Request{
		Model:   "llama-3-70b",
		Layout:  layout.Layout{TP: 8},
		Options: engine.Options{KVCacheMemory: 40 << 30},
	})
	if err != nil {
		log.Fatal(err) // unusable input
	}
	rank := report.Ranks[0]
	fmt.Println(rank.KVHeads, "KV head and", rank.BytesPerToken, "B a token on a rank")
	fmt.Println(report.Log[0])
	// Output:
	// 1 KV head and 40960 B a token on a rank
	// GPU KV cache size: 1,048,576 tokens, Maximum concurrency for 8,192 tokens per request: 128.00x
}

// What an engine refuses is an answer too: the error is in the Report.
func ExamplePlan_refusal() {
	report, err := headcount.Plan(context.Background(), headcount.Request{Model: "qwen2.5-7b", Layout: layout.Layout{TP: 8}})
	fmt.Println(err)
	fmt.Println(report.Error.RefusedBy, report.Error.Code, report.Error.Field)
	fmt.Println(report.Error)
	// Output:
	// <nil>
	// vllm not_divisible num_attention_heads
	// num_attention_heads = 28: not divisible by tensor parallel size 8
}

// A config.json in place of a name.
func ExamplePlan_config() {
	report, err := headcount.Plan(context.Background(), headcount.Request{Config: []byte(`{
		"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
		"num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256,
		"num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192}`)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Model.Variant, report.Model.HeadDim, report.Model.Provenance["head_dim"])
	// Output: GQA-8 128 hidden_size / num_attention_heads
}

// A shelf is a Resolver: it turns names of its own into checkpoints.
type shelf map[string]string

func (s shelf) Source(_ context.Context, name string) (*checkpoint.Source, bool, error) {
	config, ok := s[name]
	if !ok {
		return nil, false, nil // not ours: the catalogue is asked next
	}
	src, err := checkpoint.FromBytes(name, checkpoint.Files{Config: []byte(config)})
	return src, true, err
}

// A Planner with a Resolver knows further names. Whoever builds it decides what they may
// touch: a map here, a disk or a network elsewhere.
func ExamplePlanner() {
	planner := headcount.Planner{Resolver: shelf{"ours": `{
		"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16",
		"num_hidden_layers": 64, "hidden_size": 5120, "intermediate_size": 25600, "vocab_size": 151936,
		"num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960}`}}
	for _, name := range []string{"ours", "qwen3-32b"} {
		report, err := planner.Plan(context.Background(), headcount.Request{Model: name})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(report.Model.Name, report.Ranks[0].BytesPerToken)
	}
	// Output:
	// ours 262144
	// Qwen/Qwen3-32B 262144
}

// The steps from config.json to the log line, as `headcount explain` prints them.
func ExampleReport_Explain() {
	report, err := headcount.Plan(context.Background(), headcount.Request{
		Model:   "llama-3-70b",
		Layout:  layout.Layout{TP: 8},
		Options: engine.Options{KVCacheMemory: 40 << 30},
	})
	if err != nil {
		log.Fatal(err)
	}
	blocks := report.Explain()[7]
	fmt.Println(blocks.Title)
	fmt.Println(blocks.Lines[0])
	// Output:
	// Blocks in the pool
	// stage 0: 42,949,672,960 // 655,360 = 65,536
}

// One line of `headcount plan --jobs`, in process.
func ExampleParseRequest() {
	req, err := headcount.ParseRequest([]byte(`{"id": 7, "model": "deepseek-v3", "tensor_parallel_size": 8, "kv_cache_memory_bytes": 42949672960}`))
	if err != nil {
		log.Fatal(err)
	}
	report, err := headcount.Plan(context.Background(), req)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %d× %s\n", report.ID, report.Ranks[0].KVReplication, report.Model.Variant)

	_, err = headcount.ParseRequest([]byte(`{"model": "deepseek-v3", "tensor_parallel": 8}`))
	fmt.Println(err)
	// Output:
	// 7 8× MLA
	// tensor_parallel: not a field of a request
}
