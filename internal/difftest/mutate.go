package difftest

import (
	"bytes"
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"headcount/internal/strict"
	"headcount/model"
)

// mutated is a config with some of its sizes drawn anew. One config in five stays as it is,
// so that only its layout is new.
func mutated(r random, config []byte) (out json.RawMessage, f facts, err error) {
	top, err := decoded(config)
	if err != nil {
		return nil, f, err
	}
	if !r.one(5) {
		m := mutation{random: r, one: pick(r, 2, 3, 6)}
		m.object(top)
	}
	f.read(top)
	out, err = json.Marshal(top)
	return out, f, err
}

func decoded(config []byte) (top map[string]any, err error) {
	dec := json.NewDecoder(bytes.NewReader(strict.WithNumbers(config)))
	dec.UseNumber()
	err = dec.Decode(&top)
	return top, err
}

// facts are what a layout is chosen by, so that most are legal; 0 is not known.
type facts struct {
	heads, kvHeads, layers int
	length                 int
	experts, drafts        bool
}

// headKeys count the query heads.
var headKeys = []string{"num_attention_heads", "n_head", "n_heads"}

// read takes the facts from the first object that counts heads.
func (f *facts) read(o map[string]any) {
	for _, key := range headKeys {
		if n, ok := integer(o, key); ok && f.heads == 0 {
			f.heads = n
			f.kvHeads, _ = integer(o, "num_key_value_heads")
			f.length, _ = integer(o, "max_position_embeddings")
		}
	}
	for _, key := range []string{"num_hidden_layers", "n_layer", "n_layers", "num_layers"} {
		if n, ok := integer(o, key); ok && f.layers == 0 {
			f.layers = n
		}
	}
	for _, k := range sortedKeys(o) {
		n, whole := integer(o, k)
		switch {
		case strings.Contains(k, "experts") && whole && n > 0:
			f.experts = true
		case (k == "num_nextn_predict_layers" || k == "mtp_num_hidden_layers") && n > 0:
			f.drafts = true
		}
		if inner, ok := o[k].(map[string]any); ok && !isolated(k) {
			f.read(inner)
		}
	}
}

// tp draws a tensor parallel size, one that divides the heads most of the time.
func (f *facts) tp(r random) int {
	n := pick(r, 1, 1, 2, 4, 8, 8, 16)
	for f.heads > 0 && f.heads%n != 0 && !r.one(8) {
		n = pick(r, 1, 2, 4)
	}
	return n
}

// pp draws a number of pipeline stages, at most one a layer.
func (f *facts) pp(r random) int {
	n := pick(r, 2, 2, 3, 4)
	if f.layers > 0 {
		n = min(n, f.layers)
	}
	return n
}

// dcp draws a decode context parallel size; without latents it is at most how often KV
// heads are replicated.
func (f *facts) dcp(r random, tp int) int {
	sizes := divisors(tp)
	if f.kvHeads > 0 && tp > f.kvHeads && !r.one(4) {
		sizes = divisors(tp / f.kvHeads)
	}
	return pick(r, sizes...)
}

// A mutation changes each group of fields once in that many times.
type mutation struct {
	random
	one  int
	kind string // model_type of the object at hand
}

func (m mutation) lucky() bool { return m.random.one(m.one) }

// object mutates one object of a config and those in it.
func (m mutation) object(o map[string]any) {
	m.kind, _ = o["model_type"].(string)
	m.layers(o)
	m.heads(o)
	m.sizes(o)
	m.rope(o)
	m.dtypes(o)
	m.absent(o)
	for _, k := range sortedKeys(o) {
		if inner, ok := o[k].(map[string]any); ok && !isolated(k) {
			m.object(inner)
		}
	}
}

// isolated tells objects that are not sizes of a decoder.
func isolated(key string) bool {
	for _, part := range []string{"vision", "visual", "img", "vit", "audio", "rope", "quant", "auto_map", "encoder", "projector", "adapter", "slice", "id2label", "label2id", "task_specific"} {
		if strings.Contains(key, part) {
			return true
		}
	}
	return false
}

// integer is the whole number of a key.
func integer(o map[string]any, key string) (int, bool) {
	switch n := o[key].(type) {
	case int:
		return n, true
	case json.Number:
		i, err := n.Int64()
		return int(i), err == nil
	}
	return 0, false
}

// layers draws the number of layers and cuts what lists them to it. Of a file that counts them
// under two names, one may mean halves.
func (m mutation) layers(o map[string]any) {
	if o["num_hidden_layers"] != nil && o["num_layers"] != nil {
		return
	}
	for _, key := range []string{"num_hidden_layers", "n_layer", "num_layers", "n_layers"} {
		was, ok := integer(o, key)
		if !ok || was < 1 {
			continue
		}
		now := was
		if was > 8 || m.lucky() {
			now = 1 + m.IntN(8)
		}
		o[key] = now
		if shared, ok := integer(o, "num_kv_shared_layers"); ok {
			o["num_kv_shared_layers"] = min(shared, now-1)
		}
		if own, ok := o["per_layer_config"].(map[string]any); ok {
			maps.DeleteFunc(own, func(layer string, _ any) bool { n, err := strconv.Atoi(layer); return err == nil && n >= now })
		}
		again := m.random.one(3)
		for _, k := range sortedKeys(o) {
			if listsLayers(k, o[k]) {
				o[k] = m.perLayer(o[k], was, now, again)
			}
		}
	}
	if pattern, ok := o["hybrid_override_pattern"].(string); ok && o["num_hidden_layers"] == nil {
		o["hybrid_override_pattern"] = m.perLayer(pattern, len(pattern), 1+m.IntN(8), true)
	}
}

// listsLayers tells whether a key may hold an element a layer. Of texts only patterns do, and
// lists of classes and tokens are of another kind.
func listsLayers(key string, value any) bool {
	if _, text := value.(string); text {
		return strings.Contains(key, "pattern")
	}
	return key != "architectures" && !strings.Contains(key, "token")
}

// perLayer cuts a list of one element a layer to now layers, or draws each from the old
// ones; a list of layer numbers loses those that are gone. Others stay.
func (m mutation) perLayer(v any, was, now int, again bool) any {
	from := func(i int) int {
		if again || i >= was {
			return m.IntN(was)
		}
		return i
	}
	switch v := v.(type) {
	case string:
		if len(v) != was || was < 4 {
			return v
		}
		out := make([]byte, now)
		for i := range out {
			out[i] = v[from(i)]
		}
		return string(out)
	case []any:
		if len(v) == was {
			out := make([]any, now)
			for i := range out {
				out[i] = v[from(i)]
			}
			return out
		}
		return below(v, now)
	case map[string]any:
		if list, ok := v["kda_layers"].([]any); ok {
			v["kda_layers"] = below(list, now+1)
		}
		if list, ok := v["full_attn_layers"].([]any); ok {
			v["full_attn_layers"] = below(list, now+1)
		}
	}
	return v
}

// below keeps the numbers under n of a rising list of small numbers.
func below(list []any, n int) []any {
	out := []any{}
	last := int64(-1)
	for _, e := range list {
		num, ok := e.(json.Number)
		if !ok {
			return list
		}
		i, err := num.Int64()
		if err != nil || i <= last {
			return list
		}
		last = i
		if i < int64(n) {
			out = append(out, e)
		}
	}
	return out
}

// A naming is how families call their heads and width.
type naming struct {
	heads, hidden string
	kv            []string
}

var namings = []naming{
	{"num_attention_heads", "hidden_size", []string{"num_key_value_heads", "multi_query_group_num", "num_attention_groups", "num_kv_heads", "swa_num_key_value_heads"}},
	{"n_head", "n_embd", []string{"num_kv_heads"}},
	{"n_head", "hidden_size", []string{"n_head_kv"}},
	{"n_heads", "d_model", []string{"kv_n_heads"}},
}

// heads draws query heads, KV heads that divide them, and the width.
func (m mutation) heads(o map[string]any) {
	for _, n := range namings {
		heads, ok := integer(o, n.heads)
		width, wide := integer(o, n.hidden)
		if !ok || !wide || heads < 1 || !m.lucky() {
			continue
		}
		now := pick(m.random, heads, heads, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64)
		if groups, ok := integer(o, "o_groups"); ok && groups > 0 && now%groups != 0 { // of heads, each projected apart
			now = heads
		}
		o[n.heads] = now
		if _, ok := integer(o, "swa_"+n.heads); ok {
			o["swa_"+n.heads] = now
		}
		for _, key := range n.kv {
			if kv, ok := integer(o, key); ok && (kv < 1 || now%kv != 0 || !m.random.one(4)) {
				o[key] = pick(m.random, divisors(now)...)
			}
		}
		if _, free := integer(o, "head_dim"); free {
			if m.lucky() {
				width = pick(m.random, width, 256, 512, 768, 1024, 1536, 2048, 2560, 2880, 3072, 4096)
			}
			o[n.hidden] = (width + now - 1) / now * now // some classes want a multiple
			continue
		}
		each := pick(m.random, max(width/heads, 1), 32, 64, 80, 96, 112, 128, 256)
		o[n.hidden] = now * each
		if rotary, ok := integer(o, "rotary_dim"); ok {
			o["rotary_dim"] = min(rotary, each)
		}
	}
}

func divisors(n int) []int {
	var all []int
	for d := 1; d <= n; d++ {
		if n%d == 0 {
			all = append(all, d)
		}
	}
	return all
}

// choices are values of fields that may be drawn on their own. nil is null, where the class
// takes it.
var choices = map[string][]any{
	"head_dim": {64, 80, 96, 128, 192, 256}, "v_head_dim": {64, 128, 192, 256}, "swa_head_dim": {64, 128, 192}, "swa_v_head_dim": {64, 128},
	"swa_num_key_value_heads": {1, 2, 4, 8}, "global_head_dim": {128, 256, 512}, "num_global_key_value_heads": {1, 2, 4, 8, nil},
	"attention_k_eq_v": {true, false}, "num_kv_shared_layers": {0, 1, 2, 3}, "use_bidirectional_attention": {nil, "vision", "all"},
	"intermediate_size": {512, 768, 1024, 1408, 2048, 2816, 5632, 11008}, "ffn_hidden_size": {512, 1408, 4096}, "n_inner": {nil, 1024, 4096},
	"moe_intermediate_size": {128, 192, 256, 512, 768, 1408}, "shared_expert_intermediate_size": {0, 512, 1024}, "expert_ffn_hidden_size": {128, 1024},
	"vocab_size":  {1000, 32000, 32001, 50257, 49152, 100352, 151936, 256000},
	"num_experts": {4, 8, 16, 60, 64, 128}, "n_routed_experts": {8, 16, 64, 128, 256}, "num_local_experts": {0, 4, 8, 16}, "n_shared_experts": {1, 2, nil},
	"num_experts_per_tok": {1, 2, 4, 8}, "first_k_dense_replace": {0, 1, 2}, "num_dense_layers": {0, 1, 2}, "decoder_sparse_step": {1, 2}, "moe_layer_freq": {1, 2},
	"sliding_window": {128, 512, 1024, 4096, 1 << 20, 0, nil}, "use_sliding_window": {true, false}, "max_window_layers": {0, 2, 4, 28},
	"sliding_window_pattern": {2, 3, 4, 6}, "sliding_window_size": {128, 512, 4096}, "attention_chunk_size": {128, 1024, 8192},
	"full_attention_interval": {1, 2, 3, 4}, "attn_layer_period": {2, 4, 8}, "attn_layer_offset": {0, 1, 3}, "global_attn_every_n_layers": {1, 2, 3},
	"kv_lora_rank": {128, 256, 512}, "q_lora_rank": {nil, 512, 768, 1536}, "qk_rope_head_dim": {32, 64}, "qk_nope_head_dim": {64, 128, 192},
	"index_head_dim": {64, 128}, "index_n_heads": {8, 16, 32, 64}, "index_topk": {512, 1024, 2048}, "num_nextn_predict_layers": {0, 1, 2},
	"mamba_d_state": {16, 64, 128}, "mamba_d_conv": {2, 4}, "mamba_expand": {1, 2}, "mamba_n_groups": {1, 2, 8}, "n_groups": {1, 2, 8}, "mamba_d_head": {32, 64},
	"ssm_state_size": {64, 128, 256}, "state_size": {16, 64, 128}, "conv_kernel": {2, 4}, "mamba_head_dim": {64, 80}, "mamba_num_heads": {16, 64, 128},
	"linear_conv_kernel_dim": {2, 4}, "linear_key_head_dim": {64, 128}, "linear_value_head_dim": {64, 128}, "linear_num_key_heads": {8, 16}, "linear_num_value_heads": {16, 32, 64},
	"mamba_ssm_dtype": {"float32", "bfloat16"}, "mamba_ssm_cache_dtype": {"float32", "bfloat16"}, "conv_L_cache": {3, 4}, "short_conv_kernel_size": {2, 4},
	"max_position_embeddings": {1000, 2048, 4096, 5000, 8192, 32768, 131072, 1 << 20}, "n_positions": {1024, 2048}, "max_sequence_length": {2048, 32768}, "model_max_length": {4096, 131072, nil},
	"seq_length": {2048, 32768}, "tie_word_embeddings": {true, false}, "attention_bias": {true, false}, "mlp_bias": {true, false}, "use_qk_norm": {true, false},
	"multi_query": {true, false}, "new_decoder_architecture": {true, false}, "parallel_attn": {true, false}, "alibi": {true, false},
	"loop_num": {1, 2, 3}, "layer_group_size": {2, 4}, "interleave_moe_layer_step": {1, 2},
}

// sizes draws fields on their own.
func (m mutation) sizes(o map[string]any) {
	for _, k := range sortedKeys(o) {
		values, ok := choices[k]
		if !ok || !m.lucky() {
			continue
		}
		if _, list := o[k].([]any); list {
			continue
		}
		if _, twice := o["intermediate_size"]; twice && k == "n_inner" { // a width that the file gives under two names
			continue
		}
		n, whole := integer(o, k)
		if strings.Contains(k, "experts") && n == 0 { // a dense model stays one
			continue
		}
		if whole && n == 0 && strings.HasPrefix(k, "qk_") { // not a latent model
			continue
		}
		if k == "num_kv_shared_layers" || k == "head_dim" || m.random.one(2) {
			was := o[k]
			o[k] = pick(m.random, values...)
			if o[k] == nil && !model.DeclaresNull(m.kind, k) {
				o[k] = was
			}
			if kv, _ := integer(o, k); k == "swa_num_key_value_heads" && kv > 0 && swaHeads(o)%kv != 0 {
				o[k] = was
			}
			if _, compressed := o["compress_ratios"]; compressed && k == "sliding_window" && o[k] == 0 { // each layer has a window
				o[k] = was
			}
			if strings.Contains(k, "experts") && n > 0 && o[k] == 0 { // it has no other MLP
				o[k] = n
			}
		}
	}
}

// swaHeads are the query heads of sliding layers.
func swaHeads(o map[string]any) int {
	if n, ok := integer(o, "swa_num_attention_heads"); ok {
		return n
	}
	n, _ := integer(o, "num_attention_heads")
	return n
}

// rope draws a kind of rotary scaling where the config has none or a plain one. A file that
// tunes YaRN is of a class that may know no other.
func (m mutation) rope(o map[string]any) {
	scaling, has := o["rope_scaling"]
	if !has || !m.lucky() {
		return
	}
	dict, nested := scaling.(map[string]any)
	if _, tuned := dict["beta_fast"]; tuned || nested && !m.random.one(2) {
		return
	}
	length := 4096
	if n, ok := o["max_position_embeddings"].(json.Number); ok {
		if i, err := n.Int64(); err == nil {
			length = int(i)
		}
	}
	o["rope_scaling"] = pick[any](m.random, nil,
		map[string]any{"type": "linear", "factor": 2.0},
		map[string]any{"rope_type": "linear", "factor": 8},
		map[string]any{"rope_type": "dynamic", "factor": 4.0},
		map[string]any{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": max(length/4, 1)},
		map[string]any{"type": "yarn", "factor": 4.0, "original_max_position_embeddings": length},
		map[string]any{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": max(length/8, 1)},
		map[string]any{"rope_type": "default"},
	)
}

// dtypes draws the dtype where the config names one.
func (m mutation) dtypes(o map[string]any) {
	for _, k := range []string{"torch_dtype", "dtype"} {
		if _, ok := o[k]; ok && m.lucky() && m.random.one(2) {
			o[k] = pick[any](m.random, "bfloat16", "float16", "float32", nil)
		}
	}
}

// hasLists reports whether lists follow the number of layers that key holds.
func hasLists(o map[string]any, key string) bool {
	layers, _ := integer(o, key)
	for _, v := range o {
		if list, ok := v.([]any); ok && len(list) >= layers {
			return true
		}
	}
	return false
}

// absent drops a field that is a size or, where the class takes it, makes it null, so that a
// class default takes its place.
func (m mutation) absent(o map[string]any) {
	if !m.random.one(6) {
		return
	}
	var sizes []string
	for _, k := range sortedKeys(o) {
		switch k {
		case "vocab_size", "padded_vocab_size", "hidden_size", "ffn_hidden_size": // few classes have a default
			continue
		case "num_attention_heads", "num_key_value_heads": // the default need not fit the other
			continue
		case "moe_intermediate_size", "intermediate_size", "block_dim", "block_ff_dim", "conv_dim": // which an engine wants where it builds what we size
			continue
		case "index_n_heads": // the same
			continue
		case "num_hidden_layers", "n_layer", "num_layers", "n_layers": // lists of one element a layer follow it, not the default
			if hasLists(o, k) {
				continue
			}
		case "first_k_dense_replace": // whether it may be null differs between releases of Transformers
			continue
		}
		_, drawn := choices[k]
		_, whole := integer(o, k)
		if drawn || whole && !strings.HasSuffix(k, "_id") && !strings.HasSuffix(k, "_token_index") || k == "layer_types" || k == "torch_dtype" || k == "dtype" {
			sizes = append(sizes, k)
		}
	}
	if len(sizes) == 0 {
		return
	}
	if k := pick(m.random, sizes...); model.DeclaresNull(m.kind, k) && m.random.one(2) {
		o[k] = nil
	} else {
		delete(o, k)
	}
}
