package model

// granite is LLaMA's decoder that may have sliding layers among full ones and, in all of them, a
// sink a query head (vllm granite.py, granite_layer_attn_params).
var granite = family{
	name:          "granite",
	architectures: []string{"GraniteForCausalLM", "GraniteSWAForCausalLM"},
	types:         []string{"granite", "granite_swa", "granite4_vision_text"},
	resolve: func(r *reader) *Model {
		d := r.llama()
		d.heads = r.heads()
		d.extra = r.graniteSinks(d.heads)
		return r.decoder(d)
	},
}

// graniteSinks returns the sinks of a Granite layer, which a config that tells layers apart
// has unless attention_sinks says otherwise.
func (r *reader) graniteSinks(h heads) func(int) []Param {
	_, typed := r.List("layer_types")
	if !r.flag("attention_sinks", typed) {
		return nil
	}
	return func(int) []Param { return []Param{sinks("self_attn.sinks", h.query)} }
}
