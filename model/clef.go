package model

// clefFlashTower is Qwen3.5's encoder, and the head that chooses among the options of several
// questions at once (vllm clef_flash.py).
func clefFlashTower(t *towers) {
	qwen3VLTower(t)
	t.jointHead()
}

// jointHead adds the head that reads the final hidden states of a whole prompt: it routes
// options through them, then fields, and scores each pair (vllm clef_joint_schema.py,
// JointSchemaHead). Its modules are torch's own, whole on every rank of each stage.
func (t *towers) jointHead() {
	const at = "pooler.head."
	c := t.sub("joint_head_config")
	hidden, width, inner := c.size("hidden_size"), c.size("width"), c.size("feedforward")
	first := len(t.params)
	t.torch, t.stage = true, EveryStage
	t.norm(at+"hidden_norm", hidden, true)
	for _, name := range []string{"memory", "question", "option_question", "global", "option_context", "option_lexical"} {
		t.linear(at+name+"_projection", whole(width), whole(hidden), false)
	}
	t.plain(at+"type_embedding.weight", 3, width)
	t.layers(c.opt("routing_layers", 0), func() {
		const layer = at + "evidence_layers.*."
		t.torchAttention(layer+"attention", width)
		t.torchMLP(layer+"feedforward.0", layer+"feedforward.3", width, inner)
		for _, name := range []string{"query_norm", "memory_norm", "feedforward_norm"} {
			t.norm(layer+name, width, true)
		}
	})
	t.layers(c.opt("layers", 0), func() {
		const layer = at + "layers.*."
		t.torchAttention(layer+"self_attn", width)
		t.torchAttention(layer+"multihead_attn", width)
		t.torchMLP(layer+"linear1", layer+"linear2", width, inner)
		for _, name := range []string{"norm1", "norm2", "norm3"} {
			t.norm(layer+name, width, true)
		}
	})
	for _, name := range []string{"option_summary_norm", "field_norm", "option_norm"} {
		t.norm(at+name, width, true)
	}
	t.linear(at+"residual_scorer.0", whole(width), whole(4*width), true)
	t.linear(at+"residual_scorer.3", whole(1), whole(width), true)
	for _, name := range []string{"prior_logit_scale", "joint_logit_scale", "residual_gate"} {
		t.plain(at+name, 1)
	}
	for i := range t.params[first:] {
		t.params[first+i].Part = Head
	}
}

// torchAttention adds PyTorch's own attention, whose projections in lie in one tensor.
func (t *towers) torchAttention(name string, width int) {
	t.plain(name+".in_proj_weight", 3*width, width)
	t.plain(name+".in_proj_bias", 3*width)
	t.linear(name+".out_proj", whole(width), whole(width), true)
}

// torchMLP adds two projections with biases.
func (t *towers) torchMLP(up, down string, width, inner int) {
	t.linear(up, whole(inner), whole(width), true)
	t.linear(down, whole(width), whole(inner), true)
}
