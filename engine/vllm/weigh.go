package vllm

import (
	"strings"

	"headcount/dtype"
	"headcount/problem"
	"headcount/weights"
)

// flashInferMoE is the multiple to which FlashInfer's TensorRT kernel for unquantised
// experts pads a rank's slice, on compute capability 10.x
// (model_executor/layers/fused_moe/oracle/unquantized.py).
const flashInferMoE = 128

// buildOf is how the engine creates a model's parameters.
func (p *plan) buildOf() weights.Build {
	s := &p.setup
	b := weights.Build{Layout: s.layout, Spans: p.spans, DType: s.dtype, Length: int(s.maxLen), Step: s.tokens, ByPlan: s.v.transformers, NoHead: s.v.embeds, NoTower: s.opt.LanguageModelOnly}
	b.FusedKDA = s.v.kimiK3() && s.drafts == 0 &&
		(s.gpu.major == 9 && s.gpu.minor == 0 || s.gpu.major == 10 || s.gpu.major == 12)
	if s.v.model.Family == "nemotron_h" && !(s.gpu.major == 9 && s.gpu.minor == 0) && s.gpu.major != 10 {
		b.Router = dtype.Float32 // no kernel computes so from narrower weights (fused_moe/router/gate_linear.py)
	}
	if s.gpu.major == 10 {
		b.AllExpertScales = true // FlashInfer's kernels (fused_moe/oracle/nvfp4.py)
		if s.v.tensorRTRoutes() {
			b.Experts.Divided = flashInferMoE
		}
	}
	b.MXFP4Experts, b.GPTOSSExperts = s.gpu.mxfp4Experts()
	b.Swizzled, b.KeepsScales = s.ragged(), s.rules.scalesTwice
	return b
}

// weigh fills in what each stage's parameters and buffers take as they are created. A dimension that
// does not divide stops the engine while it builds the model.
func (p *plan) weigh() *problem.Error {
	s, b := &p.setup, p.buildOf()
	if p.named {
		p.result.Startup.Loading = weights.Allocated(s.v.model, b)
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

// tensorRTRoutes reports whether FlashInfer's TensorRT kernel for unquantised experts knows
// the model's routing and activation (fused_moe/experts/trtllm_bf16_moe.py): it wants SiLU
// or squared ReLU, and of softmax routing the renormalised kind without a bias.
func (v *view) tensorRTRoutes() bool {
	switch v.arch {
	case "OlmoeForCausalLM", "JambaForCausalLM", "LongcatFlashForCausalLM",
		"Ernie4_5_MoeForCausalLM", "Ernie4_5_VLMoeForConditionalGeneration",
		"Gemma4ForCausalLM", "Gemma4ForConditionalGeneration":
		return false
	}
	renormalised, given := v.model.Config.Bool("norm_topk_prob")
	return (renormalised || !given) && v.model.ModelType != "phimoe" // which has a router of its own
}

// mxfp4Experts is how far kernels for experts in MXFP4 pad what a rank holds of each: the
// one that a checkpoint of any model gets, and gpt-oss's (fused_moe/oracle/mxfp4.py,
// mxfp4_round_up_hidden_size_and_intermediate_size). Triton, which gpt-oss gets on compute
// capability 9.x and 11.x, and Humming, which is before Marlin on 9.0, leave the hidden
// size as it is.
func (d device) mxfp4Experts() (any, gptOSS weights.Padding) {
	tiles := weights.Padding{Divided: 128, Whole: 256} // Marlin, TensorRT
	narrow := weights.Padding{Divided: 64}
	any, gptOSS = tiles, tiles
	switch {
	case d.cpu:
		lanes := weights.Padding{Divided: 32, Whole: 32}
		return lanes, lanes
	case d.major == 9:
		return narrow, narrow
	case d.major == 11:
		gptOSS = narrow
	}
	return any, gptOSS
}
