package weights_test

import (
	"testing"

	"headcount/layout"
	"headcount/problem"
	"headcount/weights"
)

// TestCuts: which ranks hold a part of a block, a group or a word where the engine wants it
// whole.
func TestCuts(t *testing.T) {
	const (
		fp8 = `"quant_method": "fp8", "weight_block_size": [128, 128]`
		awq = `"quant_method": "awq", "bits": 4, "group_size": 64`

		awqRows = `"quant_method": "awq", "bits": 4, "group_size": -1`

		mamba = `{"architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "hidden_size": 256, "num_hidden_layers": 1, "vocab_size": 1024,
			"hybrid_override_pattern": "M", "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 512,
			"mamba_num_heads": 8, "mamba_head_dim": 64, "ssm_state_size": 128, "conv_kernel": 4, "n_groups": `

		ling = `{"architectures": ["BailingMoeV3ForCausalLM"], "model_type": "bailing_hybrid", "hidden_size": 256, "num_hidden_layers": 1, "vocab_size": 1024,
			"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 512, "first_k_dense_replace": 1, "layer_group_size": 1,
			"kv_lora_rank": 128, "q_lora_rank": null, "qk_rope_head_dim": 64, "qk_nope_head_dim": 64, "v_head_dim": 64, "short_conv_kernel_size": 4,
			"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "num_shared_experts": 1`
	)
	blocks := group(`"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]`, `{"dynamic": true, "strategy": "group"}`, "float-quantized")
	wide := func(fields string) string { return narrow + ", " + fields } // of keys that stand twice, the last counts
	for _, tt := range []struct {
		name, config, block string
		tp                  int
		module              string // the first that is refused; "": none
	}{
		{"inputs of o and down: 256 / 2 and 512 / 2", narrow, fp8, 2, ""},
		{"inputs of o: 256 / 4 = 64", narrow, fp8, 4, "self_attn.o_proj"},
		{"inputs of down: 512 / 8 = 64", wide(`"num_attention_heads": 8, "head_dim": 128`), fp8, 8, "mlp.down_proj"},
		{"outputs of gate: 320 on the one rank", wide(`"intermediate_size": 320`), fp8, 1, ""},
		{"which blocks of compressed-tensors may not cut", wide(`"intermediate_size": 320`), blocks, 1, "mlp.gate_proj"},
		{"outputs of v, the last of three: 2 heads of 32", wide(`"head_dim": 32, "num_key_value_heads": 2`), fp8, 1, ""},
		{"outputs of k, of two heads of 32: 64", wide(`"head_dim": 32, "num_key_value_heads": 2`), blocks, 1, "self_attn.q_proj"},
		{"groups of all inputs, words of 8 of 260 + 260 outputs", wide(`"intermediate_size": 520`), awqRows, 2, ""},
		{"of 258 + 258", wide(`"intermediate_size": 516`), awqRows, 2, "mlp.gate_proj"},
		{"inputs of down: 512 / 16 = 32", wide(`"num_attention_heads": 16, "head_dim": 64`), awq, 16, "mlp.down_proj"},
		{"Mamba-2 of two groups: joined weights, of heads 8 / 2", mamba + "2", fp8, 2, ""},
		{"of one group: one weight, 512 / 2 · 2 + 128 · 2 + 8 / 2 outputs", mamba + "1", fp8, 2, "mixer.in_proj"},
		{"o of Ling 3: 256 / 4 = 64", ling, fp8, 4, "attention.o_proj"},
		{"left out by the end of its path", ling, fp8 + `, "modules_to_not_convert": ["o_proj"]`, 4, ""},
	} {
		m := resolve(t, tt.config+`, "quantization_config": {`+tt.block+`}}`)
		b := weights.Build{Layout: layout.Layout{TP: tt.tp}.Normal()}
		if len(weights.Cuts(m)) == 0 {
			t.Errorf("%s: no cuts: %s", tt.name, weights.Unknown(m))
		}
		refused := ""
		for _, c := range weights.Cuts(m) {
			if err := c.Check(b); err != nil {
				if err.Code != problem.NotDivisible {
					t.Errorf("%s: %v, want %s", tt.name, err, problem.NotDivisible)
				}
				refused = c.Name()
				break
			}
		}
		if refused != tt.module {
			t.Errorf("%s: refuses %q, want %q", tt.name, refused, tt.module)
		}
	}
}
