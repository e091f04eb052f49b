package model

import "headcount/dtype"

// gptOSS alternates sliding-window and full attention with sinks, and has routed experts
// with biases in every layer (vllm gpt_oss.py, where the embedding too is on each stage).
var gptOSS = family{
	name:          "gpt_oss",
	architectures: []string{"GptOssForCausalLM", "GptOssModel"},
	types:         []string{"gpt_oss"},
	resolve:       func(r *reader) *Model { return r.decoder(r.gptOSS()) },
}

// privacyFilter is gpt-oss reading in both directions, with a bias on what scores each
// token (vllm openai_privacy_filter.py).
var privacyFilter = family{
	name:          "openai_privacy_filter",
	architectures: []string{"OpenAIPrivacyFilterForTokenClassification"},
	types:         []string{"openai_privacy_filter"},
	heads:         map[string]taskHead{"ForTokenClassification": bertToken},
	resolve: func(r *reader) *Model {
		d := r.gptOSS()
		d.encoder = true
		return r.decoder(d)
	},
}

// gptOSS is what the two share.
func (r *reader) gptOSS() decoder {
	h := r.heads()
	e := r.experts("mlp", "num_local_experts", "intermediate_size")
	e.router, e.biased = "mlp.router", true
	return decoder{
		heads:      h,
		qkvBias:    true,
		outBias:    true,
		experts:    e,
		untied:     true,
		everyStage: true,
		rotary:     rotary{dtype: dtype.Float32},
		extra:      func(int) []Param { return []Param{sinks("self_attn.sinks", h.query)} },
	}
}
