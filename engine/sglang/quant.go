package sglang

import (
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/problem"
)

// quantization is the checkpoint's, as far as the cache depends on it.
type quantization struct {
	method  string         // as the engine resolves it; "" for none
	given   bool           // the checkpoint has a quantisation config
	kvIsFP8 bool           // it stores scales for an FP8 cache
	refusal *problem.Error // of the config's own form, once the method reads it
}

// A quantMethod is what the engine knows of a method (layers/quantization).
type quantMethod struct {
	capability int // least compute capability, ×10
	float16    bool
	bfloat16   bool
	float32    bool
}

// quantMethods are those of a CUDA build, without the kernels that convert AWQ and GPTQ
// checkpoints to Marlin when they load.
var quantMethods = func() map[string]quantMethod {
	half := func(capability int) quantMethod {
		return quantMethod{capability: capability, float16: true, bfloat16: true}
	}
	return map[string]quantMethod{
		"fp8": half(80), "mxfp8": half(100), "blockwise_int8": half(80), "minimax_m3_nvfp4": half(80),
		"modelopt": half(89), "modelopt_fp8": half(89), "modelopt_fp4": half(80), "modelopt_mixed": half(80), "nvfp4_online": half(100),
		"w8a8_int8": half(75), "w8a8_fp8": half(89), "auto-round": half(60), "auto-round-int8": half(75),
		"awq": {capability: 75, float16: true}, "awq_marlin": half(80), "gptq_marlin": half(80), "moe_wna16": half(70),
		"compressed-tensors": half(70), "quark": half(70), "quark_mxfp4": half(70), "quark_int4fp8_moe": half(70),
		"w4afp8": {capability: 90, bfloat16: true}, "petit_nvfp4": half(90), "modelslim": half(0), "humming": half(75),
		"mxfp4": half(80), "mxfp_w4a8": half(80),
		"bitsandbytes": {capability: 70, float16: true, bfloat16: true, float32: true},
		"gguf":         {capability: 60, float16: true, bfloat16: true, float32: true},
	}
}()

func (q quantMethod) takes(t dtype.Type) bool {
	switch t {
	case dtype.Float16:
		return q.float16
	case dtype.BFloat16:
		return q.bfloat16
	}
	return q.float32
}

// quantization reads the checkpoint's method and what it says of the cache
// (model_config.py, _verify_quantization; model_loader/weight_utils.py, get_quant_config).
func (r *reading) quantization() {
	top, text := r.config.top, r.config.text
	q := &r.quant
	config := top.Object("quantization_config")
	if config == nil {
		config = text.Object("quantization_config")
	}
	method, _ := config.Get("quant_method")
	switch name, _ := method.Text(); {
	case config != nil && (name == "" || name == "modelopt"):
		outer := checkpoint.NewObject()
		outer.Set("quantization", checkpoint.NewDict(config))
		q.method, q.given = modelOptMethod(outer), true
		if q.method == "" {
			q.method = name
		}
	case config != nil:
		q.method, q.given = strings.ToLower(name), true
	case top.Object("compression_config") != nil:
		config = top.Object("compression_config")
		method, _ := config.Get("quant_method")
		name, _ := method.Text()
		q.method, q.given = strings.ToLower(name), true
	default:
		q.method = modelOptMethod(top.HFQuant())
		q.given = q.method != ""
	}
	r.quantForm(config)
}

// modelOptMethod is the method of a ModelOpt config, nested or flat, "" when it has none
// (_parse_modelopt_quant_config).
func modelOptMethod(config *checkpoint.Object) string {
	section := config
	if v, ok := config.Get("quantization"); ok {
		section = v.Dict()
		if nested := section.Dict("quantization"); nested != nil {
			section = nested
		}
	}
	switch algo := section.Text("quant_algo"); {
	case algo == "MIXED_PRECISION":
		layers, _ := section.Get("quantized_layers")
		for _, key := range layers.Dict().Keys() {
			layer, _ := layers.Dict().Get(key)
			switch strings.ToUpper(layer.Dict().Text("quant_algo")) {
			case "NVFP4", "W4A16_NVFP4":
				return "modelopt_mixed"
			}
		}
		return "w4afp8"
	case strings.Contains(algo, "FP4"):
		return "modelopt_fp4"
	case algo == "FP8":
		return "modelopt_fp8"
	case algo == "MXFP8":
		return "mxfp8"
	}
	return ""
}

// quantForm reads what the method takes from its config, nil when that is a file of its
// own: whether the cache is FP8, and what is missing (from_config of each method).
func (r *reading) quantForm(own *checkpoint.Object) {
	q, config := &r.quant, own
	missing := func(key string) {
		q.refusal = problem.New(problem.MissingField, key, nil, "missing in the checkpoint's quantisation config, and %s needs it", q.method).By(name)
	}
	need := func(keys ...string) {
		for _, key := range keys {
			if _, ok := config.Get(key); ok {
				return
			}
		}
		missing(keys[0])
	}
	if config == nil || q.method == "modelopt_mixed" && !mixedComplete(config) {
		config = r.config.top.HFQuant()
	}
	switch q.method {
	case "fp8", "mxfp8":
		if own == nil {
			break // hf_quant_config.json is not read again
		}
		if strings.EqualFold(config.Text("quant_method"), q.method) {
			need("activation_scheme")
		}
		q.kvIsFP8 = isFP8(config.Text("kv_cache_quant_algo")) || q.method == "mxfp8" && eightBitFloat(config)
	case "awq":
		need("bits", "w_bit")
		need("group_size", "q_group_size")
		need("zero_point")
	case "compressed-tensors":
		q.kvIsFP8 = staticScheme(config.Dict("kv_cache_scheme"))
	case "modelopt", "modelopt_fp8", "modelopt_fp4", "modelopt_mixed":
		r.modelOptForm(config, missing)
	}
}

// mixedComplete: a config.json that says nothing of layers or cache gives way to
// hf_quant_config.json.
func mixedComplete(config *checkpoint.Object) bool {
	_, layers := config.Get("quantized_layers")
	_, algo := config.Get("kv_cache_quant_algo")
	_, scheme := config.Get("kv_cache_scheme")
	return layers && (algo || scheme)
}

func (r *reading) modelOptForm(config *checkpoint.Object, missing func(string)) {
	q := &r.quant
	section := config
	if algo := config.Text("quant_algo"); algo != "" {
		scheme, _ := config.Get("kv_cache_scheme")
		text, isText := scheme.Text()
		switch {
		case scheme.Dict() != nil:
			q.kvIsFP8 = eightBitFloat(config)
		case isText && q.method == "modelopt_fp4":
			q.kvIsFP8 = isFP8(text) || strings.EqualFold(strings.TrimSpace(text), "float8")
		default:
			q.kvIsFP8 = isFP8(config.Text("kv_cache_quant_algo"))
		}
	} else {
		section = config.Dict("quantization")
		if section.Text("quant_algo") == "" {
			missing("quant_algo")
			return
		}
		q.kvIsFP8 = isFP8(section.Text("kv_cache_quant_algo"))
		if q.method == "modelopt_fp4" && !hasGroupSize(config) {
			missing("group_size")
		}
	}
	if layers, _ := section.Get("quantized_layers"); q.method == "modelopt_mixed" && layers.Dict().Len() == 0 {
		missing("quantized_layers")
	}
}

// hasGroupSize: at the outer level, in the section, or in a group of either.
func hasGroupSize(config *checkpoint.Object) bool {
	section, _ := config.Get("quantization")
	for _, o := range []*checkpoint.Object{config, section.Dict()} {
		if v, _ := o.Get("group_size"); v.Kind() == checkpoint.Int {
			return true
		}
	}
	groups, _ := config.Get("config_groups")
	for _, key := range groups.Dict().Keys() {
		group, _ := groups.Dict().Get(key)
		if v, _ := group.Dict().Get("group_size"); v.Kind() == checkpoint.Int {
			return true
		}
		for _, part := range group.Dict().Keys() {
			sub, _ := group.Dict().Get(part)
			if v, _ := sub.Dict().Get("group_size"); v.Kind() == checkpoint.Int {
				return true
			}
		}
	}
	return false
}

func isFP8(algo string) bool { return strings.EqualFold(strings.TrimSpace(algo), "fp8") }

// eightBitFloat: kv_cache_scheme is an object that describes FP8.
func eightBitFloat(config *checkpoint.Object) bool {
	scheme := config.Dict("kv_cache_scheme")
	return scheme.Text("type") == "float" && sizeIn(scheme, "num_bits") == 8
}

// staticScheme: compressed-tensors' scales are read when they are static, per tensor and
// symmetric (CompressedTensorsKVCacheMethod.is_supported_scheme).
func staticScheme(scheme *checkpoint.Object) bool {
	flag := func(key string, absent bool) bool {
		v, ok := scheme.Get(key)
		if !ok {
			return absent
		}
		b, _ := v.Bool()
		return b
	}
	return scheme.Text("type") == "float" && sizeIn(scheme, "num_bits") == 8 && scheme.Text("strategy") == "tensor" &&
		flag("symmetric", true) && !flag("dynamic", false)
}

// quantize settles the method by --quantization and refuses what the engine does not load
// (_verify_quantization; model_loader/loader.py, _get_quantization_config).
func (f *flags) quantize() *problem.Error {
	q := &f.quant
	f.method = q.method
	if asked := strings.ToLower(f.opts.Quantization); asked != "" {
		if q.given && asked != q.method && !slices.Contains(compatible[asked], q.method) {
			return problem.New(problem.BadValue, "quantization", asked, "the checkpoint's is %s", q.method).By(name)
		}
		f.method = asked
	}
	if f.method == "" && !q.given {
		return nil
	}
	method, known := quantMethods[f.method]
	switch capability := f.dev.major*10 + f.dev.minor; {
	case !known:
		return problem.New(problem.Unsupported, "quantization", f.method, "not a method of the engine").By(name)
	case q.refusal != nil && f.method == q.method:
		return q.refusal
	case capability < method.capability:
		return problem.New(problem.Unsupported, "quantization", f.method,
			"needs compute capability %d.%d", method.capability/10, method.capability%10).By(name)
	case !method.takes(f.dtype):
		return problem.New(problem.Unsupported, "dtype", f.dtype.String(), "not supported with quantization %s", f.method).
			WithHint("--dtype float16").By(name)
	}
	return nil
}

// compatible are methods that may be asked for on checkpoints of another.
var compatible = map[string][]string{
	"modelopt_fp8": {"modelopt"}, "modelopt_fp4": {"modelopt", "fp8"}, "modelopt_mixed": {"modelopt"},
	"nvfp4_online": {"fp8", "modelopt_fp8"}, "minimax_m3_nvfp4": {"mxfp8"}, "petit_nvfp4": {"modelopt"},
	"w8a8_int8": {"compressed-tensors", "compressed_tensors"}, "w8a8_fp8": {"compressed-tensors", "compressed_tensors"},
	"auto-round-int8": {"compressed-tensors", "compressed_tensors"},
}
