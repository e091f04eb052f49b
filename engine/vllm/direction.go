package vllm

import (
	"slices"

	"headcount/model"
	"headcount/problem"
)

// asked are the families whose attention asks is_causal of its config for a direction and
// caches nothing where that is false (models/llama.py and those built on it: aria.py, ernie45.py,
// mistral.py, nemotron_nas.py, phi3.py, telechat2.py; qwen2.py, mimo.py, qwen3.py, qwen3_next.py, qwen3_5.py, gemma3.py,
// models/qwen4_exp, apertus.py, openpangu.py, iquest_loopcoder.py, deepseek_v2.py, glm4_moe_lite.py). Attention
// of the others looks back, and caches, whatever the config says.
var asked = []string{"apertus", "aria", "decilm", "deepseek", "gemma3", "glm4_moe_lite", "iquest_loopcoder", "llama", "mimo",
	"pangu", "phi3", "qwen2", "qwen3", "qwen3_5", "qwen3_next", "qwen4_exp", "telechat2"}

// directions are where the engine reads that attention looks in both: a pooler asks the outer
// level, attention its own config.
type directions struct {
	outerBoth bool // of the outer level, or a hook's word
	textBoth  bool // of the text config
}

// directionsOf reads a config, as a hook of the architecture leaves it
// (model_executor/models/config.py).
func (t *traits) directionsOf(c, top *model.Config) directions {
	if both, ruled := t.hook(c, top); ruled {
		return directions{both, both}
	}
	return directions{bothWays(top), bothWays(c)}
}

// bothWays tells whether a level of a config says so.
func bothWays(c *model.Config) bool {
	causal, said := c.Bool("is_causal")
	return said && !causal
}

// asksDirection tells whether the attention of the engine's own class follows its config's
// is_causal. Solar's is not LLaMA's, and of DeepSeek's only the one with latents does, which it
// then expands.
func asksDirection(m *model.Model) bool {
	return slices.Contains(asked, m.Family) && m.TextType != "solar" && (m.Family != "deepseek" || hasKind(m, model.Latent))
}

func hasKind(m *model.Model, kind model.Kind) bool {
	return slices.ContainsFunc(m.Layers, func(l *model.Layer) bool {
		return slices.ContainsFunc(l.Caches, func(c model.Cache) bool { return c.Kind == kind })
	})
}

// expandsLatents tells whether a class has an attention without latents for a config that looks
// in both directions, which the engine's switch for latents is off for (ModelConfig.use_mla).
func expandsLatents(m *model.Model) bool {
	return asksDirection(m) || m.Family == "axk1" || !latentTypes[m.TextType] || !hasKind(m, model.Latent)
}

// refuse refuses what a class that looks back alone says of a config that looks in both
// directions (openpangu.py, models/qwen4_exp/nvidia/qsa.py), and latents of a class that has
// nothing else.
func (d directions) refuse(m *model.Model) *problem.Error {
	const key = "is_causal"
	switch {
	case !d.textBoth:
		return nil
	case m.Family == "pangu_pro_moe", m.Family == "qwen4_exp" && hasKind(m, model.Indexer):
		return problem.New(problem.Unsupported, key, false, "%s requires attention that looks back", m.Architecture)
	case !expandsLatents(m):
		return problem.New(problem.NotKnown, key, false, "what %s caches of latents when attention looks in both directions is not known here", m.Architecture)
	}
	return nil
}
