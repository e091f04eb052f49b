package gguf

import (
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/problem"
)

// An architecture is what config.json calls an architecture of GGUF.
type architecture struct {
	name      string // of the class
	modelType string
	keys      map[string]string // its own names of fields: metadata key → config.json's
}

// architectures are those whose config can be told from metadata (gguf-py constants.py,
// MODEL_ARCH_NAMES; transformers integrations/ggml.py, GGUF_CONFIG_MAPPING).
var architectures = map[string]architecture{
	"llama":         {"LlamaForCausalLM", "llama", nil},
	"mistral3":      {"MistralForCausalLM", "mistral", nil},
	"qwen2":         {"Qwen2ForCausalLM", "qwen2", nil},
	"qwen2moe":      {"Qwen2MoeForCausalLM", "qwen2_moe", nil},
	"qwen3":         {"Qwen3ForCausalLM", "qwen3", nil},
	"qwen3moe":      {"Qwen3MoeForCausalLM", "qwen3_moe", nil},
	"gemma":         {"GemmaForCausalLM", "gemma", nil},
	"gemma2":        {"Gemma2ForCausalLM", "gemma2", nil},
	"gemma3":        {"Gemma3ForCausalLM", "gemma3_text", nil},
	"phi3":          {"Phi3ForCausalLM", "phi3", nil},
	"stablelm":      {"StableLmForCausalLM", "stablelm", nil},
	"starcoder2":    {"Starcoder2ForCausalLM", "starcoder2", nil},
	"command-r":     {"CohereForCausalLM", "cohere", nil},
	"cohere2":       {"Cohere2ForCausalLM", "cohere2", nil},
	"olmo2":         {"Olmo2ForCausalLM", "olmo2", nil},
	"olmoe":         {"OlmoeForCausalLM", "olmoe", nil},
	"glm4":          {"Glm4ForCausalLM", "glm4", nil},
	"granite":       {"GraniteForCausalLM", "granite", nil},
	"smollm3":       {"SmolLM3ForCausalLM", "smollm3", nil},
	"seed_oss":      {"SeedOssForCausalLM", "seed_oss", nil},
	"exaone4":       {"Exaone4ForCausalLM", "exaone4", nil},
	"ernie4_5":      {"Ernie4_5ForCausalLM", "ernie4_5", nil},
	"nemotron":      {"NemotronForCausalLM", "nemotron", nil},
	"arcee":         {"ArceeForCausalLM", "arcee", nil},
	"gpt-oss":       {"GptOssForCausalLM", "gpt_oss", map[string]string{"expert_count": "num_local_experts", "expert_feed_forward_length": "intermediate_size"}},
	"minimax-m2":    {"MiniMaxM2ForCausalLM", "minimax_m2", map[string]string{"expert_count": "num_local_experts", "expert_feed_forward_length": "intermediate_size", "rope.dimension_count": "rotary_dim"}},
	"glm4moe":       {"Glm4MoeForCausalLM", "glm4_moe", routedExperts},
	"dots1":         {"Dots1ForCausalLM", "dots1", routedExperts},
	"deepseek2":     {"DeepseekV3ForCausalLM", "deepseek_v3", routedExperts},
	"hunyuan-dense": {"HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", nil},
}

// mixtral is what the metadata of a Llama says that has experts.
var mixtral = architecture{"MixtralForCausalLM", "mixtral", map[string]string{"expert_count": "num_local_experts"}}

// deepSeekV2 scores its experts by softmax; DeepSeek-V3, by a sigmoid.
var deepSeekV2 = architecture{"DeepseekV2ForCausalLM", "deepseek_v2", routedExperts}

func sigmoid(metadata *checkpoint.Object, prefix string) bool {
	gate, _ := integer(metadata, prefix+".expert_gating_func")
	return gate == 2
}

// routedExperts are DeepSeek's names.
var routedExperts = map[string]string{"expert_count": "n_routed_experts"}

// keys are the fields that architectures have in common.
var keys = map[string]string{
	"block_count":                       "num_hidden_layers",
	"context_length":                    "max_position_embeddings",
	"embedding_length":                  "hidden_size",
	"feed_forward_length":               "intermediate_size",
	"vocab_size":                        "vocab_size",
	"attention.head_count":              "num_attention_heads",
	"attention.head_count_kv":           "num_key_value_heads",
	"attention.key_length":              "head_dim",
	"attention.sliding_window":          "sliding_window",
	"attention.q_lora_rank":             "q_lora_rank",
	"attention.kv_lora_rank":            "kv_lora_rank",
	"attention.value_length":            "v_head_dim",
	"rope.freq_base":                    "rope_theta",
	"expert_count":                      "num_experts",
	"expert_used_count":                 "num_experts_per_tok",
	"expert_feed_forward_length":        "moe_intermediate_size",
	"expert_shared_feed_forward_length": "shared_expert_intermediate_size",
	"expert_shared_count":               "n_shared_experts",
	"leading_dense_block_count":         "first_k_dense_replace",
	"nextn_predict_layers":              "num_nextn_predict_layers",
}

// Config is the config.json that the metadata of a checkpoint's files stands for. The error
// names the key of the metadata.
func Config(files []*File) (*checkpoint.Object, error) {
	f := files[0]
	kind, _ := f.Metadata.Get("general.architecture")
	prefix, _ := kind.Text()
	arch, known := architectures[prefix]
	switch experts, _ := integer(f.Metadata, prefix+".expert_count"); {
	case prefix == "":
		return nil, problem.New(problem.MissingField, "general.architecture", nil, "missing")
	case !known:
		err := problem.New(problem.UnknownArchitecture, "general.architecture", prefix, "not one whose config headcount reads from GGUF")
		return nil, err.WithHint("put the original checkpoint's config.json beside the file: it counts instead of the metadata")
	case prefix == "llama" && experts > 0:
		arch = mixtral
	case prefix == "deepseek2" && !sigmoid(f.Metadata, prefix):
		arch = deepSeekV2
	}
	c := checkpoint.NewObject()
	c.Set("architectures", checkpoint.NewList(checkpoint.NewText(arch.name)))
	c.Set("model_type", checkpoint.NewText(arch.modelType))
	for _, key := range f.Metadata.Keys() {
		field, ours := strings.CutPrefix(key, prefix+".")
		name, mapped := arch.keys[field]
		if !mapped {
			name, mapped = keys[field]
		}
		if v, _ := f.Metadata.Get(key); ours && mapped {
			c.Set(name, one(v))
		}
	}
	tensors := &contents{names: map[string]bool{}}
	for _, f := range files {
		tensors.add(f)
	}
	tensors.describe(c)
	if _, ok := c.Get("vocab_size"); !ok {
		c.Set("vocab_size", checkpoint.NewInt(max(tensors.vocabulary, f.Lengths["tokenizer.ggml.tokens"])))
	}
	latent(c, f.Metadata, prefix)
	scaling(c, f.Metadata, prefix)
	if drafts, _ := integer(c, "num_nextn_predict_layers"); drafts > 0 {
		layers, _ := integer(c, "num_hidden_layers") // which counts them in
		c.Set("num_hidden_layers", checkpoint.NewInt(layers-drafts))
	}
	return c, nil
}

// one is the value of a list of equal numbers; a list in which layers differ, as it is.
func one(v checkpoint.Value) checkpoint.Value {
	list := v.List()
	if len(list) == 0 || slices.ContainsFunc(list, func(x checkpoint.Value) bool { return x.Any() != list[0].Any() }) {
		return v
	}
	return list[0]
}

// contents is what the tensors tell that the metadata does not.
type contents struct {
	names      map[string]bool
	vocabulary int64 // rows of the embedding
}

func (c *contents) add(f *File) {
	for i := range f.Tensors {
		t := &f.Tensors[i]
		c.names[t.Name] = true
		if t.Name == "token_embd.weight" && len(t.Shape) == 2 {
			c.vocabulary = t.Shape[0]
		}
	}
}

// describe sets the fields that say which tensors there are.
func (c *contents) describe(config *checkpoint.Object) {
	config.Set("tie_word_embeddings", checkpoint.NewBool(!c.names["output.weight"]))
	config.Set("attention_bias", checkpoint.NewBool(c.names["blk.0.attn_q.bias"]))
	config.Set("mlp_bias", checkpoint.NewBool(c.names["blk.0.ffn_up.bias"]))
}

// latent puts the widths of a latent's heads in DeepSeek's terms: GGUF has the whole key,
// and counts the latent as one KV head.
func latent(c, metadata *checkpoint.Object, prefix string) {
	if rank, _ := integer(c, "kv_lora_rank"); rank == 0 {
		return
	}
	key, ok := integer(metadata, prefix+".attention.key_length_mla")
	value, _ := integer(metadata, prefix+".attention.value_length_mla")
	if !ok {
		key, _ = integer(metadata, prefix+".attention.key_length")
		value, _ = integer(metadata, prefix+".attention.value_length")
	}
	rope, _ := integer(metadata, prefix+".rope.dimension_count")
	c.Set("qk_rope_head_dim", checkpoint.NewInt(rope))
	c.Set("qk_nope_head_dim", checkpoint.NewInt(key-rope))
	c.Set("v_head_dim", checkpoint.NewInt(value))
	heads, _ := c.Get("num_attention_heads")
	c.Set("num_key_value_heads", heads)
	c.Set("head_dim", checkpoint.NewInt(rope))
}

// scaling is how positions are stretched.
func scaling(c, metadata *checkpoint.Object, prefix string) {
	kind, _ := metadata.Get(prefix + ".rope.scaling.type")
	name, _ := kind.Text()
	if name == "" || name == "none" {
		return
	}
	rope := checkpoint.NewObject()
	rope.Set("rope_type", kind)
	if v, ok := metadata.Get(prefix + ".rope.scaling.factor"); ok {
		rope.Set("factor", v)
	}
	if v, ok := metadata.Get(prefix + ".rope.scaling.original_context_length"); ok {
		rope.Set("original_max_position_embeddings", v)
	}
	c.Set("rope_scaling", checkpoint.NewDict(rope))
}

// integer is the whole number at a key.
func integer(o *checkpoint.Object, key string) (int64, bool) {
	v, _ := o.Get(key)
	return v.Int()
}
