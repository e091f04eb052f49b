package vllm

import (
	"slices"
	"strings"

	"headcount/engine"
	"headcount/model"
)

// startup fills in what the profiling pass depends on beside the flags.
func (p *plan) startup() {
	s := &p.setup
	v := s.v
	up := &p.result.Startup
	*up = engine.Startup{
		Spans:   p.spans,
		Loading: up.Loading,
		Samples: !v.pooling && !v.embeds,
		Towers:  v.towers && !s.opt.LanguageModelOnly,
		Wrapped: v.transformers,
		Packed:  slices.Contains(packedActivations, s.quant),
		Ragged:  s.ragged(),
		Graphs:  !s.opt.EnforceEager && !s.gpu.cpu,
	}
	up.Compiled = up.Graphs && !v.breakable()
	if !v.breakable() { // which have a latent attention of their own
		up.Context = min(max(8*s.maxLen, 4*s.seqs*s.block), 65536) // model_executor/layers/attention/mla_attention.py
	}
	if s.align && s.stateBlock > 0 {
		up.Grid = s.stateBlock
	}
	up.Item, up.Pixels, up.Encoder = max(v.item, v.image.tokens), v.image.values, v.image.wide
}

// ragged reports whether Triton's kernel for gpt-oss runs the experts, which gathers their
// rows by itself.
func (s *setup) ragged() bool {
	return s.quant == "gpt_oss_mxfp4" && (s.gpu.major == 9 || s.gpu.major == 11)
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

// An item is the largest image that the towers are profiled on.
type item struct {
	tokens int64 // that it becomes; 0: not known
	values int64 // of its pixels, for each token
	wide   int64 // elements of the vision tower that live at once, for each token
}

// Bounds of what a vision config says, far above any.
const (
	maxSide  = 1 << 16 // pixels
	maxWidth = 1 << 20 // elements
)

// profiled reads what the vision tower is profiled on. Its widest point, nine hidden states
// a patch (query, key and value, their rotation, the stream), is from logs of 0.26 to 0.29.
func profiled(c *model.Config) (it item) {
	const alive = 9
	it.values = 28 * 28 * 3 // patches of 14 pixels, merged by two and two
	vision, ok := c.Sub("vision_config")
	if !ok {
		return it
	}
	side, _ := vision.Int("image_size")
	patch, _ := vision.Int("patch_size")
	merge, _ := vision.Int("spatial_merge_size")
	if merge <= 0 {
		merge, _ = c.Int("spatial_merge_size")
	}
	width, _ := vision.Int("hidden_size")
	if patch <= 0 || side > maxSide || patch > maxSide || merge > maxSide || width < 0 || width > maxWidth {
		return it
	}
	fixed, _ := c.Int("mm_tokens_per_image")
	kind, _ := vision.Text("model_type")
	patches := int64(0)
	switch {
	case fixed > 0 && side > 0:
		patches, it.tokens = (side/patch)*(side/patch), fixed
	case merge > 0 && side >= patch*merge:
		across := side / patch / merge
		patches, it.tokens = across*across*merge*merge, across*across
	case merge > 0 && side == 0 && strings.HasPrefix(kind, "qwen"): // of any size, up to a number of pixels
		patches, it.tokens = dynamicTokens*merge*merge, dynamicTokens
	default:
		return it
	}
	it.values = patches * patch * patch * 3 / it.tokens
	it.wide = patches * alive * width / it.tokens
	return it
}

// dynamicTokens is the most that Qwen's processors make of an image.
const dynamicTokens = 16384
