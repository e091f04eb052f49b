package sglang

import (
	"headcount/dtype"
	"headcount/engine"
	"headcount/model"
)

// A part is a cache of a layer, as an index into the parts that a stage may have.
type part uint8

const (
	fullPart part = iota
	windowPart
	statePart
	indexPart
	keysPart // index keys without values
	compressed4
	compressed128
	nothing
	parts
)

// runs are a stage's caches in the order of its layers, equal neighbours together.
func (a *answer) runs(i int, stored dtype.Type) []*engine.Run {
	f, s := &a.flags, &a.setup
	st := &s.stages[i]
	out := a.run[:0]
	if i > 0 {
		out = nil
	}
	uniform := f.states == nil && s.sliding == nil && s.index.row == 0 && s.sparse == nil && s.dsv4 == nil
	if uniform {
		if st.layers == 0 {
			return []*engine.Run{}
		}
		run := &a.whole
		if i > 0 {
			run = new(engine.Run)
		}
		*run = s.run(fullPart, stored)
		run.Layers = int(st.layers)
		return append(out, run)
	}
	var last [parts]*engine.Run
	count := 0
	f.eachRun(s, st, func(part, int) { count++ })
	out = make([]*engine.Run, 0, count)
	f.eachRun(s, st, func(p part, layers int) {
		if last[p] == nil {
			run := s.run(p, stored)
			run.Layers = layers
			last[p] = &run
		}
		last[p] = last[p].Over(layers)
		out = append(out, last[p])
	})
	return out
}

// eachRun gives the caches of a stage in order, equal neighbours counted together.
func (f *flags) eachRun(s *setup, st *stage, give func(p part, layers int)) {
	last, layers := parts, 0
	for layer := st.start; layer < st.end; layer++ {
		var held [3]part
		for _, p := range f.parts(s, layer, held[:0]) {
			if p != last && layers > 0 {
				give(last, layers)
				layers = 0
			}
			last = p
			layers++
		}
	}
	if layers > 0 {
		give(last, layers)
	}
}

// parts are the caches of one layer, in the order in which they are built.
func (f *flags) parts(s *setup, layer int64, out []part) []part {
	marked := func(marks []bool) bool { return layer < int64(len(marks)) && marks[layer] }
	if t := f.states; t != nil && marked(t.recurrent) {
		out = append(out, statePart)
	}
	attends := f.states == nil || marked(f.states.attention)
	switch {
	case s.dsv4 != nil:
		out = append(out, windowPart)
		if layer < int64(len(f.v4.ratios)) {
			switch f.v4.ratios[layer] {
			case 4:
				out = append(out, compressed4, indexPart)
			case 128:
				out = append(out, compressed128)
			}
		}
	case s.sliding != nil:
		if layer < int64(len(f.kinds)) {
			switch f.kinds[layer] {
			case whole:
				out = append(out, fullPart)
			case slides:
				out = append(out, windowPart)
			}
		}
	case attends:
		out = append(out, fullPart)
		if s.index.row > 0 && !marked(f.dsa.skips) {
			out = append(out, indexPart)
		}
		switch {
		case s.sparse == nil || !marked(f.sparse.sparse):
		case marked(f.sparse.keys):
			out = append(out, keysPart)
		default:
			out = append(out, indexPart)
		}
	}
	if len(out) == 0 {
		out = append(out, nothing)
	}
	return out
}

// run is a part with no layers yet.
func (s *setup) run(p part, stored dtype.Type) engine.Run {
	window := func() *int { n := int(s.window); return &n }
	run := engine.Run{Kind: model.Full, DType: stored, BlockSize: int(s.page)}
	bytes := int64(0)
	rows := func(r row, each int64) {
		run.KVHeads, run.KeyDim, run.ValueDim = int(r.heads), int(r.key), int(r.value)
		if r.latent > 0 {
			run.Kind, run.KVHeads, run.KeyDim = model.Latent, 1, int(r.latent)
		}
		bytes = mul(s.page, each)
	}
	keys := func(dim, each int64) {
		run.Kind, run.KVHeads, run.KeyDim = model.Indexer, 1, int(dim)
		bytes = mul(s.page, each)
	}
	latent := func(kind model.Kind, page, tokens int64) {
		run.Kind, run.KVHeads, run.KeyDim = kind, 1, int(s.dsv4.headDim)
		bytes = truncate(s.dsv4.layout.rowBytes(page) * float64(page))
		run.BlockSize = int(tokens)
	}
	switch p {
	case nothing:
		return engine.Run{Kind: model.None}
	case statePart:
		return s.stateRun()
	case fullPart:
		rows(s.priced, s.perToken(s.priced))
	case windowPart:
		if s.dsv4 != nil {
			latent(model.SlidingLatent, s.page, s.page)
		} else if rows(s.sliding.held, s.perToken(s.sliding.held)); run.Kind == model.Latent {
			run.Kind = model.SlidingLatent
		} else {
			run.Kind = model.Sliding
		}
		run.Window = window()
	case indexPart, keysPart:
		switch {
		case s.sparse != nil:
			keys(s.sparse.dim, mul(s.sparse.dim, s.sparse.bytes))
			run.DType, _ = dtype.Parse(s.sparse.dtype)
			if p == indexPart {
				run.ValueDim, bytes = run.KeyDim, 2*bytes
			}
		case s.dsv4 != nil:
			keys(s.dsv4.indexDim, s.dsv4.indexDim+s.dsv4.indexDim/128*4)
			bytes /= 4
			run.DType = dtype.UInt8
		default:
			keys(s.index.row, 1)
			bytes = mul(s.page/s.index.pool, s.index.row)
			run.DType = dtype.UInt8
		}
	case compressed4:
		latent(model.Latent, s.page/4, s.page)
	case compressed128:
		latent(model.Latent, s.page/128, s.page)
	}
	run.PageSize, run.PageUnpadded = bytes, bytes
	return run
}

// stateRun is a layer's state, a slot of it.
func (s *setup) stateRun() engine.Run {
	t := s.state
	bytes := t.slot(1)
	run := engine.Run{Kind: model.Recurrent, DType: dtype.BFloat16, StateBytes: &bytes, PageSize: bytes, PageUnpadded: bytes}
	for _, w := range t.windows {
		run.StateShapes = append(run.StateShapes, []int{int(w[0]), int(w[1])})
		run.StateDTypes = append(run.StateDTypes, dtype.BFloat16)
	}
	if t.temporal > 0 {
		run.StateShapes = append(run.StateShapes, []int{int(t.matrix[0]), int(t.matrix[1]), int(t.matrix[2])})
		run.StateDTypes = append(run.StateDTypes, t.matrixType)
	}
	return run
}
