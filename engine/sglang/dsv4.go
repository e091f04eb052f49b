package sglang

import "headcount/engine"

// dsv4 is DeepSeek-V4's compressed attention: every layer has a window of latents, some
// layers keep one compressed latent for 4 or 128 tokens besides.
type dsv4 struct {
	headDim, indexDim int64
	ratio             float64 // window tokens per full token
}

// Bytes of one latent row and the multiple its pages are padded to (dsv4/kv_layout.py,
// layout V4: 448 fp8 + 64 bf16 + 8 scale bytes).
const (
	dsv4Row = 584
	dsv4Pad = 576
)

// rowBytes is one latent's share of a padded page of page rows.
func rowBytes(page int64) float64 {
	return float64(mul(ceilDiv(page*dsv4Row, dsv4Pad), dsv4Pad)) / float64(page)
}

// ring is the rows of compressor state that a request keeps.
func (s *setup) ring(ratio int64) int64 {
	switch {
	case ratio == 4 && s.draft.on:
		return 16
	case ratio == 4:
		return 8
	case s.draft.on:
		return 256
	}
	return 128
}

// dsv4Tokens is the cell and the tokens of a stage (DSV4PoolConfigurator).
func (s *setup) dsv4Tokens(available int64, st *stage) (cell float64, tokens int64) {
	_, cell = s.dsv4Cells(st)
	fixed := s.dsv4Fixed(st, available, cell)
	rest := max(available-fixed, 0)
	return cell, align(truncate(float64(rest)/cell), s.page)
}

// dsv4Cells is the bytes of one window token and of one full token.
func (s *setup) dsv4Cells(st *stage) (window, full float64) {
	d := s.dsv4
	state := float64(4*d.headDim*4 + 4*d.indexDim*4) // two rows of key and score, fp32
	ring := float64(0)
	if st.c4 > 0 {
		ring = float64(s.ring(4)) / float64(s.page)
	}
	window = rowBytes(s.page)*float64(st.all) + ring*state*float64(st.c4)
	index := float64(d.indexDim + d.indexDim/128*4)
	c4 := 0.25*rowBytes(s.page/4) + 0.25*index
	c128 := 1.0 / 128 * rowBytes(s.page/128)
	full = d.ratio*window + (0 + c4*float64(st.c4) + c128*float64(st.c128))
	if s.draft.on {
		grow := float64(st.all+1) / float64(st.all)
		window, full = window*grow, full*grow
	}
	return window, full
}

// dsv4Fixed is the bytes of the 128-fold compressors' rings, which belong to requests.
func (s *setup) dsv4Fixed(st *stage, available int64, cell float64) int64 {
	if st.c128 == 0 {
		return 0
	}
	requests := max(1, s.maxRunning/s.attnDP)
	if s.maxRunning == 0 {
		tokens := truncate(float64(available) / cell)
		requests = min(max(min(truncate(float64(tokens)/float64(s.context)*512), 4096), 2048), tokens/2)
	}
	ring := s.ring(128)
	rows := mul(ceilDiv(mul(requests+1, ring)+ring+1, 128), 128)
	return mul(rows, 2*s.dsv4.headDim, 4, st.c128)
}

func (s *setup) dsv4Split(z *sizing) {
	z.full = z.tokens
	z.window = align(truncate(float64(z.tokens)*s.dsv4.ratio), s.page)
	z.c4, z.c128 = z.tokens/4, z.tokens/128
	if s.stages[0].c4 > 0 {
		z.c4State = z.window / s.page * s.ring(4)
	}
}

// dsv4Pools are the pools of stage 0, as they are priced.
func (s *setup) dsv4Pools(z *sizing, out []engine.Pool) []engine.Pool {
	st := &s.stages[0]
	pool := func(name string, tokens, layers int64, each float64) {
		if layers > 0 {
			out = append(out, engine.Pool{Name: name, Tokens: tokens, KBytes: truncate(float64(tokens) * each * float64(layers))})
		}
	}
	pool("window", z.window, st.all, rowBytes(s.page))
	pool("compressed 4", z.c4, st.c4, rowBytes(s.page/4))
	pool("index", z.c4, st.c4, float64(s.dsv4.indexDim+s.dsv4.indexDim/128*4))
	pool("compressed 128", z.c128, st.c128, rowBytes(s.page/128))
	pool("state", z.c128State, st.c128, float64(2*s.dsv4.headDim*4))
	return out
}
