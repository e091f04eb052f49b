package vllm

import (
	"slices"
	"strings"

	"headcount/engine"
	"headcount/model"
)

// startup is what the profiling pass depends on beside the flags.
func (p *plan) startup() engine.Startup {
	s := &p.setup
	v := s.v
	up := engine.Startup{
		Spans:   p.spans,
		Samples: !v.pooling && !v.embeds,
		Towers:  v.multimodal && v.model.Towers,
		Wrapped: v.transformers,
		Packed:  slices.Contains(packedActivations, s.quant),
		Ragged:  s.quant == "gpt_oss_mxfp4" && (s.gpu.major == 9 || s.gpu.major == 11), // Triton's kernel
		Graphs:  !s.opt.EnforceEager && !s.gpu.cpu,
	}
	up.Compiled = up.Graphs && !v.breakable()
	if !v.breakable() { // which have a latent attention of their own
		up.Context = min(max(8*s.maxLen, 4*s.seqs*s.block), 65536) // model_executor/layers/attention/mla_attention.py
	}
	if s.align && s.stateBlock > 0 {
		up.Grid = s.stateBlock
	}
	up.Item, up.Pixels = max(v.item, v.image), v.pixels
	return up
}

// packedActivations are the methods that turn a product's input into bytes before it.
var packedActivations = []string{"fp8", "deepseek_v4_fp8", "fbgemm_fp8"}

// breakables begin the names of architectures whose graphs are captured around eager calls:
// nothing of them is compiled.
var breakables = []string{"DeepseekV32", "DeepseekV4", "GlmMoeDsa", "Glm5Next", "KimiLinear", "KimiK3", "MiniMaxM3", "Qwen4Exp",
	"Step5", "Inkling", "HYV4", "MuseSpark", "Dots3Note"}

func (v *view) breakable() bool {
	return slices.ContainsFunc(breakables, func(name string) bool { return strings.HasPrefix(v.arch, name) })
}

// profiled is the largest image that the towers are profiled on, in tokens, and the values
// of it that each token stands for; 0 tokens where a rule is not known.
func profiled(c *model.Config) (tokens, values int64) {
	const patches = 28 * 28 * 3 // of 14 pixels, merged by two and two
	vision, ok := c.Sub("vision_config")
	if !ok {
		return 0, patches
	}
	side, _ := vision.Int("image_size")
	if n, ok := c.Int("mm_tokens_per_image"); ok && n > 0 && side > 0 && side < maxSide {
		return n, side * side / n * 3
	}
	patch, _ := vision.Int("patch_size")
	merge, _ := c.Int("spatial_merge_size")
	if patch > 0 && merge > 0 && patch*merge <= side && side < maxSide {
		across := side / patch / merge
		return across * across, patch * merge * patch * merge * 3
	}
	return 0, patches
}

// maxSide bounds the side of an image, pixels.
const maxSide = 1 << 20
