package model

import (
	"slices"
	"strconv"
	"strings"

	"headcount/problem"
)

// step3 is multi-matrix factorisation attention: one KV head, and queries that pass
// through a narrow vector first. Projections into it are whole on every rank (vllm
// step3_text.py).
var step3 = family{
	name:          "step3_text",
	architectures: []string{"Step3TextForCausalLM", "Step3VLForConditionalGeneration"},
	types:         []string{"step3_text"},
	resolve: func(r *reader) *Model {
		h := heads{query: r.size("num_attention_heads"), kv: 1, key: r.opt("head_dim", 256)}
		h.value = h.key
		r.from("kv_heads", "1 in this architecture")
		e := r.experts("moe", "moe_num_experts", "moe_intermediate_size")
		e.shared, e.sharedWidth = "share_expert", r.size("share_expert_dim")
		query, hidden := r.opt("share_q_dim", 0), r.size("hidden_size")
		if query == 0 {
			query = h.key
		}
		m := r.decoder(decoder{gated: true, heads: h, experts: e, sparse: r.step3Sparse(r.layers())})
		for _, l := range distinct(m.Layers) {
			l.Params = slices.DeleteFunc(l.Params, func(p Param) bool { return p.Name == "self_attn.q_proj.weight" })
			for i, p := range l.Params {
				if p.Name == "self_attn.k_proj.weight" || p.Name == "self_attn.v_proj.weight" {
					l.Params[i].Rows.Split = Whole
				}
			}
			l.Params = append(l.Params,
				linear("self_attn.q_proj", Attention, whole(query), whole(hidden)),
				norm("self_attn.inter_norm", query),
				linear("self_attn.wq", Attention, queryHeads(h.query, h.key), whole(query)))
		}
		return m
	},
}

// step3Sparse returns whether a layer has experts: those that moe_layers_enum lists, or all
// but the first.
func (r *reader) step3Sparse(layers int) func(layer int) bool {
	enum, ok := r.Text("moe_layers_enum")
	if !ok {
		return sparseFrom(1, 1)
	}
	listed := make([]bool, layers)
	for s := range strings.SplitSeq(enum, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil {
			r.fail(problem.BadValue, "moe_layers_enum", "not numbers with commas between them")
			return sparseFrom(1, 1)
		}
		if 0 <= n && n < layers {
			listed[n] = true
		}
	}
	return func(layer int) bool { return listed[layer] }
}
