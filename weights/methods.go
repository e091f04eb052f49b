package weights

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/model"
)

// A method says how each module of a checkpoint is kept: nil for one that it leaves as it
// is. It returns one pointer for modules that are kept alike.
type method struct {
	scheme   func(target) (*scheme, error)
	scales   cacheScales
	patterns int  // that scheme holds against each module
	headers  bool // the engine asks the checkpoint's headers which modules are quantised; scheme is what is usual
}

// cacheScales are the parameters that an attention object has for scales of its cache.
type cacheScales uint8

const (
	noScales       cacheScales = iota
	fourScales                 // of queries, keys, values and probabilities, in the model's dtype
	fourScalesMLA              // the same, also of latent attention
	sixScales                  // of queries, keys and values, in float32, and their zero points
	sixScalesAHead             // the same, for each KV head
)

// newMethod reads the method of a checkpoint (vllm quantization/__init__.py). The error says
// why it is not known what its weights are.
func newMethod(m *model.Model) (*method, error) {
	name, block := m.Config.Quantization()
	switch name {
	case "fp8":
		switch m.Family {
		case "deepseek_v4":
			return deepSeekV4FP8(m.Config, block)
		case "bailing_moe_v3":
			return lingFP8(block)
		}
		return plainFP8(block)
	case "compressed-tensors":
		if m.Family == "kimi_linear" && block.Text("format") == "mxfp4-pack-quantized" {
			return expertsOnly(mxfp4For(mxfp4Kernel)), nil
		}
		return compressedTensors(block)
	case "modelopt", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8":
		return modelOpt(block)
	case "awq":
		return autoAWQ(block)
	case "mxfp4":
		if m.Family == "gpt_oss" {
			return expertsOnly(mxfp4For(gptOSSKernel)), nil
		}
		return expertsOnly(mxfp4For(mxfp4Kernel)), nil
	case "gptq":
		return autoGPTQ(block)
	case "bitsandbytes":
		return bitsAndBytes(block), nil
	}
	return nil, fmt.Errorf("weights are quantised: %s", name)
}

// expertsOnly leaves everything but routed experts as it is (mxfp4.py Mxfp4Config).
func expertsOnly(s *scheme) *method {
	return &method{scheme: func(t target) (*scheme, error) {
		if t.kind == expertModule {
			return s, nil
		}
		return nil, nil
	}}
}

// mxfp4For is MXFP4 of experts that a kernel pads.
func mxfp4For(k kernel) *scheme {
	s := mxfp4()
	s.kernel = k
	return s
}

// plainFP8 is Transformers' own fp8: blocks or whole tensors (fp8.py Fp8Config).
func plainFP8(block *checkpoint.Object) (*method, error) {
	return fp8Method(block, dtype.Float32, nil, false)
}

// deepSeekV4FP8 is fp8 with experts of another kind: expert_dtype fp4 is MXFP4, or NVFP4 as
// moe_quant_algo says (vllm models/deepseek_v4/quant_config.py).
func deepSeekV4FP8(c *model.Config, block *checkpoint.Object) (*method, error) {
	if kind, ok := c.Text("expert_dtype"); ok && kind != "fp4" {
		return fp8Method(block, dtype.Float32, nil, false)
	}
	experts := mxfp4For(mxfp4Kernel)
	if strings.EqualFold(block.Text("moe_quant_algo"), "NVFP4") {
		experts = nvfp4(16, scalePerTensor)
	}
	return fp8Method(block, dtype.Float8E8M0, experts, false)
}

// lingFP8 is fp8 of Ling 3, whose blocks leave out what ends in a name of the list, and whose
// experts may be MXFP4 (vllm bailing_moe_v3.py, _configure_ling_fp8_quant_config).
func lingFP8(block *checkpoint.Object) (*method, error) {
	if _, _, ok := pair(block, "weight_block_size"); !ok {
		return plainFP8(block)
	}
	scale, experts := dtype.Float32, (*scheme)(nil)
	if block.Text("scale_fmt") == "ue8m0" {
		scale = dtype.Float8E8M0
	}
	if block.Text("routed_experts_quant_method") == "mxfp4" {
		experts = mxfp4For(mxfp4Kernel)
	}
	return fp8Method(block, scale, experts, true)
}

// fp8Method reads an fp8 block. Scales of blocks have a dtype; experts may be of a kind of
// their own; the list may name the ends of paths.
func fp8Method(block *checkpoint.Object, scale dtype.Type, experts *scheme, ends bool) (*method, error) {
	s := perTensor(block.Text("activation_scheme") == "static")
	if n, k, ok := pair(block, "weight_block_size"); ok {
		s = refined(blocks(n, k, scale, loneBlocks), n, k)
	} else if v, _ := block.Get("weight_block_size"); v.Kind() == checkpoint.List {
		return nil, errors.New("weight_block_size is not two positive numbers")
	}
	if experts == nil {
		experts = s
	}
	key := "ignored_layers"
	if v, _ := block.Get(key); len(v.List()) == 0 {
		key = "modules_to_not_convert"
	}
	skip := newExact(list(block, key), others(block, key)...)
	skip.ends = ends
	return &method{scales: fourScales, patterns: len(skip.experts), scheme: func(t target) (*scheme, error) {
		skipped, err := skip.skips(&t)
		switch {
		case err != nil || skipped || t.kind == headModule:
			return nil, err
		case t.kind == expertModule:
			return experts, nil
		}
		return s, nil
	}}, nil
}

// An exact list leaves out the modules that it names (quant_utils.py is_layer_skipped).
type exact struct {
	names   map[string]bool
	experts []string // those that speak of experts
	ends    bool     // a name may be the end of a path
}

// has reports whether a path, or where that is enough its end, is a name of the list.
func (x *exact) has(path string) bool {
	for rest, more := path, true; more; _, rest, more = strings.Cut(rest, ".") {
		if x.names[rest] {
			return true
		}
		if !x.ends {
			break
		}
	}
	return false
}

func newExact(names []string, others ...string) exact {
	x := exact{names: map[string]bool{}}
	for _, name := range others {
		x.names[name] = true
	}
	for _, name := range names {
		x.names[name] = true
		if strings.Contains(name, "experts") {
			x.experts = append(x.experts, name)
		}
	}
	return x
}

func (x *exact) skips(t *target) (bool, error) {
	if len(t.pieces) == 0 || t.kind == expertModule {
		if strings.Contains(t.path, "experts") && !x.ends {
			return slices.ContainsFunc(x.experts, func(name string) bool { return strings.Contains(name, t.path) }), nil
		}
		return x.has(t.path), nil
	}
	return t.about(x.has)
}

// autoAWQ is AWQ: a list of parts of names is left out; without one, what the headers say,
// which usually is all but a model's layers (auto_awq.py AutoAWQConfig).
func autoAWQ(block *checkpoint.Object) (*method, error) {
	bits, group := block.FirstInt("bits", "w_bit"), block.FirstInt("group_size", "q_group_size")
	if bits != 4 || group < -1 || group == 0 || group > maxGroup {
		return nil, fmt.Errorf("weights are quantised: awq of %d bits in groups of %d", bits, group)
	}
	zeros, _ := block.Get("zero_point")
	zeroPoints, _ := zeros.Bool()
	s := awq(bits, max(group, 0), zeroPoints)
	ignored := append(list(block, "modules_to_not_convert"), others(block, "modules_to_not_convert")...)
	v, _ := block.Get("lm_head")
	head, _ := v.Bool()
	unsaid := len(ignored) == 0
	return &method{headers: unsaid, patterns: len(ignored), scheme: func(t target) (*scheme, error) {
		if unsaid && t.kind != headModule && !strings.HasPrefix(t.path, "layers.") {
			return nil, nil
		}
		skipped, err := t.about(func(path string) bool {
			return slices.ContainsFunc(ignored, func(part string) bool { return strings.Contains(engineName(path), part) })
		})
		if err != nil || skipped || t.kind == headModule && !head {
			return nil, err
		}
		return s, nil
	}}, nil
}

// autoGPTQ is GPTQ: every linear module of a layer, or those of modules_in_block_to_quantize,
// as far as the headers do not say otherwise (auto_gptq.py AutoGPTQConfig).
func autoGPTQ(block *checkpoint.Object) (*method, error) {
	bits, group := block.FirstInt("bits"), block.FirstInt("group_size")
	if bits != 4 && bits != 8 || group < -1 || group == 0 || group > maxGroup || block.Dict("dynamic").Len() > 0 {
		return nil, fmt.Errorf("weights are quantised: gptq of %d bits in groups of %d, or with rules for modules", bits, group)
	}
	s := gptq(bits, max(group, 0))
	v, _ := block.Get("lm_head")
	head, _ := v.Bool()
	var only []string
	v, _ = block.Get("modules_in_block_to_quantize")
	for _, entry := range v.List() { // names, or lists of them
		for _, one := range append(entry.List(), entry) {
			if name, ok := one.Text(); ok && name != "" {
				only = append(only, name)
			}
		}
	}
	return &method{headers: true, patterns: len(only), scheme: func(t target) (*scheme, error) {
		if t.kind == headModule {
			if head {
				return s, nil
			}
			return nil, nil
		}
		named, err := t.about(func(path string) bool {
			return slices.ContainsFunc(only, func(name string) bool { return strings.HasSuffix(path, "."+name) })
		})
		if err != nil || len(only) > 0 && !named || !strings.HasPrefix(t.path, "layers.") {
			return nil, err
		}
		return s, nil
	}}, nil
}

// bitsAndBytes keeps every linear module but those that it names, by components of their path, in
// 4 or 8 bits (sglang quantization/bitsandbytes.py).
func bitsAndBytes(block *checkpoint.Object) *method {
	v, _ := block.Get("load_in_8bit")
	s := nf4()
	if eight, _ := v.Bool(); eight {
		s = &scheme{linear: ints8(true).linear}
	}
	skipped := append(list(block, "llm_int8_skip_modules"), others(block, "llm_int8_skip_modules")...)
	return &method{headers: true, patterns: len(skipped), scheme: func(t target) (*scheme, error) {
		named, err := t.about(func(path string) bool {
			return slices.ContainsFunc(skipped, func(part string) bool { return strings.Contains("."+path+".", "."+part+".") })
		})
		if err != nil || named || t.kind == headModule {
			return nil, err
		}
		return s, nil
	}}
}

// modelOpt is a checkpoint that ModelOpt wrote (modelopt.py).
func modelOpt(block *checkpoint.Object) (*method, error) {
	o := block
	if inner := block.Dict("quantization"); inner != nil {
		o = inner
	}
	excluded, err := newExclusions(o)
	if err != nil {
		return nil, err
	}
	algorithm := strings.ToUpper(o.Text("quant_algo"))
	if algorithm == "MIXED_PRECISION" {
		return mixedModelOpt(block, o, excluded)
	}
	if algorithm == "NVFP4" && weightsOnly(block) {
		algorithm = "W4A16_NVFP4"
	}
	s := modelOptScheme(algorithm, o.FirstInt("group_size"))
	if s == nil {
		return nil, fmt.Errorf("weights are quantised: ModelOpt's %.40q", algorithm)
	}
	return &method{scales: fourScalesMLA, patterns: len(excluded.parts) + len(excluded.patterns), scheme: func(t target) (*scheme, error) {
		skipped, err := excluded.skips(&t)
		if err != nil || skipped {
			return nil, err
		}
		return s, nil
	}}, nil
}

// modelOptScheme is how an algorithm of ModelOpt keeps a weight, nil for one that is not
// known.
func modelOptScheme(algorithm string, group int64) *scheme {
	if group <= 0 || group > maxGroup {
		group = 16
	}
	switch algorithm {
	case "FP8":
		return perTensor(true)
	case "FP8_PER_CHANNEL_PER_TOKEN":
		return &scheme{linear: perRow(false).linear}
	case "FP8_PB_WO":
		return &scheme{linear: blocks(128, 128, dtype.Float32, wholeInputs).linear}
	case "NVFP4":
		s := nvfp4(group, scalePerTensor)
		s.linear[1].hold = wholeInputs
		return s
	case "W4A16_NVFP4":
		s := nvfp4(group, tensor{}) // a scale of inputs that is loaded and dropped
		s.linear[1].hold = wholeInputs
		return s
	case "MXFP8":
		return mxfp8()
	}
	return nil
}

// weightsOnly reports whether no group of the config quantises its inputs.
func weightsOnly(block *checkpoint.Object) bool {
	groups := block.Dict("config_groups")
	for _, key := range groups.Keys() {
		v, _ := groups.Get(key)
		if inputs, _ := v.Dict().Get("input_activations"); v.Dict() == nil || inputs.Dict() != nil {
			return false
		}
	}
	return groups.Len() > 0
}

// Exclusions are ModelOpt's list: names, parts of names and patterns of the shell.
type exclusions struct {
	exact
	parts    []string
	patterns []*regexp.Regexp
}

func newExclusions(o *checkpoint.Object) (*exclusions, error) {
	key := "ignore"
	if _, ok := o.Get(key); !ok {
		key = "exclude_modules"
	}
	names, towers := list(o, key), others(o, key)
	x := &exclusions{exact: newExact(names, towers...), parts: append(names, towers...)}
	for _, name := range x.parts {
		if !strings.ContainsAny(name, "*?[") {
			continue
		}
		re, err := glob(name)
		if err != nil {
			return nil, err
		}
		x.patterns = append(x.patterns, re)
	}
	return x, nil
}

func (x *exclusions) skips(t *target) (bool, error) {
	skipped, err := x.exact.skips(t)
	if err != nil || skipped {
		return skipped, err
	}
	path := engineName(t.path)
	return slices.ContainsFunc(x.parts, func(part string) bool { return part != t.path && strings.Contains(path, part) }) ||
		slices.ContainsFunc(x.patterns, func(re *regexp.Regexp) bool { return re.MatchString(path) }), nil
}

// mixedModelOpt names the algorithm of each module in quantized_layers.
func mixedModelOpt(block, o *checkpoint.Object, excluded *exclusions) (*method, error) {
	layers := o.Dict("quantized_layers")
	algorithms := map[string]string{}
	group := o.FirstInt("group_size")
	for _, key := range layers.Keys() {
		v, _ := layers.Get(key)
		name, ok := canonical(key)
		if algorithm := strings.ToUpper(v.Dict().Text("quant_algo")); ok {
			algorithms[name] = algorithm
			if group == 0 && strings.HasSuffix(algorithm, "NVFP4") {
				group = v.Dict().FirstInt("group_size")
			}
		}
	}
	schemes := map[string]*scheme{}
	for _, algorithm := range algorithms {
		if schemes[algorithm] == nil {
			schemes[algorithm] = modelOptScheme(algorithm, group)
		}
	}
	out := &method{patterns: len(excluded.parts) + len(excluded.patterns) + len(algorithms), scheme: func(t target) (*scheme, error) {
		skipped, err := excluded.skips(&t)
		if err != nil || skipped {
			return nil, err
		}
		algorithm, err := algorithmOf(algorithms, &t)
		s := schemes[algorithm]
		if algorithm != "" && s == nil {
			err = fmt.Errorf("weights are quantised: ModelOpt's %.40q", algorithm)
		}
		return s, err
	}}
	if MixedScales(block) {
		out.scales = fourScales
	}
	return out, nil
}

// MixedScales reports whether a quantization_config of ModelOpt's mixed precision gives the
// caches of attention scales (modelopt.py, ModelOptMixedPrecisionConfig.get_quant_method).
func MixedScales(block *checkpoint.Object) bool {
	if inner := block.Dict("quantization"); inner != nil {
		return inner.Text("kv_cache_quant_algo") != ""
	}
	scheme := block.Dict("kv_cache_scheme")
	return scheme.Text("type") == "float" && scheme.FirstInt("num_bits") == 8
}

// algorithmOf finds a module, what it joins, or what is inside of it, as experts are
// (ModelOptMixedPrecisionConfig._resolve_quant_algo). "": it is not quantised.
func algorithmOf(algorithms map[string]string, t *target) (string, error) {
	if a := algorithms[t.path]; a != "" {
		return a, nil
	}
	if t.kind == expertModule {
		for _, prefix := range []string{t.path + ".", strings.TrimSuffix(t.path, "experts")} {
			for name, a := range algorithms {
				if strings.HasPrefix(name, prefix) {
					return a, nil
				}
			}
		}
		return "", nil
	}
	found := ""
	for _, piece := range t.pieces {
		a := algorithms[piece]
		if found != "" && a != found && a != "" {
			return "", fmt.Errorf("parts of %s are quantised in two ways", t.path)
		}
		found = max(found, a)
	}
	return found, nil
}

// maxGroup bounds what a config may call a group or a block.
const maxGroup = 1 << 20

// pair reads a block of so many rows and columns.
func pair(o *checkpoint.Object, key string) (rows, columns int64, ok bool) {
	rows, columns, ok = o.Pair(key)
	return rows, columns, ok && rows <= maxGroup && columns <= maxGroup
}
