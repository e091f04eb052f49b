package vllm

import "headcount/layout"

// spans splits layers over pipeline stages (distributed/utils.py, get_pp_indices): as many
// on each, and of the rest one each on the stages before the last, from its end. They are
// appended to out.
func spans(out []layout.Span, layers, stages int) []layout.Span {
	each, rest := layers/stages, layers%stages
	at := 0
	for i := range stages {
		n := each
		if i >= stages-1-rest && i < stages-1 {
			n++
		}
		out = append(out, layout.Span{Start: at, End: at + n})
		at += n
	}
	return out
}
