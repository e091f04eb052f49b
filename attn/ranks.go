package attn

import (
	"strconv"
	"strings"

	"headcount/problem"
	"headcount/units"
)

// maxTP bounds the sizes that LegalTP tries; nobody splits a layer over more ranks.
const maxTP = 1 << 16

// QueryHeadsPerRank returns QueryHeads / tp. Query heads must divide; when they do not the
// error is a [*problem.Error] with code not_divisible and field num_attention_heads.
func (g Geometry) QueryHeadsPerRank(tp int) (int, error) {
	if err := checkTP(tp); err != nil {
		return 0, err
	}
	switch {
	case g.QueryHeads <= 0:
		return 0, problem.New(problem.BadValue, "num_attention_heads", g.QueryHeads, "not a positive number")
	case g.QueryHeads%tp != 0:
		return 0, g.notDivisible("num_attention_heads", g.QueryHeads, tp)
	}
	return g.QueryHeads / tp, nil
}

// KVHeadsPerRank returns the KV heads that one rank of tp holds: KVHeads / tp, or 1 when tp
// is a multiple of KVHeads and each head is replicated, as in most models of vLLM
// (vllm/config/model.py, ModelConfig.get_num_kv_heads). For MLA it is the one latent, whole
// on every rank. When neither of KVHeads and tp divides the other the error is a
// [*problem.Error] with code not_divisible and field num_key_value_heads.
func (g Geometry) KVHeadsPerRank(tp int) (int, error) {
	if err := checkTP(tp); err != nil {
		return 0, err
	}
	switch {
	case g.KVHeads <= 0:
		return 0, problem.New(problem.BadValue, "num_key_value_heads", g.KVHeads, "not a positive number")
	case g.Arch == MLA:
		return g.KVHeads, nil
	case g.KVHeads%tp == 0:
		return g.KVHeads / tp, nil
	case tp%g.KVHeads == 0:
		return 1, nil
	}
	return 0, g.notDivisible("num_key_value_heads", g.KVHeads, tp)
}

// Rank returns what one rank of tp has of the layer, as a layer of its own: its share of the
// query heads and of the KV heads. Errors are those of [Geometry.Validate],
// [Geometry.QueryHeadsPerRank] and [Geometry.KVHeadsPerRank].
func (g Geometry) Rank(tp int) (Geometry, error) {
	if err := g.Validate(); err != nil {
		return Geometry{}, err
	}
	queries, err := g.QueryHeadsPerRank(tp)
	if err != nil {
		return Geometry{}, err
	}
	kv, err := g.KVHeadsPerRank(tp)
	if err != nil {
		return Geometry{}, err
	}
	g.QueryHeads, g.KVHeads = queries, kv
	return g, nil
}

// Replication returns how many of tp ranks hold each KV head, or the latent: 1 means that
// every byte of the cache is on one rank only, and more that the rest is repetition. Errors
// are those of [Geometry.KVHeadsPerRank].
func (g Geometry) Replication(tp int) (int, error) {
	if _, err := g.KVHeadsPerRank(tp); err != nil {
		return 0, err
	}
	if g.Arch == MLA {
		return tp, nil
	}
	return max(1, tp/g.KVHeads), nil
}

// ElemsPerToken returns the elements one token adds to this layer's cache on one rank of tp:
//
//	MHA   max(1, KVHeads/tp) · (KeyDim + ValueDim)
//	MLA   KeyDim, whole on every rank
//
// Errors are those of [Geometry.KVHeadsPerRank], or bad_value when the count overflows.
func (g Geometry) ElemsPerToken(tp int) (int64, error) {
	heads, err := g.KVHeadsPerRank(tp)
	if err != nil {
		return 0, err
	}
	width, ok := g.width()
	if ok {
		width, ok = units.Mul(int64(heads), width)
	}
	if !ok {
		return 0, g.tooLarge()
	}
	return width, nil
}

// BytesPerToken is [Geometry.ElemsPerToken] in bytes, for elements of elemBytes each.
func (g Geometry) BytesPerToken(tp int, elemBytes int64) (units.Bytes, error) {
	elems, err := g.ElemsPerToken(tp)
	if err != nil {
		return 0, err
	}
	n, ok := units.Mul(elems, elemBytes)
	if !ok {
		return 0, g.tooLarge()
	}
	return units.Bytes(n), nil
}

// LegalTP returns the tensor parallel sizes up to limit over which both the query heads and
// the KV heads can be split, in rising order. Other widths of the model, which the layer
// does not know, may forbid some of them.
func (g Geometry) LegalTP(limit int) []int {
	var legal []int
	for tp := 1; tp <= min(limit, g.QueryHeads, maxTP); tp++ {
		if g.QueryHeads%tp == 0 && g.kvHeadsSplit(tp) {
			legal = append(legal, tp)
		}
	}
	return legal
}

// kvHeadsSplit reports whether KVHeadsPerRank(tp) succeeds.
func (g Geometry) kvHeadsSplit(tp int) bool {
	return g.KVHeads > 0 && (g.Arch == MLA || g.KVHeads%tp == 0 || tp%g.KVHeads == 0)
}

// checkTP refuses a tensor parallel size that is none.
func checkTP(tp int) error {
	if tp < 1 {
		return problem.New(problem.BadValue, "tensor_parallel_size", tp, "not a positive number")
	}
	return nil
}

// notDivisible names the field and, as the remedy, the sizes near tp that would do.
func (g Geometry) notDivisible(field string, heads, tp int) error {
	err := problem.New(problem.NotDivisible, field, heads, "not divisible by tensor parallel size %d", tp)
	legal := g.LegalTP(max(16, 2*min(tp, maxTP)))
	if len(legal) == 0 {
		return err
	}
	const most = 12
	sizes := make([]string, 0, most)
	for _, size := range legal[:min(len(legal), most)] {
		sizes = append(sizes, strconv.Itoa(size))
	}
	return err.WithHint("legal tensor parallel sizes: %s", strings.Join(sizes, ", "))
}
