package model

// A decoder is what families say of a layer of the usual form: a norm, attention, a norm,
// an MLP. The zero decoder has RMS norms, no biases and an MLP without a gate.
type decoder struct {
	gated            bool // gate_proj beside up_proj
	qkvBias, outBias bool
	mlpBias          bool
	norms            []string // per layer, each [hidden]; nil: input_layernorm and post_attention_layernorm
	normBias         bool     // layer norm instead of RMS norm
	noFinalNorm      bool
	qkNorm           qkNorm
	intermediate     int   // width of the MLP; 0: intermediate_size
	tied             bool  // head and embedding are one tensor, whatever tie_word_embeddings says
	windows          []int // of each layer; nil: as the config says

	extra func(window int) []Param // further parameters of a layer
}

// qkNorm says over what queries and keys are normalised.
type qkNorm uint8

const (
	noQKNorm    qkNorm = iota
	normPerHead        // one weight of head dim, shared by the heads
	normWhole          // over all heads of the rank
)

// decoder resolves a model whose layers are all of d's form.
func (r *reader) decoder(d decoder) *Model {
	layers, h := r.layers(), r.heads()
	hidden, vocab := r.size("hidden_size"), r.size("vocab_size")
	if d.intermediate == 0 {
		d.intermediate = r.size("intermediate_size")
	}
	tied := d.tied || r.flag("tie_word_embeddings", false)
	if d.windows == nil {
		d.windows = r.windows(layers)
	}
	m := r.model()
	if r.err != nil {
		return m
	}
	m.HiddenSize, m.VocabSize, m.TiedEmbeddings = hidden, vocab, tied
	m.QueryHeads, m.KVHeads, m.HeadDim = h.query, h.kv, h.key
	m.Layers = perKind(d.windows, func(window int) *Layer {
		return &Layer{Caches: []Cache{h.cache(window)}, Params: d.params(h, hidden)}
	})
	m.Outer = append(r.embeddings(vocab, hidden, tied), d.finalNorm(hidden)...)
	return m
}

// params are the parameters of one layer.
func (d decoder) params(h heads, hidden int) []Param {
	params := attentionParams("self_attn", h, hidden, d.qkvBias, d.outBias)
	params = append(params, d.qkNorms(h)...)
	params = append(params, mlpParams("mlp", MLP, hidden, d.intermediate, d.gated, d.mlpBias)...)
	names := d.norms
	if names == nil {
		names = []string{"input_layernorm", "post_attention_layernorm"}
	}
	for _, name := range names {
		params = append(params, d.norm(name, hidden)...)
	}
	if d.extra != nil {
		params = append(params, d.extra(0)...)
	}
	return params
}

// norm is a norm of a width, with its bias where the family has one.
func (d decoder) norm(name string, width int) []Param {
	params := []Param{norm(name, width)}
	if d.normBias {
		params = append(params, Param{Name: name + ".bias", Part: Norm, Rows: whole(width)})
	}
	return params
}

func (d decoder) qkNorms(h heads) []Param {
	switch d.qkNorm {
	case normPerHead:
		return []Param{norm("self_attn.q_norm", h.key), norm("self_attn.k_norm", h.key)}
	case normWhole:
		q, k := norm("self_attn.q_norm", 0), norm("self_attn.k_norm", 0)
		q.Rows, k.Rows = queryHeads(h.query, h.key), kvHeads(h.kv, h.key)
		return []Param{q, k}
	}
	return nil
}

func (d decoder) finalNorm(hidden int) []Param {
	if d.noFinalNorm {
		return nil
	}
	params := d.norm("model.norm", hidden)
	for i := range params {
		params[i].Stage = LastStage
	}
	return params
}
