// Package model turns a checkpoint's config into what the checkpoint is: an ordered list
// of layers, each with what it caches and the parameters it holds, whole and unsplit.
//
// A family is one file: the architectures it serves, the fields it reads, the caches and
// the parameters of its layers. The package knows no rank and no engine; where two
// engines read one checkpoint differently, each does so from the same Model.
package model

import (
	"slices"
	"strings"
	"sync"

	"headcount/attn"
	"headcount/checkpoint"
	"headcount/dtype"
)

// A Model is one checkpoint's architecture. Equal layers share one *Layer, so a
// homogeneous model has as many entries in Layers as layers and one distinct pointer.
// A Model is immutable once resolved and may be shared between goroutines.
type Model struct {
	Name         string // as the caller named it
	Architecture string // the first of architectures, as the file has it
	ModelType    string // model_type of the file
	TextType     string // model_type of the text config; ModelType when there is no nested one
	Family       string // the family that resolved it
	Guessed      bool   // by the fields that all configuration classes have: no family knows the architecture

	Config *Config // the config as its Transformers class presents it; engines read their own fields here

	// Whole-model values, as a config states them. Layers may differ from these.
	HiddenSize, VocabSize        int
	QueryHeads, KVHeads, HeadDim int
	Experts                      int // routed experts; 0 for dense models
	ExpertsPerToken              int // routed experts that one token visits
	TiedEmbeddings               bool

	Layers []*Layer // the decoder's layers in order (an encoder-decoder's: see Caches of each)
	Draft  []*Layer // layers of the checkpoint's own MTP heads, loaded only when speculation is on
	Outer  []Param  // parameters outside of layers: embedding, final norm, head, towers
	Ropes  []Rope   // rotary positions; nil: none

	// State is what the config says of recurrent layers, where it does so though no layer need
	// be one.
	State *State

	// Buffers are tensors outside of layers that are computed, not loaded.
	Buffers []Param

	// Towers: the checkpoint holds more than a text model. Outer lists what, unless
	// WeightsUnknown says that it is not known.
	Towers bool

	// TextOnly: the architecture is the language model alone, whatever else the file describes.
	TextOnly bool

	// WeightsUnknown says why Params cannot be relied on (a tower whose rule is not known);
	// empty when they are exact.
	WeightsUnknown string

	// Quantization is the method by which the checkpoint says that its weights are stored
	// (see [Config.Quantization]), "" for unquantised. Params are those before it.
	Quantization string

	// Tensors are the checkpoint's own, where their headers were read.
	Tensors []checkpoint.Tensor

	Provenance map[string]string // field of the report ← where it came from
	Oddities   []Oddity          // what is legal and seldom meant

	memo   sync.Map // see Memo
	family *family
}

// A Layer is one decoder layer: what it caches, in the order in which engines build
// their caches, and the parameters it holds. No cache means no attention, or an earlier
// layer's cache.
type Layer struct {
	Caches  []Cache
	Params  []Param
	Buffers []Param // tensors that are computed, not loaded
	Local   bool    // of the sliding type in layer_types, though the config has no window
	Turns   string  // LayerType of the rope that turns its heads, where neither its cache nor Local tells; "none": no rope does
}

// Attends reports whether the layer has an attention.
func (l *Layer) Attends() bool {
	return slices.ContainsFunc(l.Caches, func(c Cache) bool { return c.Kind != Recurrent && c.Kind != None })
}

// Kind says what a cache holds.
type Kind string

// The kinds that a Cache may have; the names are those of the report.
const (
	Full          Kind = "full_attention"     // K and V of every token
	Sliding       Kind = "sliding_window"     // K and V of the last Window tokens
	Chunked       Kind = "chunked_local"      // K and V of the current chunk of Window tokens
	Latent        Kind = "mla"                // one latent a token
	SlidingLatent Kind = "sliding_window_mla" // one latent a token, the last Window tokens
	Indexer       Kind = "indexer"            // index keys of a sparse-attention indexer
	Recurrent     Kind = "mamba"              // a fixed state per request: Mamba, delta net, convolution
	Ring          Kind = "circular_buffer"    // K of the tokens that wait to be compressed, one block a request
	Cross         Kind = "cross_attention"    // K and V of the encoder's tokens
	EncoderOnly   Kind = "encoder_only"       // nothing
	Shared        Kind = "shared"             // nothing: reads an earlier layer's cache
	None          Kind = "none"               // nothing: no attention in this layer
)

// Words is the kind as text shows it: "sliding window".
func (k Kind) Words() string { return strings.ReplaceAll(string(k), "_", " ") }

// A Cache is one thing a layer keeps per token or per request, before any split.
type Cache struct {
	Kind   Kind
	Attn   attn.Geometry // attention and latent kinds; indexer: KeyDim is the index head dim
	Window int           // tokens: width of a sliding window or chunk; 0 otherwise

	// Expanded is the same attention without the latent, [QueryHeads, nope + rope] keys and
	// [QueryHeads, v] values, for an engine that does not absorb it. Latent kinds only.
	Expanded attn.Geometry

	Sinks int        // learned tokens before those of every request; 0: none
	Ratio int        // compressed latents, indexers and rings: tokens per cached state; 0 or 1: one state a token
	DType dtype.Type // set when it is kept in this format whatever the cache's
	State State      // Recurrent only
}

// Convolved reports whether the cache holds what short convolutions read of the last Window
// tokens, and no values.
func (c *Cache) Convolved() bool { return c.Kind == Sliding && c.Attn.ValueDim == 0 }

// A Mixer is a layer that keeps a state instead of a cache that grows.
type Mixer string

const (
	Mamba1          Mixer = "mamba1"
	Mamba2          Mixer = "mamba2"
	GatedDeltaNet   Mixer = "gated_delta_net"
	KDA             Mixer = "kda"
	ShortConv       Mixer = "short_conv"
	LinearAttention Mixer = "linear_attention"
	RGLRU           Mixer = "rg_lru"
)

// A State is the shape of a recurrent layer's state, whole model. Which numbers apply
// depends on the Mixer; a convolution keeps Kernel − 1 inputs of each channel:
//
//	mamba1                    Inner channels; state [Inner, StateSize]
//	mamba2                    Inner + 2·Groups·StateSize channels; state [Heads, HeadDim, StateSize]
//	gated_delta_net, kda      2·Groups·StateSize + Heads·HeadDim channels; state [Heads, HeadDim, StateSize]
//	short_conv                Inner channels; no other state
//	linear_attention          no convolution; state [Heads, HeadDim, StateSize]
//	rg_lru                    Inner channels; state [Inner]
type State struct {
	Mixer     Mixer
	Kernel    int    // taps of the causal convolution; 0: none
	Inner     int    // intermediate width
	Groups    int    // Mamba-2: groups of B and C; delta net, KDA: key heads
	Heads     int    // heads of the recurrent state; delta net, KDA: value heads
	HeadDim   int    // width of a head's value
	StateSize int    // N of a state-space layer; delta net, KDA, linear attention: width of a head's key
	DType     string // dtype the config asks for the recurrent state, "" if it says nothing
}

// A Part says which bill a parameter goes on.
type Part string

const (
	Embedding  Part = "embedding"
	Head       Part = "lm_head"
	Attention  Part = "attention" // and every other mixer
	MLP        Part = "mlp"
	MoEExperts Part = "moe_experts"
	MoERouter  Part = "moe_router"
	MoEShared  Part = "moe_shared"
	Norm       Part = "norm"
	Tower      Part = "vision" // vision or audio tower and its projector
	Pooler     Part = "pooler" // of an encoder's base model; engines' own classes leave it out
	Other      Part = "other"
)

// A Param is one parameter tensor as the checkpoint names and shapes it, whole model,
// [Rows, Cols], before an engine fuses or splits it. A vector has Cols.Size 0.
type Param struct {
	Name string // inside its layer, "self_attn.q_proj"; outside of layers, "model.embed_tokens"
	Part Part
	Rows Axis
	Cols Axis

	Experts int        // > 0: one such tensor per routed expert
	DType   dtype.Type // set when the engine keeps it in another format than the model's
	Linear  bool       // a projection that quantisation may pack; false for norms, biases, embeddings
	Stage   Stage      // where pipeline parallelism puts it; only outside of layers
	Evenly  int        // > 0: ranks that do not divide this number hold it whole, as some towers' heads
	Times   int        // such tensors, of a tower's equal layers, which share the name; only outside of layers; 0: one

	// Role is what attention takes the rows for, of Output the columns. Parameters of one
	// name and several roles lie in one tensor, one after the other along its rows; ByGroup,
	// one KV head after the other, of each its queries, then its key, then its value.
	Role       Role
	ByGroup    bool
	Transposed bool // stored as [Cols, Rows]

	PerToken bool // a buffer with as many rows as a step has tokens

	// OffPlan: the Transformers class's own tensor parallel plan leaves it whole. Only an
	// engine that runs that class by its plan heeds it.
	OffPlan bool

	// Apart: a module of its own in the model's class, though others join it with its
	// siblings, so that quantisation gives it tensors of its own.
	Apart bool

	fused bool // a projection that such an engine fuses with its siblings and then shards
}

// A Role is what attention does with a parameter's rows.
type Role uint8

const (
	NoRole Role = iota
	Queries
	Keys
	Values
	Output // the projection that takes every head's values back
)

// A Split says what tensor parallelism does to an axis.
type Split uint8

const (
	Whole   Split = iota // on every rank
	Sharded              // divided; must divide
	Heads                // divided by KV heads of Unit elements; replicated when ranks exceed heads
	Vocab                // padded to a multiple of 64, then divided
	Filler               // what pads Least elements and a share of Size up to a multiple of Unit
)

// An Axis is one dimension of a Param.
type Axis struct {
	Size  int
	Split Split
	Unit  int    // Heads and Sharded: elements of one head, 0 for none
	Block int    // Sharded: each of several ranks holds whole blocks of so many, one more where they do not divide; 0: no such rule
	Least int    // Sharded: what a rank holds at least, padded up to it; 0: no such rule
	Share int    // Sharded: the same of each of several ranks
	Drops bool   // Sharded: what is left over where ranks do not divide it is on none
	Field string // the config field it comes from, for a refusal that names it
}

// A Stage is a place of a parameter outside of layers in a pipeline.
type Stage uint8

const (
	FirstStage Stage = iota
	LastStage
	EveryStage
	BothEnds // first and last, as a tied embedding
)

// Widths are the widest dense MLP and the widest routed expert, whole model; 0: none.
func (m *Model) Widths() (mlp, expert int) {
	for i, l := range m.Layers {
		if i > 0 && l == m.Layers[i-1] {
			continue
		}
		for _, p := range l.Params {
			switch {
			case !p.Linear || p.Rows.Split != Sharded:
			case p.Part == MLP:
				mlp = max(mlp, p.Rows.Size)
			case p.Part == MoEExperts:
				expert = max(expert, p.Rows.Size)
			}
		}
	}
	return mlp, expert
}
