// Package attn is the arithmetic of one attention layer: what it caches per token, what
// a decode step reads and computes, and what tensor parallelism does to each.
package attn

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
