package weights

import (
	"slices"

	"headcount/model"
	"headcount/problem"
)

// A hold says where an engine refuses a rank a part of a piece: of the group, word or block of
// a weight that one element of a tensor stands for.
type hold uint8

const (
	anyPart      hold = iota // nowhere
	wholeInputs              // along the inputs
	wholeOutputs             // along the outputs
	loneBlocks               // along what ranks divide, of a weight that is joined with none (vllm layers/linear.py, ColumnParallelLinear)
	allBlocks                // the same, and along the outputs of joined ones: of all, or where ranks do not divide them, of all but the last (fp8_utils.py, validate_fp8_block_shape)
)

// counts reports whether a rank with a part of a piece has no whole number of them.
func (h hold) counts() bool { return h == wholeInputs || h == wholeOutputs }

// A Cut is a linear module of a layer that is quantised in pieces.
type Cut struct {
	Layer  int           // the first that has it
	params []model.Param // of the layer
	module *module
}

// Cuts are the modules of a model's layers that are quantised in pieces, in the order in
// which they are built, those of equal layers once. There are none where the checkpoint's
// headers were read and say better which modules are quantised.
func Cuts(m *model.Model) []Cut {
	q := quantisedOf(m)
	if q == nil || q.headers && len(m.Tensors) > 0 {
		return nil
	}
	return q.cuts
}

// holds reports whether a rank may have to hold whole pieces.
func (s *scheme) holds() bool {
	held := func(t tensor) bool { return t.hold != anyPart }
	return s.fit != nil || slices.ContainsFunc(s.linear, held) || slices.ContainsFunc(s.experts, held)
}

// cutsOf lists the modules of which a rank may have to hold whole pieces.
func (q *quantised) cutsOf(layers []*model.Layer) (cuts []Cut) {
	seen := map[*layerModules]bool{}
	for i, of := range q.layers {
		if seen[of] {
			continue
		}
		seen[of] = true
		for j := range of.modules {
			if m := &of.modules[j]; m.scheme.holds() {
				cuts = append(cuts, Cut{Layer: i, params: layers[i].Params, module: m})
			}
		}
	}
	return cuts
}

// Part is what the module is for.
func (c *Cut) Part() model.Part { return c.first().Part }

// Name is the module's in its layer, "self_attn.o_proj"; of one that joins several, the first's.
func (c *Cut) Name() string { return moduleName(c.first()) }

func (c *Cut) first() *model.Param { return &c.params[c.module.params[0]] }

// Check refuses a layout that gives a rank a part of a piece where the engine wants it whole.
func (c *Cut) Check(b Build) *problem.Error {
	t := tally{build: b}
	list := t.tensors(c.module.scheme, c.first())
	for i := range list {
		t.checkPieces(c.params, c.module, &list[i])
	}
	return t.err
}

// checkPieces refuses a rank's part of a module that cuts pieces of one of its tensors.
func (t *tally) checkPieces(params []model.Param, m *module, s *tensor) {
	first := &params[m.params[0]]
	switch s.hold {
	case wholeInputs:
		t.checkInputs(first, s)
	case wholeOutputs:
		t.checkOutputs(params, m.params, s)
	case loneBlocks, allBlocks:
		rows, cols := t.axes(first)
		if t.tp > 1 && cols.Split != model.Whole {
			t.checkInputs(first, s)
		}
		divided, of := t.tp > 1 && rows.Split != model.Whole, m.params
		switch {
		case t.alone(params, m):
			if divided {
				t.checkOutputs(params, of, s)
			}
		case s.hold == allBlocks:
			if !divided {
				of = of[:len(of)-1]
			}
			for i := range of {
				t.checkOutputs(params, of[i:i+1], s)
			}
		}
	}
}

// alone reports whether the engine takes a module for one weight: also what it joins only
// with rows that every rank has, as a Mamba-2 of one group (vllm layers/mamba/mamba_mixer2.py).
func (t *tally) alone(params []model.Param, m *module) bool {
	if len(m.params) == 1 || m.single {
		return true
	}
	whole := 0
	for _, i := range m.params {
		if rows, _ := t.axes(&params[i]); rows.Split == model.Whole {
			whole++
		}
	}
	return t.tp > 1 && 0 < whole && whole < len(m.params)
}

// checkInputs refuses a rank a part of a piece along the inputs of a weight.
func (t *tally) checkInputs(p *model.Param, s *tensor) {
	if _, width := t.shape(p); s.inputs > 0 && width%s.inputs != 0 {
		t.cut(&p.Cols, "the %d inputs of a rank to %s are not divisible by %d, as its quantisation needs", width, p, s.inputs)
	}
}

// checkOutputs refuses a rank a part of a piece along the outputs of weights that lie one after
// the other.
func (t *tally) checkOutputs(params []model.Param, of []int, s *tensor) {
	total := int64(0)
	for _, i := range of {
		height, _ := t.shape(&params[i])
		total = t.plus(total, height)
	}
	if p := &params[of[0]]; s.outputs > 0 && total%s.outputs != 0 {
		t.cut(&p.Rows, "the %d outputs of a rank of %s are not divisible by %d, as its quantisation needs", total, p, s.outputs)
	}
}

// cut keeps the refusal of a part of a weight.
func (t *tally) cut(axis *model.Axis, format string, held int64, of *model.Param, size int64) {
	if t.err == nil {
		t.err = problem.New(problem.NotDivisible, axis.Field, axis.Size, format, held, moduleName(of), size)
	}
}
