package model_test

import (
	"testing"

	"headcount/attn"
	"headcount/checkpoint"
	"headcount/internal/modeltest"
	"headcount/model"
)

var resolve = modeltest.Resolve

// parameters are all of a model's, whole and unsplit.
func parameters(m *model.Model) (n int) {
	for _, l := range m.Layers {
		n += sum(l.Params)
	}
	return n + sum(m.Outer)
}

func sum(params []model.Param) (n int) {
	for _, p := range params {
		n += p.Rows.Size * max(p.Cols.Size, 1) * max(p.Experts, 1)
	}
	return n
}

func mha(query, kv, dim int) attn.Geometry {
	return attn.Geometry{Arch: attn.MHA, QueryHeads: query, KVHeads: kv, KeyDim: dim, ValueDim: dim}
}

// TestDense resolves a small config of each dense family: H 64, two layers, V 100, and
// either 8 query heads of 8 or what the family's own names and defaults make of it.
func TestDense(t *testing.T) {
	const (
		h, v, i, l = 64, 100, 96, 2 // hidden, vocabulary, intermediate, layers
		q, kv      = 64, 16         // rows of q_proj, and of k_proj for 2 KV heads
		attention  = q*h + 2*kv*h + h*q
		full       = 4 * h * h // attention without KV groups
		gated      = 3 * i * h
		plain      = 2 * i * h
		ends       = 2 * v * h // embedding and head
		biases     = q + 2*kv
	)
	const common = `"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 100, "intermediate_size": 96, `
	const grouped = common + `"num_key_value_heads": 2, "tie_word_embeddings": false, `
	for _, tt := range []struct {
		config string
		want   attn.Geometry
		params int
	}{
		{grouped + `"architectures": ["LlamaForCausalLM"], "model_type": "llama"`, mha(8, 2, 8), l*(attention+gated+2*h) + h + ends},
		{grouped + `"architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": true, "mlp_bias": true`, mha(8, 2, 8),
			l*(attention+biases+h+gated+2*i+h+2*h) + h + ends},
		{grouped + `"architectures": ["GraniteForCausalLM"], "model_type": "granite"`, mha(8, 2, 8), l*(attention+gated+2*h) + h + ends},
		{grouped + `"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"`, mha(8, 2, 8), l*(attention+biases+gated+2*h) + h + ends},
		{grouped + `"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 16`, mha(8, 2, 16),
			l*(2*attention+2*16+gated+2*h) + h + ends},
		{common + `"architectures": ["QWenLMHeadModel"], "model_type": "qwen"`, mha(8, 8, 8), l*(full+3*h+gated/2+2*h) + h + ends},
		{grouped + `"architectures": ["GemmaForCausalLM"], "model_type": "gemma", "head_dim": 16, "tie_word_embeddings": true`, mha(8, 2, 16),
			l*(2*attention+gated+2*h) + h + v*h},
		{grouped + `"architectures": ["InternLM2ForCausalLM"], "model_type": "internlm2"`, mha(8, 2, 8), l*(attention+gated+2*h) + h + ends},
		{`"hidden_size": 64, "num_layers": 2, "num_attention_heads": 8, "padded_vocab_size": 100, "ffn_hidden_size": 96,
			"multi_query_attention": true, "multi_query_group_num": 2, "add_qkv_bias": true, "architectures": ["ChatGLMModel"],
			"model_type": "chatglm", "tie_word_embeddings": false`, mha(8, 2, 8), l*(attention+biases+gated+2*h) + h + ends},
		{grouped + `"architectures": ["Glm4ForCausalLM"], "model_type": "glm4", "head_dim": 8, "attention_bias": true`, mha(8, 2, 8), l*(attention+biases+gated+4*h) + h + ends},
		{grouped + `"architectures": ["CohereForCausalLM"], "model_type": "cohere", "use_qk_norm": true`, mha(8, 2, 8),
			l*(attention+q+kv+gated+h) + h + v*h},
		{`"n_embd": 64, "n_layer": 2, "n_head": 8, "n_positions": 50, "vocab_size": 100, "architectures": ["GPT2LMHeadModel"],
			"model_type": "gpt2"`, mha(8, 8, 8), l*(full+4*h+8*h*h+5*h+4*h) + 2*h + v*h + 50*h},
		{`"n_embd": 64, "n_layer": 2, "n_head": 8, "n_positions": 50, "vocab_size": 100, "architectures": ["GPTBigCodeForCausalLM"],
			"model_type": "gpt_bigcode"`, mha(8, 1, 8), l*(2*h*h+2*8*h+h+2*8+h+8*h*h+5*h+4*h) + 2*h + v*h + 50*h},
		{`"n_embd": 64, "n_layer": 2, "n_head": 8, "n_positions": 50, "vocab_size": 100, "rotary_dim": 8, "architectures": ["GPTJForCausalLM"],
			"model_type": "gptj", "tie_word_embeddings": false`, mha(8, 8, 8), l*(full+8*h*h+5*h+2*h) + 2*h + ends + v},
		{common + `"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "tie_word_embeddings": false`, mha(8, 8, 8),
			l*(full+4*h+plain+i+h+4*h) + 2*h + ends},
		{`"hidden_size": 64, "n_layer": 2, "n_head": 8, "vocab_size": 100, "architectures": ["BloomForCausalLM"], "model_type": "bloom"`,
			mha(8, 8, 8), l*(full+4*h+8*h*h+5*h+4*h) + 2*h + 2*h + v*h},
		{common + `"architectures": ["FalconForCausalLM"], "model_type": "falcon"`, mha(8, 1, 8), l*(2*h*h+2*8*h+8*h*h+2*h) + 2*h + v*h},
		{common + `"architectures": ["FalconForCausalLM"], "model_type": "falcon", "new_decoder_architecture": true, "num_kv_heads": 2`,
			mha(8, 2, 8), l*(attention+8*h*h+4*h) + 2*h + v*h},
		{common + `"architectures": ["FalconForCausalLM"], "model_type": "falcon", "multi_query": false`, mha(8, 8, 8),
			l*(full+8*h*h+2*h) + 2*h + v*h},
		{`"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 100, "ffn_dim": 96, "word_embed_proj_dim": 32,
			"max_position_embeddings": 50, "do_layer_norm_before": false, "architectures": ["OPTForCausalLM"], "model_type": "opt"`,
			mha(8, 8, 8), l*(full+4*h+plain+i+h+4*h) + v*32 + (50+2)*h + 2*32*h},
		{common + `"architectures": ["PhiForCausalLM"], "model_type": "phi", "tie_word_embeddings": false`, mha(8, 8, 8),
			l*(full+4*h+plain+i+h+2*h) + 2*h + ends + v},
		{grouped + `"architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2"`, mha(8, 2, 8),
			l*(attention+biases+h+plain+i+h+4*h) + 2*h + ends},
		{grouped + `"architectures": ["StableLmForCausalLM"], "model_type": "stablelm"`, mha(8, 2, 8), l*(attention+gated+4*h) + 2*h + ends},
		{grouped + `"architectures": ["OlmoForCausalLM"], "model_type": "olmo"`, mha(8, 2, 8), l*(attention+gated) + ends},
		{grouped + `"architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2"`, mha(8, 2, 8), l*(attention+q+kv+gated+2*h) + h + ends},
		{grouped + `"architectures": ["NemotronForCausalLM"], "model_type": "nemotron", "head_dim": 8`, mha(8, 2, 8),
			l*(attention+plain+4*h) + 2*h + ends},
		{grouped + `"architectures": ["ApertusForCausalLM"], "model_type": "apertus"`, mha(8, 2, 8), l*(attention+2*8+plain+2+2*h) + h + ends},
		{grouped + `"architectures": ["BaichuanForCausalLM"], "model_type": "baichuan", "num_key_value_heads": 8`, mha(8, 8, 8),
			l*(full+gated+2*h) + h + ends},
		{`"d_model": 64, "n_layers": 2, "n_heads": 8, "vocab_size": 100, "expansion_ratio": 2, "attn_config": {"kv_n_heads": 2},
			"architectures": ["MptForCausalLM"], "model_type": "mpt"`, mha(8, 2, 8), l*(attention+4*h*h+2*h) + h + v*h},
		{`"hidden_size": 64, "num_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 100, "intermediate_size": 96,
			"architectures": ["ExaoneForCausalLM"], "model_type": "exaone"`, mha(8, 2, 8), l*(attention+gated+2*h) + h + ends},
	} {
		m := resolve(t, "{"+tt.config+"}")
		if got := m.Layers[0].Caches[0].Attn; got != tt.want || len(m.Layers) != l {
			t.Errorf("%s: %d layers of %+v, want %+v", m.Architecture, len(m.Layers), got, tt.want)
		}
		if got := parameters(m); got != tt.params || m.WeightsUnknown != "" {
			t.Errorf("%s: %d parameters, want %d (%s)", m.Architecture, got, tt.params, m.WeightsUnknown)
		}
	}
}

// TestBlocks resolves a DeciLM whose layers differ, and leave attention or MLP out.
func TestBlocks(t *testing.T) {
	m := resolve(t, `{"architectures": ["DeciLMForCausalLM"], "model_type": "nemotron-nas", "hidden_size": 768,
		"num_hidden_layers": 3, "num_attention_heads": 8, "vocab_size": 100, "tie_word_embeddings": false, "block_configs": [
		{"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 0.5}},
		{"attention": {"n_heads_in_group": null, "no_op": true}, "ffn": {"ffn_mult": 1.5}},
		{"attention": {"n_heads_in_group": 8}, "ffn": {"no_op": true}}]}`)
	const h, d = 768, 96
	attention := func(kv int) int { return 2*h*h + 2*kv*d*h + h }
	// 2 · 0.5 · 768 / 3 = 256, and 2 · 1.5 · 768 / 3 = 768, both multiples of 256 already
	want := attention(2) + 3*256*h + h + 3*768*h + h + attention(1) + h + 2*100*h
	if got := parameters(m); got != want {
		t.Errorf("%d parameters, want %d", got, want)
	}
	for i, kv := range []int{2, 0, 1} {
		caches := m.Layers[i].Caches
		if kv == 0 && len(caches) != 0 || kv > 0 && (len(caches) != 1 || caches[0].Attn != mha(8, kv, d)) {
			t.Errorf("layer %d: %+v, want %d KV heads", i, caches, kv)
		}
	}
}

// TestOffPlan holds what an engine that runs Transformers' modules leaves whole: GPTBigCode
// has no plan, so its MLP; Starcoder2's plan names its MLP.
func TestOffPlan(t *testing.T) {
	for _, tt := range []struct {
		config string
		want   bool // the MLP stays whole
	}{
		{`{"architectures": ["GPTBigCodeForCausalLM"], "model_type": "gpt_bigcode"}`, true},
		{`{"architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2"}`, false},
		{`{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}`, false},
	} {
		m := resolve(t, tt.config)
		for _, p := range m.Layers[0].Params {
			want := tt.want && p.Part == model.MLP && (p.Rows.Split != model.Whole || p.Cols.Split != model.Whole)
			if p.OffPlan != want {
				t.Errorf("%s %s: OffPlan = %v, want %v", m.Architecture, p.Name, p.OffPlan, want)
			}
		}
	}
}

// TestClassifier puts the labels in the place of the vocabulary.
func TestClassifier(t *testing.T) {
	m := resolve(t, `{"architectures": ["LlamaForSequenceClassification"], "model_type": "llama", "hidden_size": 64,
		"num_attention_heads": 8, "id2label": {"0": "no", "1": "yes", "2": "maybe"}}`)
	last := m.Outer[len(m.Outer)-1]
	if last.Name != "score.weight" || last.Rows.Size != 3 || last.Cols.Size != 64 || last.Stage != model.EveryStage {
		t.Errorf("score is %+v, want 3 × 64 on every stage", last)
	}
	for _, p := range m.Outer[:len(m.Outer)-1] {
		if p.Part == model.Head {
			t.Errorf("%s is left", p.Name)
		}
	}
}

func TestQuantization(t *testing.T) {
	for _, tt := range []struct{ config, side, want string }{
		{`{"quantization_config": {"quant_method": "AWQ"}}`, "", "awq"},
		{`{"quantization_config": {"quant_method": "compressed_tensors"}}`, "", "compressed-tensors"},
		{`{"compression_config": {"quant_method": "compressed-tensors"}}`, "", "compressed-tensors"},
		{`{"quantization_config": {"quant_algo": "FP8", "producer": {"name": "modelopt"}}}`, "", ""}, // flat, without a method
		{`{"model_type": "llama"}`, `{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}`, "modelopt_fp4"},
		{`{"model_type": "llama"}`, `{"quantization": {"quant_algo": "FP8_PB_WO"}, "producer": {"name": "modelopt"}}`, "modelopt"},
		{`{"model_type": "llava", "text_config": {"model_type": "llama", "quantization_config": {"quant_method": "gptq"}}}`, "", "gptq"},
		{`{"model_type": "llama"}`, "", ""},
	} {
		src, err := checkpoint.FromBytes("config.json", checkpoint.Files{Config: []byte(tt.config), HFQuant: []byte(tt.side)})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := model.NewConfig(src).Quantization(); got != tt.want {
			t.Errorf("%s %s: %q, want %q", tt.config, tt.side, got, tt.want)
		}
	}
}
