package weights

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"headcount/model"
)

// A quantised is how a quantised checkpoint's layers are kept, whatever the layout.
type quantised struct {
	layers  []*layerModules // one for each layer; equal ones share a pointer
	cuts    []Cut
	head    *scheme      // of the language-model head; nil: as it is
	towers  layerModules // of a tower, by places outside of layers; its plain is not used
	scales  cacheScales
	unknown string // why this is not known; "": it is
	headers bool   // the checkpoint's headers say it better
}

// A layerModules is the linear modules of a layer that are quantised. The other parameters
// of the layer are kept as they are.
type layerModules struct {
	modules []module
	plain   []int
	experts *scheme // of routed experts; nil: as they are
}

// of is what is quantised in a layer, nil where nothing is or it is not known.
func (q *quantised) of(layer int) *layerModules {
	if q == nil || q.layers == nil {
		return nil
	}
	return q.layers[layer]
}

// paddingOf is how far experts of a scheme are padded.
func (b *Build) paddingOf(s *scheme) Padding {
	switch {
	case s == nil:
		return b.Experts
	case s.kernel == mxfp4Kernel:
		return b.MXFP4Experts
	case s.kernel == gptOSSKernel:
		return b.GPTOSSExperts
	}
	return Padding{}
}

type quantisedKey struct{}

// maxComparisons bounds the patterns of a config that are held against one module of each
// layer. Real ones have some thousands.
const maxComparisons = 1 << 20

// quantisedOf returns how a model's checkpoint is quantised, nil for one that is not.
func quantisedOf(m *model.Model) *quantised {
	if m.Quantization == "" {
		return nil
	}
	return m.Memo(quantisedKey{}, func() any { return newQuantised(m) }).(*quantised)
}

func newQuantised(m *model.Model) *quantised {
	rules, err := newMethod(m)
	if err != nil {
		return &quantised{unknown: err.Error()}
	}
	if rules.patterns*len(m.Layers) > maxComparisons {
		return &quantised{unknown: fmt.Sprintf("a quantisation of %d patterns", rules.patterns)}
	}
	q := &quantised{layers: make([]*layerModules, len(m.Layers)), scales: rules.scales, headers: rules.headers}
	targets := map[*model.Layer][]target{}
	made := map[string]*layerModules{}
	for i, l := range m.Layers {
		if targets[l] == nil {
			targets[l] = targetsOf(l.Params)
		}
		schemes := make([]*scheme, len(targets[l]))
		for j, t := range targets[l] {
			if schemes[j], err = rules.scheme(t.in(i)); err != nil {
				return &quantised{unknown: err.Error()}
			}
			if s := schemes[j]; s != nil && t.kind == expertModule && len(s.experts) == 0 {
				return &quantised{unknown: "routed experts quantised as only other modules are: " + m.Quantization}
			}
		}
		key := fmt.Sprintf("%p %v", l, schemes) // schemes print as pointers
		if made[key] == nil {
			made[key] = newLayerModules(l.Params, targets[l], schemes)
		}
		q.layers[i] = made[key]
	}
	q.cuts = q.cutsOf(m.Layers)
	if q.head, err = headScheme(m, rules); err == nil {
		err = q.packTowers(m, rules)
	}
	if err != nil { // the layers are known all the same, and what does not fit in them
		q.unknown = err.Error()
	}
	return q
}

// packTowers finds the modules of towers that are quantised. What is said of a tower's first
// layer is said of all.
func (q *quantised) packTowers(m *model.Model, rules *method) error {
	var params []model.Param
	var places []int // in m.Outer
	for i := range m.Outer {
		if p := m.Outer[i]; p.Part == model.Tower && p.Linear {
			p.Name = stripped(strings.ReplaceAll(p.Name, "*", "0"))
			params, places = append(params, p), append(places, i)
		}
	}
	for _, t := range targetsOf(params) {
		s, err := rules.scheme(t)
		if err != nil {
			return err
		}
		if s == nil {
			continue
		}
		for i := range t.params {
			t.params[i] = places[t.params[i]]
		}
		q.towers.modules = append(q.towers.modules, module{params: t.params, scheme: s})
	}
	return nil
}

// packs reports whether a parameter outside of layers is one of a quantised module.
func (q *quantised) packs(outer int) bool {
	return q != nil && slices.ContainsFunc(q.towers.modules, func(m module) bool { return slices.Contains(m.params, outer) })
}

// scoreWeight is what projects a state to labels.
const scoreWeight = "score.weight"

// headScheme is how a language-model head is kept, or what scores labels in its place.
func headScheme(m *model.Model, rules *method) (*scheme, error) {
	if slices.ContainsFunc(m.Outer, func(p model.Param) bool { return p.Name == scoreWeight }) {
		return scoreScheme(m.Config, rules)
	}
	s, err := rules.scheme(target{path: "lm_head", kind: headModule})
	switch {
	case s == nil || err != nil:
		return nil, err
	case m.TiedEmbeddings: // some classes keep the head's scales, others have no head
		return nil, errors.New("a quantised head that is the embedding")
	case !slices.ContainsFunc(m.Outer, isHead):
		return nil, nil
	}
	return s, nil
}

// scoreScheme is that of the projection to labels, a linear module like others unless it is made
// of rows of the language-model head (vllm adapters.py, as_seq_cls_model).
func scoreScheme(c *model.Config, rules *method) (*scheme, error) {
	for _, key := range []string{"classifier_from_token", "method"} {
		if _, ok := c.Value(key); ok {
			return nil, nil
		}
		if _, ok := c.Top().Value(key); ok {
			return nil, nil
		}
	}
	return rules.scheme(target{path: "score", kind: linearModule})
}

func isHead(p model.Param) bool { return p.Part == model.Head && p.Cols.Size > 0 }

func newLayerModules(params []model.Param, targets []target, schemes []*scheme) *layerModules {
	out := &layerModules{}
	packed := make([]bool, len(params))
	for i, t := range targets {
		if schemes[i] == nil {
			continue
		}
		out.modules = append(out.modules, module{params: t.params, scheme: schemes[i], single: t.single()})
		for _, j := range t.params {
			packed[j] = true
		}
		if t.kind == expertModule {
			out.experts = schemes[i]
		}
	}
	for i := range params {
		if !packed[i] {
			out.plain = append(out.plain, i)
		}
	}
	return out
}

// A moduleKind is what a method may treat differently.
type moduleKind uint8

const (
	linearModule moduleKind = iota
	expertModule            // the routed experts of a layer, or one half of them
	headModule
)

// A target is a linear module as a method's lists may name it, in vLLM's words.
type target struct {
	path   string   // "layers.3.self_attn.qkv_proj", of routed experts "layers.3.mlp.experts"
	pieces []string // by the checkpoint's names, what it joins or each expert has; nil: the path alone
	kind   moduleKind
	params []int // places in the layer
}

// single reports whether the engine takes what is one tensor in the checkpoint for one
// weight, not for the several that it joins: Qwen3-Next's inputs to a delta net.
func (t *target) single() bool {
	return len(t.pieces) == 0 && (strings.HasSuffix(t.path, ".in_proj_qkvz") || strings.HasSuffix(t.path, ".in_proj_ba"))
}

// in is the target in a layer, with its whole path.
func (t target) in(layer int) target {
	prefix := "layers." + strconv.Itoa(layer) + "."
	t.path = prefix + t.path
	pieces := make([]string, len(t.pieces))
	for i, piece := range t.pieces {
		pieces[i] = prefix + piece
	}
	t.pieces = pieces
	return t
}

// joins are projections that vLLM stores in one matrix, in its order, and what it calls that.
var joins = []struct {
	name string
	of   []string
}{
	{"qkv_proj", []string{"q_proj", "k_proj", "v_proj"}},
	{"gate_up_proj", []string{"gate_proj", "up_proj"}},
	{"gate_up_proj", []string{"w1", "w3"}},
	{"fused_qkv_a_proj", []string{"q_a_proj", "kv_a_proj_with_mqa"}},
	{"fused_wqa_wkv", []string{"wq_a", "wkv"}},
	{"in_proj_qkvz", []string{"in_proj_qkv", "in_proj_z"}},
	{"in_proj_ba", []string{"in_proj_b", "in_proj_a"}},
}

// targetsOf are the linear modules of a layer in order. Parameters of one name are parts
// of one tensor.
func targetsOf(params []model.Param) []target {
	names := map[string]bool{}
	for i := range params {
		if params[i].Linear && !params[i].Apart {
			names[moduleName(&params[i])] = true
		}
	}
	var out []target
	for i := range params {
		p := &params[i]
		if !p.Linear {
			continue
		}
		one := targetOf(p, names)
		at := slices.IndexFunc(out, func(t target) bool {
			return t.path == one.path && t.kind == one.kind && (t.kind != expertModule || rowSplit(params, t) == p.Rows.Split)
		})
		if at < 0 {
			at = len(out)
			out = append(out, one)
		}
		t := &out[at]
		t.params = append(t.params, i)
		if one.kind == expertModule && !slices.Contains(t.pieces, one.pieces[0]) {
			t.pieces = append(t.pieces, one.pieces[0])
		}
	}
	return out
}

// rowSplit is how the rows of a target's first parameter are split, which tells what goes
// into experts from what comes out.
func rowSplit(params []model.Param, t target) model.Split { return params[t.params[0]].Rows.Split }

// moduleName is the module of a weight, "self_attn.q_proj".
func moduleName(p *model.Param) string { return strings.TrimSuffix(p.Name, ".weight") }

// targetOf is the module that a parameter is in, among those of a layer.
func targetOf(p *model.Param, names map[string]bool) target {
	name := moduleName(p)
	at := strings.LastIndexByte(name, '.') + 1
	parent, leaf := name[:at], name[at:]
	if p.Experts > 0 {
		path, inside, _ := strings.Cut(name, "experts.")
		path += "experts"
		return target{path: path, pieces: []string{path + ".0." + cmp.Or(inside, leaf)}, kind: expertModule}
	}
	for _, join := range joins {
		if slices.Contains(join.of, leaf) && !slices.ContainsFunc(join.of, func(s string) bool { return !names[parent+s] }) {
			t := target{path: parent + join.name}
			for _, s := range join.of {
				t.pieces = append(t.pieces, parent+s)
			}
			return t
		}
	}
	return target{path: name}
}
