package model

import (
	"slices"

	"headcount/dtype"
)

// deepSeekSparse are DeepSeek-V3.2 and GLM-5: DeepSeek-V3 whose attention reads only the
// tokens that an indexer chose (vllm models/deepseek_v32). A layer with an indexer of its
// own has a second cache, for the indexer's keys.
var deepSeekSparse = family{
	name:          "deepseek_v32",
	architectures: []string{"DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"},
	types:         []string{"deepseek_v32", "glm_moe_dsa"},
	resolve: func(r *reader) *Model {
		d := r.latentDecoder(r.deepSeekDecoder())
		if d.indexed == nil {
			d.latent.indexer, d.indexed = r.indexer(), r.indexed(r.layers())
		}
		return r.indexedRopes(r.decoder(d))
	},
}

// indexedRopes gives the indexer a table of its own, unless it turns pairs of elements as
// attention does.
func (r *reader) indexedRopes(m *Model) *Model {
	exactRopes(m)
	if !r.flag("indexer_rope_interleave", false) {
		for _, rope := range m.Ropes {
			rope.Apart = true
			m.Ropes = append(m.Ropes, rope)
		}
	}
	return m
}

// exactRopes keeps tables of stretched positions in float32, as vLLM does where it compiles
// nothing and a kernel takes heads of the width (layers/rotary_embedding/deepseek_scaling_rope.py).
func exactRopes(m *Model) {
	for i := range m.Ropes {
		r := &m.Ropes[i]
		if r.Type != "default" && slices.Contains([]int{64, 128, 256, 512}, r.Dim) {
			r.DType = dtype.Float32
		}
	}
}
