package model

import "strings"

// qwen3Next has three layers of gated delta net to each one of attention, whose queries
// come with an output gate, and routed experts (vllm qwen3_next.py).
var qwen3Next = family{
	name:          "qwen3_next",
	architectures: []string{"Qwen3NextForCausalLM", "Qwen3NextModel"},
	types:         []string{"qwen3_next"},
	resolve: func(r *reader) *Model {
		d := r.deltaNetDecoder(qwen3NextProjections)
		d.nextN = r.nextAt("num_nextn_predict_layers", 1)
		d.everywhere, d.untied = []Part{Embedding, Head}, true
		d.experts, d.sparse = r.qwenExperts(), r.qwenSparse()
		d.experts.sharedGate = "mlp.shared_expert_gate"
		return r.decoder(d)
	},
}

// qwen3_5 is Qwen3-Next's layer without its fused projections, dense or with experts in
// every layer, alone or beside a tower (vllm qwen3_5.py).
var qwen3_5 = family{
	name:     "qwen3_5",
	textOnly: true,
	architectures: []string{"Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM", "Qwen3_5ForConditionalGeneration",
		"Qwen3_5MoeForConditionalGeneration", "Qwen3_5Model", "Qwen3_5MoeModel", "MiniCPMV4_6ForConditionalGeneration",
		"D3ForSequenceClassification", "ClefFlashForJointSchema"},
	types: []string{"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"},
	resolve: func(r *reader) *Model {
		d := r.deltaNetDecoder(qwen3_5Projections)
		d.nextN = r.nextAt("mtp_num_hidden_layers", 1)
		d.everywhere = []Part{Embedding}
		if r.ModelType() == "qwen3_5_moe_text" {
			d.experts = r.qwenExperts()
			d.experts.sharedGate = "mlp.shared_expert_gate"
		}
		return r.decoder(d)
	},
}

// A checkpoint's names of a delta net's projections: q, k, v, output gate, b, a.
var (
	qwen3NextProjections = [6]string{"in_proj_qkvz", "in_proj_qkvz", "in_proj_qkvz", "in_proj_qkvz", "in_proj_ba", "in_proj_ba"}
	qwen3_5Projections   = [6]string{"in_proj_qkv", "in_proj_qkv", "in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"}
)

// deltaNetDecoder reads layers of gated delta net and of gated attention.
func (r *reader) deltaNetDecoder(names [6]string) decoder {
	layers, hidden, h := r.layers(), r.size("hidden_size"), r.heads()
	d := r.deltaNet(names)
	gated, biased := r.flag("attn_output_gate", true), r.flag("qkv_bias", false)
	if r.err != nil || !r.valid(d.State, "linear_num_value_heads") {
		return decoder{}
	}
	var scales []Param
	if r.flag("layer_scale", false) {
		scales = []Param{{Name: "attn_layer_scale", Part: Attention, Rows: whole(hidden)}, {Name: "ffn_layer_scale", Part: Other, Rows: whole(hidden)}}
	}
	attention := &form{caches: []Cache{h.cache(0)}, params: gatedAttention(h, hidden, gated, biased)}
	return decoder{
		gated: true, heads: h, state: &d.State, nextForm: attention, nextJoin: shardedJoin(hidden),
		extra: func(int) []Param { return scales },
		form: r.formByType(layers, map[string]*form{
			"linear_attention": {caches: []Cache{d.cache()}, params: d.params("linear_attn", hidden)},
			"full_attention":   attention,
		}),
	}
}

// deltaNet reads a gated delta net.
func (r *reader) deltaNet(projections [6]string) deltaNet {
	d := deltaNet{
		State: State{Mixer: GatedDeltaNet, Kernel: r.kernel("linear_conv_kernel_dim"),
			Groups: r.size("linear_num_key_heads"), StateSize: r.size("linear_key_head_dim"),
			Heads: r.size("linear_num_value_heads"), HeadDim: r.size("linear_value_head_dim")},
		projections: projections,
	}
	d.DType, _ = r.Text("mamba_ssm_dtype")
	return d
}

// gatedAttention are the parameters of attention whose query projection gives, for each
// head, a gate of its output too.
func gatedAttention(h heads, hidden int, gated, biased bool) []Param {
	params := attentionParams("self_attn", h, hidden, biased, false)
	for i := range params {
		if gated && strings.Contains(params[i].Name, "q_proj") {
			params[i].Rows.Size, params[i].Rows.Unit = 2*params[i].Rows.Size, 2*params[i].Rows.Unit
		}
	}
	return append(params, norm("self_attn.q_norm", h.key), norm("self_attn.k_norm", h.key))
}
