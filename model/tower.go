package model

import (
	"strings"

	"headcount/dtype"
	"headcount/problem"
)

// A towers collects what a checkpoint holds beside its text model: encoders of pictures or
// sound, and what joins them to it. Names are the checkpoint's, with "*" for the numbers of
// layers, which are equal.
type towers struct {
	*reader // of the text config
	top     *Config
	hidden  int // of the text model

	params, buffers []Param
	stage           Stage
	times           int
	whole           bool // ranks do not divide it
	torch           bool // its modules are torch's own, which no quantisation packs
	evenly          int  // > 0: nor do they where they do not divide so many heads
	onPlan          bool // built from Transformers' modules, by their plan
	subs            []*reader
}

// addTowers adds to a model what its architecture has beside the text model.
func (m *Model) addTowers(c *Config) {
	m.Towers = true
	build := towerOf(m.Architecture, c)
	if build == nil || m.WeightsUnknown != "" {
		m.lackTower("parameters of towers beside the text model")
		return
	}
	t := &towers{reader: newReader(c), top: c.Top(), hidden: m.HiddenSize, times: 1}
	build(t)
	for _, r := range append(t.subs, t.reader) {
		if r.err != nil {
			m.lackTower("parameters of a tower: " + r.err.Message)
			return
		}
	}
	m.Outer = append(m.Outer, t.params...)
	m.Buffers = append(m.Buffers, t.buffers...)
}

// lackTower says why parameters are not known, unless the text model's family has said so.
func (m *Model) lackTower(why string) {
	if m.WeightsUnknown == "" {
		m.WeightsUnknown = why
	}
}

// sub reads the config at a path below the outer level.
func (t *towers) sub(keys ...string) *reader {
	v, ok := t.top.text.nested(keys)
	if !ok {
		r := newReader(&Config{top: t.top.text, text: newView(nil, "")})
		r.fail(problem.MissingField, strings.Join(keys, "."), "missing")
		t.subs = append(t.subs, r)
		return r
	}
	return t.bounded(newReader(&Config{top: v, text: v, path: strings.Join(keys, ".")}))
}

// maxTower bounds the sizes of a tower, so that no product of three overflows. It is far
// above any.
const maxTower = 1 << 17

// bounded keeps a reader for its error.
func (t *towers) bounded(r *reader) *reader {
	r.most = maxTower
	t.subs = append(t.subs, r)
	return r
}

// topReader reads the outer level.
func (t *towers) topReader() *reader {
	return t.bounded(newReader(t.top))
}

// has reports whether there is a config at a key of the outer level.
func (t *towers) has(key string) bool { return t.top.Object(key) != nil }

// add puts parameters on the bill, as many times as the layer occurs that is being built.
func (t *towers) add(params ...Param) {
	for _, p := range params {
		p.Part, p.Stage, p.Times = Tower, t.stage, t.times
		if t.whole {
			p.Rows.Split, p.Cols.Split = Whole, Whole
		}
		p.Evenly = t.evenly
		p.Linear = p.Linear && !t.torch
		p.OffPlan = t.onPlan && !p.fused
		t.params = append(t.params, p)
	}
}

// layers adds what build adds so many times.
func (t *towers) layers(n int, build func()) {
	before := t.times
	t.times = before * max(n, 0)
	if t.times > 0 {
		build()
	}
	t.times = before
}

// linear adds a projection, with its bias where it has one. A bias is divided as the output.
func (t *towers) linear(name string, out, in Axis, biased bool) {
	t.add(linear(name, Tower, out, in))
	if biased {
		t.add(bias(name, Tower, out))
	}
}

// out adds a projection that ranks divide by its input. Its bias is whole.
func (t *towers) out(name string, out, in Axis, biased bool) {
	t.linear(name, out, in, false)
	if biased {
		t.add(bias(name, Tower, whole(out.Size)))
	}
}

// norm adds a norm, with its bias where it has one.
func (t *towers) norm(name string, width int, biased bool) {
	t.add(norm(name, width))
	if biased {
		t.add(bias(name, Tower, whole(width)))
	}
}

// plain adds a tensor that every rank holds whole; several sizes after the first are one.
func (t *towers) plain(name string, rows int, cols ...int) {
	width := 0
	if len(cols) > 0 {
		width = 1
	}
	for _, n := range cols {
		width *= n
	}
	t.add(Param{Name: name, Rows: whole(rows), Cols: whole(width)})
}

// conv adds a convolution or another matrix of torch's own, which no rank divides and no
// quantisation packs.
func (t *towers) conv(name string, out, taps int, biased bool) {
	t.add(Param{Name: name + ".weight", Rows: whole(out), Cols: whole(taps)})
	if biased {
		t.add(bias(name, Tower, whole(out)))
	}
}

// buffer adds a tensor that is computed.
func (t *towers) buffer(name string, elements int, dt dtype.Type) {
	t.buffers = append(t.buffers, Param{Name: name, Part: Tower, Rows: whole(elements), DType: dt, Stage: t.stage, Times: t.times})
}

// A vit is the layers of a vision transformer, or of an encoder like it.
type vit struct {
	name           string
	layers, width  int
	heads, headDim int // headDim 0: width over heads
	kv             int // heads of keys and values, on several ranks each where there are more; 0: as many
	mlp            int
	gated          bool
	qkvBias        bool
	outBias        bool
	mlpBias        bool
	rms            bool // norms have no biases
	wholeOut       bool // ranks do not divide what goes out of attention
	qkNorm         int  // width of a norm of queries, and of one of keys; 0: none
	names          vitNames
}

// vitNames are what a checkpoint calls the modules of a layer.
type vitNames struct {
	qkv, out string   // of attention; qkv is three of them by spaces where they are not one
	in, down string   // of the MLP; in is two where it is gated and they are not one
	norms    []string // of a layer
}

var (
	plainNames  = vitNames{"self_attn.q_proj self_attn.k_proj self_attn.v_proj", "self_attn.out_proj", "mlp.fc1", "mlp.fc2", []string{"layer_norm1", "layer_norm2"}}
	qkvNames    = vitNames{"attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2", []string{"norm1", "norm2"}}
	gatedNames  = vitNames{"attn.qkv", "attn.proj", "mlp.gate_proj mlp.up_proj", "mlp.down_proj", []string{"norm1", "norm2"}}
	linearNames = vitNames{"attn.qkv", "attn.proj", "mlp.linear_fc1", "mlp.linear_fc2", []string{"norm1", "norm2"}}
)

// biased is v with a bias on every projection.
func (v vit) biased() vit {
	v.qkvBias, v.outBias, v.mlpBias = true, true, true
	return v
}

// inModule are names by spaces, in a module.
func inModule(module, names string) []string {
	list := strings.Fields(names)
	for i := range list {
		list[i] = module + list[i]
	}
	return list
}

// vit adds the layers of a vision transformer.
func (t *towers) vit(v vit) {
	v.heads = max(v.heads, 1)
	if v.headDim == 0 {
		v.headDim = v.width / v.heads
	}
	t.layers(v.layers, func() {
		at, n := v.name+".*.", v.names
		inside := headsOf(v.heads, v.headDim)
		qkv := inModule(at, n.qkv)
		for i := range 3 {
			axis := inside
			if i > 0 && v.kv > 0 {
				axis = kvHeads(v.kv, v.headDim)
			}
			t.linear(qkv[min(i, len(qkv)-1)], axis, whole(v.width), v.qkvBias)
		}
		out := inside
		if v.wholeOut {
			out = whole(inside.Size)
		}
		t.out(at+n.out, whole(v.width), out, v.outBias)
		if v.qkNorm > 0 {
			t.norm(at+"attn.q_norm", v.qkNorm, false)
			t.norm(at+"attn.k_norm", v.qkNorm, false)
		}
		if t.stage == EveryStage && !v.gated { // Transformers' own, which is not merged
			t.conv(at+n.in, v.mlp, v.width, v.mlpBias)
			t.conv(at+n.down, v.width, v.mlp, v.mlpBias)
		} else {
			t.mlp(inModule(at, n.in), at+n.down, v.width, v.mlp, v.width, v.gated, v.mlpBias)
		}
		for _, name := range n.norms {
			t.norm(at+name, v.width, !v.rms)
		}
	})
}

// mlp adds an MLP of which ranks divide the inner width. A gated one has two inputs, which
// may be one tensor.
func (t *towers) mlp(in []string, down string, from, inner, to int, gated, biased bool) {
	width := sharded(inner, "intermediate_size")
	t.linear(in[0], width, whole(from), biased)
	if gated {
		t.linear(in[len(in)-1], width, whole(from), biased)
	}
	t.out(down, whole(to), width, biased)
}

// headsOf is an axis that ranks divide by whole heads.
func headsOf(heads, width int) Axis {
	return Axis{Size: heads * width, Split: Sharded, Unit: width, Field: "num_attention_heads"}
}

// square is the rows of a table of positions of a picture of so many pixels a side, in
// patches of so many.
func square(pixels, patch int) int {
	if patch <= 0 {
		return 0
	}
	side := pixels / patch
	return side * side
}
