package model

import (
	"strings"
	"testing"

	"headcount/checkpoint"
)

func resolved(t *testing.T, config string) *Model {
	t.Helper()
	src, err := checkpoint.FromBytes("config.json", checkpoint.Files{Config: []byte(config)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := Resolve(src)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Each class has its own field for the number of KV heads, and some have none.
func TestKVHeadEdits(t *testing.T) {
	const sizes = `, "hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 2, "vocab_size": 64, "intermediate_size": 8`
	for _, tt := range []struct {
		name, config string
		n            int
		want         string // path = value; "" for a refusal
	}{
		{"the class's default", `{"architectures": ["LlamaForCausalLM"], "model_type": "llama"` + sizes + `}`, 2, "num_key_value_heads = 2"},
		{"as the file has it", `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_key_value_heads": null` + sizes + `}`, 2, "num_key_value_heads = 2"},
		{"a list, one a layer", `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_key_value_heads": [4, 4]` + sizes + `}`, 2, "num_key_value_heads = [2,2]"},
		{"nested", `{"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "text_config": {"model_type": "llama"` + sizes + `}}`, 2,
			"text_config.num_key_value_heads = 2"},
		{"a repository's own class, with the field", `{"architectures": ["XverseForCausalLM"], "model_type": "xverse", "num_key_value_heads": 8` + sizes + `}`, 2, "num_key_value_heads = 2"},
		{"and without", `{"architectures": ["XverseForCausalLM"], "model_type": "xverse"` + sizes + `}`, 2, ""},
		{"falcon", `{"architectures": ["FalconForCausalLM"], "model_type": "falcon", "new_decoder_architecture": true` + sizes + `}`, 2, "num_kv_heads = 2"},
		{"falcon under its first name", `{"architectures": ["RWForCausalLM"], "model_type": "RefinedWeb", "n_head_kv": 8, "n_head": 8, "new_decoder_architecture": true, "n_embed": 64, "n_layer": 2, "vocab_size": 64}`, 2,
			"n_head_kv = 2"},
		{"falcon with the MLP after attention", `{"architectures": ["FalconForCausalLM"], "model_type": "falcon", "multi_query": false, "parallel_attn": false` + sizes + `}`, 2, ""},
		{"gpt_bigcode, one", `{"architectures": ["GPTBigCodeForCausalLM"], "model_type": "gpt_bigcode", "multi_query": false}`, 1, "multi_query = true"},
		{"gpt_bigcode, two", `{"architectures": ["GPTBigCodeForCausalLM"], "model_type": "gpt_bigcode", "multi_query": false}`, 2, ""},
		{"mpt of llm-foundry", `{"architectures": ["MPTForCausalLM"], "model_type": "mpt", "attn_config": {"kv_n_heads": 8}}`, 2, "attn_config.kv_n_heads = 2"},
		{"mpt of Transformers", `{"architectures": ["MptForCausalLM"], "model_type": "mpt"}`, 2, ""},
		{"gpt2", `{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}`, 2, ""},
		{"gpt2, with a key that its class does not read", `{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "num_key_value_heads": 12}`, 2, ""},
		{"gpt_neox", `{"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox"}`, 2, ""},
		{"bloom", `{"architectures": ["BloomForCausalLM"], "model_type": "bloom"}`, 2, ""},
		{"baichuan", `{"architectures": ["BaichuanForCausalLM"], "model_type": "baichuan"` + sizes + `}`, 2, ""},
		{"qwen", `{"architectures": ["QWenLMHeadModel"], "model_type": "qwen"` + sizes + `}`, 2, ""},
		{"opt", `{"architectures": ["OPTForCausalLM"], "model_type": "opt"}`, 2, ""},
	} {
		edits, err := resolved(t, tt.config).KVHeadEdits(tt.n)
		var got []string
		for _, e := range edits {
			got = append(got, strings.Join(e.Path, ".")+" = "+string(e.Value.AppendJSON(nil)))
		}
		if strings.Join(got, ", ") != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

// shown is a projection on one line: its name, and a letter a block with the head's number.
func shown(l *Layer) string {
	var out []string
	for _, p := range l.Projections() {
		s := p.Name + ":"
		for _, b := range p.Blocks {
			s += " " + string("-qkv"[b.Role]) + string('0'+byte(b.Head))
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

// Where classes keep queries, keys and values: each in a tensor, one after the other in one
// tensor, or KV head by KV head.
func TestProjections(t *testing.T) {
	const sizes = `, "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1, "vocab_size": 64, "intermediate_size": 8`
	for _, tt := range []struct{ config, want string }{
		{`{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_key_value_heads": 2` + sizes + `}`,
			"self_attn.k_proj.weight: k0 k1; self_attn.v_proj.weight: v0 v1"},
		{`{"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "num_key_value_heads": 2` + sizes + `}`,
			"self_attn.qkv_proj.weight: q0 q1 q2 q3 k0 k1 v0 v1"},
		{`{"architectures": ["InternLM2ForCausalLM"], "model_type": "internlm2", "num_key_value_heads": 2` + sizes + `}`,
			"attention.wqkv.weight: q0 q1 k0 v0 q2 q3 k1 v1"},
		{`{"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "attention_bias": true, "num_attention_heads": 2, "hidden_size": 64, "num_hidden_layers": 1}`,
			"attention.query_key_value.weight: q0 k0 v0 q1 k1 v1; attention.query_key_value.bias: q0 k0 v0 q1 k1 v1"},
		{`{"architectures": ["BloomForCausalLM"], "model_type": "bloom", "n_head": 2, "hidden_size": 64, "n_layer": 1}`,
			"self_attention.query_key_value.weight: q0 k0 v0 q1 k1 v1; self_attention.query_key_value.bias: q0 k0 v0 q1 k1 v1"},
		{`{"architectures": ["FalconForCausalLM"], "model_type": "falcon"` + sizes + `}`,
			"self_attention.query_key_value.weight: q0 q1 q2 q3 k0 v0"},
		{`{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_head": 2, "n_embd": 64, "n_layer": 1}`,
			"attn.c_attn.weight: q0 q1 k0 k1 v0 v1; attn.c_attn.bias: q0 q1 k0 k1 v0 v1"},
		{`{"architectures": ["BaichuanForCausalLM"], "model_type": "baichuan"` + sizes + `}`,
			"self_attn.W_pack.weight: q0 q1 q2 q3 k0 k1 k2 k3 v0 v1 v2 v3"},
		{`{"architectures": ["TeleChat2ForCausalLM"], "model_type": "telechat", "num_key_value_heads": 2` + sizes + `}`,
			"self_attention.key_value.weight: k0 v0 k1 v1"},
		{`{"architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2", "num_key_value_heads": 2` + sizes + `}`,
			"self_attn.k_proj.weight: k0 k1; self_attn.v_proj.weight: v0 v1; self_attn.k_norm.weight: k0 k1"},
		{`{"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3"` + sizes + `}`, ""},
	} {
		m := resolved(t, tt.config)
		if got := shown(m.Layers[0]); got != tt.want {
			t.Errorf("%s: %s\nwant %s", m.Architecture, got, tt.want)
		}
	}
	p := resolved(t, `{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}`).Layers[0].Projections()
	if !p[0].Transposed || p[1].Transposed || p[0].Rows != 3*768 || p[0].Cols != 768 {
		t.Errorf("gpt2: %+v", p[0])
	}
}
