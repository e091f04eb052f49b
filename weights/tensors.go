package weights

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
)

// Whole is a model's parameters, before quantisation, and their bytes over all ranks: those
// of its config, else of its checkpoint's own tensors as they are stored. ok is false where
// neither is known.
func Whole(m *model.Model, dt dtype.Type) (parameters, bytes int64, ok bool) {
	all := Build{Layout: layout.Layout{}.Normal(), Spans: []layout.Span{{End: len(m.Layers)}}, DType: dt}
	if Unknown(m) == "" && (len(m.Tensors) == 0 || !WantsHeaders(m)) {
		plain, err := all.stages(m, nil)
		if err != nil {
			return 0, 0, false
		}
		stored, err := all.stages(m, quantisedOf(m))
		if err != nil {
			return 0, 0, false
		}
		return plain[0].Parameters, stored[0].Bytes, true
	}
	for _, t := range m.Tensors {
		parameters += elementsOf(t)
		bytes += t.Bytes
	}
	return parameters, bytes, len(m.Tensors) > 0
}

func elementsOf(t checkpoint.Tensor) int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// stagesOfTensors divides a checkpoint's own tensors over ranks as [Stages] does the
// parameters of its config: what tensor-parallel rank 0 of each pipeline stage holds of
// the checkpoint as stored, quantised or not. The error is a [*problem.Error]: not_known
// names a tensor whose place in the model is not known, not_divisible one that a rank would
// hold a part of a block of.
func stagesOfTensors(m *model.Model, b Build) ([]Stage, error) {
	s := storageOf(m)
	if s.unplaced != "" {
		return nil, problem.New(problem.NotKnown, "weights", nil, "tensor %.120q has no place that is known in %s", s.unplaced, m.Architecture)
	}
	stages := make([]Stage, len(b.Spans))
	for i, span := range b.Spans {
		t := tally{build: b, stage: &stages[i]}
		for start := span.Start; start < span.End; {
			end := start + 1
			for end < span.End && same(s.layers[end], s.layers[start]) && m.Layers[end] == m.Layers[start] {
				end++
			}
			t.stored(m.Layers[start].Params, s.layers[start], int64(end-start))
			start = end
		}
		for j := range s.outer {
			p := &m.Outer[s.outer[j].params[0]]
			if onStage(b.stageOf(m, p), i, len(b.Spans)) && !b.leavesOut(m, p) {
				t.stored(m.Outer, s.outer[j:j+1], 1)
			}
		}
		if t.err != nil {
			return nil, t.err
		}
	}
	return stages, nil
}

// A storage is where a checkpoint's tensors are in its model, whatever the layout.
type storage struct {
	layers   [][]stored // of each layer; those of equal layers are one list
	outer    []stored
	unplaced string // a tensor that is nowhere
}

// A stored is what a checkpoint has of a module: so many tensors of one shape.
type stored struct {
	params   []int // places of the parameters that are parts of it
	n        int64
	elements int64 // of one of the tensors
	bytes    int64
	inputs   int64 // innermost dimension
	block    int64 // elements of that which are packed together
	vector   bool  // of one dimension, or of one column
}

type storageKey struct{}

// storageOf places a model's tensors, once.
func storageOf(m *model.Model) *storage {
	return m.Memo(storageKey{}, func() any { return newStorage(m) }).(*storage)
}

func newStorage(m *model.Model) *storage {
	s := &storage{layers: make([][]stored, len(m.Layers))}
	known := map[*model.Layer]places{}
	outer := placesOf(m.Outer)
	for i := range m.Tensors {
		t := &m.Tensors[i]
		layer, inside, inLayer := split(t.Name)
		at := -1 // the model's own layer; -1: outside of layers
		params := outer.ofTower(t.Name)
		switch {
		case params != nil:
		case !inLayer:
			params = outer.outside(t.Name)
		case layer < len(m.Layers):
			at = layer
			l := m.Layers[layer]
			if known[l] == nil {
				known[l] = placesOf(l.Params)
			}
			params = known[l].find(inside)
		case layer < len(m.Layers)+len(m.Draft): // loaded when drafts are asked for
			continue
		}
		switch {
		case params != nil && at < 0:
			s.outer = put(s.outer, params, t)
		case params != nil:
			s.layers[at] = put(s.layers[at], params, t)
		case ignored(t.Name), !inLayer && m.TiedEmbeddings && strings.Contains(t.Name, "lm_head"):
		default:
			s.unplaced = t.Name
			return s
		}
	}
	for i, list := range s.layers {
		if m.Quantization == "gguf" {
			widen(m.Layers[i].Params, list)
		}
	}
	share(s.layers)
	return s
}

// widen pads the rows of GGUF tensors that one module joins to the widest of them: their
// types may differ, and the engine keeps one matrix (sglang quantization/gguf.py,
// GGUFLinearMethod).
func widen(params []model.Param, list []stored) {
	for _, target := range targetsOf(params) {
		widest := int64(0) // bytes of a row
		in := func(s *stored) bool { return slices.Contains(target.params, s.params[0]) && s.rows() > 0 }
		for i := range list {
			if s := &list[i]; in(s) {
				widest = max(widest, s.bytes/s.rows())
			}
		}
		for i := range list {
			if s := &list[i]; in(s) && target.kind == linearModule {
				s.bytes = s.rows() * widest
			}
		}
	}
}

// rows are those of a packed matrix, 0 for what is none.
func (s *stored) rows() int64 {
	if s.vector || s.inputs == 0 {
		return 0
	}
	return s.elements / s.inputs
}

// put adds a tensor to those of its module and shape.
func put(list []stored, params []int, t *checkpoint.Tensor) []stored {
	one := stored{params: params, n: 1, elements: elementsOf(*t), bytes: t.Bytes, block: t.Block}
	rank := len(t.Shape)
	if rank > 0 {
		one.inputs = t.Shape[rank-1]
	}
	one.vector = rank < 2 || one.inputs == 1
	for i := range list {
		if list[i].alike(&one) {
			list[i].n++
			return list
		}
	}
	return append(list, one)
}

// alike reports whether two are equal but for their number.
func (s *stored) alike(o *stored) bool {
	return &s.params[0] == &o.params[0] && s.elements == o.elements && s.bytes == o.bytes && s.inputs == o.inputs &&
		s.block == o.block && s.vector == o.vector
}

// share makes one list of those of equal neighbours, so that they compare by pointer.
func share(layers [][]stored) {
	for i := 1; i < len(layers); i++ {
		equal := slices.EqualFunc(layers[i-1], layers[i], func(a, b stored) bool { return a.n == b.n && a.alike(&b) })
		if equal {
			layers[i] = layers[i-1]
		}
	}
}

// same reports whether two are one list.
func same(a, b []stored) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// stored counts what a rank holds of a module's tensors, of a layer that occurs so many times.
func (t *tally) stored(params []model.Param, list []stored, times int64) {
	for i := range list {
		s := &list[i]
		first := &params[s.params[0]]
		held, whole := int64(0), int64(0)
		rows, cols := false, false
		for _, j := range s.params {
			p := &params[j]
			held = t.plus(held, t.elements(p))
			whole = t.plus(whole, t.times(t.times(int64(p.Rows.Size), int64(max(p.Cols.Size, 1))), int64(max(p.Experts, 1))))
			rows = rows || p.Rows.Split != model.Whole
			cols = cols || p.Cols.Size > 0 && p.Cols.Split != model.Whole
		}
		n, bytes := s.elements, s.bytes
		if s.elements > 1 && !(s.vector && cols && !rows) {
			n, bytes = part(n, held, whole), part(bytes, held, whole)
			t.checkBlock(s, first, held, whole, cols && !rows)
		}
		t.stage.Parameters = t.plus(t.stage.Parameters, t.times(n, s.n*times))
		bytes = t.times(bytes, s.n*times)
		t.stage.Bytes = t.plus(t.stage.Bytes, bytes)
		*t.stage.ByPart.of(first.Part) += bytes
	}
}

// checkBlock refuses a rank a part of a block of packed inputs.
func (t *tally) checkBlock(s *stored, p *model.Param, held, whole int64, cut bool) {
	if inputs := part(s.inputs, held, whole); cut && s.block > 1 && inputs%s.block != 0 && t.err == nil {
		t.err = problem.New(problem.NotDivisible, p.Cols.Field, p.Cols.Size,
			"the %d inputs of a rank to %s are not whole blocks of %d", inputs, moduleName(p), s.block)
	}
}

// part is n·held/whole, rounded up. A scale or zero point has the shape of its weight in
// coarser steps.
func part(n, held, whole int64) int64 {
	high, low := bits.Mul64(uint64(n), uint64(held))
	if whole == 0 || high >= uint64(whole) {
		return n
	}
	quotient, rest := bits.Div64(high, low, uint64(whole))
	if rest > 0 {
		quotient++
	}
	return int64(quotient)
}

// places are the parameters of a layer, or of those outside of layers, by their names.
type places map[string][]int

func placesOf(params []model.Param) places {
	out := places{}
	for i := range params {
		out[params[i].Name] = append(out[params[i].Name], i)
	}
	return out
}

// ofTower finds a tower's parameter, whose name has stars for the numbers of layers.
func (p places) ofTower(name string) []int {
	parts := strings.Split(name, ".")
	for i := range parts {
		if number(parts[i]) >= 0 {
			parts[i] = "*"
		}
	}
	return p[strings.Join(parts, ".")]
}

// outside finds a parameter outside of layers, whatever its wrapper puts before the name.
func (p places) outside(name string) []int {
	for rest, more := name, true; more; _, rest, more = strings.Cut(rest, ".") {
		if found := p.find(rest); found != nil {
			return found
		}
	}
	return nil
}

// find is the place of a tensor: of its own name, of the weight that it scales, or of what
// another format's name stands for; nil where there is none.
func (p places) find(name string) []int {
	at := strings.LastIndexByte(name, '.') + 1
	module, leaf := name[:at], name[at:]
	if found := p.of(module, leaf); found != nil {
		return found
	}
	for _, module := range otherNames[strings.TrimSuffix(module, ".")] {
		if found := p.of(module+".", leaf); found != nil {
			return found
		}
	}
	return nil
}

// of is the place of a module's tensor, or of the weight that it scales.
func (p places) of(module, leaf string) []int {
	for _, name := range []string{module + leaf, module + "weight", strings.TrimSuffix(module, ".")} {
		if found := p[name]; found != nil {
			return found
		}
	}
	return nil
}

// split cuts a name at the layer's number: 3 and "mlp.up_proj.weight". The numbers of
// experts inside are dropped, as the parameters of all experts are one.
func split(name string) (layer int, inside string, ok bool) {
	parts := strings.Split(name, ".")
	at := slices.IndexFunc(parts, func(s string) bool { return number(s) >= 0 })
	if at < 0 || at == len(parts)-1 {
		return 0, "", false
	}
	rest := slices.DeleteFunc(parts[at+1:], func(s string) bool { return number(s) >= 0 })
	return number(parts[at]), strings.Join(rest, "."), true
}

// number is a decimal number, -1 for what is none.
func number(s string) int {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}

// ignored are tensors that engines compute anew.
func ignored(name string) bool {
	return slices.ContainsFunc([]string{"inv_freq", ".masked_bias", ".attn.bias", ".attention.bias", "position_ids", "_scale", "_zero_point",
		"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"},
		func(s string) bool { return strings.HasSuffix(name, s) })
}
