package sglang

import (
	"strings"

	"headcount/layout"
	"headcount/model"
	"headcount/problem"
	"headcount/weights"
)

// weigh fills in what each stage's parameters take, as far as the config tells. The engine
// finds out what does not divide only when it loads a model, after what is planned here,
// so that is a note and no refusal. Under attention DP attention and embedding are shared
// by the ranks of attention TP, all else by all (layers/dp_attention.py).
func (a *answer) weigh(m *model.Model) {
	f, s := &a.flags, &a.setup
	b := weights.Build{Layout: f.lay, DType: f.dtype, AttentionTP: int(f.attnTP)}
	if f.lay.DPAttention {
		b.Layout.DP = 1
	}
	layers := len(m.Layers)
	for i := range s.stages {
		start, end := int(s.stages[i].start), int(s.stages[i].end)
		b.Spans = append(b.Spans, layout.Span{Start: min(start, layers), End: min(end, layers)})
	}
	stages, err := weights.Stages(m, b)
	if err != nil {
		p := err.(*problem.Error)
		id, severity := "weights-not-known", "info"
		if p.Code == problem.NotDivisible {
			id, severity = "weights-not-divisible", "warning"
		}
		a.note(id, severity, strings.TrimPrefix(p.Message, "weights: "), "")
		return
	}
	if m.Towers {
		a.note("towers-as-vllm", "info", "towers are counted as vLLM divides them, which SGLang may do otherwise", "")
	}
	for i := range stages {
		r := &a.Ranks[i]
		r.Parameters, r.WeightBytes, r.Weights = &stages[i].Parameters, &stages[i].Bytes, &stages[i].ByPart
	}
}
