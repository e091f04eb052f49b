package sglang

import "headcount/problem"

// reserveState decides how many state slots the budget holds and returns the GiB left
// for tokens (_handle_max_mamba_cache). One slot more is allocated than is used.
func (s *setup) reserveState(z *sizing, rest float64) (float64, *problem.Error) {
	t := s.state
	perReq := s.stageSlot()
	d := &s.draft
	reserves := d.on
	perWorker := max(1, s.maxRunning/s.attnDP)
	draftTokens := max(d.tokens, 0)
	switch {
	case t.slots > 0:
		z.slots = t.slots / s.attnDP
		if reserves {
			requests := min(perWorker, z.slots/t.perReq)
			rest -= float64(mul(perReq, requests+1, draftTokens)) / gib
		}
	case s.noRadix && s.maxRunning > 0:
		z.slots = perWorker
		if reserves {
			rest -= float64(mul(perReq, z.slots+1, draftTokens)) / gib
		}
	case perReq <= 0:
		return 0, problem.New(problem.Unsupported, "", nil, "the model's state takes no bytes, and the engine asserts that it does")
	default:
		bytes := rest * t.ratio / (1 + t.ratio) * gib
		if !reserves {
			z.slots = truncate(floorDiv(bytes-float64(perReq), float64(perReq)))
			break
		}
		first := float64(mul(perReq, 1+draftTokens))
		each := float64(perReq) * (1 + float64(draftTokens)/float64(t.perReq))
		z.slots = truncate(floorDiv(bytes-first, each))
		requests := min(perWorker, floorDivInt(z.slots, t.perReq))
		rest -= float64(mul(perReq, requests+1, draftTokens)) / gib
	}
	if z.slots <= 0 {
		return 0, problem.New(problem.DoesNotFit, "max_mamba_cache_size", z.slots,
			"%.2f GiB do not hold the state of a request, %.2f MiB", rest, float64(perReq)/(1<<20)).
			WithHint("raise --mem-fraction-static, lower --max-running-requests, or use more ranks")
	}
	return rest - float64(mul(z.slots+1, perReq))/gib, nil
}

// stageSlot is the bytes of one slot on the stage with the most state layers, as the
// engine scales the whole model's.
func (s *setup) stageSlot() int64 {
	t := s.state
	whole := t.slot(t.layers)
	if len(s.stages) <= 1 || t.layers == 0 {
		return whole
	}
	return truncate(float64(whole) * (float64(t.most) / float64(t.layers)))
}

func floorDivInt(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}
