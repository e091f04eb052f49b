package vllm

import (
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/model"
	"headcount/problem"
)

// A quantRule is what the engine says of a quantisation method.
type quantRule struct {
	capability int // least compute capability, 10·major + minor
	dtypes     []dtype.Type
}

// quantRules are the methods that the engine knows (quantization/__init__.py).
var quantRules = map[string]quantRule{
	"awq": {75, halves}, "auto_awq": {75, halves}, "awq_marlin": {75, halves},
	"gptq": {60, halves}, "auto_gptq": {60, halves}, "gptq_marlin": {60, halves},
	"fp8": {75, halves}, "fbgemm_fp8": {80, halves}, "fp_quant": {100, onlyBF16}, "deepseek_v4_fp8": {75, halves},
	"modelopt": {80, halves}, "modelopt_fp4": {75, halves}, "modelopt_mxfp8": {80, onlyBF16}, "modelopt_mixed": {75, halves},
	"humming": {75, halves}, "compressed-tensors": {70, anyFloat}, "experts_int8": {80, halves}, "quark": {70, halves},
	"moe_wna16": {70, halves}, "torchao": {75, anyFloat}, "inc": {60, halves}, "mxfp4": {80, onlyBF16},
	"gpt_oss_mxfp4": {80, onlyBF16}, "online": {75, halves}, "fp8_per_tensor": {75, halves}, "fp8_per_block": {75, halves},
	"fp8_per_channel": {75, halves}, "int8_per_channel_weight_only": {75, halves}, "nvfp4_per_token": {75, halves},
	"mxfp8": {80, onlyBF16},
}

// deprecatedQuant are methods that need a flag to go on.
var deprecatedQuant = []string{"fbgemm_fp8", "fp_quant"}

// quantisation reads the checkpoint's method, as hooks and overrides of the engine rename
// it, and what it says of the KV cache.
func (v *view) quantisation(m *model.Model) {
	v.cacheDType = "auto"
	method, block := m.Config.Quantization()
	v.quantBlock = block
	v.quant = method
	switch method {
	case "gptq":
		v.quant = "auto_gptq"
	case "awq":
		v.quant = "auto_awq"
	case "auto-round":
		v.quant = "inc"
	case "mxfp8":
		v.quant = "mxfp8"
	case "fp8":
		if strings.HasPrefix(m.Architecture, "DeepseekV4") {
			v.quant = "deepseek_v4_fp8"
		}
	case "mxfp4":
		if v.kind == "gpt_oss" {
			v.quant = "gpt_oss_mxfp4"
		}
	case "compressed-tensors":
		if m.Architecture == "KimiK3ForConditionalGeneration" && block.Text("format") == "mxfp4-pack-quantized" {
			v.quant = "mxfp4"
		}
	}
	scheme := block.Dict("kv_cache_scheme")
	if strings.HasPrefix(method, "modelopt") {
		v.quant = modelOptMethod(method, block)
		v.cacheDType = modelOptCache(block)
	} else if v.quant == "compressed-tensors" && scheme != nil {
		v.layerFP8 = true
		v.headScales = scheme.Text("strategy") == "attn_head"
	}
}

// modelOptMethod refines a ModelOpt method by its algorithm.
func modelOptMethod(method string, block *checkpoint.Object) string {
	inner := block.Dict("quantization")
	if inner == nil {
		inner = block
	}
	switch algo := strings.ToUpper(inner.Text("quant_algo")); {
	case algo == "FP8":
		return "modelopt"
	case strings.Contains(algo, "MXFP8"):
		return "modelopt_mxfp8"
	case strings.Contains(algo, "FP4"):
		return "modelopt_fp4"
	case algo == "MIXED_PRECISION":
		return "modelopt_mixed"
	}
	return method
}

// modelOptCache is the kv_cache_dtype that a ModelOpt checkpoint asks for
// (utils/torch_utils.py, get_kv_cache_quant_algo_string).
func modelOptCache(block *checkpoint.Object) string {
	inner := block.Dict("quantization")
	if inner == nil {
		inner = block
	}
	for _, key := range []string{"kv_cache_scheme", "kv_cache_quant_algo"} {
		for _, o := range []*checkpoint.Object{inner, block} {
			value, ok := o.Get(key)
			if s, isText := value.Text(); ok && isText && s != "" {
				switch strings.ToLower(s) {
				case "fp8":
					return "fp8_e4m3"
				case "nvfp4":
					return "nvfp4"
				}
				return "auto"
			}
			if scheme := value.Dict(); ok && scheme.Len() > 0 {
				return schemeDType(scheme)
			}
		}
	}
	return "auto"
}

func schemeDType(scheme *checkpoint.Object) string {
	bits, _ := scheme.Get("num_bits")
	n, _ := bits.Int()
	flag, _ := scheme.Get("dynamic")
	dynamic, isBool := flag.Bool()
	switch float := scheme.Text("type") == "float"; {
	case float && n == 8 && isBool && !dynamic:
		return "fp8_e4m3"
	case float && n == 4:
		return "nvfp4"
	}
	return "auto"
}

// checkQuant refuses a method that the engine does not know, or not on this device, or not
// with this dtype.
func (s *setup) checkQuant() *problem.Error {
	if s.quant == "" {
		return nil
	}
	if _, known := quantRules[s.quant]; !known {
		return problem.New(problem.Unsupported, "quantization", s.quant, "Unknown quantization method")
	}
	if slices.Contains(deprecatedQuant, s.quant) {
		return problem.New(problem.Unsupported, "quantization", s.quant, "deprecated, and refused without --allow-deprecated-quantization")
	}
	return nil
}

// checkQuantDevice is the later half: what the method asks of the device and the dtype.
func (s *setup) checkQuantDevice() *problem.Error {
	r, known := quantRules[s.quant]
	if !known {
		return nil
	}
	if have := 10*s.gpu.major + s.gpu.minor; !s.gpu.cpu && have < r.capability {
		return problem.New(problem.Unsupported, "quantization", s.quant,
			"not supported for the current GPU. Minimum capability: %d. Current capability: %d.", r.capability, have)
	}
	if !slices.Contains(r.dtypes, s.dtype) {
		return problem.New(problem.Unsupported, "dtype", s.dtype, "%s is not supported for quantization method %s", s.dtype, s.quant).
			WithHint("dtype %s", r.dtypes[0])
	}
	if s.quant == "auto_gptq" {
		return groupOrder(s.v.quantBlock)
	}
	return nil
}

// groupOrder refuses GPTQ checkpoints that reorder activations
// (normalize_and_validate_gptq_desc_act).
func groupOrder(block *checkpoint.Object) *problem.Error {
	value, _ := block.Get("desc_act")
	order, _ := value.Bool()
	size, _ := block.Get("group_size")
	if n, _ := size.Int(); order && n != -1 {
		return problem.New(problem.Unsupported, "quantization_config.desc_act", true,
			"GPTQ group activation ordering (desc_act=True) is no longer supported").
			WithHint("a checkpoint with static activation ordering or desc_act=False")
	}
	return nil
}
