package sglang

import "headcount/problem"

// evictionInterval is how many tokens a request runs past its window before the engine
// frees the tail (SGLANG_SWA_EVICTION_INTERVAL).
const evictionInterval = 128

// perToken is the bytes of one token in one layer of a full or window pool. Packed FP4
// is priced at a byte an element here.
func (s *setup) perToken(r row) int64 {
	bytes := mul(r.elems(), s.store.bytes)
	if s.store.format == mxfp8 {
		bytes = add(bytes, r.elems()/32)
	}
	return bytes
}

// fullPerToken is one full-attention layer's, its indexer included.
func (s *setup) fullPerToken() int64 { return add(s.perToken(s.priced), s.index.bytes()) }

// slidingCell is the bytes of a token of the full pool with its share of the window pool
// (HybridSWAPoolConfigurator, _recompute_cell_size).
func (s *setup) slidingCell(st *stage) float64 {
	full, window := s.fullPerToken(), s.perToken(s.sliding.priced)
	d := &s.draft
	fullDraft := d.layers - d.sliding - d.wide
	if st.layers == 0 {
		return float64(add(mul(window, st.sliding), mul(full, fullDraft), mul(window, d.sliding+d.wide), mul(d.cell, s.dcp)))
	}
	return float64(add(mul(full, st.layers+fullDraft), mul(window, d.wide))) +
		s.swaRatio*float64(mul(window, st.sliding+d.sliding)) + float64(mul(d.cell, s.dcp))
}

// windowTokens is the window pool beside tokens of the full pool.
func (s *setup) windowTokens(tokens int64) int64 {
	return align(truncate(float64(tokens)*s.swaRatio), s.page)
}

// admits refuses a window pool that could never hold a request.
func (s *setup) admits(st *stage, tokens int64) *problem.Error {
	if s.window == 0 || st.layers == 0 {
		return nil
	}
	return s.holdsRequest(s.windowTokens(tokens))
}

// holdsRequest refuses a window pool of so many tokens that no request is let in.
func (s *setup) holdsRequest(tokens int64) *problem.Error {
	if s.window+s.page < tokens {
		return nil
	}
	return problem.New(problem.DoesNotFit, "swa_full_tokens_ratio", s.swaRatio,
		"a window pool of %d tokens cannot hold a request: a window of %d and a page of %d", tokens, s.window, s.page).
		WithHint("raise --swa-full-tokens-ratio or --mem-fraction-static")
}

// windowHeld is the tokens of the window pool that a request holds at most while it
// decodes: the window, what is not yet evicted, and a page begun.
func (s *setup) windowHeld() int64 {
	if s.window == 0 {
		return maxSize
	}
	return mul(ceilDiv(s.window+evictionInterval, s.page)+1, s.page)
}

// capped: without a prefix cache and with a known number of requests, the window pool
// holds just what they can use (SWARequestCapPoolConfigurator.is_applicable).
func (s *setup) capped(st *stage) bool {
	return s.sliding != nil && s.dsv4 == nil && s.maxRunning > 0 && s.noRadix && s.chunk > 0 && s.window > 0 && st.layers > 0
}

// windowCap is the window slots that all requests may hold at once, page aligned
// (compute_swa_request_cap).
func (s *setup) windowCap() int64 {
	tokens, decode := int64(1), s.page
	if d := &s.draft; d.on {
		tokens = max(d.tokens, 1)
		if s.noOverlap {
			decode = s.specAllocAligned()
		} else {
			decode = 2 * s.specAlloc()
		}
	}
	perRequest := add(s.window, mul(evictionInterval, tokens), s.page, decode)
	chunks := int64(2)
	if s.noOverlap {
		chunks = 1
	}
	total := add(mul(perRequest, max(1, s.maxRunning/s.attnDP)), mul(chunks, s.chunk), s.page)
	return mul(ceilDiv(total, s.page), s.page)
}

// cappedTokens is the full pool beside a capped window pool.
func (s *setup) cappedTokens(available int64, st *stage) (int64, *problem.Error) {
	d := &s.draft
	window := s.perToken(s.sliding.priced)
	fixed := mul(s.windowCap(), window, st.sliding+d.sliding)
	cell := add(mul(s.fullPerToken(), st.layers+d.layers-d.sliding-d.wide), mul(window, d.wide), mul(d.cell, s.dcp))
	tokens := int64(0)
	if fixed < available {
		tokens = align((available-fixed)/max(cell, 1), s.page)
	}
	if tokens <= 0 {
		return 0, problem.New(problem.DoesNotFit, "max_running_requests", s.maxRunning,
			"their windows take %d bytes of %d and leave no full KV pool", fixed, available).
			WithHint("lower --max-running-requests or raise --mem-fraction-static")
	}
	return tokens, nil
}

// specAlloc is the tokens one request may allocate in a decode step of speculative
// decoding (allocation_sizing.py, get_alloc_len_per_decode).
func (s *setup) specAlloc() int64 {
	d := &s.draft
	if !d.on {
		return 1
	}
	page := mul(s.page, s.dcp)
	if page == 1 || d.topK <= 1 || d.ngram {
		return max(mul(max(d.steps, 1), max(d.topK, 1)), d.tokens)
	}
	pages := (page - 1 + max(d.steps, 1) + page - 1) / page
	return max(mul(pages, page, d.topK), d.tokens)
}

// specAllocAligned is the same without overlap (spec_decode_alloc_len_per_request).
func (s *setup) specAllocAligned() int64 {
	d := &s.draft
	steps, topK, tokens := max(d.steps, 1), max(d.topK, 1), max(d.tokens, 1)
	if s.page > 1 {
		if topK > 1 {
			steps += s.page
		}
		steps, tokens = mul(ceilDiv(steps, s.page), s.page), mul(ceilDiv(tokens, s.page), s.page)
	}
	return max(mul(steps, topK), tokens)
}
