package vllm

import (
	"strings"

	"headcount/problem"
	"headcount/weights"
)

// flashInferMoE is the multiple to which FlashInfer's TensorRT kernel for unquantised
// experts pads a rank's slice, on compute capability 10.x
// (model_executor/layers/fused_moe/oracle/unquantized.py).
const flashInferMoE = 128

// weigh fills in what each stage's parameters and buffers take as they are created. A dimension that
// does not divide stops the engine while it builds the model.
func (p *plan) weigh() *problem.Error {
	s := &p.setup
	b := weights.Build{Layout: s.layout, Spans: p.spans, DType: s.dtype, ByPlan: s.v.transformers, NoHead: s.v.embeds}
	if s.gpu.major == 10 {
		b.Experts.Divided = flashInferMoE
	}
	if buffers, ok := weights.Buffers(s.v.model, b); ok {
		for i := range buffers {
			p.result.Ranks[i].BufferBytes = &buffers[i]
		}
	}
	stages, err := weights.Stages(s.v.model, b)
	if err != nil {
		refusal := err.(*problem.Error)
		if refusal.Code != problem.NotKnown {
			return refusal
		}
		p.note("weights-not-known", "info", strings.TrimPrefix(refusal.Message, "weights: "), "")
		return nil
	}
	for i := range stages {
		r := &p.result.Ranks[i]
		r.Parameters, r.WeightBytes, r.Weights = &stages[i].Parameters, &stages[i].Bytes, &stages[i].ByPart
	}
	return nil
}
