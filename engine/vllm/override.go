package vllm

import (
	"slices"
	"strings"

	"headcount/problem"
)

// checkOverride holds --attention-backend to what the engine would have chosen: which
// block sizes and dtypes follow from another choice is not known here.
func (p *plan) checkOverride() *problem.Error {
	asked, chosen := p.setup.opt.AttentionBackend, p.result.Resolved.AttentionBackends
	if asked == "" || slices.Contains(chosen, strings.ToUpper(asked)) {
		return nil
	}
	return problem.New(problem.NotKnown, "attention_backend", asked, "only the engine's own choice is planned for, here %s", strings.Join(chosen, ", ")).
		WithHint("leave it out")
}
