package model

import (
	"slices"
	"strings"
)

// A decoder is what families say of a layer of the usual form: a norm, attention, a norm,
// an MLP. The zero decoder has RMS norms, no biases and an MLP without a gate.
type decoder struct {
	gated            bool // gate_proj beside up_proj
	qkvBias, outBias bool
	squareOut        bool // attention's output projection is as wide as the layer, whatever its heads are
	mlpBias          bool
	norms            []string // per layer, each [hidden]; nil: input_layernorm and post_attention_layernorm
	normBias         bool     // layer norm instead of RMS norm
	noFinalNorm      bool
	qkNorm           qkNorm
	intermediate     int    // width of the MLP; 0: intermediate_size
	state            *State // of layers that have one, also where none does
	tied             bool   // head and embedding are one tensor, whatever tie_word_embeddings says
	windows          []int  // of each layer; nil: as the config says
	heads            heads  // zero: as the config says
	square           bool   // heads are as wide as hidden_size divides, whatever head_dim says
	ungrouped        bool   // as many KV heads as query heads, whatever the config says
	headless         bool   // there is no attention in any layer
	depth            int    // layers; 0: num_hidden_layers
	hidden           int    // width of a layer; 0: hidden_size
	encoder          bool   // attention sees the whole text and caches nothing
	vocab            int    // rows of embedding and head; 0: vocab_size
	positions        int    // rows of a learned table of positions; 0: none
	rotary           rotary // positions, where rope_parameters do not say it
	headBias         bool
	everyStage       bool   // embedding, final norm and head are built on each pipeline stage
	everywhere       []Part // of those, which are built on each stage
	untied           bool   // the head is a tensor of its own, whatever tie_word_embeddings says

	latent  *latent              // latent attention instead of heads; nil: none
	indexed []bool               // layers with an indexer of their own; nil: none
	experts experts              // routed experts instead of the MLP, if it has any
	sparse  func(layer int) bool // which layers have the experts; nil: all
	nextN   int                  // MTP layers that the checkpoint holds beside the decoder's

	nextForm   *form   // of an MTP layer; nil: the decoder's attention
	nextWindow int     // of an MTP layer's attention
	nextDense  bool    // an MTP layer has an MLP though the decoder's have experts
	nextJoin   []Param // what joins hidden state and embedding before an MTP layer; nil: DeepSeek's

	form func(layer int) *form // what a layer has in place of attention; nil: attention

	extra func(window int) []Param // further parameters of a layer
	names *strings.Replacer        // the checkpoint's names for LLaMA's; nil: the same

	byGroup    bool // queries, keys and values in one tensor lie by KV head
	transposed bool // attention's projections are stored as [in, out]
}

// qkNorm says over what queries and keys are normalised.
type qkNorm uint8

const (
	noQKNorm      qkNorm = iota
	normPerHead          // one weight of head dim, shared by the heads
	normWhole            // over all heads of the rank
	normUndivided        // over all heads of the model, on every rank
)

// decoder resolves a model whose layers are all of d's form.
func (r *reader) decoder(d decoder) *Model {
	layers, hidden := d.depth, d.hidden
	if layers == 0 {
		layers = r.layers()
	}
	if hidden == 0 {
		hidden = r.size("hidden_size")
	}
	if r.err != nil { // a depth that was refused is not built
		return r.model()
	}
	switch {
	case d.latent != nil:
		d.heads = d.latent.view()
	case d.heads == (heads{}) && !d.headless:
		d.heads = r.heads()
	}
	view := d.heads
	if d.square {
		d.heads = r.quotient(view)
	}
	if d.ungrouped {
		d.heads.kv = view.query
	}
	if d.vocab == 0 {
		d.vocab = r.size("vocab_size")
	}
	tied := d.tied || r.tied()
	if d.windows == nil {
		d.windows = r.windows(layers)
	}
	kinds := d.kinds(layers)
	r.markLocal(kinds)
	if d.intermediate == 0 && slices.ContainsFunc(kinds, layerKind.dense) {
		d.intermediate = r.size("intermediate_size")
	}
	m := r.model()
	if r.err != nil {
		return m
	}
	m.HiddenSize, m.VocabSize, m.TiedEmbeddings = hidden, d.vocab, tied
	m.QueryHeads, m.KVHeads, m.HeadDim = view.query, view.kv, view.key
	m.Experts, m.State = d.experts.count, d.state
	m.Layers = perKind(kinds, func(k layerKind) *Layer {
		return &Layer{Caches: d.caches(k), Params: d.params(k, hidden), Local: k.local}
	})
	m.Draft = d.draft(hidden)
	m.Outer = d.outer(r, hidden, tied && !d.untied)
	m.Ropes = r.ropes(d.rotary, d.turning())
	return m
}

// A form is what a layer has in place of the attention of its decoder, and of its MLP.
type form struct {
	caches []Cache
	params []Param
	mlp    int  // width of the MLP; 0: the decoder's
	alone  bool // neither MLP nor experts
}

// A layerKind is what the layers of one decoder differ in.
type layerKind struct {
	form    *form
	window  int
	sparse  bool // routed experts instead of the MLP
	indexed bool // an indexer of its own
	local   bool // of the sliding type, without a window
}

func (k layerKind) dense() bool {
	return !k.sparse && (k.form == nil || !k.form.alone && k.form.mlp == 0)
}

// kinds are the kinds of all layers in order.
func (d decoder) kinds(layers int) []layerKind {
	kinds := make([]layerKind, layers)
	for i := range kinds {
		kinds[i].sparse = d.experts.count > 0 && (d.sparse == nil || d.sparse(i))
		kinds[i].indexed = d.indexed != nil && d.indexed[i]
		if i < len(d.windows) {
			kinds[i].window = d.windows[i]
		}
		if d.form != nil {
			kinds[i].form = d.form(i)
		}
	}
	return kinds
}

// markLocal notes the layers of the sliding type in a config without a window: they see
// everything, and turn their heads as their type says.
func (r *reader) markLocal(kinds []layerKind) {
	if r.opt("sliding_window", 0) > 0 {
		return
	}
	types, _ := r.List("layer_types")
	for i, v := range types[:min(len(types), len(kinds))] {
		name, _ := v.Text()
		kinds[i].local = name == "sliding_attention"
	}
}

// caches are the caches of one layer; an indexer's comes before the latent's, as the
// engines build it first.
func (d decoder) caches(k layerKind) []Cache {
	switch {
	case d.encoder:
		return []Cache{{Kind: EncoderOnly, Attn: d.heads.geometry(), Window: k.window}}
	case k.form != nil:
		return k.form.caches
	case d.latent == nil:
		return []Cache{d.heads.cache(k.window)}
	case k.indexed:
		return []Cache{d.latent.indexer.cache(), d.latent.cache()}
	}
	return []Cache{d.latent.cache()}
}

// turning is the width of the heads of which positions turn a part.
func (d decoder) turning() int {
	if d.latent != nil {
		return d.latent.rope
	}
	return d.heads.key
}

// outer are the parameters outside of layers.
func (d decoder) outer(r *reader, hidden int, tied bool) []Param {
	params := r.embeddings(d.vocab, hidden, tied)
	if d.headBias {
		params = append(params, Param{Name: "lm_head.bias", Part: Head, Rows: vocabulary(d.vocab), Stage: LastStage})
	}
	if d.positions > 0 {
		params = append(params, Param{Name: "model.embed_positions.weight", Part: Embedding,
			Rows: whole(d.positions), Cols: whole(hidden), Stage: params[0].Stage})
	}
	params = append(params, d.finalNorm(hidden)...)
	for i := range params {
		if d.everyStage || slices.Contains(d.everywhere, params[i].Part) {
			params[i].Stage = EveryStage
		}
	}
	if d.names != nil {
		rename(params, d.names)
	}
	return params
}

// attention are the parameters of one layer's attention.
func (d decoder) attention(k layerKind, hidden int) []Param {
	if k.form != nil {
		return slices.Clone(k.form.params)
	}
	if d.latent == nil {
		params := attentionParams("self_attn", d.heads, hidden, d.qkvBias, d.outBias)
		for i := range params {
			params[i].ByGroup, params[i].Transposed = d.byGroup, d.transposed && params[i].Linear
			if d.squareOut && params[i].Role == Output {
				params[i].Cols = sharded(hidden, "hidden_size")
			}
		}
		return append(params, d.qkNorms(d.heads)...)
	}
	params := d.latent.params("self_attn", hidden)
	if k.indexed {
		params = append(params, d.latent.indexer.params("self_attn.indexer", d.latent.queryRank, hidden)...)
	}
	return params
}

// params are the parameters of one layer.
func (d decoder) params(k layerKind, hidden int) []Param {
	params := d.attention(k, hidden)
	params = append(params, d.feedForward(k, hidden)...)
	names := d.norms
	if names == nil {
		names = []string{"input_layernorm", "post_attention_layernorm"}
	}
	for _, name := range names {
		params = append(params, d.norm(name, hidden)...)
	}
	if d.extra != nil {
		params = append(params, d.extra(k.window)...)
	}
	if d.names != nil {
		rename(params, d.names)
	}
	return params
}

// feedForward are the parameters of what follows attention in one layer.
func (d decoder) feedForward(k layerKind, hidden int) []Param {
	width := d.intermediate
	if k.form != nil && k.form.mlp > 0 {
		width = k.form.mlp
	}
	switch {
	case k.form != nil && k.form.alone:
		return nil
	case k.sparse:
		return d.experts.params(hidden)
	}
	return mlpParams("mlp", MLP, hidden, width, d.gated, d.mlpBias)
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
		return append(d.norm("self_attn.q_norm", h.key), d.norm("self_attn.k_norm", h.key)...)
	case normUndivided:
		return []Param{norm("self_attn.q_norm", h.query*h.key), norm("self_attn.k_norm", h.kv*h.key)}
	case normWhole:
		q, k := norm("self_attn.q_norm", 0), norm("self_attn.k_norm", 0)
		q.Rows, k.Rows = queryHeads(h.query, h.key), kvHeads(h.kv, h.key)
		q.Role, k.Role = Queries, Keys
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
