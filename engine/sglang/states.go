package sglang

import (
	"strings"

	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/problem"
)

// A stateModel is a model with layers that keep a state per request instead of a cache
// that grows (configs/hybrid_arch.py, mambaish_config).
type stateModel struct {
	recurrent  []bool // by layer: keeps a state
	attention  []bool // by layer: keeps K and V
	registered bool   // a model of the engine's linear-attention registry

	inner     int64         // width of the convolution beside its groups
	groups    int64         // key heads, or groups of B and C
	heads     int64         // of the recurrent state
	headDim   int64         // width of a head's value
	stateSize int64         // and of its key
	kernel    int64         // taps of the convolution
	extra     []convolution // convolutions whose width the groups do not enter
	temporal  dtype.Type    // of the recurrent state
	dense     bool          // draft tokens keep whole windows
}

// A convolution is a window of columns over width channels.
type convolution struct {
	width   int64
	perHead int64 // channels of one KV head: the width is that of the heads a rank holds
	columns int64
	whole   bool // not divided over ranks
}

// convBytes is the element of a convolution's window, bfloat16.
const convBytes = 2

// stateModel reads the layers and the numbers of a state (configs/mamba_utils.py and the
// config class of each family).
func (r *reading) stateModel() {
	f := &r.config
	if f.err != nil {
		return
	}
	t := &stateModel{temporal: dtype.Float32}
	n := func(key string) int64 { v, _ := f.size(key); return v }
	switch kind := f.text.ModelType(); {
	case r.arch == "MambaForCausalLM" || r.arch == "FalconMambaForCausalLM":
		t.every(r.layers, true, false)
		t.inner, t.heads, t.headDim, t.stateSize, t.kernel = n("intermediate_size"), n("intermediate_size"), 1, n("state_size"), n("conv_kernel")
		t.extra = []convolution{{width: t.inner, columns: t.kernel - 1}}
	case r.arch == "Mamba2ForCausalLM":
		t.every(r.layers, true, false)
		t.headDim = n("head_dim")
		t.inner, t.groups, t.heads, t.stateSize, t.kernel = mul(n("expand"), r.hidden), n("n_groups"), n("num_heads"), n("state_size"), n("conv_kernel")
		if given := n("intermediate_size"); given > 0 {
			t.inner = given
		}
	case kind == "falcon_h1":
		t.every(r.layers, true, true)
		t.mamba(f, n("mamba_d_ssm"))
		t.temporal = f.stateDType()
	case kind == "granitemoehybrid":
		if list, _ := f.text.Raw().Get("layer_types"); list.Kind() == checkpoint.List {
			t.byType(f.text, "layer_types", r.layers, "linear_attention", "full_attention")
		} else {
			t.interval(r.layers, 6)
		}
		t.mamba(f, mul(n("mamba_expand"), r.hidden))
		if width := mul(t.heads, t.headDim); width != t.inner { // the engine's class holds it to that
			f.fail(problem.BadValue, "mamba_n_heads", t.heads, "heads of %d make %d, not mamba_expand times hidden_size = %d", t.headDim, width, t.inner)
		}
	case strings.HasPrefix(kind, "nemotron_h"):
		r.nemotronLayers(t)
		t.headDim, t.heads = n("mamba_head_dim"), n("mamba_num_heads")
		t.inner, t.groups, t.stateSize, t.kernel = mul(t.heads, t.headDim), n("n_groups"), n("ssm_state_size"), n("conv_kernel")
		t.temporal = f.stateDType()
	case kind == "lfm2" || kind == "lfm2_moe" || kind == "lfm2_vl":
		t.byType(f.text, "layer_types", r.layers, "conv", "full_attention")
		t.groups, t.inner, t.kernel = 1, r.hidden, n("conv_L_cache")
	case kind == "qwen3_next" || strings.HasPrefix(kind, "qwen3_5") || strings.HasPrefix(kind, "qwen4_exp") ||
		kind == "interns2_mobius_text" || kind == "gigachat3_5":
		r.deltaNet(t, kind)
	case kind == "jet_nemotron" || r.arch == "JetVLMForConditionalGeneration":
		r.jetNemotron(t)
	case kind == "kimi_linear" || r.arch == "KimiLinearForCausalLM" || strings.HasPrefix(r.arch, "KimiK3"):
		r.kimiLinear(t)
	case kind == "glm5_next_text" || kind == "glm5_next":
		t.byType(f.text, "layer_types", r.layers, "linear_attention", "")
		t.kda(n("linear_num_heads"), n("linear_head_dim"), n("linear_conv_kernel_dim"))
	case kind == "bailing_hybrid":
		if _, delta := f.size("short_conv_kernel_size"); !delta && r.path != "" {
			return // lightning attention is looked for at the outer level alone
		}
		r.bailing(t)
	case kind == "minicpm_sala" || r.arch == "MiniCPMSALAForCausalLM":
		r.lightning(t)
	case kind == "zaya":
		r.zaya(t)
	case strings.HasPrefix(kind, "inkling"):
		r.inkling(t)
	default:
		return
	}
	if t.count(t.recurrent, 0, r.layers) == 0 && r.plainWithoutStates() {
		return
	}
	r.states = t
}

// plainWithoutStates: these count as plain models when no layer keeps a state; others of
// their kind stay hybrid, and the engine finds nothing to size.
func (r *reading) plainWithoutStates() bool {
	switch kind := r.config.text.ModelType(); {
	case kind == "granitemoehybrid", kind == "minicpm_sala", r.arch == "MiniCPMSALAForCausalLM", strings.HasPrefix(kind, "inkling"):
		return true
	}
	return false
}

// every marks all layers alike.
func (t *stateModel) every(layers int64, state, attention bool) {
	t.recurrent, t.attention = make([]bool, min(layers, maxLayers)), make([]bool, min(layers, maxLayers))
	for i := range t.recurrent {
		t.recurrent[i], t.attention[i] = state, attention
	}
}

// interval marks each n-th layer as attention and the others as keeping a state.
func (t *stateModel) interval(layers, n int64) {
	t.every(layers, true, false)
	for i := n - 1; i < int64(len(t.recurrent)); i += n {
		t.recurrent[i], t.attention[i] = false, true
	}
}

// renamed are older names of layer kinds, which Transformers' classes replace.
var renamed = map[string]string{"mamba": "linear_attention", "attention": "full_attention", "short_conv": "conv"}

// byType marks layers by a list of names. With no name for attention, what has no state
// has attention.
func (t *stateModel) byType(c level, key string, layers int64, state, attention string) {
	t.every(layers, false, false)
	list, _ := c.List(key)
	for i := range min(len(list), len(t.recurrent)) {
		text, _ := list[i].Text()
		if other, ok := renamed[text]; ok {
			text = other
		}
		t.recurrent[i] = text == state
		t.attention[i] = text == attention || attention == "" && !t.recurrent[i]
	}
}

// count is how many layers of [start, end) are marked.
func (t *stateModel) count(marks []bool, start, end int64) int64 {
	n := int64(0)
	for i := start; i < min(end, int64(len(marks))); i++ {
		if marks[i] {
			n++
		}
	}
	return n
}

func (t *stateModel) mamba(f *fields, inner int64) {
	n := func(key string) int64 { v, _ := f.size(key); return v }
	t.inner, t.groups, t.heads, t.headDim = inner, n("mamba_n_groups"), n("mamba_n_heads"), n("mamba_d_head")
	t.stateSize, t.kernel = n("mamba_d_state"), n("mamba_d_conv")
	if t.headDim == 0 && t.heads > 0 { // "auto"
		t.headDim = inner / t.heads
	}
}

// stateDType is the recurrent state's, where the config class passes the config's wish.
func (f *fields) stateDType() dtype.Type {
	text, _ := f.text.Text("mamba_ssm_dtype")
	switch text {
	case "bfloat16":
		return dtype.BFloat16
	case "float16":
		return dtype.Float16
	}
	return dtype.Float32
}

// nemotronNames refuses the names that Transformers writes for Nemotron-H's layers: the
// engine's class knows its own alone (configs/nemotron_h.py, _validate_layers_block_type).
func (r *reading) nemotronNames() {
	given, _ := r.config.text.Raw().Get("layers_block_type")
	for _, v := range given.List() {
		switch kind, _ := v.Text(); kind {
		case "mamba", "attention", "mlp", "moe":
		default:
			r.config.fail(problem.BadValue, "layers_block_type", v.Any(), "not a kind of layer that the engine's class of Nemotron-H knows")
			return
		}
	}
}

func (r *reading) nemotronLayers(t *stateModel) {
	f := &r.config
	if list, ok := f.text.List("layers_block_type"); ok && len(list) > 0 && len(list) <= maxLayers {
		r.layers = int64(len(list))
		r.nemotronNames()
		t.byType(f.text, "layers_block_type", r.layers, "linear_attention", "full_attention")
	} else if pattern, _ := f.text.Text("hybrid_override_pattern"); pattern != "" && len(pattern) <= maxLayers {
		r.layers = int64(len(pattern))
		t.every(r.layers, false, false)
		for i := range len(pattern) {
			t.recurrent[i], t.attention[i] = pattern[i] == 'M', pattern[i] == '*'
		}
	}
	r.attnLayers = r.layers
}

// deltaNet is Qwen3-Next's gated delta net and its kin: every full_attention_interval-th
// layer attends, or a list says which.
func (r *reading) deltaNet(t *stateModel, kind string) {
	f := &r.config
	n := func(key string) int64 { v, _ := f.size(key); return v }
	switch {
	case kind == "gigachat3_5" || strings.HasPrefix(kind, "qwen4_exp"):
		t.byType(f.text, "layer_types", r.layers, "linear_attention", "")
		if t.registered = kind == "gigachat3_5"; t.registered && !f.text.Has("layer_types") {
			t.every(r.layers, true, false)
			ids, _ := f.text.List("full_attention_layers")
			for _, id := range ids {
				if n := intIn(id); n < int64(len(t.recurrent)) {
					t.recurrent[n], t.attention[n] = false, true
				}
			}
		}
	default:
		interval := f.need("full_attention_interval")
		if interval == 0 {
			return
		}
		t.interval(r.layers, interval)
	}
	t.heads, t.headDim = n("linear_num_value_heads"), n("linear_value_head_dim")
	t.groups, t.stateSize = n("linear_num_key_heads"), n("linear_key_head_dim")
	t.inner, t.kernel = mul(t.heads, t.headDim), n("linear_conv_kernel_dim")
	t.temporal = f.stateDType()
}

func (r *reading) jetNemotron(t *stateModel) {
	f := &r.config
	t.byType(f.text, "layer_types", r.layers, "jet", "")
	for i := range t.attention {
		t.attention[i] = !t.recurrent[i]
	}
	jet, _ := f.text.Object("efficient_attention_config").Get("jet")
	n := func(key string) int64 { return sizeIn(jet.Dict(), key) }
	expand, _ := jet.Dict().Get("expand_v")
	factor, _ := expand.Float()
	t.heads, t.stateSize, t.kernel = n("num_heads"), n("head_dim"), n("conv_size")
	t.headDim = max(truncate(float64(t.stateSize)*factor), 0)
	t.groups, t.inner = t.heads, mul(t.heads, t.headDim)
	t.temporal = f.stateDType()
}

// sizeIn is a whole number of an object, 0 when it is none.
func sizeIn(o *checkpoint.Object, key string) int64 {
	v, _ := o.Get(key)
	return intIn(v)
}

// intIn is a value as a whole number, 0 when it is none that a size may have.
func intIn(v checkpoint.Value) int64 {
	n, ok := v.Int()
	if !ok || n < 0 || n > maxSize {
		return 0
	}
	return n
}

// kda is Kimi delta attention: q, k and v convolutions side by side.
func (t *stateModel) kda(heads, headDim, kernel int64) {
	t.heads, t.headDim, t.stateSize, t.kernel, t.dense = heads, headDim, headDim, kernel, true
	for range 3 {
		t.extra = append(t.extra, convolution{width: mul(heads, headDim), columns: kernel - 1})
	}
}

func (r *reading) kimiLinear(t *stateModel) {
	linear := r.config.text.Object("linear_attn_config")
	t.every(r.layers, false, true)
	ids, _ := linear.Get("kda_layers")
	for _, v := range ids.List() {
		if i, ok := v.Int(); ok && i >= 1 && i <= int64(len(t.recurrent)) { // counted from 1
			t.recurrent[i-1], t.attention[i-1] = true, false
		}
	}
	t.kda(sizeIn(linear, "num_heads"), sizeIn(linear, "head_dim"), sizeIn(linear, "short_conv_kernel_size"))
}

func (r *reading) bailing(t *stateModel) {
	f := &r.config
	t.every(r.layers, true, false)
	group, single := f.size("layer_group_size")
	list, _ := f.text.List("layer_group_size")
	for i := range t.recurrent {
		attends := single && group > 0 && int64(i+1)%group == 0
		if i < len(list) {
			v, _ := list[i].Int()
			attends = v != 1
		}
		t.recurrent[i], t.attention[i] = !attends, attends
	}
	headDim, _ := f.size("head_dim")
	if kernel, ok := f.size("short_conv_kernel_size"); ok {
		t.kda(r.queryHeads, headDim, kernel)
		return
	}
	t.heads, t.headDim, t.stateSize, t.kernel = r.linearKVHeads(), headDim, headDim, 1
}

// linearKVHeads are the heads of lightning attention.
func (r *reading) linearKVHeads() int64 {
	if n, ok := r.config.size("num_linear_key_value_heads"); ok {
		return n
	}
	return r.kvHeads
}

// lightning is MiniCPM's mix of sparse and lightning attention; a short list of mixers
// repeats over the layers.
func (r *reading) lightning(t *stateModel) {
	f := &r.config
	t.every(r.layers, false, true)
	list, _ := f.text.List("mixer_types")
	if len(list) > 0 {
		for i := range t.recurrent {
			text, _ := list[i%len(list)].Text()
			t.recurrent[i] = text == "lightning-attn" || text == "lightning"
			t.attention[i] = !t.recurrent[i]
		}
	}
	heads, ok := f.size("lightning_nkv")
	if !ok {
		heads = r.kvHeads
	}
	headDim, ok := f.size("lightning_head_dim")
	if !ok {
		headDim = r.keyDim
	}
	t.heads, t.headDim, t.stateSize, t.kernel = heads, headDim, headDim, 1
}

// zaya keeps a convolution's padding and the last hidden state beside its K and V.
func (r *reading) zaya(t *stateModel) {
	f := &r.config
	t.every(r.layers, false, false)
	list, _ := f.text.List("zaya_layers")
	for i := range t.recurrent {
		attends := i%2 == 0
		if len(list) > 0 {
			text := ""
			if i < len(list) {
				text, _ = list[i].Text()
			}
			attends = text == "a"
		}
		t.recurrent[i], t.attention[i] = attends, attends
	}
	times0, _ := f.size("cca_time0")
	times1, _ := f.size("cca_time1")
	t.extra = []convolution{
		{width: mul(r.queryHeads+r.kvHeads, r.keyDim), columns: max(times0+times1-2, 0)},
		{width: r.hidden, columns: 1, whole: true},
	}
}

// inkling keeps short convolutions over K, V and the streams of every layer.
func (r *reading) inkling(t *stateModel) {
	t.every(r.layers, true, true)
	kernel, _ := r.config.size("sconv_kernel_size")
	columns := max(kernel-1, 0)
	t.dense = true
	for range 2 {
		t.extra = append(t.extra,
			convolution{width: r.kvHeads, perHead: r.keyDim, columns: columns},
			convolution{width: max(r.window.kvHeads, 0), perHead: r.window.keyDim, columns: columns},
			convolution{width: r.hidden, columns: columns, whole: true})
	}
}

// slot is the state of one layer on one of tp attention ranks. Every division must be
// exact, or the engine does not start.
func (t *stateModel) slot(tp int64) (s state, refusal *problem.Error) {
	divide := func(n int64, field string) int64 {
		if n%tp != 0 && refusal == nil {
			refusal = problem.New(problem.NotDivisible, field, n, "not divisible by %d attention ranks", tp).By(name)
		}
		return n / tp
	}
	convolve := func(channels, columns int64) {
		if columns <= 0 || channels <= 0 {
			return
		}
		s.conv = add(s.conv, mul(channels, columns, convBytes))
		s.channels = add(s.channels, mul(channels, convBytes))
		s.taps = columns
		s.windows = append(s.windows, [2]int64{channels, columns})
	}
	if t.extra == nil {
		groups := t.groups
		if groups%tp != 0 {
			groups = tp // repeated until each rank has one
		}
		convolve(divide(add(t.inner, mul(2, groups, t.stateSize)), "conv_dim"), t.kernel-1)
	}
	for _, c := range t.extra {
		switch {
		case c.perHead > 0:
			convolve(mul(max(1, c.width/tp), c.perHead), c.columns)
		case c.whole:
			convolve(c.width, c.columns)
		default:
			convolve(divide(c.width, "conv_dim"), c.columns)
		}
	}
	if t.stateSize > 0 {
		s.matrix, s.matrixType = [3]int64{divide(t.heads, "num_heads"), t.headDim, t.stateSize}, t.temporal
		s.temporal = mul(s.matrix[0], s.matrix[1], s.matrix[2], t.temporal.Bytes())
	}
	s.dense = t.dense
	return s, refusal
}

// deltaAttention: Kimi delta attention (model_config.py, uses_kda_attention).
func (r *reading) deltaAttention() bool {
	for _, c := range []level{r.config.text, r.config.top} {
		layers, _ := c.Object("linear_attn_config").Get("kda_layers")
		if len(layers.List()) > 0 {
			return true
		}
	}
	_, heads := r.config.size("linear_num_heads")
	_, dim := r.config.size("linear_head_dim")
	return heads && dim && r.hasLayerType("linear_attention")
}
