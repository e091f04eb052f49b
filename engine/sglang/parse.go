package sglang

import (
	"strings"

	"headcount/checkpoint"
	"headcount/problem"
)

// identity settles which architecture the engine takes the config for, where that is not
// the one the file names (utils/hf_transformers/config.py, HfModelConfigParser.parse).
func (r *reading) identity() *problem.Error {
	top := r.config.top
	if refusal := r.mistral(); refusal != nil {
		return refusal
	}
	auto, _ := top.Object("auto_map").Get("AutoModel")
	switch class, _ := auto.Text(); {
	case class == "modeling_deepseekocr.DeepseekOCRForCausalLM", class == "modeling_deepseekocr2.DeepseekOCR2ForCausalLM":
		r.arch = "DeepseekOCRForCausalLM"
	case r.kind == "deepseek_vl_v2": // this and the next by the engine's own classes
		r.arch = "DeepseekVL2ForCausalLM"
	case r.kind == "dots_vlm":
		r.arch = "DotsVLMForCausalLM"
	case r.kind == "olmo3" && r.arch == "Olmo3ForCausalLM":
		r.arch = "Olmo2ForCausalLM"
	case r.kind == "multi_modality":
		r.arch = "MultiModalityCausalLM"
	case r.arch == "LongcatCausalLM", r.arch == "LongcatFlashNgramForCausalLM", r.kind == "longcat_flash":
		r.arch = "LongcatFlashForCausalLM"
	case r.kind == "" && r.arch == "" && top.Has("d_model") && top.Has("ssm_cfg"):
		r.arch, r.rawMamba = "MambaForCausalLM", true
	}
	if r.kind == "internvl_chat" {
		if refusal := internVL(top.Object("llm_config")); refusal != nil {
			return refusal
		}
	}
	if r.arch == "" {
		return problem.New(problem.MissingField, "architectures", nil, "missing, and the engine does not start without it").By(name)
	}
	return nil
}

// internVL refuses text models that the engine's class of InternVL does not read
// (configs/internvl.py).
func internVL(llm *checkpoint.Object) *problem.Error {
	archs, _ := llm.Get("architectures")
	if len(archs.List()) == 0 {
		return nil
	}
	switch arch, _ := archs.List()[0].Text(); arch {
	case "LlamaForCausalLM", "InternLM2ForCausalLM", "Qwen2ForCausalLM", "Qwen3MoeForCausalLM", "Qwen3ForCausalLM", "GptOssForCausalLM":
		return nil
	default:
		return problem.New(problem.Unsupported, "llm_config.architectures", arch, "not a text model that the engine's InternVL class reads").By(name)
	}
}

// mistral refuses a config.json of a checkpoint that the engine looks for params.json in.
func (r *reading) mistral() *problem.Error {
	if !mistralFormat(r.name) || r.config.top.Params() != nil {
		return nil
	}
	return problem.New(problem.Unsupported, "model", r.name, "taken for a checkpoint in Mistral's format by its name, and there is no params.json").By(name)
}

// mistralFormat: the engine takes these for checkpoints in Mistral's own format, by path
// (mistral_utils.py, is_mistral_model).
func mistralFormat(path string) bool {
	path = strings.ToLower(path)
	return strings.Contains(path, "mistral-large-3") || strings.Contains(path, "mistral-small-4") || strings.Contains(path, "leanstral") ||
		strings.Contains(path, "eagle") && strings.Contains(path, "mistral")
}

// gemma4 reports whether the file's head_dim and KV heads are those of sliding layers.
func (r *reading) gemma4() bool {
	switch r.kind {
	case "gemma4", "gemma4_assistant", "gemma4_unified", "gemma4_unified_assistant", "diffusion_gemma", "embedding_gemma2":
		return true
	}
	return false
}

// gemma4Shapes takes the shape as read for the sliding layers' and gives full ones their
// own (_apply_gemma4_attention_overrides).
func (r *reading) gemma4Shapes() {
	f, w := &r.config, &r.window
	w.keyDim, w.valueDim, w.kvHeads = r.keyDim, r.keyDim, r.kvHeads
	field := func(key string, absent int64) int64 {
		if v, ok := f.text.Raw().Get(key); ok && v.Kind() != checkpoint.Null {
			if n, isInt := v.Int(); isInt && n > 0 && n <= maxSize {
				return n
			}
		}
		return absent
	}
	r.keyDim = field("global_head_dim", 512)
	equal, declared := f.text.Bool("attention_k_eq_v")
	switch {
	case r.kind == "embedding_gemma2":
		r.kvHeads = field("num_global_key_value_heads", 1)
	case equal || !declared:
		r.kvHeads = field("num_global_key_value_heads", r.kvHeads)
	}
	if _, own := f.size("v_head_dim"); !own {
		r.valueDim = r.keyDim
	}
}
