package vllm

import (
	"slices"
	"strings"

	"headcount/model"
	"headcount/problem"
	"headcount/weights"
)

// checkPieces refuses a layout that cuts a quantised weight inside of a piece.
func (s *setup) checkPieces() *problem.Error {
	for _, c := range weights.Cuts(s.v.model) {
		if err := s.checkCut(&c); err != nil {
			return err
		}
	}
	return nil
}

// checkProjections does so of what is built before the first attention: the layers before
// its own, and its projections; of a sparse one, of that which expands latents
// (models/deepseek_v32/attention.py: the others come after the choice of a backend).
func (s *setup) checkProjections() *problem.Error {
	cuts := weights.Cuts(s.v.model)
	if len(cuts) == 0 {
		return nil
	}
	first := slices.IndexFunc(s.v.model.Layers, (*model.Layer).Attends)
	for _, c := range cuts {
		if first >= 0 && (c.Layer > first || c.Layer == first && c.Part() != model.Attention) {
			break
		}
		if s.v.sparse && !strings.Contains(c.Name(), "kv_b_proj") {
			continue
		}
		if err := s.checkCut(&c); err != nil {
			return err
		}
	}
	return nil
}

// checkCut does so of one module.
func (s *setup) checkCut(c *weights.Cut) *problem.Error {
	err := c.Check(weights.Build{Layout: s.layout, ByPlan: s.v.transformers})
	if err != nil {
		err.Field = s.v.field(err.Field)
	}
	return err
}
