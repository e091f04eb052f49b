package vllm

import (
	"fmt"
	"slices"
	"testing"

	"headcount/engine"
	"headcount/hw"
	"headcount/internal/modeltest"
	"headcount/layout"
	"headcount/problem"
)

// A stage gets as many layers as each other; the rest go to the stages before the last.
func TestSpans(t *testing.T) {
	for _, tt := range []struct {
		layers, stages int
		want           []int
	}{
		{32, 1, []int{32}},
		{32, 4, []int{8, 8, 8, 8}},
		{61, 2, []int{31, 30}},
		{62, 4, []int{15, 16, 16, 15}},
		{63, 4, []int{16, 16, 16, 15}},
		{2, 4, []int{0, 1, 1, 0}},
	} {
		var got []int
		for _, s := range spans(nil, tt.layers, tt.stages) {
			got = append(got, s.Len())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%d layers on %d stages: %v, want %v", tt.layers, tt.stages, got, tt.want)
		}
	}
}

// modelOf resolves a config.
var modelOf = modeltest.Resolve

// with is llama8B with further fields.
func with(fields string) string { return llama8B[:len(llama8B)-1] + ", " + fields + "}" }

func TestLength(t *testing.T) {
	for _, tt := range []struct {
		fields   string
		derived  float64
		standard int64
	}{
		{`"attention_bias": false`, 8192, 8192},
		{`"rope_scaling": {"rope_type": "linear", "factor": 4.0}`, 4 * 8192, 4 * 8192},
		{`"rope_scaling": {"type": "dynamic", "factor": 2.5}`, 2.5 * 8192, 20480},
		{`"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}`, 8192, 8192},
		{`"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}`, 8192, 8192},
		{`"model_max_length": 2048`, 2048, 2048},
		{`"max_sequence_length": 4096`, 4096, 4096},
	} {
		r := newLengthRule(modelOf(t, with(tt.fields)).Config, "llama")
		if r.derived != tt.derived || r.standard != tt.standard {
			t.Errorf("%s: derived %g, served at %d; want %g, %d", tt.fields, r.derived, r.standard, tt.derived, tt.standard)
		}
	}
}

// refusalOf is why the engine refuses a config at a tensor parallel size, nil if it does not.
func refusalOf(t *testing.T, config, gpu string, l layout.Layout) *problem.Error {
	t.Helper()
	device, err := hw.Lookup(gpu)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Engine{}.Plan(engine.Job{Model: modelOf(t, config), Layout: l, GPU: device})
	p, _ := err.(*problem.Error)
	return p
}

const fp8Blocks = `"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]`

func TestRefusalsWhileBuilding(t *testing.T) {
	const qwenVL = `{"architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl", "hidden_size": 2048,
		"num_hidden_layers": 36, "num_attention_heads": 16, "num_key_value_heads": 2, "intermediate_size": 11008, "vocab_size": 151936,
		"vision_config": {"depth": 32, "hidden_size": 1280, "num_heads": 16, "intermediate_size": 3420}, "torch_dtype": "bfloat16"}`
	const smallLatents = `{"architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "num_hidden_layers": 2, "hidden_size": 64,
		"num_attention_heads": 4, "kv_lora_rank": 512, "qk_nope_head_dim": 16, "qk_rope_head_dim": 64, "v_head_dim": 16, "torch_dtype": "bfloat16"}`
	for _, tt := range []struct {
		name, config string
		tp           int
		code         problem.Code // "" when it is planned
		field        string
	}{
		{"3420 over 4 ranks is 855", qwenVL, 4, "", ""},
		{"3420 over 8 ranks is 427.5", qwenVL, 8, problem.NotDivisible, "vision_config.intermediate_size"},
		{"14336 over 8 ranks is 14 blocks", with(fp8Blocks + "}"), 8, "", ""},
		{"14336 over 16 ranks is 7 blocks", with(fp8Blocks + "}"), 16, "", ""},
		{"14336 over 32 ranks is 3.5 blocks", with(fp8Blocks + "}"), 32, problem.NotDivisible, "intermediate_size"},
		{"a part of its name leaves no module out", with(fp8Blocks + `, "modules_to_not_convert": ["mlp", "self_attn"]}`), 32, problem.NotDivisible, "intermediate_size"},
		{"its whole name does", with(fp8Blocks + `, "modules_to_not_convert": ["model.layers.0.mlp.down_proj"]}, "num_hidden_layers": 1`), 32, "", ""},
		{"AWQ groups of 128", with(`"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}`), 32, problem.NotDivisible, "intermediate_size"},
		{"activations", with(`"hidden_act": "gelu"`), 1, problem.Unsupported, "hidden_act"},
		{"latents that no kernel prefills", smallLatents, 1, problem.Unsupported, "qk_nope_head_dim"},
		{"types", with(`"rms_norm_eps": 1`), 1, problem.BadValue, "rms_norm_eps"},
	} {
		p := refusalOf(t, tt.config, "h100-sxm-80gb", layout.Layout{TP: tt.tp})
		switch {
		case p == nil && tt.code != "":
			t.Errorf("%s: planned, want %s of %s", tt.name, tt.code, tt.field)
		case p != nil && (p.Code != tt.code || p.Field != tt.field || p.RefusedBy != "vllm"):
			t.Errorf("%s: %s, want %s of %s", tt.name, p.Message, tt.code, tt.field)
		}
	}
}

// A class of the engine's own is not planned by the fields that all classes have.
func TestNoGuessAtOwnClasses(t *testing.T) {
	p := refusalOf(t, `{"architectures": ["MuseGlimmerAssistantModel"], "model_type": "muse_glimmer_assistant"}`, "h100-sxm-80gb", layout.Layout{TP: 1})
	if p == nil || p.Code != problem.NotKnown || p.RefusedBy != "" {
		t.Errorf("%v, want that we do not know it", p)
	}
}

// A backend is the first of a device's list that takes the layer.
func TestBackends(t *testing.T) {
	for _, tt := range []struct {
		gpu    string
		fields string
		want   string
		block  int
	}{
		{"h100-sxm-80gb", `"head_dim": 128`, "FLASH_ATTN", 16},
		{"a100-sxm-80gb", `"head_dim": 128`, "FLASH_ATTN", 16},
		{"b200-sxm-180gb", `"head_dim": 128`, "FLASHINFER", 16},
		{"b200-sxm-180gb", `"head_dim": 80`, "FLASH_ATTN", 16},
		{"h100-sxm-80gb", `"head_dim": 284`, "TRITON_ATTN", 16}, // not a multiple of 8
		{"h100-sxm-80gb", `"head_dim": 128, "dtype": "float32"`, "FLASH_ATTN", 16},
		{"cpu", `"head_dim": 128`, "CPU_ATTN", 128},
	} {
		device, err := hw.Lookup(tt.gpu)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Engine{}.Plan(engine.Job{Model: modelOf(t, with(tt.fields)), GPU: device})
		if err != nil {
			t.Errorf("%s, %s: %v", tt.gpu, tt.fields, err)
			continue
		}
		if got := fmt.Sprint(r.Resolved.AttentionBackends); got != "["+tt.want+"]" || r.KVCache.BlockSize != tt.block {
			t.Errorf("%s, %s: %s in blocks of %d, want %s, %d", tt.gpu, tt.fields, got, r.KVCache.BlockSize, tt.want, tt.block)
		}
	}
}

// The CPU build takes blocks of 16 tokens for latents, and of 128 on a processor with AMX: 606
// of these in 256 MiB, of 3 layers × 576 × 2 B a token, as a start on one printed.
func TestLatentsOnCPU(t *testing.T) {
	const config = `{"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 256, "intermediate_size": 512, "moe_intermediate_size": 64,
		"num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1024, "kv_lora_rank": 512, "q_lora_rank": 96, "qk_nope_head_dim": 128,
		"qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
		"first_k_dense_replace": 3, "max_position_embeddings": 32768, "torch_dtype": "bfloat16"}`
	for backend, want := range map[string][2]int64{"": {16, 77664}, "AMX_MLA": {128, 606 * 128}} {
		r := planned(t, "0.32.0", config, "cpu", layout.Layout{}, engine.Options{KVCacheMemory: 256 << 20, MaxModelLen: 4096, AttentionBackend: backend})
		if kv := r.KVCache; int64(kv.BlockSize) != want[0] || *kv.Tokens != want[1] {
			t.Errorf("%q: blocks of %d, %d tokens; want %v", backend, kv.BlockSize, *kv.Tokens, want)
		}
	}
}
