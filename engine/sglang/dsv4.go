package sglang

import (
	"headcount/engine"
	"headcount/problem"
)

// dsv4 is DeepSeek-V4's compressed attention: every layer has a window of latents, some
// layers keep one compressed latent for 4 or 128 tokens besides.
type dsv4 struct {
	headDim, indexDim int64
	layout            dsv4Layout
	ratio             float64 // window tokens per full token
	capped            bool    // no ratio: as many as requests can use
}

// A dsv4Layout is the bytes of one latent row and the multiple its pages are padded to
// (dsv4/kv_layout.py).
type dsv4Layout struct{ row, pad int64 }

var (
	layoutV4  = dsv4Layout{584, 576} // 448 fp8, 64 bf16, 8 of scales
	layoutV41 = dsv4Layout{528, 512} // 512 fp8, 16 of scales
)

// rowBytes is one latent's share of a padded page of page rows.
func (l dsv4Layout) rowBytes(page int64) float64 {
	return float64(mul(ceilDiv(page*l.row, l.pad), l.pad)) / float64(page)
}

// compressedModel sets DeepSeek-V4's pools. V4.1 sizes its windows by the requests that may
// run, unless --swa-full-tokens-ratio is given (pool_configurator.py,
// _resolve_swa_cap_tokens), and on Blackwell's own kernel packs its rows
// (deepseek_v4_hook.py, _default_dsv4_attention_backend).
func (f *flags) compressedModel(s *setup) {
	s.window = f.v4.window
	d := &dsv4{headDim: f.v4.headDim, indexDim: f.v4.indexDim, layout: layoutV4, ratio: f.swaRatio}
	s.dsv4 = d
	if f.kind != "deepseek_v41" {
		return
	}
	if f.dev.sm100() && f.attnTP == 1 && f.kvDType == "fp8_e4m3" {
		d.layout = layoutV41
	}
	d.capped = f.opts.SWAFullTokensRatio == 0 && f.chunk > 0 && f.maxRunning > 0 && f.v4.window > 0
}

// compressedCap is the window pool of requests that run and, with a prefix cache, of four
// times as many whose tails are kept.
func (s *setup) compressedCap() int64 {
	tails := int64(0)
	if !s.noRadix {
		tails = 4 * max(1, s.maxRunning/s.attnDP)
	}
	return mul(ceilDiv(add(s.windowCap(), mul(tails, s.window+s.page)), s.page), s.page)
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
	rest := float64(available - s.dsv4Fixed(st, available, cell))
	if s.dsv4.capped {
		window, _ := s.dsv4Cells(st)
		rest -= float64(s.compressedCap()) * window
	}
	return cell, align(truncate(max(rest, 0)/cell), s.page)
}

// dsv4Cells is the bytes of one window token and of one full token.
func (s *setup) dsv4Cells(st *stage) (window, full float64) {
	d := s.dsv4
	state := float64(4*d.headDim*4 + 4*d.indexDim*4) // two rows of key and score, fp32
	ring := float64(0)
	if st.c4 > 0 {
		ring = float64(s.ring(4)) / float64(s.page)
	}
	window = d.layout.rowBytes(s.page)*float64(st.all) + ring*state*float64(st.c4)
	index := float64(d.indexDim + d.indexDim/128*4)
	c4 := 0.25*d.layout.rowBytes(s.page/4) + 0.25*index
	c128 := 1.0 / 128 * d.layout.rowBytes(s.page/128)
	full = d.windowShare()*window + (0 + c4*float64(st.c4) + c128*float64(st.c128))
	if s.draft.on {
		grow := float64(st.all+1) / float64(st.all)
		window, full = window*grow, full*grow
	}
	return window, full
}

// windowShare is how many window tokens a full token is priced with.
func (d *dsv4) windowShare() float64 {
	if d.capped {
		return 0
	}
	return d.ratio
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

// dsv4Split divides tokens over the pools, and refuses windows that hold no request.
func (s *setup) dsv4Split(z *sizing) *problem.Error {
	z.full = z.tokens
	if s.dsv4.capped {
		z.window = s.compressedCap()
	} else {
		z.window = align(truncate(float64(z.tokens)*s.dsv4.ratio), s.page)
		if refusal := s.holdsRequest(z.window); refusal != nil {
			return refusal
		}
	}
	z.c4, z.c128 = z.tokens/4, z.tokens/128
	if s.stages[0].c4 > 0 {
		z.c4State = z.window / s.page * s.ring(4)
	}
	return nil
}

// dsv4Pools are the pools of stage 0, as they are priced.
func (s *setup) dsv4Pools(z *sizing, out []engine.Pool) []engine.Pool {
	st := &s.stages[0]
	pool := func(name string, tokens, layers int64, each float64) {
		if layers > 0 {
			out = append(out, engine.Pool{Name: name, Tokens: tokens, KBytes: truncate(float64(tokens) * each * float64(layers))})
		}
	}
	pool("window", z.window, st.all, s.dsv4.layout.rowBytes(s.page))
	pool("compressed 4", z.c4, st.c4, s.dsv4.layout.rowBytes(s.page/4))
	pool("index", z.c4, st.c4, float64(s.dsv4.indexDim+s.dsv4.indexDim/128*4))
	pool("compressed 128", z.c128, st.c128, s.dsv4.layout.rowBytes(s.page/128))
	pool("state", z.c128State, st.c128, float64(2*s.dsv4.headDim*4))
	return out
}
