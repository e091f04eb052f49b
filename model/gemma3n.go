package model

import (
	"headcount/dtype"
	"headcount/problem"
)

// gemma3n has four sliding layers to each full one; the last num_kv_shared_layers read the
// caches of the last layers before them. Beside each layer run a low-rank bypass (laurel),
// alternating updates of several streams (altup) and an embedding of its own per layer
// (vllm gemma3n.py).
var gemma3n = family{
	name:          "gemma3n",
	architectures: []string{"Gemma3nForCausalLM", "Gemma3nForConditionalGeneration", "Gemma3nTextModel", "Gemma3nModel"},
	types:         []string{"gemma3n", "gemma3n_text"},
	resolve: func(r *reader) *Model {
		layers, hidden, h := r.layers(), r.size("hidden_size"), r.heads()
		biased, own := r.flag("attention_bias", false), layers-r.kvShared(layers)
		side, widths := r.gemma3nSide(hidden), r.widths(layers)
		windows := r.windows(layers)
		if r.err != nil {
			return r.model()
		}
		kinds := make([]gemmaKind, layers)
		for i := range kinds {
			kinds[i] = gemmaKind{heads: h, window: windows[i], shared: i >= own && own > 0, mlp: widths[i]}
		}
		m := r.decoder(decoder{
			gated: true, heads: h, tied: true, everyStage: true, windows: windows,
			norms: append([]string{"post_per_layer_input_norm"}, sandwich...),
			form:  formPerKind(kinds, func(k gemmaKind) *form { return k.form(hidden, biased) }),
			extra: func(int) []Param { return side.params(hidden) },
		})
		m.Outer = append(m.Outer, side.outer(hidden, layers)...)
		return m
	},
}

// A gemmaKind is what the layers of Gemma 3n and Gemma 4 differ in.
type gemmaKind struct {
	heads
	window int
	shared bool // reads an earlier layer's cache: no keys and values of its own
	mlp    int  // width of the MLP
}

func (k gemmaKind) form(hidden int, biased bool) *form {
	params := attentionParams("self_attn", k.heads, hidden, biased, biased)
	f := &form{caches: []Cache{k.cache(k.window)}, mlp: k.mlp}
	if k.shared {
		f.caches[0].Kind = Shared
		for _, p := range params {
			if p.Rows.Split != Heads {
				f.params = append(f.params, p)
			}
		}
		f.params = append(f.params, norm("self_attn.q_norm", k.key))
		return f
	}
	f.params = append(params, norm("self_attn.q_norm", k.key), norm("self_attn.k_norm", k.key))
	return f
}

// kvShared reads how many of the last layers read earlier layers' caches.
func (r *reader) kvShared(layers int) int {
	n := r.opt("num_kv_shared_layers", 0)
	if n > layers {
		r.fail(problem.BadValue, "num_kv_shared_layers", "more than the %d layers", layers)
		return 0
	}
	return n
}

// widths reads the width of each layer's MLP, one for all or one a layer.
func (r *reader) widths(layers int) []int {
	widths := make([]int, layers)
	if _, isList := r.List("intermediate_size"); !isList {
		n := r.size("intermediate_size")
		for i := range widths {
			widths[i] = n
		}
		return widths
	}
	given := r.ints("intermediate_size")
	if len(given) != layers {
		r.fail(problem.BadValue, "intermediate_size", "%d entries for %d layers", len(given), layers)
		return nil
	}
	for i, n := range given {
		if n < 1 {
			r.fail(problem.BadValue, "intermediate_size", "entry %d is less than 1", i)
		}
	}
	return given
}

// gemma3nSide is what Gemma 3n has beside attention and MLP.
type gemma3nSide struct {
	streams   int // altup_num_inputs
	rank      int // laurel_rank
	perLayer  int // hidden_size_per_layer_input
	embedding int // vocab_size_per_layer_input
}

func (r *reader) gemma3nSide(hidden int) gemma3nSide {
	s := gemma3nSide{streams: r.size("altup_num_inputs"), rank: r.size("laurel_rank"),
		perLayer: r.size("hidden_size_per_layer_input"), embedding: r.size("vocab_size_per_layer_input")}
	r.times("altup_num_inputs", s.streams, r.times("altup_num_inputs", s.streams, hidden))
	return s
}

func (s gemma3nSide) params(hidden int) []Param {
	n, whole := s.streams, whole
	return []Param{
		linear("altup.correction_coefs", Other, whole(n), whole(n)),
		linear("altup.prediction_coefs", Other, whole(n*n), whole(n)),
		linear("altup.modality_router", Other, whole(n), whole(hidden)),
		norm("altup.router_norm", hidden),
		{Name: "altup.correct_output_scale", Part: Other, Rows: whole(hidden), DType: dtype.Float32},
		linear("laurel.linear_left", Other, sharded(s.rank, "laurel_rank"), whole(hidden)),
		linear("laurel.linear_right", Other, whole(hidden), sharded(s.rank, "laurel_rank")),
		norm("laurel.post_laurel_norm", hidden),
		linear("per_layer_input_gate", Other, whole(s.perLayer), whole(hidden)),
		linear("per_layer_projection", Other, whole(hidden), whole(s.perLayer)),
	}
}

// outer are the parameters outside of layers beside the usual ones.
func (s gemma3nSide) outer(hidden, layers int) []Param {
	params := perLayerEmbedding(s.embedding, s.perLayer, hidden, layers)
	for range s.streams - 1 {
		params = append(params,
			linear("model.altup_projections", Other, sharded(hidden, "hidden_size"), whole(hidden)),
			linear("model.altup_unembed_projections", Other, sharded(hidden, "hidden_size"), whole(hidden)))
	}
	return everywhere(params...)
}

// perLayerEmbedding is an embedding with width elements for each layer, and the projection
// of the token's own embedding to the same.
func perLayerEmbedding(vocab, width, hidden, layers int) []Param {
	return []Param{
		{Name: "model.embed_tokens_per_layer.weight", Part: Embedding, Rows: vocabulary(vocab), Cols: whole(layers * width)},
		linear("model.per_layer_model_projection", Other, sharded(layers*width, "hidden_size_per_layer_input"), whole(hidden)),
		norm("model.per_layer_projection_norm", width),
	}
}
