package model

import (
	"math"

	"headcount/problem"
)

// openELM gives each layer head counts and an MLP of its own (arXiv 2404.14619; its class
// is in the checkpoint's repository, modeling_openelm.py).
var openELM = family{
	name:          "openelm",
	architectures: []string{"OpenELMForCausalLM"},
	types:         []string{"openelm"},
	resolve: func(r *reader) *Model {
		kinds, hidden, vocab := r.openELMKinds(), r.size("model_dim"), r.size("vocab_size")
		gated, normed := r.flag("ffn_with_glu", true), r.flag("normalize_qk_projections", true)
		tied := r.flag("share_input_output_layers", true)
		m := r.model()
		if r.err != nil {
			return m
		}
		m.HiddenSize, m.VocabSize, m.TiedEmbeddings = hidden, vocab, tied
		for _, k := range kinds {
			m.QueryHeads, m.KVHeads, m.HeadDim = max(m.QueryHeads, k.query), max(m.KVHeads, k.kv), k.key
		}
		m.Layers = perKind(kinds, func(k openELMKind) *Layer {
			params := attentionParams("attn", k.heads, hidden, false, false)
			if normed {
				params = append(params, norm("attn.q_norm", k.key), norm("attn.k_norm", k.key))
			}
			params = append(params, mlpParams("ffn", MLP, hidden, k.mlp, gated, false)...)
			params = append(params, norm("attn_norm", hidden), norm("ffn_norm", hidden))
			return &Layer{Caches: []Cache{k.cache(0)}, Params: params}
		})
		last := norm("transformer.norm", hidden)
		last.Stage = LastStage
		m.Outer = append(r.embeddings(vocab, hidden, tied), last)
		return m
	},
}

// An openELMKind is what OpenELM's layers differ in.
type openELMKind struct {
	heads
	mlp int
}

// openELMKinds reads the lists that say what each layer is.
func (r *reader) openELMKinds() []openELMKind {
	layers, dim, hidden := r.size("num_transformer_layers"), r.size("head_dim"), r.size("model_dim")
	if layers > maxLayers {
		r.fail(problem.BadValue, "num_transformer_layers", "more than %d layers", maxLayers)
		return nil
	}
	query, kv := r.ints("num_query_heads"), r.ints("num_kv_heads")
	multipliers, _ := r.List("ffn_multipliers")
	divisor := r.sizeOr("ffn_dim_divisor", 256)
	for i, key := range []string{"num_query_heads", "num_kv_heads", "ffn_multipliers"} {
		if n := []int{len(query), len(kv), len(multipliers)}[i]; n != layers {
			r.fail(problem.BadValue, key, "%d entries for %d layers", n, layers)
			return nil
		}
	}
	kinds := make([]openELMKind, layers)
	for i := range kinds {
		if query[i] < 1 || kv[i] < 1 || query[i]%kv[i] != 0 {
			r.fail(problem.NotDivisible, "num_query_heads", "%d query heads and %d KV heads in layer %d", query[i], kv[i], i)
			return nil
		}
		factor, _ := multipliers[i].Float()
		kinds[i] = openELMKind{
			heads: heads{query: query[i], kv: kv[i], key: dim, value: dim},
			mlp:   r.openELMWidth(factor*float64(hidden), divisor),
		}
	}
	return kinds
}

// openELMWidth rounds the width of an MLP to a multiple of divisor, but not by more than a
// tenth down (modeling_openelm.py make_divisible).
func (r *reader) openELMWidth(width float64, divisor int) int {
	if !(width >= 1 && width < maxSize) {
		r.fail(problem.BadValue, "ffn_multipliers", "make a width of %v", width)
		return divisor
	}
	n := max(divisor, int(math.Floor(width+float64(divisor)/2))/divisor*divisor)
	if float64(n) < 0.9*width {
		n += divisor
	}
	return n
}
