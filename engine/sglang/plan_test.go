package sglang

import (
	"strings"
	"testing"

	"headcount/checkpoint"
	"headcount/engine"
	"headcount/hw"
	"headcount/model"
	"headcount/problem"
)

// Configs that tests plan, reduced to what a size depends on.
const (
	llama = `{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8192, "num_hidden_layers": 80,
		"num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072, "torch_dtype": "bfloat16"}`
	deepseekV3 = `{"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 7168, "num_hidden_layers": 61,
		"num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280, "max_position_embeddings": 163840, "torch_dtype": "bfloat16",
		"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "num_nextn_predict_layers": 1}`
	gptOSS = `{"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "hidden_size": 2880, "num_hidden_layers": 36,
		"num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088, "max_position_embeddings": 131072, "sliding_window": 128}`
	qwen3Next = `{"model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 48,
		"num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 151936, "max_position_embeddings": 262144, "torch_dtype": "bfloat16",
		"full_attention_interval": 4, "linear_num_value_heads": 32, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
		"linear_key_head_dim": 128, "linear_conv_kernel_dim": 4}`
)

// parse reads a config without the families of package model.
func parse(t testing.TB, config string) *model.Model {
	t.Helper()
	src, err := checkpoint.FromBytes("test", checkpoint.Files{Config: []byte(config)})
	if err != nil {
		t.Fatal(err)
	}
	return bare("test", src)
}

// bare is a Model with nothing but its config, which is all that this engine reads.
func bare(name string, src *checkpoint.Source) *model.Model {
	m := &model.Model{Name: name, Config: model.NewConfig(src)}
	kind, _ := src.Config.Get("model_type")
	m.ModelType, _ = kind.Text()
	archs, _ := src.Config.Get("architectures")
	if list := archs.List(); len(list) > 0 {
		m.Architecture, _ = list[0].Text()
	}
	return m
}

// gpt-oss in MXFP4 computes in bfloat16 whatever --dtype asks for, and so caches in it.
func TestForcedDType(t *testing.T) {
	gpu, err := hw.Lookup("h100-sxm-80gb")
	if err != nil {
		t.Fatal(err)
	}
	packed := strings.Replace(gptOSS, "{", `{"quantization_config": {"quant_method": "mxfp4"}, `, 1)
	for config, want := range map[string]string{gptOSS: "float16", packed: "bfloat16"} {
		res, err := Engine{}.Plan(engine.Job{Model: parse(t, config), GPU: gpu, Options: &engine.Options{MemoryBeginGiB: 78, MemoryEndGiB: 50, DType: "half"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Resolved.KVCacheDType; got != want {
			t.Errorf("%s: %s, want %s", config, got, want)
		}
	}
}

// A draft that drafts blocks reads layers of the target, which must be there, and takes the
// context that is asked for.
func TestBlockDraft(t *testing.T) {
	draft := parse(t, strings.Replace(llama, "{", `{"dflash_config": {"target_layer_ids": [1, 79]}, "block_size": 16, `, 1))
	short := parse(t, strings.Replace(llama, "131072", "4096", 1))
	for _, tt := range []struct {
		name   string
		target string
		draft  *model.Model
		length int64
		field  string
	}{
		{"80 layers", llama, draft, 0, ""},
		{"79 layers", strings.Replace(llama, `"num_hidden_layers": 80`, `"num_hidden_layers": 79`, 1), draft, 0, "target_layer_ids"},
		{"longer than the draft", llama, short, 8192, "max_model_len"},
	} {
		opts := engine.Options{MemoryBeginGiB: 78, MemoryEndGiB: 50, SpeculativeAlgorithm: "DFLASH", Draft: tt.draft, MaxModelLen: tt.length}
		_, err := Engine{}.Plan(engine.Job{Model: parse(t, tt.target), Options: &opts})
		if p, _ := err.(*problem.Error); (p == nil) != (tt.field == "") || p != nil && p.Field != tt.field {
			t.Errorf("%s: %v, want a refusal of %q", tt.name, err, tt.field)
		}
	}
}
