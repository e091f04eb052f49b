package model

import "strings"

// cohere2 has three sliding layers to each full one; attention and MLP run side by side
// after one layer norm, whose bias the engines leave out. The head is the embedding.
var cohere2 = family{
	name:          "cohere2",
	architectures: []string{"Cohere2ForCausalLM", "Cohere2Model", "Cohere2VisionForConditionalGeneration"},
	types:         []string{"cohere2"},
	resolve: func(r *reader) *Model {
		d := decoder{gated: true, norms: []string{"input_layernorm"}, tied: true, everyStage: true, windows: r.cohere2Windows()}
		if r.cohere2Wrapped() { // Transformers' class has biases and no norms, the engines' the other way about
			bias := r.flag("attention_bias", false)
			d.qkvBias, d.outBias = bias, bias
		} else if r.flag("use_qk_norm", false) {
			d.qkNorm = normWhole
		}
		return r.decoder(d)
	},
}

// cohere2Wrapped reports whether Transformers' own modules serve the model, as inside of another's
// wrapper.
func (r *reader) cohere2Wrapped() bool {
	return r.arch != "" && !strings.HasPrefix(r.arch, "Cohere2")
}

// cohere2Windows are the windows as the serving class counts them: a sliding layer sees
// sliding_window tokens and then the token itself, one more than the config says (vllm
// commandr.py). A wrapper that Transformers' own modules serve keeps to the config.
func (r *reader) cohere2Windows() []int {
	windows := r.windows(r.layers())
	if r.cohere2Wrapped() {
		return windows
	}
	for i := range windows {
		if windows[i] > 0 {
			windows[i]++
		}
	}
	return windows
}
