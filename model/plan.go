package model

import (
	"strings"

	"headcount/checkpoint"
)

// A tpPlan is what a Transformers class shards over tensor-parallel ranks: the names that
// its modules have inside a layer.
type tpPlan []string

// shardingStyles are the styles of a plan that split a linear layer. Any other leaves it
// whole (vllm models/transformers/utils.py, replace_linear_class).
var shardingStyles = map[string]bool{
	"colwise": true, "rowwise": true, "colwise_gather_output": true, "rowwise_split_input": true,
}

// newTPPlan reads a class's plan: "layers.*.mlp.up_proj" → "colwise".
func newTPPlan(o *checkpoint.Object) tpPlan {
	var plan tpPlan
	for _, pattern := range o.Keys() {
		style, _ := o.Get(pattern)
		name, _ := style.Text()
		if inside, ok := strings.CutPrefix(pattern, "layers.*."); ok && shardingStyles[name] {
			plan = append(plan, inside)
		}
	}
	return plan
}

// covers reports whether the plan shards a parameter of a layer.
func (plan tpPlan) covers(name string) bool {
	for _, module := range plan {
		if rest, ok := strings.CutPrefix(name, module); ok && strings.HasPrefix(rest, ".") {
			return true
		}
	}
	return false
}

// mark notes on each parameter of a layer whether an engine that shards by the plan leaves
// it whole. Projections that such an engine fuses are sharded whatever the plan says, and
// so are experts; a norm is never a part of it.
func (plan tpPlan) mark(params []Param) {
	for i := range params {
		p := &params[i]
		split := p.Rows.Split != Whole || p.Cols.Split != Whole
		p.OffPlan = split && !p.fused && p.Experts == 0 && (p.Part == Norm || !plan.covers(p.Name))
	}
}

// unfused is a model of which no projections are merged, so that the plan alone decides.
func unfused(m *Model) *Model {
	for _, l := range distinct(m.Layers) {
		for i := range l.Params {
			l.Params[i].fused = false
		}
	}
	return m
}
