package model

import (
	"cmp"
	"strings"

	"headcount/dtype"
	"headcount/problem"
)

// experts are the feed-forward of a sparse layer: routed experts behind a router, and
// beside them what every token passes through. Module names are inside the layer and the
// checkpoint's own; a routed expert's number is left out: "mlp.experts.up_proj.weight".
type experts struct {
	prefix string // module that holds all of it; "": the layer
	count  int    // routed experts; 0: the model has none
	width  int    // of one routed expert
	field  string // config field of width
	hidden int    // what routed experts take and give; 0: the model's width
	least  int    // of width on each of several ranks; 0: no such rule

	projections [3]string // gate, up and down of an expert; zero: gate_proj, up_proj, down_proj

	ungated bool // experts, the shared one too, have no gate
	biased  bool // routed experts and the router have biases

	router      string     // module of the router
	routerDType dtype.Type // Unknown: the model's
	routerPacks bool       // quantisation may pack the router as any other projection
	logits      int        // rows of the router; 0: one an expert
	scoreBias   string     // bias of the experts' scores, float32; "": none
	biasPart    Part       // whose bill it goes on; "": the router's

	shared      string // module of the shared expert
	sharedWidth int    // of it; 0: there is none
	sharedBlock int    // of which each of several ranks holds whole ones; 0: no such rule
	sharedGate  string // module of one row that weighs the shared expert; "": none

	beside []Param // what else a sparse layer has in place of an MLP
}

// params are the parameters of the feed-forward of one layer.
func (e experts) params(hidden int) []Param {
	logits := e.logits
	if logits == 0 {
		logits = e.count
	}
	router := linear(e.router, MoERouter, whole(logits), whole(hidden))
	router.DType, router.Linear = e.routerDType, e.routerPacks
	params := []Param{router}
	if e.scoreBias != "" {
		params = append(params, Param{Name: e.scoreBias, Part: cmp.Or(e.biasPart, MoERouter), Rows: whole(logits), DType: dtype.Float32})
	}
	if e.biased {
		params = append(params, bias(e.router, MoERouter, whole(logits)))
	}
	params = append(params, e.routed(hidden)...)
	if e.sharedWidth > 0 {
		width := sharded(e.sharedWidth, e.field)
		width.Block = e.sharedBlock
		params = append(params, e.mlp(e.shared, MoEShared, [3]string{}, hidden, width)...)
	}
	if e.sharedGate != "" {
		gate := linear(e.sharedGate, MoEShared, whole(1), whole(hidden))
		gate.Linear = false
		params = append(params, gate)
	}
	return append(params, e.beside...)
}

// routed are the parameters of the routed experts.
func (e experts) routed(hidden int) []Param {
	if e.hidden > 0 {
		hidden = e.hidden
	}
	width := Axis{Size: e.width, Split: Sharded, Share: e.least, Field: e.field}
	params := e.mlp(strings.TrimPrefix(e.prefix+".experts", "."), MoEExperts, e.projections, hidden, width)
	if e.biased {
		for _, p := range params {
			params = append(params, bias(strings.TrimSuffix(p.Name, ".weight"), MoEExperts, p.Rows))
		}
	}
	for i := range params {
		params[i].Experts = e.count
	}
	return params
}

// mlp are the projections of one expert, without the gate where experts have none.
func (e experts) mlp(prefix string, part Part, names [3]string, hidden int, width Axis) []Param {
	params := gatedMLP(prefix, part, names, hidden, width)
	if e.ungated {
		return params[1:]
	}
	return params
}

// gatedMLP are gate, up and down projections under names; zero names are the usual ones.
func gatedMLP(prefix string, part Part, names [3]string, hidden int, width Axis) []Param {
	if names == [3]string{} {
		names = [3]string{"gate_proj", "up_proj", "down_proj"}
	}
	params := []Param{
		linear(prefix+"."+names[0], part, width, whole(hidden)),
		linear(prefix+"."+names[1], part, width, whole(hidden)),
		linear(prefix+"."+names[2], part, whole(hidden), width),
	}
	fuse(params)
	return params
}

// mixtralProjections are the names of an expert's projections in Mixtral and its like.
var mixtralProjections = [3]string{"w1", "w3", "w2"}

// experts reads the number of routed experts and the width of one. A number that is
// absent, null or 0 means a model without experts; its width is then not read.
func (r *reader) experts(prefix, countKey, widthKey string) experts {
	e := experts{prefix: prefix, count: r.opt(countKey, 0), field: widthKey, router: prefix + ".gate"}
	if e.count > 0 {
		e.width = r.size(widthKey)
		r.from("experts", r.Where(countKey))
	}
	return e
}

// share gives e the shared expert of n times a routed expert's width.
func (r *reader) share(e *experts, module, countKey string, def int) {
	e.shared = e.prefix + "." + module
	e.sharedWidth = r.times(countKey, r.opt(countKey, def), e.width)
}

// times is a·b, which must be a size that a config may claim; key is what to blame.
func (r *reader) times(key string, a, b int) int {
	if a != 0 && b > maxSize/a {
		r.fail(problem.BadValue, key, "%d times %d is greater than %d", a, b, int64(maxSize))
		return 0
	}
	return a * b
}

// from returns whether a layer is at first or later, and at a multiple of every.
func sparseFrom(first, every int) func(layer int) bool {
	return func(layer int) bool { return layer >= first && layer%max(every, 1) == 0 }
}

// sparseByType returns whether a layer's entry of mlp_layer_types is not "dense"; nil where
// neither file nor class gives that list.
func (r *reader) sparseByType(layers int) func(layer int) bool {
	types := r.strings("mlp_layer_types", layers)
	if types == nil {
		return nil
	}
	return func(layer int) bool { return types[layer] != "dense" }
}

// ints reads a list of whole numbers, nil when absent.
func (r *reader) ints(key string) []int {
	list, _ := r.List(key)
	out := make([]int, 0, len(list))
	for i, v := range list {
		n, ok := v.Int()
		if !ok || n < -maxSize || n > maxSize {
			r.fail(problem.BadValue, key, "entry %d is not a whole number", i)
			return nil
		}
		out = append(out, int(n))
	}
	return out
}
