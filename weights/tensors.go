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
	if Unknown(m) == "" {
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
// the checkpoint as stored, quantised or not. The error is a [*problem.Error] with code
// not_known that names a tensor whose place in the model is not known.
func stagesOfTensors(m *model.Model, b Build) ([]Stage, error) {
	stages := make([]Stage, len(b.Spans))
	p := placer{model: m, build: &b, tally: tally{build: &b}, layers: map[*model.Layer]shares{}}
	p.outer = p.sharesOf(m.Outer)
	for _, tensor := range m.Tensors {
		s, where, ok := p.place(tensor.Name)
		switch {
		case !ok && ignored(tensor.Name):
			continue
		case !ok:
			return nil, problem.New(problem.NotKnown, "weights", nil, "tensor %.120q has no place that is known in %s", tensor.Name, m.Architecture)
		case s == nil:
			continue
		}
		n, bytes := s.rank(tensor, elementsOf(tensor)), s.rank(tensor, tensor.Bytes)
		for i := range stages {
			if where(i) {
				stages[i].Parameters += n
				stages[i].Bytes += bytes
				*stages[i].ByPart.of(s.part) += bytes
			}
		}
	}
	if p.tally.err != nil {
		return nil, p.tally.err
	}
	return stages, nil
}

// A share is what one rank holds of a module's weight, of a whole that may be several
// parameters in one tensor.
type share struct {
	part        model.Part
	held, whole int64 // elements
	rows, cols  bool  // which axis is split
	stage       model.Stage
	left        bool // the engine does not build it
}

// shares are the modules of a layer, or those outside of layers, by their parameters' names.
type shares map[string]*share

// rank is the part of n, bytes or elements of a tensor, that one rank holds. A scale or
// zero point has the shape of its weight in coarser steps; one that does not go along the
// split axis is whole.
func (s *share) rank(t checkpoint.Tensor, n int64) int64 {
	vector := len(t.Shape) < 2 || t.Shape[len(t.Shape)-1] == 1
	if elementsOf(t) <= 1 || vector && s.cols && !s.rows || s.held == s.whole {
		return n
	}
	high, low := bits.Mul64(uint64(n), uint64(s.held))
	if high >= uint64(s.whole) {
		return n
	}
	part, rest := bits.Div64(high, low, uint64(s.whole))
	if rest > 0 {
		part++
	}
	return int64(part)
}

// A placer finds each tensor's parameter.
type placer struct {
	model  *model.Model
	build  *Build
	tally  tally
	layers map[*model.Layer]shares
	outer  shares
}

func (p *placer) sharesOf(params []model.Param) shares {
	out := shares{}
	for i := range params {
		param := &params[i]
		s := out[param.Name]
		if s == nil {
			s = &share{part: param.Part, stage: p.build.stageOf(p.model, param), left: p.build.leavesOut(param)}
			out[param.Name] = s
		}
		size := int64(param.Rows.Size) * int64(max(param.Cols.Size, 1)) * int64(max(param.Experts, 1))
		s.held += p.tally.elements(param)
		s.whole += size
		s.rows = s.rows || param.Rows.Split != model.Whole
		s.cols = s.cols || param.Cols.Size > 0 && param.Cols.Split != model.Whole
	}
	return out
}

// place finds the share of a tensor and the stages that hold it. A nil share is a tensor
// that the engine leaves out: a layer of speculation, a head that is the embedding.
func (p *placer) place(name string) (s *share, where func(stage int) bool, ok bool) {
	layer, inside, inLayer := split(name)
	if !inLayer {
		s, ok = p.outside(name)
		if s == nil {
			return nil, nil, ok
		}
		return s, func(i int) bool { return onStage(s.stage, i, len(p.build.Spans)) }, ok && !s.left
	}
	if layer >= len(p.model.Layers) {
		return nil, nil, layer < len(p.model.Layers)+len(p.model.Draft)
	}
	l := p.model.Layers[layer]
	if p.layers[l] == nil {
		p.layers[l] = p.sharesOf(l.Params)
	}
	s = find(p.layers[l], inside)
	return s, func(i int) bool { return p.build.Spans[i].Start <= layer && layer < p.build.Spans[i].End }, s != nil
}

// outside finds a parameter outside of layers, whatever its wrapper puts before the name.
func (p *placer) outside(name string) (*share, bool) {
	for rest := name; ; {
		if s := find(p.outer, rest); s != nil {
			return s, true
		}
		_, after, more := strings.Cut(rest, ".")
		if !more {
			break
		}
		rest = after
	}
	return nil, p.model.TiedEmbeddings && strings.Contains(name, "lm_head")
}

// find is the share of a tensor: of its own name, or of the weight that it scales.
func find(in shares, name string) *share {
	if s := in[name]; s != nil {
		return s
	}
	module := name[:strings.LastIndexByte(name, '.')+1]
	return in[module+"weight"]
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
	return slices.ContainsFunc([]string{"inv_freq", ".masked_bias", ".attn.bias", ".attention.bias", "position_ids", "_scale", "_zero_point"},
		func(s string) bool { return strings.HasSuffix(name, s) })
}
