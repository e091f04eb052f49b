package model_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"headcount/attn"
	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/model"
	"headcount/problem"
)

// TestSparse resolves a small config of each family with routed experts over KV heads: H 64,
// four layers, 8 query heads and 2 KV heads of 8, 6 experts of 32, V 100.
func TestSparse(t *testing.T) {
	const (
		h, v, i, e, w, l = 64, 100, 96, 6, 32, 4 // hidden, vocabulary, MLP, experts, their width, layers
		attention        = 2*64*h + 2*16*h
		biases           = 64 + 2*16
		mlp              = 3 * i * h
		expert           = 3 * w * h
		routed           = e*expert + e*h // with the router
		ends             = h + 2*v*h
		perHead          = 2 * 8 // norms of a query head and a key head
	)
	const common = `"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 100,
		"tie_word_embeddings": false, "num_experts_per_tok": 2, `
	const wide = common + `"intermediate_size": 32, `                              // of an expert
	const both = common + `"intermediate_size": 96, "moe_intermediate_size": 32, ` // of the MLP and of an expert
	for _, tt := range []struct {
		config string
		params int
	}{
		{wide + `"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 6`, l*(attention+routed+2*h) + ends},
		{both + `"architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe", "num_experts": 6, "shared_expert_intermediate_size": 48,
			"mlp_only_layers": [3], "decoder_sparse_step": 2`, // layers 1 and 3 are due, 3 is excepted
			l*(attention+biases+2*h) + routed + 3*48*h + h + 3*mlp + ends},
		{both + `"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 6, "head_dim": 8`,
			l*(attention+perHead+routed+2*h) + ends},
		{both + `"architectures": ["FlintForCausalLM"], "model_type": "flint", "num_experts": 6, "shared_expert_intermediate_size": 48, "head_dim": 8,
			"mlp_only_layers": [0]`, l*(attention+perHead+8+2*h) + mlp + 3*(routed+3*48*h) + ends}, // a sink a query head
		{both + `"architectures": ["K2HorizonForCausalLM"], "model_type": "k2_horizon", "num_experts": 6, "num_shared_experts": 2, "moe_gate_bias": true,
			"query_key_norm": true, "attention_gate_func": "silu", "mova_num_experts": 3, "mlp_only_layers": [0]`, // three projections to values, and what chooses
			l*(attention+64*h+64+16+2*h) + mlp + 3*(2*16*h+3*h+3+routed+e+2*expert) + ends},
		{both + `"architectures": ["BeamForCausalLM"], "model_type": "beam", "num_experts": 6, "head_dim": 8,
			"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]`, // a gate as wide as the queries, its bias a head
			l*(attention+perHead+64*h+8+4*h) + mlp + 3*(routed+e) + ends},
		{wide + `"architectures": ["GraniteMoeForCausalLM"], "model_type": "granitemoe", "num_local_experts": 6`, l*(attention+routed+2*h) + ends},
		{wide + `"architectures": ["GraniteMoeSharedForCausalLM"], "model_type": "granitemoeshared", "num_local_experts": 6, "shared_intermediate_size": 48`,
			l*(attention+routed+3*48*h+2*h) + ends},
		{wide + `"architectures": ["MiniMaxM2ForCausalLM"], "model_type": "minimax_m2", "num_local_experts": 6, "head_dim": 8, "use_routing_bias": true`,
			l*(attention+64+16+routed+e+2*h) + ends},
		{both + `"architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "n_routed_experts": 6, "n_shared_experts": 2, "head_dim": 8,
			"first_k_dense_replace": 1, "attention_bias": true, "use_qk_norm": true`,
			l*(attention+biases+perHead+2*h) + mlp + 3*(routed+e+2*expert) + ends},
		{`"d_model": 64, "n_layers": 4, "n_heads": 8, "vocab_size": 100, "attn_config": {"kv_n_heads": 2},
			"ffn_config": {"moe_num_experts": 6, "ffn_hidden_size": 32}, "architectures": ["DbrxForCausalLM"], "model_type": "dbrx"`,
			l*(attention+routed+2*h) + ends},
		{wide + `"architectures": ["OlmoeForCausalLM"], "model_type": "olmoe", "num_experts": 6`, l*(attention+64+16+routed+2*h) + ends},
		{wide + `"architectures": ["PhiMoEForCausalLM"], "model_type": "phimoe", "num_local_experts": 6`,
			l*(attention+biases+h+routed+4*h) + h + ends + v},
		{both + `"architectures": ["Dots1ForCausalLM"], "model_type": "dots1", "n_routed_experts": 6, "n_shared_experts": 2, "first_k_dense_replace": 1`,
			l*(attention+perHead+2*h) + mlp + 3*(routed+2*expert) + ends},
		{both + `"architectures": ["SolarOpenForCausalLM"], "model_type": "solar_open", "n_routed_experts": 6, "n_shared_experts": 1, "head_dim": 8`,
			l*(attention+routed+expert+2*h) + ends},
		{both + `"architectures": ["HYV3ForCausalLM"], "model_type": "hy_v3", "num_experts": 6, "num_shared_experts": 1, "head_dim": 8,
			"first_k_dense_replace": 1, "qk_norm": true`,
			l*(attention+perHead+2*h) + mlp + 3*(routed+e+expert) + ends},
		{both + `"architectures": ["Ernie4_5_MoeForCausalLM"], "model_type": "ernie4_5_moe", "moe_num_experts": 6, "moe_num_shared_experts": 2,
			"moe_layer_start_index": 1, "moe_layer_end_index": 2`,
			l*(attention+2*h) + 2*mlp + 2*(routed+e+2*expert) + ends},
		{both + `"architectures": ["AfmoeForCausalLM"], "model_type": "afmoe", "num_experts": 6, "num_shared_experts": 1, "num_dense_layers": 2, "head_dim": 8`,
			l*(attention+64*h+perHead+4*h) + 2*mlp + 2*(routed+e+expert) + ends},
		{both + `"architectures": ["BailingMoeForCausalLM"], "model_type": "bailing_moe", "num_experts": 6, "num_shared_experts": 2,
			"first_k_dense_replace": 0, "use_qk_norm": true, "moe_router_enable_expert_bias": true`,
			l*(attention+2*perHead+routed+e+2*expert+2*h) + ends},
		{both + `"architectures": ["ExaoneMoeForCausalLM"], "model_type": "exaone_moe", "num_experts": 6, "num_shared_experts": 1, "first_k_dense_replace": 1`,
			l*(attention+perHead+2*h) + mlp + 3*(routed+e+expert) + ends},
		{wide + `"architectures": ["HunYuanMoEV1ForCausalLM"], "model_type": "hunyuan_v1_moe", "num_experts": 6, "moe_topk": [2, 2, 2, 2],
			"moe_intermediate_size": [32, 32, 32, 32]`, l*(attention+perHead+routed+expert+2*h) + ends},
		{wide + `"architectures": ["FlexOlmoForCausalLM"], "model_type": "flex_olmo", "num_experts": 6`, l*(attention+64+16+routed+2*h) + ends},
		{both + `"architectures": ["Grok1ForCausalLM"], "model_type": "git", "num_local_experts": 6, "residual_moe": true`,
			l*(attention+routed+mlp+4*h) + ends},
	} {
		m := resolve(t, "{"+tt.config+"}")
		if got := m.Layers[0].Caches[0].Attn; got != mha(8, 2, 8) || len(m.Layers) != l || m.Experts != e {
			t.Errorf("%s: %d layers of %+v with %d experts", m.Architecture, len(m.Layers), got, m.Experts)
		}
		if got := parameters(m); got != tt.params || m.WeightsUnknown != "" {
			t.Errorf("%s: %d parameters, want %d (%s)", m.Architecture, got, tt.params, m.WeightsUnknown)
		}
	}
}

// mla is the latent of query heads: 16 elements that values are read from and 4 of position.
func mla(query int) attn.Geometry {
	return attn.Geometry{Arch: attn.MLA, QueryHeads: query, KVHeads: 1, KeyDim: 16 + 4, LatentDim: 16}
}

// latentConfig is H 64, four layers, 8 heads of 8 + 4 and values of 8 over a latent of 16,
// queries over one of 24, 6 experts of 32 and a shared one after one dense layer.
const latentConfig = `"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 100,
	"q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "intermediate_size": 96,
	"moe_intermediate_size": 32, "n_routed_experts": 6, "n_shared_experts": 1, "first_k_dense_replace": 1, "topk_method": "noaux_tc", `

// The parameters of latentConfig's parts.
const (
	latentHidden    = 64
	latentAttention = 24*64 + 24 + 8*(8+4)*24 + // queries
		(16+4)*64 + 16 + 8*(8+8)*16 + // the latent
		64*8*8 // out
	latentDense  = 3 * 96 * 64
	latentSparse = 6*3*32*64 + 3*32*64 + 6*64 + 6 // routed, shared, router, bias
	latentNorms  = 2 * 64
	latentEnds   = 2*100*64 + 64
	latentTotal  = 4*(latentAttention+latentNorms) + latentDense + 3*latentSparse + latentEnds
)

func TestLatent(t *testing.T) {
	for _, tt := range []struct {
		config string
		params int
	}{
		{`"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3"`, latentTotal},
		{`"architectures": ["DeepseekV3ForCausalLM"], "model_type": "kimi_k2", "q_lora_rank": null`,
			latentTotal - 4*(24*64+24+8*12*24) + 4*8*12*64},
		{`"architectures": ["Glm4MoeLiteForCausalLM"], "model_type": "glm4_moe_lite"`, latentTotal},
		{`"architectures": ["AXK1ForCausalLM"], "model_type": "axk1"`, latentTotal + 4*latentHidden},
		{`"architectures": ["PanguUltraMoEForCausalLM"], "model_type": "pangu_ultra_moe", "sandwich_norm": true`,
			latentTotal + 4*2*latentHidden - 3*6},
		{`"architectures": ["Mistral4ForCausalLM"], "model_type": "mistral4"`, latentTotal - 3*6},
	} {
		m := resolve(t, "{"+latentConfig+tt.config+"}")
		c := m.Layers[0].Caches
		want := mha(8, 8, 8+4)
		want.ValueDim = 8
		if len(c) != 1 || c[0].Kind != model.Latent || c[0].Attn != mla(8) || c[0].Expanded != want {
			t.Errorf("%s: caches %+v", m.Architecture, c)
		}
		if got := parameters(m); got != tt.params {
			t.Errorf("%s: %d parameters, want %d", m.Architecture, got, tt.params)
		}
	}
}

// TestLatentAbsent: without widths for the parts of a key there are heads with K and V.
func TestLatentAbsent(t *testing.T) {
	m := resolve(t, `{"architectures": ["DeepseekForCausalLM"], "model_type": "deepseek", "hidden_size": 64, "num_hidden_layers": 2,
		"num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 100, "intermediate_size": 96, "moe_intermediate_size": 32,
		"n_routed_experts": 6, "n_shared_experts": 2, "first_k_dense_replace": 1, "tie_word_embeddings": true}`)
	if got := m.Layers[1].Caches[0]; got.Kind != model.Full || got.Attn != mha(8, 2, 8) {
		t.Errorf("cache %+v", got)
	}
	want := 2*(2*64*64+2*16*64+2*64) + 3*96*64 + (6+2)*3*32*64 + 6*64 + latentEnds // the head is not the embedding
	if got := parameters(m); got != want {
		t.Errorf("%d parameters, want %d", got, want)
	}
}

// TestTwoLatents: LongCat has two attentions a layer, and experts without weights.
func TestTwoLatents(t *testing.T) {
	config := strings.Replace(latentConfig, `"num_hidden_layers": 4, `, "", 1)
	m := resolve(t, `{`+config+`"architectures": ["LongcatFlashForCausalLM"], "model_type": "longcat_flash", "num_layers": 3,
		"ffn_hidden_size": 96, "expert_ffn_hidden_size": 32, "zero_expert_num": 4, "moe_topk": 2}`)
	if len(m.Layers) != 3 || len(m.Layers[0].Caches) != 2 || m.Layers[0].Caches[1].Attn != mla(8) {
		t.Errorf("%d layers, caches %+v", len(m.Layers), m.Layers[0].Caches)
	}
	const layer = 2*(latentAttention+latentDense+latentNorms) + 6*3*32*64 + (6+4)*(64+1)
	if got, want := parameters(m), 3*layer+latentEnds; got != want {
		t.Errorf("%d parameters, want %d", got, want)
	}
	m = resolve(t, `{`+config+`"architectures": ["LongcatFlashNgramForCausalLM"], "num_layers": 3, "ngram_vocab_size_ratio": 2, "emb_split_num": 2,
		"emb_neighbor_num": 3, "ffn_hidden_size": 96, "expert_ffn_hidden_size": 32, "zero_expert_num": 4, "moe_topk": 2}`)
	const ngrams = (201+203+205+207)*16 + 4*16*64 // two tables for two tokens, two for three, of a quarter of the width
	if got, want := parameters(m), 3*layer+latentEnds+ngrams; got != want {
		t.Errorf("with n-grams: %d parameters, want %d", got, want)
	}
}

// TestIndexed: layers that choose for themselves keep index keys before their latent.
func TestIndexed(t *testing.T) {
	const indexer = 4*128*24 + 128*64 + 4*64 + 2*128 // queries, keys, weights, float32 norm
	const index = `"architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa", "index_n_heads": 4, "index_head_dim": 128, "index_topk": 8`
	for _, tt := range []struct{ config, want string }{
		{``, "2222"},
		{`, "index_topk_freq": 2`, "2212"}, // offset 2: layers 0, 1 and 3 - 2 + 1 = 2
		{`, "index_topk_freq": 2, "index_skip_topk_offset": 1`, "2121"},     // every second
		{`, "index_topk_pattern": "FSSF", "index_topk_freq": 2`, "2112"},    // the pattern wins
		{`, "index_topk_pattern": "FS"`, "2122"},                            // beyond it layers choose
		{`, "indexer_types": ["full", "shared", "shared", "full"]`, "2222"}, // vLLM does not read it
	} {
		m := resolve(t, "{"+latentConfig+index+tt.config+"}")
		var got string
		own := 0
		for _, l := range m.Layers {
			got += fmt.Sprint(len(l.Caches))
			if len(l.Caches) == 2 {
				own++
				if c := l.Caches[0]; c.Kind != model.Indexer || c.Attn.KeyDim != 128 || l.Caches[1].Attn != mla(8) {
					t.Errorf("%s: caches %+v", tt.config, l.Caches)
				}
			}
		}
		if got != tt.want {
			t.Errorf("%s: caches a layer %s, want %s", tt.config, got, tt.want)
		}
		if got, want := parameters(m), latentTotal+own*indexer; got != want {
			t.Errorf("%s: %d parameters, want %d", tt.config, got, want)
		}
	}
}

// TestOwnIndexers: HY-V4 says which layers choose for themselves, and has a gate, sinks and
// residual channels besides.
func TestOwnIndexers(t *testing.T) {
	m := resolve(t, "{"+latentConfig+`"architectures": ["HYV4ForCausalLM"], "model_type": "hy_v4", "index_n_heads": 4, "index_head_dim": 128,
		"index_topk": 8, "hc_mult": 2, "gating_type": "elementwise", "indexer_types": ["full", "shared", "shared", "full"]}`)
	const (
		indexer  = 4*128*24 + 128*64 + 4*64 + 2*128
		gate     = 8 * 8 * 64
		sinks    = 8
		channels = 2 * (4*2*64 + 2 + 4) // two halves of a layer: two gates for each of two channels, scales, bases
		merge    = 2*2*64 + 1 + 2       // one gate for each
	)
	if got, want := parameters(m), latentTotal+2*indexer+4*(gate+sinks+channels)+merge; got != want {
		t.Errorf("%d parameters, want %d", got, want)
	}
	for i, want := range []int{2, 1, 1, 2} {
		if got := len(m.Layers[i].Caches); got != want {
			t.Errorf("layer %d: %d caches, want %d", i, got, want)
		}
	}
}

// TestCompressed: a layer of DeepSeek-V4 keeps a window, and what its ratio adds.
func TestCompressed(t *testing.T) {
	m := resolve(t, `{"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "hidden_size": 64, "num_hidden_layers": 3,
		"num_attention_heads": 8, "head_dim": 32, "q_lora_rank": 24, "o_groups": 2, "o_lora_rank": 16, "qk_rope_head_dim": 8, "hc_mult": 4,
		"index_n_heads": 4, "index_head_dim": 128, "sliding_window": 16, "moe_intermediate_size": 32, "n_routed_experts": 6,
		"n_shared_experts": 1, "num_experts_per_tok": 2, "num_hash_layers": 1, "vocab_size": 100, "topk_method": "noaux_tc",
		"compress_ratios": [0, 4, 128, 0], "num_nextn_predict_layers": 1}`)
	type cache struct {
		kind          model.Kind
		key           int
		window, ratio int
		dtype         dtype.Type
	}
	window := cache{model.SlidingLatent, 32, 16, 0, 0}
	for i, want := range [][]cache{
		{window},
		{{model.Indexer, 128, 0, 4, 0}, {model.SlidingLatent, 2 * 2 * 128, 2 * 4, 0, dtype.Float32}, // a vector and its scores, twice
			window, {model.Latent, 32, 0, 4, 0}, {model.SlidingLatent, 2 * 2 * 32, 2 * 4, 0, dtype.Float32}},
		{window, {model.Latent, 32, 0, 128, 0}, {model.SlidingLatent, 2 * 32, 128, 0, dtype.Float32}},
	} {
		var got []cache
		for _, c := range m.Layers[i].Caches {
			got = append(got, cache{c.Kind, c.Attn.KeyDim, c.Window, c.Ratio, c.DType})
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("layer %d: caches %v, want %v", i, got, want)
		}
	}
	const (
		attention  = 24*64 + 24 + 8*32*24 + 32*64 + 32 + 2*16*8*32/2 + 64*2*16 + 8 // queries, the vector, out, sinks
		four       = 4*2*32 + 2*2*32*64 + 32                                       // overlapping runs of 4
		many       = 128*32 + 2*32*64 + 32
		index      = 4*64 + 4*128*24 + 4*2*128 + 2*2*128*64 + 128
		experts    = 6*3*32*64 + 3*32*64 + 6*64
		streams    = 2 * (6*4*4*64 + 6*4 + 3) // mixed before and after each half
		ends       = 2*100*64 + 64 + 4*4*64 + 4 + 1
		everyLayer = attention + experts + streams + 2*64
	)
	if got, want := parameters(m), 3*everyLayer+four+index+many+100*2+2*6+ends; got != want {
		t.Errorf("%d parameters, want %d", got, want)
	}
	if len(m.Draft) != 1 || len(m.Draft[0].Caches) != 1 {
		t.Fatalf("MTP layers %+v", m.Draft)
	}
	if got, want := sum(m.Draft[0].Params), everyLayer+6+2*64*64+3*64+4*4*64+4+1; got != want {
		t.Errorf("MTP layer: %d parameters, want %d", got, want)
	}
}

// TestNextN: MTP layers are a decoder layer and what joins it to the model.
func TestNextN(t *testing.T) {
	m := resolve(t, `{`+latentConfig+`"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "num_nextn_predict_layers": 2}`)
	const layer = latentAttention + latentNorms + latentSparse + 2*64*64 + 3*64
	if len(m.Draft) != 2 || sum(m.Draft[1].Params) != layer || m.Draft[0].Caches[0].Attn != mla(8) {
		t.Errorf("%d MTP layers of %d parameters, want 2 of %d", len(m.Draft), sum(m.Draft[0].Params), layer)
	}
	if got := parameters(m); got != latentTotal {
		t.Errorf("%d parameters without them, want %d", got, latentTotal)
	}
}

// TestTiedWrapper: a wrapper says for its text model whether head and embedding are one.
func TestTiedWrapper(t *testing.T) {
	for _, tt := range []struct {
		text, top string
		want      bool
	}{
		{`"tie_word_embeddings": true, `, `, "tie_word_embeddings": false`, false},
		{`"tie_word_embeddings": false, `, `, "tie_word_embeddings": true`, true},
		{``, ``, false}, // of the wrapper's class; the text config's is true
	} {
		m := resolve(t, `{"architectures": ["Qwen3VLMoeForConditionalGeneration"], "model_type": "qwen3_vl_moe",
			"text_config": {`+tt.text+`"model_type": "qwen3_vl_moe_text"}`+tt.top+`}`)
		if m.TiedEmbeddings != tt.want {
			t.Errorf("text %q, wrapper %q: tied %v", tt.text, tt.top, m.TiedEmbeddings)
		}
	}
}

// TestSparseProblems names the field of each unusable value.
func TestSparseProblems(t *testing.T) {
	const deepSeek = `"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3"`
	const v4 = `"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4"`
	const mixtral = `"architectures": ["MixtralForCausalLM"], "model_type": "mixtral"`
	const qwen = `"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe"`
	for _, tt := range []struct {
		config string
		code   problem.Code
		field  string
	}{
		{deepSeek + `, "kv_lora_rank": 0`, problem.BadValue, "kv_lora_rank"},
		{deepSeek + `, "kv_lora_rank": null`, problem.MissingField, "kv_lora_rank"},
		{deepSeek + `, "n_routed_experts": -1`, problem.BadValue, "n_routed_experts"},
		{deepSeek + `, "moe_intermediate_size": "2048"`, problem.BadValue, "moe_intermediate_size"},
		{deepSeek + `, "n_shared_experts": 2000000000`, problem.BadValue, "n_shared_experts"},
		{deepSeek + `, "num_nextn_predict_layers": 100000`, problem.BadValue, "num_nextn_predict_layers"},
		{deepSeek + `, "index_topk": 8, "index_n_heads": 2000000000, "index_head_dim": 128`, problem.BadValue, "index_n_heads"},
		{v4 + `, "compress_ratios": [4]`, problem.BadValue, "compress_ratios"},
		{v4 + `, "num_hidden_layers": 1, "compress_ratios": [5]`, problem.Unsupported, "compress_ratios"},
		{v4 + `, "o_groups": 7`, problem.NotDivisible, "num_attention_heads"},
		{mixtral + `, "num_local_experts": 1.5`, problem.BadValue, "num_local_experts"},
		{qwen + `, "mlp_only_layers": ["0"]`, problem.BadValue, "mlp_only_layers"},
		{`"architectures": ["DbrxForCausalLM"], "model_type": "dbrx", "ffn_config": {"moe_num_experts": 0}`, problem.BadValue, "ffn_config.moe_num_experts"},
		{`"architectures": ["Step3TextForCausalLM"], "model_type": "step3_text", "moe_layers_enum": "1,x"`, problem.BadValue, "moe_layers_enum"},
	} {
		src, err := checkpoint.FromBytes("config.json", checkpoint.Files{Config: []byte("{" + tt.config + "}")})
		if err != nil {
			t.Fatal(err)
		}
		_, err = model.Resolve(src)
		p, ok := errors.AsType[*problem.Error](err)
		if !ok || p.Code != tt.code || p.Field != tt.field || strings.Contains(p.Message, "\n") {
			t.Errorf("%s: %v, want %s of %s", tt.config, err, tt.code, tt.field)
		}
	}
}
