package vllm

import (
	"fmt"
	"slices"
	"strings"

	"headcount/engine"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
)

// checkContextSplit refuses a decode context parallel size that does not divide the
// tensor parallel size (config/parallel.py).
func (s *setup) checkContextSplit() *problem.Error {
	if tp, dcp := s.layout.TP, s.layout.DCP; tp%dcp != 0 {
		return problem.New(problem.IllegalLayout, "decode_context_parallel_size", dcp, "tp_size=%d must be divisible by dcp_size=%d.", tp, dcp).
			WithHint("decode_context_parallel_size %s", legal(tp, func(n int) bool { return tp%n == 0 }))
	}
	return nil
}

// checkFloatCache refuses an unquantised cache of another dtype than the model's
// (VllmConfig._reject_mismatched_float_kv_cache).
func (s *setup) checkFloatCache() *problem.Error {
	if c := s.cacheDType; (c == "float16" || c == "bfloat16") && c != s.dtype.String() {
		return problem.New(problem.Unsupported, "kv_cache_dtype", c, "kv_cache_dtype=%q is incompatible with dtype=%q.", c, s.dtype).
			WithHint("kv_cache_dtype auto")
	}
	return nil
}

// checkPackedCache refuses nvfp4 caches of latents.
func (s *setup) checkPackedCache() *problem.Error {
	if c := s.cacheDType; s.v.mla && strings.HasPrefix(c, "nvfp4") && c != "nvfp4_ds_mla" {
		return problem.New(problem.Unsupported, "kv_cache_dtype", c, "nvfp4 KV cache is not supported with MLA (Multi-head Latent Attention) backends").
			WithHint("kv_cache_dtype auto or fp8")
	}
	return nil
}

// checkLayout holds the parallel sizes against the model's totals
// (ModelConfig.verify_with_parallel_config).
func (s *setup) checkLayout() *problem.Error {
	v, l := s.v, s.layout
	tp, dcp := int64(l.TP), int64(l.DCP)
	if v.queries%tp != 0 {
		return s.indivisible("num_attention_heads", v.queries)
	}
	if l.EP && v.experts == 0 {
		return problem.New(problem.IllegalLayout, "enable_expert_parallel", true,
			"Number of experts in the model must be greater than 0 when expert parallelism is enabled.").
			WithHint("enable_expert_parallel false")
	}
	if l.PP > 1 && !v.pipelines {
		return problem.New(problem.IllegalLayout, "pipeline_parallel_size", l.PP, "Pipeline parallelism is not supported for this model.").
			WithHint("pipeline_parallel_size 1")
	}
	if dcp == 1 || v.mla {
		return nil
	}
	switch {
	case v.kv == 0:
		return problem.New(problem.IllegalLayout, "decode_context_parallel_size", dcp, "a model without KV heads cannot split the context").
			WithHint("decode_context_parallel_size 1")
	case tp <= v.kv:
		return problem.New(problem.IllegalLayout, "decode_context_parallel_size", dcp,
			"Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` (%d) to be greater than the model's total number of KV heads (%d).", tp, v.kv).
			WithHint("decode_context_parallel_size 1, or a tensor parallel size above %d", v.kv)
	case dcp > tp/v.kv:
		return problem.New(problem.IllegalLayout, "decode_context_parallel_size", dcp,
			"`--decode-context-parallel-size` (%d) exceeds the maximum supported value (%d) for `--tensor-parallel-size` (%d) and %d model KV heads.", dcp, tp/v.kv, tp, v.kv).
			WithHint("decode_context_parallel_size %d", tp/v.kv)
	case v.queries/v.kv%dcp != 0:
		return problem.New(problem.IllegalLayout, "decode_context_parallel_size", dcp,
			"The model's number of query heads per KV head (%d) must be divisible by `--decode-context-parallel-size` (%d) for GQA/MQA.", v.queries/v.kv, dcp).
			WithHint("decode_context_parallel_size 1")
	}
	return nil
}

// checkWrapped refuses a class of Transformers that the engine's wrapper cannot run.
func (s *setup) checkWrapped() *problem.Error {
	if !s.v.transformers {
		return nil
	}
	if err := wrappedRefusal(s.v.model.Config, int64(s.layout.TP), s.layout.PP); err != nil || !s.v.replacesExperts {
		return err
	}
	return uncountedExperts(s.v.model.Config)
}

// even are the families whose classes want heads to fill the width (models/bert.py,
// bert_with_rope.py, falcon.py, molmo.py, molmo2.py, siglip.py, stablelm.py;
// modeling_camembert.py, modeling_gpt_bigcode.py).
var even = []string{"bert", "falcon", "gpt_bigcode", "gte_new", "molmo", "molmo2", "nomic_bert", "siglip", "stablelm"}

// checkClass refuses a config that the model's class is not written for.
func (s *setup) checkClass() *problem.Error {
	v, c := s.v, s.v.model.Config
	path, nested := c.Nested()
	if slices.Contains(even, v.model.Family) && int64(v.model.HiddenSize)%v.queries != 0 {
		return problem.New(problem.NotDivisible, v.field("num_attention_heads"), v.queries, "the width, %d, is not a multiple of it", v.model.HiddenSize)
	}
	if !v.transformers {
		if err := lacking(c.Top().ModelType(), c, c.Top()); err != nil {
			return err
		}
	}
	switch {
	case v.transformers:
	case v.arch == "ChatGLMModel" || v.arch == "ChatGLMForConditionalGeneration":
		if c.Top().Has("vision_config") {
			return problem.New(problem.Unsupported, "vision_config", nil, "this model supports vision inputs, but its architecture names the text-only version").
				WithHint(`--hf-overrides '{"architectures": ["GLM4VForCausalLM"]}'`)
		}
	case v.arch == "VoxtralForConditionalGeneration" && c.Params() == nil:
		return problem.New(problem.Unsupported, "audio_config", nil, "the model's class reads params.json, not Transformers' config").
			WithHint("--config-format mistral, with the checkpoint's params.json")
	case v.arch == "MolmoForCausalLM" && isTrue(c, "weight_tying"):
		return problem.New(problem.Unsupported, v.field("weight_tying"), true, "the class cannot tie its head")
	case v.arch == "Phi3VForCausalLM" && !separated(c.Top()):
		return problem.New(problem.Unsupported, "embd_layer.with_learnable_separator", nil, "the class reads images with separators and its own transform alone")
	case v.arch == "DoryForCausalLM" && s.layout.TP > 1:
		return problem.New(problem.IllegalLayout, "tensor_parallel_size", s.layout.TP, "Dory currently supports tensor_parallel_size=1 only").
			WithHint("tensor_parallel_size 1")
	case v.drafter && s.drafts == 0:
		return problem.New(problem.Unsupported, "architectures", v.arch, "drafts for a target, and its class takes sizes from that")
	case v.arch == "MiniMaxM2ForCausalLM" && v.experts == 0:
		return problem.New(problem.BadValue, v.field("num_local_experts"), 0, "every layer has experts, and there are none").
			WithHint("the number of experts of the checkpoint")
	case v.arch == "GPTJForCausalLM" && isFalse(c, "rotary"):
		return problem.New(problem.Unsupported, v.field("rotary"), false, "GPT-J's class turns every head")
	case v.arch == "GPTJForCausalLM" && v.model.TiedEmbeddings:
		return problem.New(problem.Unsupported, v.field("tie_word_embeddings"), true, "GPT-J's head has a bias and is a tensor of its own")
	case nested && startsWith(v.arch, builtByName) && nameless(c):
		return problem.New(problem.Unsupported, path+".architectures", nil, "No model architectures are specified, and Transformers has no class for a decoder of type %s", c.ModelType())
	case nested && !v.multimodal && !v.model.TextOnly:
		return problem.New(problem.Unsupported, path, nil, "%s reads the outer level, which holds no language model", v.arch)
	}
	return nil
}

// isTrue tells that a flag is there and on, isFalse that it is there and off.
func isTrue(c *model.Config, key string) bool {
	b, _ := c.Bool(key)
	return b
}

func isFalse(c *model.Config, key string) bool {
	b, ok := c.Bool(key)
	return ok && !b
}

// separated tells whether Phi-3 Vision's images are read as its class asserts (models/phi3v.py).
func separated(top *model.Config) bool {
	layer := top.Object("embd_layer")
	if layer == nil { // it has no such part
		return true
	}
	for _, key := range []string{"use_hd_transform", "with_learnable_separator"} {
		v, _ := layer.Get(key)
		if on, _ := v.Bool(); !on {
			return false
		}
	}
	return true
}

// computedWith are fields, by family, that the engine's class computes with as it is built
// (models/afmoe.py, deepseek_v2.py, ernie45_moe.py, granitemoehybrid.py, hy_v3.py, dbrx.py, chatglm.py, mimo_v2.py;
// configs/step5.py; modeling_dots1.py).
var computedWith = map[string][]string{
	"afmoe":            {"num_dense_layers", "num_shared_experts"},
	"chatglm":          {"seq_length"},
	"dbrx":             {"max_seq_len"},
	"deepseek":         {"first_k_dense_replace"},
	"deepseek_v32":     {"first_k_dense_replace"},
	"dots1":            {"first_k_dense_replace", "num_experts_per_tok"},
	"ernie4_5_moe":     {"moe_num_experts"},
	"granitemoehybrid": {"num_local_experts"},
	"hy_v3":            {"num_shared_experts"},
	"mimo_v2":          {"moe_layer_freq"},
	"step5":            {"num_nextn_predict_layers"},
}

// checkNulls refuses null in fields that a model's class computes with, whatever its
// configuration class lets pass.
func (s *setup) checkNulls() *problem.Error {
	v, c := s.v, s.v.model.Config
	refuse := func(key, why string) *problem.Error {
		if !c.IsNull(key) {
			return nil
		}
		return problem.New(problem.BadValue, v.field(key), nil, "null, and %s", why)
	}
	for _, key := range computedWith[v.model.Family] {
		if err := refuse(key, "the model's class computes with it"); err != nil {
			return err
		}
	}
	dense, _ := c.Int("first_k_dense_replace")
	switch {
	case v.sparse && !v.v4():
		return refuse("q_lora_rank", "the indexer reads queries of a low rank")
	case v.model.Family == "solar_open", v.model.Family == "dots1" && int64(len(v.model.Layers)) > dense:
		return refuse("n_routed_experts", "layers are built with experts")
	}
	return nil
}

// builtByName are the wrappers that look their language model up by the architectures of its
// own config (models/utils.py, init_vllm_registered_model), beginnings of their names.
var builtByName = []string{"Mistral3For", "PixtralFor", "LlavaNextFor", "LlavaOnevisionFor", "InternS1For", "GraniteSpeechFor", "Blip2For", "LightOnOCRFor", "VoxtralFor", "RFor"}

// nameless tells whether a text config names no architecture and has a type of which nobody
// derives one (config/vllm.py, with_hf_config).
func nameless(c *model.Config) bool {
	named, _ := c.List("architectures")
	_, causal := model.ClassNames(c.ModelType())
	return len(named) == 0 && causal == ""
}

// checkShared refuses a model of which one of the last layers, which read an earlier layer's
// cache, has no layer of its type before them, or has it on another stage (models/gemma4.py;
// layers/attention/attention.py, validate_kv_sharing_target).
func (p *plan) checkShared() *problem.Error {
	v, c := p.setup.v, p.setup.v.model.Config
	if v.model.Family != "gemma4" {
		return nil
	}
	types, _ := c.List("layer_types")
	shared, _ := c.Int("num_kv_shared_layers")
	own := max(len(types)-int(min(shared, int64(len(types)))), 0)
	stage := func(layer int) int {
		return slices.IndexFunc(p.spans, func(s layout.Span) bool { return layer < s.End })
	}
	for i, kind := range types[own:] {
		owner := own - 1
		for owner >= 0 && types[owner] != kind {
			owner--
		}
		switch {
		case owner < 0:
			return problem.New(problem.BadValue, v.field("num_kv_shared_layers"), shared, "layer %d reads the cache of an earlier one of its type, and there is none", own+i).
				WithHint("a smaller num_kv_shared_layers")
		case stage(owner) != stage(own+i):
			return problem.New(problem.IllegalLayout, "pipeline_parallel_size", len(p.spans), "layer %d reads the cache of layer %d, which is on another stage", own+i, owner).
				WithHint("a smaller pipeline_parallel_size")
		}
	}
	return nil
}

// checkActivation refuses an activation that a module of the model's class does not know.
func (s *setup) checkActivation() *problem.Error {
	v := s.v
	built := func(l *model.Layer) bool { return has(l, v.onlySilu) }
	if v.activation == "" || v.activation == "silu" || !slices.ContainsFunc(v.layers, built) {
		return nil
	}
	return problem.New(problem.Unsupported, v.field("hidden_act"), v.activation, "Unsupported activation. Only silu is supported for now.")
}

// has tells whether a layer has projections of one of the parts.
func has(l *model.Layer, parts []model.Part) bool {
	return slices.ContainsFunc(l.Params, func(p model.Param) bool { return p.Linear && slices.Contains(parts, p.Part) })
}

// field is the path of a text config's field in the file.
func (v *view) field(key string) string {
	if where := v.model.Config.Where(key); where != "" && !strings.Contains(where, " ") {
		return where
	}
	return key
}

// legalTP lists the tensor parallel sizes at which the engine would go on. It asks the
// rules themselves, so that every width that is split has its say: heads, experts, the
// vocabulary, blocks of a quantisation.
func legalTP(job engine.Job, rules *release) string {
	opt := engine.Options{}
	if job.Options != nil {
		opt = *job.Options
	}
	opt.KVCacheMemory, opt.NumGPUBlocksOverride = 0, 0 // whether a pool suffices is another question
	job.Options = &opt
	return legal(maxListedTP, func(tp int) bool {
		job.Layout.TP = tp
		p := newPlan(job, rules)
		defer p.free()
		return p.run() == nil
	})
}

// maxListedTP bounds the sizes that a hint lists; no node has more devices on one link.
const maxListedTP = 64

// legal lists the numbers up to most that are ok.
func legal(most int, ok func(int) bool) string {
	var out []string
	for n := 1; n <= most; n++ {
		if ok(n) {
			out = append(out, fmt.Sprint(n))
		}
	}
	return strings.Join(out, ", ")
}
