package weights_test

import (
	"errors"
	"strings"
	"testing"

	"headcount/dtype"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
	"headcount/weights"
)

// A layer of width 256 with 4 query heads and 2 KV heads of 64, and an MLP of 512: linear
// modules qkv [512, 256], o [256, 256], gate and up [1024, 256], down [256, 512].
const (
	narrow = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
	"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1024`
	qkv, out, gateUp, down = 512 * 256, 256 * 256, 1024 * 256, 256 * 512

	linear = qkv + out + gateUp + down
	rows   = 512 + 256 + 1024 + 256
	plain  = 2 * (2*1024*256 + 256 + 2*2*256) // bfloat16: embedding, head, norms
)

func TestQuantisedBytes(t *testing.T) {
	const eachScale = 7 * 4 // float32, one for each weight of a layer
	for _, tt := range []struct {
		name, block string
		want        int64 // bytes of the whole model
	}{
		{"fp8 blocks", `"quant_method": "fp8", "weight_block_size": [128, 128]`,
			plain + 2*(linear+4*(4*2+2*2+8*2+2*4)+4*2)},
		{"fp8 a tensor", `"quant_method": "fp8", "activation_scheme": "dynamic"`,
			plain + 2*(linear+eachScale+4*2)},
		{"fp8 a tensor, static inputs", `"quant_method": "fp8", "activation_scheme": "static"`,
			plain + 2*(linear+2*eachScale+4*2)},
		{"a layer left out", `"quant_method": "fp8", "modules_to_not_convert": ["model.layers.1.self_attn.q_proj",
			"model.layers.1.self_attn.k_proj", "model.layers.1.self_attn.v_proj", "model.layers.1.self_attn.o_proj", "lm_head"]`,
			plain + 2*(linear+eachScale+4*2) + (qkv + out - 4*4)},
		{"ModelOpt's NVFP4", `"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]`,
			plain + 2*(linear/2+linear/16+2*eachScale+4*2)},
		{"ModelOpt's NVFP4, the head too", `"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": []`,
			plain + 2*(linear/2+linear/16+2*eachScale+4*2) - 1024*256*2 + 1024*256/2 + 1024*256/16 + 2*4},
		{"ModelOpt's pattern", `"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head", "model.layers.*.mlp*"]`,
			plain + 2*(qkv+out+2*(gateUp+down)+2*4*4+4*2)},
		{"compressed-tensors FP8", group(`"num_bits": 8, "type": "float", "strategy": "channel"`, `{"dynamic": true, "strategy": "token"}`, "float-quantized"),
			plain + 2*(linear+4*rows+3*(4+2))},
		{"compressed-tensors int8", group(`"num_bits": 8, "type": "int", "strategy": "channel"`, `{"num_bits": 8, "dynamic": true, "strategy": "token"}`, "int-quantized"),
			plain + 2*(linear+4*rows+3*(4+2))},
		{"compressed-tensors int4", group(`"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128`, `null`, "pack-quantized"),
			plain + 2*(linear/2+2*linear/128+4*2*8+3*(4+2))},
		{"AWQ", `"quant_method": "awq", "bits": 4, "group_size": 128`,
			plain + 2*(linear/2+linear/128/2+2*linear/128)},
		{"GPTQ", `"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": false`,
			plain + 2*(linear/2+linear/128/2+2*linear/128)},
		{"GPTQ of 8 bits, a scale an output", `"quant_method": "gptq", "bits": 8, "group_size": -1`,
			plain + 2*(linear+rows+2*rows)},
		{"GPTQ of attention alone", `"quant_method": "gptq", "bits": 4, "group_size": 128, "modules_in_block_to_quantize":
			[["self_attn.k_proj", "self_attn.v_proj", "self_attn.q_proj"], ["self_attn.o_proj"]]`,
			plain + 2*((qkv+out)/2+(qkv+out)/128/2+2*(qkv+out)/128+2*(gateUp+down))},
		{"bitsandbytes of 4 bits", `"quant_method": "bitsandbytes", "load_in_4bit": true`,
			plain + 2*(linear/2+4*linear/64)},
		{"bitsandbytes of 8 bits but for an MLP", `"quant_method": "bitsandbytes", "load_in_8bit": true, "llm_int8_skip_modules": ["lm_head", "mlp"]`,
			plain + 2*(qkv+out+4*(512+256)+2*(gateUp+down))},
	} {
		m := resolve(t, narrow+`, "quantization_config": {`+tt.block+`}}`)
		parameters, got, ok := weights.Whole(m, dtype.BFloat16)
		if got != tt.want || !ok {
			t.Errorf("%s: %d bytes, want %d (%s)", tt.name, got, tt.want, weights.Unknown(m))
		}
		if want := int64(plain/2 + 2*linear); parameters != want {
			t.Errorf("%s: %d parameters, want %d whatever the quantisation", tt.name, parameters, want)
		}
	}
}

// group is a block of compressed-tensors with one group for all linear modules.
func group(weights, inputs, format string) string {
	return `"quant_method": "compressed-tensors", "format": "` + format + `", "ignore": ["lm_head"],
		"config_groups": {"group_0": {"targets": ["Linear"], "weights": {` + weights + `}, "input_activations": ` + inputs + `}}`
}

func TestQuantisedUnknown(t *testing.T) {
	for _, tt := range []struct{ block, want string }{
		{`"quant_method": "quark"`, "weights are quantised: quark"},
		{`"quant_method": "gptq", "bits": 3, "group_size": 128`, "gptq of 3 bits"},
		{`"quant_method": "fp8", "ignored_layers": ["model.layers.0.mlp.up_proj"]`, "only a part of layers.0.mlp.gate_up_proj is quantised"},
		{`"quant_method": "compressed-tensors", "ignore": ["re:(?<!x)y"]`, "is not understood"},
		{`"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"`, `ModelOpt's "W4A8_AWQ"`},
	} {
		m := resolve(t, narrow+`, "quantization_config": {`+tt.block+`}}`)
		_, err := weights.Stages(m, weights.Build{Layout: layout.Layout{TP: 1}, Spans: []layout.Span{{End: 2}}, DType: dtype.BFloat16})
		e, ok := errors.AsType[*problem.Error](err)
		if !ok || e.Code != problem.NotKnown || !strings.Contains(e.Message, tt.want) {
			t.Errorf("%s: %v, want %q", tt.block, err, tt.want)
		}
	}
}

// TestExpertBlocks: of experts of which a rank holds no whole blocks, the blocks shrink to
// 32 at least.
func TestExpertBlocks(t *testing.T) {
	m := sparse(t, `"quant_method": "fp8", "weight_block_size": [128, 128]`)
	for _, tt := range []struct {
		tp   int
		want int64 // bytes of one expert's scales on a rank; 0: refused
	}{
		{1, 4 * (2*(768/128)*(256/128) + (256/128)*(768/128))},
		{8, 4 * (2*(96/32)*(256/32) + (256/32)*(96/32))},
		{16, 0},
	} {
		stages, err := weights.Stages(m, weights.Build{Layout: layout.Layout{TP: tt.tp}, Spans: []layout.Span{{End: 1}}, DType: dtype.BFloat16})
		if tt.want == 0 {
			if e, ok := errors.AsType[*problem.Error](err); !ok || e.Code != problem.NotDivisible || e.Field != "moe_intermediate_size" {
				t.Errorf("TP %d: %v, want a refusal of moe_intermediate_size", tt.tp, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		weight := int64(3 * 768 / tt.tp * 256)
		if got := stages[0].ByPart.MoEExperts; got != 4*(weight+tt.want) {
			t.Errorf("TP %d: %d bytes of 4 experts, want %d", tt.tp, got, 4*(weight+tt.want))
		}
	}
}

// sparse is a layer with 4 experts of width 768.
func sparse(t *testing.T, block string) *model.Model {
	return resolve(t, `{"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 256, "num_hidden_layers": 1,
		"num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 128, "vocab_size": 1024, "num_experts": 4, "num_experts_per_tok": 2,
		"moe_intermediate_size": 768, "decoder_sparse_step": 1, "mlp_only_layers": [], "quantization_config": {`+block+`}}`)
}

// TestGroupsOfARank: a rank holds whole groups of inputs, also where there is only one rank.
func TestGroupsOfARank(t *testing.T) {
	int4 := group(`"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128`, `null`, "pack-quantized")
	for _, tt := range []struct {
		config, block, field string
		tp                   int
	}{
		{narrow, int4, "intermediate_size", 8}, // 512 / 8 = 64
		{strings.Replace(narrow, "512", "520", 1), int4, "intermediate_size", 1},
		{strings.Replace(narrow, "512", "520", 1), `"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]`, "intermediate_size", 1},
	} {
		tt.config = strings.Replace(tt.config, `"num_attention_heads": 4`, `"head_dim": 128, "num_attention_heads": 8`, 1)
		m := resolve(t, tt.config+`, "quantization_config": {`+tt.block+`}}`)
		_, err := weights.Stages(m, weights.Build{Layout: layout.Layout{TP: tt.tp}, Spans: []layout.Span{{End: 2}}, DType: dtype.BFloat16})
		if e, ok := errors.AsType[*problem.Error](err); !ok || e.Code != problem.NotDivisible || e.Field != tt.field {
			t.Errorf("TP %d: %v, want a refusal of %s", tt.tp, err, tt.field)
		}
	}
}
