package model

import (
	"strings"

	"headcount/problem"
)

// jambaScores stand beside the language-model head, which the class keeps.
func jambaScores(c *Config, hidden, vocab, labels int) []Param {
	head := Param{Name: "lm_head.weight", Part: Head, Rows: vocabulary(vocab), Cols: whole(hidden), Stage: EveryStage}
	return append(scores(c, hidden, vocab, labels), head)
}

// jamba has one attention layer to seven of Mamba-1, and routed experts in every other
// layer (vllm jamba.py). It shards its head apart from the embedding, tied or not.
var jamba = family{
	name:          "jamba",
	architectures: []string{"JambaForCausalLM", "JambaModel", "JambaForSequenceClassification"},
	heads:         map[string]taskHead{"ForSequenceClassification": jambaScores},
	types:         []string{"jamba"},
	resolve: func(r *reader) *Model {
		layers, hidden, view := r.layers(), r.size("hidden_size"), r.heads()
		h := r.quotient(view)
		m := mamba1{
			State: State{Mixer: Mamba1, Inner: r.times("mamba_expand", r.size("mamba_expand"), hidden),
				StateSize: r.size("mamba_d_state"), Kernel: r.kernel("mamba_d_conv")},
			rank:     r.size("mamba_dt_rank"),
			field:    "mamba_expand",
			projBias: r.flag("mamba_proj_bias", false),
			convBias: r.flag("mamba_conv_bias", true),
			norms:    true,
		}
		if !r.valid(m.State, "mamba_expand") {
			return r.model()
		}
		d := decoder{
			gated: true, everyStage: true, untied: true,
			heads:   view,
			norms:   []string{"input_layernorm", "pre_ff_layernorm"},
			experts: r.experts("feed_forward", "num_experts", "intermediate_size"),
			sparse:  r.jambaSparse(layers),
			names:   jambaNames,
			rotary:  rotary{none: true},
			form: r.formByType(layers, map[string]*form{
				"linear_attention": {caches: []Cache{m.cache()}, params: m.params("mamba", hidden)},
				"full_attention":   {caches: []Cache{h.cache(0)}, params: attentionParams("self_attn", h, hidden, false, false)},
			}),
		}
		d.experts.router = "feed_forward.router"
		return r.decoder(d)
	},
}

// jambaNames are Jamba's names for LLaMA's.
var jambaNames = strings.NewReplacer("mlp.", "feed_forward.", "model.norm", "model.final_layernorm")

// jambaSparse returns whether a layer has experts: the class counts those of each layer,
// and a single one is a plain MLP.
func (r *reader) jambaSparse(layers int) func(layer int) bool {
	counts := r.ints("layers_num_experts")
	if len(counts) != layers {
		r.fail(problem.BadValue, "layers_num_experts", "%d entries for %d layers", len(counts), layers)
		return nil
	}
	return func(layer int) bool { return counts[layer] > 1 }
}
