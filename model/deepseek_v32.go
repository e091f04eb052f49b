package model

import "headcount/dtype"

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
// attention does; stretched positions are kept in float32.
func (r *reader) indexedRopes(m *Model) *Model {
	for i := range m.Ropes {
		if m.Ropes[i].Type == "yarn" || m.Ropes[i].Type == "deepseek_yarn" {
			m.Ropes[i].DType = dtype.Float32
		}
	}
	if !r.flag("indexer_rope_interleave", false) {
		for _, rope := range m.Ropes {
			rope.Apart = true
			m.Ropes = append(m.Ropes, rope)
		}
	}
	return m
}
