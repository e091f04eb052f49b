package difftest

// foreign are fields that some classes read and others do not, each with a value. A file may
// give any of them, and a plan that follows one its class does not read is wrong.
var foreign = map[string]any{
	"alibi": true, "attention_bias": true, "attention_chunk_size": 128, "attn_logit_softcapping": 50.0,
	"dual_chunk_attention_config": map[string]any{"chunk_size": 1024, "local_size": 128, "original_max_position_embeddings": 4096},
	"head_dim":                    64, "hidden_act": "gelu", "index_topk": 512, "is_causal": false, "is_decoder": true, "is_encoder_decoder": true,
	"kv_lora_rank": 64, "layer_types": nil, "max_sequence_length": 1000, "mlp_bias": true, "model_max_length": 1000, "n_routed_experts": 8,
	"num_experts": 8, "num_key_value_heads": 2, "num_kv_shared_layers": 2, "num_nextn_predict_layers": 1, "partial_rotary_factor": 0.5,
	"qk_layernorm": true, "qkv_bias": true, "rope_scaling": map[string]any{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
	"seq_length": 1000, "sliding_window": 512, "sliding_window_pattern": 2, "tie_word_embeddings": true, "use_qk_norm": true, "use_sliding_window": true,
}

// Given gives draw n of a seed with a config that is as the corpus has it, but for its depth and
// one field more than it has, and a layout of the golden rows'.
func (g *Generator) Given(gpu string, seed, n uint64) (*Draw, error) {
	return g.onGolden("given", gpu, seed, n, func(r random, top map[string]any) {
		text := decoderOf(top)
		mutation{random: r, one: 1 << 30}.layers(text)
		give(r, text)
	})
}

// give adds one field that an object lacks.
func give(r random, o map[string]any) {
	var lacking []string
	for _, key := range sortedKeys(foreign) {
		if o[key] == nil {
			lacking = append(lacking, key)
		}
	}
	key := pick(r, lacking...)
	o[key] = foreign[key]
	if key == "layer_types" {
		o[key] = alternating(o)
		if o["sliding_window"] == nil {
			o["sliding_window"] = foreign["sliding_window"]
		}
	}
}

// alternating are as many layer types as an object counts layers.
func alternating(o map[string]any) []string {
	var f facts
	f.read(o)
	out := make([]string, f.layers)
	for i := range out {
		out[i] = []string{"sliding_attention", "full_attention"}[i%2]
	}
	return out
}

// decoderOf is the first object that counts heads, o itself where none does.
func decoderOf(o map[string]any) map[string]any {
	if counted(o) {
		return o
	}
	for _, k := range sortedKeys(o) {
		if inner, ok := o[k].(map[string]any); ok && !isolated(k) {
			if text := decoderOf(inner); counted(text) {
				return text
			}
		}
	}
	return o
}

func counted(o map[string]any) bool {
	for _, key := range headKeys {
		if _, ok := integer(o, key); ok {
			return true
		}
	}
	return false
}
