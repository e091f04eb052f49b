package vllm

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"

	"headcount/internal/tsv"
	"headcount/model"
	"headcount/problem"
)

// wrappedTable lists what vLLM's Transformers backend cannot build, by model_type, sorted:
// model_type, a letter, details. tools/facts/vllm_backend.py writes it from Transformers'
// own models and says what the letters mean.
//
//go:embed backend.tsv
var wrappedTable string

// wrappedTroubles are the lines of a model_type: letter → details.
func wrappedTroubles(modelType string) map[string][]string {
	out := map[string][]string{}
	for _, line := range tsv.All(wrappedTable, modelType) {
		words := strings.Split(line, "\t")
		out[words[0]] = words[1:]
	}
	return out
}

// wrappedRefusal is why the Transformers backend stops while it builds a model
// (vllm/model_executor/models/transformers/base.py), nil when nothing is known against it.
// Ranks and stages are the tensor and pipeline parallel sizes.
func wrappedRefusal(c *model.Config, ranks int64, stages int) *problem.Error {
	top := c.Top()
	own := wrappedTroubles(top.ModelType())
	if class, ok := own["n"]; ok {
		return refuseWrapped("model_type", top.ModelType(), "unrecognized configuration class %s for AutoModel", detail(class, 0))
	}
	if key := "vocabulary_map"; top.ModelType() == "emu3" && top.Object(key) == nil {
		return problem.New(problem.MissingField, key, nil, "Emu3's class looks its picture tokens up in it").WithHint("the checkpoint's own config.json")
	}
	text := own
	if _, nested := c.Nested(); nested && c.ModelType() != top.ModelType() {
		text = wrappedTroubles(c.ModelType())
		// A model that nests another asks the whole of it, whatever its own default nests.
		if f := text["f"]; detail(f, 2) != "" {
			return lacksArgument(c, f[2], detail(f, 3))
		}
		if !concerns(detail(own["f"], 1), c.ModelType()) {
			delete(own, "f")
		}
		if !concerns(detail(own["p"], 0), c.ModelType()) && !concerns(detail(own["p"], 0), top.ModelType()) {
			own["p"] = text["p"]
		}
	}
	if f := own["f"]; detail(f, 0) != "" {
		return lacksArgument(c, f[0], detail(f, 1))
	}
	if d, ok := own["d"]; ok && !strings.Contains(detail(d, 0), "_tower.") { // a tower's attention is its own
		if err := secondDecoder(top, ranks); err != nil {
			return err
		}
		return refuseWrapped("model_type", top.ModelType(),
			"layer 0 dispatches attention from more than one module (%s and %s)", detail(d, 0), detail(d, 1))
	}
	for _, lines := range []map[string][]string{own, text} {
		if s, ok := lines["s"]; ok {
			return refuseWrapped("model_type", c.ModelType(), "attention scale %q of %s cannot be resolved", detail(s, 0), detail(s, 1))
		}
		if err := withoutInterface(c, lines["a"]); err != nil {
			return err
		}
	}
	if p := own["p"]; p != nil && stages > 1 {
		if class := detail(p, 0); class != "" {
			return refuseWrapped("pipeline_parallel_size", stages, "no ModuleList in %s to split into stages", class)
		}
		return refuseWrapped("pipeline_parallel_size", stages, "pipeline parallelism of a model with several ModuleLists is not supported")
	}
	return nil
}

// expertFields are what the backend's class for experts reads of a config, each by any of its
// names (models/transformers/moe.py, recursive_replace; transformers_utils/config.py).
var expertFields = [][]string{
	{"num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k", "top_k"},
	{"moe_intermediate_size", "intermediate_size"},
}

// uncountedExperts refuses a config that does not say what that class needs.
func uncountedExperts(c *model.Config) *problem.Error {
	for _, names := range expertFields {
		if !slices.ContainsFunc(names, func(key string) bool { _, ok := c.Value(key); return ok }) {
			return refuseWrapped(names[0], nil, "missing, and the config counts experts")
		}
	}
	return nil
}

// secondDecoder refuses ranks that do not divide the heads of a decoder of a decoder's steps:
// its projections are replaced before anyone asks who dispatches attention.
func secondDecoder(top *model.Config, ranks int64) *problem.Error {
	const path = "depth_decoder_config"
	c, ok := top.Sub(path)
	if !ok {
		return nil
	}
	if n, _ := c.Int("num_attention_heads"); n%ranks != 0 {
		return problem.New(problem.NotDivisible, path+".num_attention_heads", n, "not divisible by tensor parallel size %d", ranks)
	}
	return nil
}

// concerns reports whether a class of Transformers is of a model_type's own module, which is
// named like it but for what stands between words.
func concerns(class, modelType string) bool {
	_, path, _ := strings.Cut(class, ".models.")
	module, _, _ := strings.Cut(path, ".")
	plain := strings.NewReplacer("-", "", "_", "", ".", "")
	return module != "" && strings.HasPrefix(plain.Replace(modelType), plain.Replace(module))
}

func detail(words []string, i int) string {
	if i < len(words) {
		return words[i]
	}
	return ""
}

func refuseWrapped(field string, value any, format string, args ...any) *problem.Error {
	return problem.New(problem.Unsupported, field, value, format, args...).By("vllm").
		WithHint("vLLM runs Transformers' own class here, and its backend cannot build it")
}

func lacksArgument(c *model.Config, argument, class string) *problem.Error {
	return refuseWrapped("model_type", c.ModelType(), "argument %s not found in the forward method of %s", argument, class)
}

// withoutInterface refuses a model that has a layer whose attention vLLM cannot take over:
// the first of them, and the layer types of which that is so if it depends on those.
func withoutInterface(c *model.Config, words []string) *problem.Error {
	if words == nil {
		return nil
	}
	first, _ := strconv.ParseInt(words[0], 10, 64)
	types, _ := c.List("layer_types")
	if of := detail(words, 1); of != "" {
		first = -1
		for i, v := range types {
			if s, _ := v.Text(); slices.Contains(strings.Split(of, ","), s) {
				first = int64(i)
				break
			}
		}
	}
	layers, _ := c.Int("num_hidden_layers")
	if first < 0 || first >= layers {
		return nil
	}
	kind := ""
	if int(first) < len(types) {
		if s, ok := types[first].Text(); ok {
			kind = " (" + s + ")"
		}
	}
	return refuseWrapped("model_type", c.ModelType(), "layer %d%s does not dispatch through the Transformers attention interface", first, kind)
}
