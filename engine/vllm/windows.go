package vllm

import (
	"slices"

	"headcount/checkpoint"
	"headcount/model"
	"headcount/problem"
)

// alike are the families whose classes do not read layer_types: a layer has the window of the
// cache, if that has one, whatever its type (the classes' own files in models).
var alike = []string{"baichuan", "bailing_moe", "bloom", "chatglm", "cohere", "dbrx", "ernie4_5_moe", "ernie4_5_vl_moe", "exaone", "gemma", "glm4",
	"glm4_moe", "gpt2", "grok", "hy_v3", "hyperclovax", "internlm2", "mimo", "minicpm", "minicpm3", "minimax_m2", "minimax_m3", "mixtral", "molmo", "molmo2",
	"moondream3", "mpt", "nemotron", "olmoe", "opt", "orion", "param2moe", "qwen", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "stablelm", "step1", "step3_text"}

// windowless are the families whose attention does not take the cache's window either.
var windowless = []string{"clip", "falcon", "pangu_pro_moe", "siglip"}

// uniform tells whether all layers have one window, or none.
func (v *view) uniform() bool {
	return !v.transformers && slices.Contains(alike, v.model.Family)
}

// windowed tells whether the class of a layer takes a window: one that convolves keys and
// values, or chooses blocks by an index, has its own (models/inkling, models/minimax_m3).
func (v *view) windowed(lc *layerCache) bool {
	if v.transformers {
		return true
	}
	own := lc.cache.Kind == model.Full && lc.before != nil && (lc.before.Convolved() || lc.before.Kind == model.Indexer)
	return !own && !slices.Contains(windowless, v.model.Family)
}

// checkAlike refuses layers of several types where the class of Qwen's layers, which reads none,
// is told that windows begin after some (models/qwen2.py; models/qwen3.py builds on it).
func (s *setup) checkAlike() *problem.Error {
	v := s.v
	if !slices.Contains([]string{"mimo", "qwen2", "qwen3"}, v.model.Family) {
		return nil
	}
	const key = "max_window_layers"
	layers := int64(len(v.model.Layers))
	n, ok := v.model.Config.Int(key)
	if ok && n == layers || !mixed(v.model.Config) {
		return nil
	}
	return problem.New(problem.Unsupported, v.field(key), n, "Sliding window for some but all layers is not supported. %d is less than num_hidden_layers = %d", n, layers).
		WithHint("use_sliding_window false, with full_attention for every layer")
}

// mixed tells whether layer_types names more than one type.
func mixed(c *model.Config) bool {
	types, _ := c.List("layer_types")
	return slices.ContainsFunc(types, func(t checkpoint.Value) bool {
		name, _ := t.Text()
		first, _ := types[0].Text()
		return name != first
	})
}

// windowOfAll is the window of a model without layer_types, or whose layers are all of
// the sliding type: the engine gives it to every layer that has none of its own
// (engine/arg_utils.py, create_engine_config).
func windowOfAll(c *model.Config) int64 {
	types, _ := c.List("layer_types")
	if slices.ContainsFunc(types, func(t checkpoint.Value) bool { name, _ := t.Text(); return name != "sliding_attention" }) {
		return 0
	}
	n, _ := c.Int("sliding_window")
	return max(n, 0)
}
