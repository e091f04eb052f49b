// Package attn is the arithmetic of one attention layer: what it caches per token, what
// a decode step reads and computes, and what tensor parallelism does to each.
//
// Everything here is per layer and, where a tensor parallel size is given, per rank. A
// whole model is the sum over its layers, which is package model's and the engines'.
package attn

import (
	"strconv"

	"headcount/problem"
	"headcount/units"
)

// Arch is the code path of decode attention. There are two: MQA and GQA are MHA with
// fewer KV heads.
type Arch uint8

const (
	MHA Arch = iota // K and V per KV head
	MLA             // one latent per token, whole on every rank
)

// String is "MHA" or "MLA".
func (a Arch) String() string {
	if a == MLA {
		return "MLA"
	}
	return "MHA"
}

// Geometry is the shape of one attention layer as a serving engine caches it, before
// any split over ranks. The zero Geometry is invalid. Geometry is comparable.
type Geometry struct {
	Arch       Arch
	QueryHeads int // num_attention_heads
	KVHeads    int // num_key_value_heads; 1 for MLA
	KeyDim     int // elements cached per KV head as key; MLA: kv_lora_rank + qk_rope_head_dim
	ValueDim   int // elements cached per KV head as value; MLA: 0, the value is read from the key
	LatentDim  int // MLA: the leading elements of the key that serve as value; otherwise 0
}

// Validate reports the first field that cannot belong to an attention layer: a count that
// is not positive, query heads that are not a multiple of the KV heads, a latent where
// there is none or wider than the key. The error is a [*problem.Error].
func (g Geometry) Validate() error {
	for _, f := range [...]struct {
		field string
		n     int
	}{
		{"num_attention_heads", g.QueryHeads}, {"num_key_value_heads", g.KVHeads}, {"head_dim", g.KeyDim},
	} {
		if f.n <= 0 {
			return problem.New(problem.BadValue, f.field, f.n, "not a positive number")
		}
	}
	if g.Arch == MLA {
		return g.validateLatent()
	}
	switch {
	case g.Arch != MHA:
		return problem.New(problem.BadValue, "attention_arch", int(g.Arch), "neither MHA nor MLA")
	case g.ValueDim <= 0:
		return problem.New(problem.BadValue, "v_head_dim", g.ValueDim, "not a positive number")
	case g.LatentDim != 0:
		return problem.New(problem.BadValue, "kv_lora_rank", g.LatentDim, "a latent in a layer that caches keys and values")
	case g.QueryHeads%g.KVHeads != 0:
		return problem.New(problem.NotDivisible, "num_attention_heads", g.QueryHeads, "not a multiple of num_key_value_heads %d", g.KVHeads)
	}
	return nil
}

// validateLatent is Validate for what MLA adds.
func (g Geometry) validateLatent() error {
	switch {
	case g.KVHeads != 1:
		return problem.New(problem.BadValue, "num_key_value_heads", g.KVHeads, "a latent is one head for all query heads")
	case g.ValueDim != 0:
		return problem.New(problem.BadValue, "v_head_dim", g.ValueDim, "a latent caches no value beside the key")
	case g.LatentDim <= 0 || g.LatentDim > g.KeyDim:
		return problem.New(problem.BadValue, "kv_lora_rank", g.LatentDim, "not between 1 and the %d cached elements", g.KeyDim)
	}
	return nil
}

// GroupSize is the number of query heads that read one KV head; for MLA all of them read
// the one latent. It is 0 for a Geometry without KV heads.
func (g Geometry) GroupSize() int {
	if g.KVHeads <= 0 {
		return 0
	}
	return g.QueryHeads / g.KVHeads
}

// Variant is the name that people give the layer: "MHA", "MQA", "MLA", or "GQA-8" for 8
// KV heads. It is for printing; nothing branches on it.
func (g Geometry) Variant() string {
	switch {
	case g.Arch == MLA:
		return "MLA"
	case g.KVHeads == g.QueryHeads:
		return "MHA"
	case g.KVHeads == 1:
		return "MQA"
	}
	return "GQA-" + strconv.Itoa(g.KVHeads)
}

// width is the elements cached per KV head and token, or false if that overflows.
func (g Geometry) width() (int64, bool) { return units.Add(int64(g.KeyDim), int64(g.ValueDim)) }

// tooLarge is the problem of a layer whose numbers do not fit an int64.
func (g Geometry) tooLarge() error {
	return problem.New(problem.BadValue, "head_dim", g.KeyDim, "cache of one token is too large to count")
}
