package vllm

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"headcount/checkpoint"
	"headcount/model"
	"headcount/problem"
)

// A grid is how a quantisation method cuts a weight into pieces that share a scale. A rank
// must hold whole pieces.
type grid struct {
	rows, cols int64    // of a block; 0: not cut in blocks
	group      int64    // inputs that share a scale; 0: not cut in groups
	pack       int64    // outputs in one word; 0: any number
	allInputs  bool     // a group is held against whole inputs as well
	strict     bool     // blocks are held against experts and against rows of joined matrices as well
	targets    patterns // none: every module
}

// grids are those of a checkpoint, and the modules that it leaves unquantised.
type grids struct {
	list    []grid
	ignored patterns
}

// patterns name modules: by a part of their path, or by a regular expression.
type patterns struct {
	parts       map[string]bool
	expressions []*regexp.Regexp
}

// add takes the patterns of a list of the config.
func (p *patterns) add(list []checkpoint.Value) {
	for _, v := range list {
		s, ok := v.Text()
		if expr, isRE := strings.CutPrefix(s, "re:"); isRE {
			if re, err := regexp.Compile("^(?:" + expr + ")"); err == nil {
				p.expressions = append(p.expressions, re)
			}
		} else if ok && s != "" {
			if i := strings.Index(s, "layers."); i >= 0 {
				s = s[i:] // whatever a wrapper calls the model
			}
			if p.parts == nil {
				p.parts = map[string]bool{}
			}
			p.parts[s] = true
		}
	}
}

func (p *patterns) empty() bool { return len(p.parts) == 0 && len(p.expressions) == 0 }

// match tells whether a pattern is about a module, "layers.3.mlp.down_proj": every part of
// its path between dots is looked up.
func (p *patterns) match(module string) bool {
	if p.parts["Linear"] {
		return true
	}
	for rest := module; len(p.parts) > 0; {
		for end := 0; end < len(rest); end++ {
			if dot := strings.IndexByte(rest[end:], '.'); dot >= 0 {
				end += dot
			} else {
				end = len(rest)
			}
			if p.parts[rest[:end]] {
				return true
			}
		}
		_, after, more := strings.Cut(rest, ".")
		if !more {
			break
		}
		rest = after
	}
	return slices.ContainsFunc(p.expressions, func(re *regexp.Regexp) bool { return re.MatchString("model." + module) })
}

// newGrids reads the grids of a method from its block of the config.
func newGrids(method string, block *checkpoint.Object) (g grids) {
	switch method {
	case "fp8", "deepseek_v4_fp8":
		if n, k, ok := block.Pair("weight_block_size"); ok {
			g.list = []grid{{rows: n, cols: k}}
		}
	case "auto_awq":
		bits, group := block.FirstInt("bits", "w_bit"), block.FirstInt("group_size", "q_group_size")
		if bits > 0 && bits <= 32 && group > 0 {
			g.list = []grid{{group: group, pack: 32 / bits, allInputs: true}}
		}
	case "compressed-tensors":
		groups := object(block, "config_groups")
		for _, key := range groups.Keys() {
			value, _ := groups.Get(key)
			if one, ok := newGroupGrid(value.Dict()); ok {
				g.list = append(g.list, one)
			}
		}
	}
	for _, key := range []string{"modules_to_not_convert", "ignored_layers", "ignore"} {
		value, _ := block.Get(key)
		g.ignored.add(value.List())
	}
	return g
}

// newGroupGrid is the grid of one config group of compressed-tensors.
func newGroupGrid(o *checkpoint.Object) (g grid, ok bool) {
	weights := object(o, "weights")
	targets, _ := o.Get("targets")
	g.targets.add(targets.List())
	activations := object(o, "input_activations")
	switch strategy, kind := text(weights, "strategy"), text(weights, "type"); {
	case strategy == "block":
		g.strict = true
		g.rows, g.cols, ok = weights.Pair("block_structure")
	case strategy == "group" && kind == "int" && activations == nil:
		g.group = weights.FirstInt("group_size")
		ok = g.group > 0
	}
	return g, ok
}

// of is the grid of a module of layer i, nil for one that is not cut.
func (g *grids) of(layer int, module string) *grid {
	path := "layers." + strconv.Itoa(layer) + "." + module
	if g.ignored.match(path) {
		return nil
	}
	for i := range g.list {
		one := &g.list[i]
		if one.targets.empty() || one.targets.match(path) {
			return one
		}
	}
	return nil
}

// A cut is a weight that a grid cuts.
type cut struct {
	grid     *grid
	param    *model.Param
	siblings []model.Param // of its layer, itself included
}

// cutBy are the weights that are cut, in the order in which modules are built, each once.
func (v *view) cutBy(g *grids) (cuts []cut) {
	if len(g.list) == 0 {
		return nil
	}
	seen := map[cutKey]bool{}
	at := 0
	for _, r := range v.runs {
		params := v.layers[r.layer].Params
		for i := range params {
			p := &params[i]
			if !p.Linear {
				continue
			}
			key := cutKey{g.of(at, strings.TrimSuffix(p.Name, ".weight")), p}
			if key.grid != nil && !seen[key] {
				seen[key] = true
				cuts = append(cuts, cut{key.grid, p, params})
			}
		}
		at += int(r.n)
	}
	return cuts
}

type cutKey struct {
	grid  *grid
	param *model.Param
}

// checkGrids refuses a layout that cuts a quantised weight inside of a piece
// (quantization/utils/fp8_utils.py, validate_fp8_block_shape).
func (s *setup) checkGrids() *problem.Error {
	for _, c := range s.v.cuts {
		if err := s.checkGrid(c.grid, c.param, c.siblings); err != nil {
			return err
		}
	}
	return nil
}

// checkProjections holds the projections of the first attention against their grid; of a
// sparse one, that which expands latents (models/deepseek_v32/attention.py: the others come
// after the choice of a backend).
func (s *setup) checkProjections() *problem.Error {
	for _, c := range s.v.cuts {
		if c.param.Part != model.Attention {
			break
		}
		if s.v.sparse && !strings.Contains(c.param.Name, "kv_b_proj") {
			continue
		}
		if err := s.checkGrid(c.grid, c.param, c.siblings); err != nil {
			return err
		}
	}
	return nil
}

// checkGrid holds one weight against its grid.
func (s *setup) checkGrid(g *grid, p *model.Param, siblings []model.Param) *problem.Error {
	tp := int64(s.layout.TP)
	if p.Experts > 0 {
		return s.checkExpertGrid(g, p)
	}
	rows, cols := held(&p.Rows, tp), held(&p.Cols, tp)
	splitRows, splitCols := tp > 1 && p.Rows.Split != model.Whole, tp > 1 && p.Cols.Split != model.Whole
	switch {
	case g.cols > 0 && splitCols && cols%g.cols != 0:
		return s.offGrid(&p.Cols, cols, "input_size_per_partition", "weight quantization block_k", g.cols)
	case g.rows > 0 && rows%g.rows != 0 && rowsMatter(g, p, siblings, splitRows):
		return s.offGrid(&p.Rows, rows, "output_partition_size", "weight quantization block_n", g.rows)
	case g.group > 0 && (splitCols || g.allInputs) && cols%g.group != 0:
		return s.offGrid(&p.Cols, cols, "input_size_per_partition", "group_size", g.group)
	case g.pack > 0 && rows%g.pack != 0:
		return s.offGrid(&p.Rows, rows, "output_size_per_partition", "values in a word", g.pack)
	}
	return nil
}

// checkExpertGrid holds a rank's slice of an expert against its grid.
func (s *setup) checkExpertGrid(g *grid, p *model.Param) *problem.Error {
	if s.layout.EP {
		return nil
	}
	for _, axis := range []*model.Axis{&p.Rows, &p.Cols} {
		if axis.Split == model.Whole {
			continue
		}
		n := held(axis, int64(s.layout.TP))
		switch {
		case g.strict && n%g.rows != 0:
			return s.offGrid(axis, n, "experts' intermediate size", "weight quantization block_n", g.rows)
		case g.strict && s.layout.TP > 1 && n%g.cols != 0:
			return s.offGrid(axis, n, "experts' intermediate size", "weight quantization block_k", g.cols)
		case g.group > 0 && !g.allInputs && n%g.group != 0:
			return s.offGrid(axis, n, "MoE intermediate size", "group_size", g.group)
		}
	}
	return nil
}

func (s *setup) offGrid(axis *model.Axis, n int64, what, unit string, size int64) *problem.Error {
	return problem.New(problem.NotDivisible, s.v.field(axis.Field), axis.Size, "%s = %d of a rank is not divisible by %s = %d", what, n, unit, size)
}

// rowsMatter tells whether a rank's rows must be whole blocks: of a matrix that is split,
// and of one that is joined with others, save the last of an unsplit one. The engine's own
// fp8 method lets joined ones pass (layers/linear.py, ColumnParallelLinear).
func rowsMatter(g *grid, p *model.Param, siblings []model.Param, split bool) bool {
	has := func(name string) bool {
		return slices.ContainsFunc(siblings, func(q model.Param) bool { return q.Name == name })
	}
	for _, parts := range joined {
		for i, part := range parts {
			path, ok := strings.CutSuffix(p.Name, part+".weight")
			if !ok || !has(path+parts[len(parts)-1]+".weight") {
				continue
			}
			return g.strict && (split || i < len(parts)-1)
		}
	}
	return split
}

// joined are projections that the engine stores in one matrix, in its order.
var joined = [][]string{{"q_proj", "k_proj", "v_proj"}, {"gate_proj", "up_proj"}, {"in_proj_qkv", "in_proj_z"}, {"in_proj_b", "in_proj_a"}}

// held is what a rank holds of an axis that its layout divides.
func held(a *model.Axis, tp int64) int64 {
	n, unit := int64(a.Size), int64(max(a.Unit, 1))
	switch a.Split {
	case model.Whole:
		return n
	case model.Heads:
		return max(unit, n/tp)
	}
	if block := int64(a.Block); tp > 1 && block > 0 {
		return (n/block + tp - 1) / tp * block
	}
	return max(n/tp, int64(a.Least))
}
