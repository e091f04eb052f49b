package model

import (
	"math"
	"slices"
	"strconv"

	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/problem"
)

// inkling convolves four streams of each layer over the last few tokens: keys, values, and
// what attention and MLP give. A layer keeps their inputs beside its keys and values. Some
// layers have a window and heads of their own (vllm models/inkling).
var inkling = family{
	name:          "inkling",
	architectures: []string{"InklingForCausalLM", "InklingForConditionalGeneration"},
	types:         []string{"inkling_model"},
	resolve: func(r *reader) *Model {
		layers, k := r.layers(), r.inklingLayer()
		ids, _ := r.List("local_layer_ids")
		local := listed(ids, layers)
		vocab, dense := r.size("padded_vocab_size"), r.opt("dense_mlp_idx", 0)
		if r.err != nil {
			return r.model()
		}
		d := decoder{
			heads: k.full, gated: true, experts: k.experts, vocab: vocab, untied: true, windows: make([]int, layers),
			intermediate: k.dense, norms: []string{"attn_norm", "mlp_norm"}, everyStage: true, rotary: rotary{none: true},
			sparse: func(layer int) bool { return layer >= dense },
		}
		kinds := make([]inklingKind, layers)
		for i := range kinds {
			kinds[i] = inklingKind{local[i], i < dense}
		}
		d.form = formPerKind(kinds, k.form)
		m := r.decoder(d)
		m.Draft = r.inklingDraft(d, k)
		m.Outer[0].Rows = whole(vocab)
		if r.flag("use_embed_norm", false) {
			m.Outer = append(m.Outer, everywhere(norm("model.embed_norm", k.hidden))...)
		}
		return m
	},
}

// An inklingKind is what Inkling's layers differ in: a window, and an MLP without experts.
type inklingKind struct{ local, dense bool }

// An inklingLayer is the sizes of a layer.
type inklingLayer struct {
	full, local        heads
	hidden, dense      int // widths: of the model, of an MLP without experts
	kernel             int // tokens of a convolution
	window, extent     int // tokens: of local layers, and how far the others' biases of distance reach
	relative           int // d_rel
	queryBias, outBias bool
	scaled             bool // an MLP's result has a scale
	experts            experts
}

// inklingLayer reads the fields of a layer.
func (r *reader) inklingLayer() inklingLayer {
	k := inklingLayer{
		full: r.heads(), hidden: r.size("hidden_size"), dense: r.size("dense_intermediate_size"),
		kernel: r.size("sconv_kernel_size"), window: r.size("sliding_window_size"), extent: r.size("rel_extent"), relative: r.size("d_rel"),
		queryBias: r.flag("q_bias", false), outBias: r.flag("o_bias", false), scaled: r.flag("use_global_scale", false),
	}
	k.local.query, k.local.kv, k.local.key = r.size("swa_num_attention_heads"), r.size("swa_num_key_value_heads"), r.size("swa_head_dim")
	k.local.value = k.local.key
	r.times("hidden_size", k.hidden, max(k.kernel, 2*k.dense/max(k.hidden, 1)))
	k.experts = r.inklingExperts(k)
	return k
}

// inklingExperts reads routed experts, and those that every token visits with a weight that
// the same router gives.
func (r *reader) inklingExperts(k inklingLayer) experts {
	e := r.experts("mlp", "n_routed_experts", "intermediate_size")
	n := r.opt("n_shared_experts", 0)
	e.logits = (e.count + n + 7) / 8 * 8
	inner := r.times("n_shared_experts", n, e.width)
	width := sharded(inner, "intermediate_size")
	e.beside = []Param{
		linear("mlp.shared_experts.w13", MLP, sharded(r.times("n_shared_experts", inner, 2), "intermediate_size"), whole(k.hidden)),
		linear("mlp.shared_experts.w2", MLP, whole(k.hidden), width),
	}
	for i := range e.beside {
		e.beside[i].Linear = false // in the model's dtype, however the others are quantised
	}
	if r.flag("use_gate_bias", false) {
		e.beside = append(e.beside, Param{Name: "mlp.gate.bias", Part: MoERouter, Rows: whole(e.count), DType: dtype.Float32})
	}
	if k.scaled {
		e.beside = append(e.beside, Param{Name: "mlp.gate.global_scale", Part: MoERouter, Rows: whole(1), DType: dtype.Float32})
	}
	return e
}

// form is a layer of a kind.
func (k inklingLayer) form(kind inklingKind) *form {
	h, window, reach := k.full, 0, k.extent
	if kind.local {
		h, window, reach = k.local, k.window, k.window
	}
	params := attentionParams("attn", h, k.hidden, k.queryBias, k.outBias)
	relative := linear("attn.wr_du", Attention, queryHeads(h.query, k.relative), whole(k.hidden))
	params = append(params, relative, norm("attn.q_norm", h.key), norm("attn.k_norm", h.key),
		Param{Name: "attn.rel_logits_proj.proj", Part: Attention, Rows: whole(k.relative), Cols: whole(reach)})
	if k.queryBias {
		params = append(params, bias("attn.wr_du", Attention, relative.Rows))
	}
	keys, stream := kvHeads(h.kv, h.key), sharded(k.hidden, "hidden_size")
	params = append(params, convolution("attn.k_sconv", k.kernel, false, keys)...)
	params = append(params, convolution("attn.v_sconv", k.kernel, false, keys)...)
	params = append(params, convolution("attn_sconv", k.kernel, false, stream)...)
	last := convolution("mlp_sconv", k.kernel, false, stream)
	last[0].Part = MLP
	params = append(params, last...)
	if kind.dense && k.scaled {
		params = append(params, Param{Name: "mlp.global_scale", Part: MLP, Rows: whole(1)})
	}
	return &form{caches: []Cache{k.streams(h), h.cache(window)}, params: params}
}

// streams is the cache of what is convolved, for each KV head its share: key, value, and
// twice of the model's width.
func (k inklingLayer) streams(h heads) Cache {
	h.key, h.value = 2*h.key+2*(k.hidden/h.kv), 0
	c := h.cache(k.kernel)
	c.DType = dtype.BFloat16
	return c
}

// inklingDraft are the MTP layers, which mtp_config tells: each a dense layer behind a
// projection.
func (r *reader) inklingDraft(d decoder, k inklingLayer) []*Layer {
	mtp := r.Top().Object("mtp_config")
	n, _ := intOf(mtp, "num_nextn_predict_layers")
	if r.err == nil && n > maxLayers {
		r.fail(problem.BadValue, "mtp_config", "num_nextn_predict_layers: more than %d layers", maxLayers)
	}
	if r.err != nil || n < 1 {
		return nil
	}
	ids, _ := mtp.Get("local_layer_ids")
	local := listed(ids.List(), int(n))
	return perKind(local, func(local bool) *Layer {
		f := k.form(inklingKind{local, true})
		params := append(d.params(layerKind{form: f}, k.hidden), norm("hidden_norm", k.hidden), norm("embed_norm", k.hidden),
			linear("input_proj", Other, whole(k.hidden), whole(2*k.hidden)))
		return &Layer{Caches: f.caches, Params: params}
	})
}

// listed tells for each of n layers whether a list has its number.
func listed(list []checkpoint.Value, n int) []bool {
	out := make([]bool, n)
	for _, v := range list {
		if id, ok := v.Int(); ok && id >= 0 && id < int64(n) {
			out[id] = true
		}
	}
	return out
}

// inklingTower makes a patch a state by projections that fold more and more of it, and a
// frame of sound by a table of its levels; both are on each stage (vllm
// models/inkling/common/towers.py).
func inklingTower(t *towers) {
	t.stage = EveryStage
	if c := t.sub("vision_config"); c.Has("decoder_dmodel") {
		const name = "visual.vision_encoder"
		out, last := c.size("decoder_dmodel"), c.below("n_layers", 1<<10)
		for i, step := range foldings(c.below("temporal_patch_size", 1<<8), c.below("patch_size", 1<<12), last, c.below("n_channels", 1<<8)) {
			at := "linear_" + strconv.Itoa(i)
			if i == last-1 {
				t.conv(name+"."+at, out, step.in, false)
				break
			}
			t.conv(name+"."+at, step.out, step.in, false)
			t.norm(name+".norm_"+strconv.Itoa(i), step.out, false)
		}
		if c.flag("use_vision_norm", false) {
			t.norm(name+".final_norm", out, false)
		}
	}
	if c := t.sub("audio_config"); c.Has("decoder_dmodel") {
		width := c.size("decoder_dmodel")
		t.plain("audio.encoder.weight", c.times("n_mel_bins", c.size("n_mel_bins"), c.size("mel_vocab_size")), width)
		t.params[len(t.params)-1].Part = Other
		if c.flag("use_audio_norm", false) {
			t.norm("audio.final_norm", width, false)
			t.params[len(t.params)-1].Part = Norm
		}
	}
}

// below is a size of less than most.
func (r *reader) below(key string, most int) int {
	n := r.size(key)
	if n >= most {
		r.fail(problem.BadValue, key, "not less than %d", most)
		return 1
	}
	return n
}

// A folding is the elements that a step takes and gives.
type folding struct{ in, out int }

// foldings are the steps that make a patch of frames × side × side pixels one state. Sizes
// grow by prime factors, of the side first; of them are taken those that are nearest to
// steps of one ratio, each once (plan_out_scales).
func foldings(frames, side, steps, channels int) []folding {
	type scale struct{ pixels, width int }
	scales := []scale{{1, channels}}
	grow := func(n int, each int) {
		for _, p := range slices.Backward(primes(n)) {
			pixels := scales[len(scales)-1].pixels
			for range each {
				pixels *= p
			}
			scales = append(scales, scale{pixels, (pixels*channels + 63) / 64 * 64})
		}
	}
	grow(side, 2)
	grow(frames, 1)
	all := math.Log(float64(side) * float64(side) * float64(frames) * float64(channels))
	cost := func(step, s int) float64 {
		return math.Abs(all*float64(step)/float64(max(steps, 1)) - math.Log(float64(scales[s].pixels)))
	}
	chosen := nearest(steps+1, len(scales), cost)
	chosen[0], chosen[steps] = 0, len(scales)-1
	out := make([]folding, steps)
	for i := range out {
		from, to := scales[chosen[i]], scales[chosen[i+1]]
		out[i] = folding{from.width * (to.pixels / from.pixels), to.width}
	}
	return out
}

// nearest gives each of n rows one of m columns at the least cost in all, none twice where
// there are enough. Rows and columns are points of a line in order, so that crossing choices
// are no better.
func nearest(n, m int, cost func(row, column int) float64) []int {
	out := make([]int, n)
	if n > m {
		for i := range out {
			for c := range m {
				if cost(i, c) < cost(i, out[i]) {
					out[i] = c
				}
			}
		}
		return out
	}
	best := make([][]float64, n+1) // of the first rows in the first columns
	for i := range best {
		best[i] = make([]float64, m+1)
		for c := range best[i] {
			switch {
			case i == 0:
			case c < i:
				best[i][c] = math.Inf(1)
			default:
				best[i][c] = min(best[i][c-1], best[i-1][c-1]+cost(i-1, c-1))
			}
		}
	}
	for i, c := n, m; i > 0; c-- {
		if best[i][c] != best[i][c-1] {
			i--
			out[i] = c - 1
		}
	}
	return out
}

// primes are the prime factors of n in order.
func primes(n int) (out []int) {
	for p := 2; n > 1; p++ {
		for ; n%p == 0; n /= p {
			out = append(out, p)
		}
	}
	return out
}
