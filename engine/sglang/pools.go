package sglang

// A pool is one allocation as the engine logs it, on a rank of stage 0.
type pool struct {
	name   string // full, window, kv, index, state
	class  string // the engine's
	dtype  string
	tokens int64 // rows without the padding page
	k, v   int64 // bytes; MLA: all in k
	joint  bool  // logged as one KV size
}

// maxPools is the most that one rank has.
const maxPools = 4

// pools lays out the allocations (kv_cache_configurator.py, _build_token_to_kv_pool).
func (s *setup) pools(z *sizing, out []pool) []pool {
	st := &s.stages[0]
	switch {
	case s.dsv4 != nil:
		return out
	case s.sliding != nil:
		full := s.pool("full", s.held, z.full, st.layers, st.index)
		window := s.pool("window", s.sliding.held, z.window, st.sliding, 0)
		return append(out, full, window)
	case s.sparse != nil:
		return s.sparsePools(z, st, append(out, s.pool("kv", s.held, z.tokens, st.layers, 0)))
	}
	return append(out, s.pool("kv", s.held, z.tokens, st.layers, st.index))
}

// pool is one pool of rows r over layers layers, with a padding page.
func (s *setup) pool(name string, r row, tokens, layers, indexed int64) pool {
	p := pool{name: name, class: "MHATokenToKVPool", dtype: s.store.name, tokens: tokens}
	rows := add(tokens, s.page)
	format := s.store.format
	if s.sliding != nil && format >= nvfp4 {
		format = plain // these pools store FP4 unpacked
	}
	if r.latent > 0 {
		p.class, p.joint = "MLATokenToKVPool", true
		p.k = mul(rows, r.latent, s.store.bytes, layers)
		if format >= nvfp4 {
			p.class = "MLATokenToKVPoolFP4"
			p.k = mul(rows, r.latent/2+r.latent/16, layers)
		}
		if s.index.row > 0 && name != "window" {
			p.class = "DSATokenToKVPool"
			p.k = add(p.k, s.indexPool(tokens, indexed))
		}
		return p
	}
	elements := mul(rows, r.heads, layers)
	switch format {
	case mxfp8:
		p.class = "MHATokenToKVPoolMXFP8"
		p.k, p.v = mul(elements, r.key+r.key/32), mul(elements, r.value+r.value/32)
	case fp4Block:
		p.k = mul(rows, mul(r.heads, r.key/2)+mul(r.heads, r.key)/16, layers)
		p.v = p.k
	case nvfp4:
		p.k = mul(elements, r.key/2+s.store.scales*(r.key/16))
		if s.store.workspace {
			p.k = add(p.k, mul(rows, r.heads, r.key))
		}
		p.v = p.k
	default:
		p.k, p.v = mul(elements, r.key, s.store.bytes), mul(elements, r.value, s.store.bytes)
	}
	return p
}

// indexPool is the bytes of an indexer's keys, which span all ids of a DCP group
// (index_key_cache.py).
func (s *setup) indexPool(tokens, layers int64) int64 {
	ids := mul(add(tokens, s.page), s.dcp) - s.page
	pages := (ids + s.page + 1) / s.page
	return mul(pages, s.page/s.index.pool, s.index.row, layers)
}

// sparsePools adds the index pools of MiniMax-M3: one for layers that keep index values
// and one for those that keep keys alone.
func (s *setup) sparsePools(z *sizing, st *stage, out []pool) []pool {
	rows := mul(add(z.tokens, s.page), s.sparse.dim, s.sparse.bytes)
	if st.indexKV > 0 {
		n := mul(rows, st.indexKV)
		out = append(out, pool{name: "index", class: "MHATokenToKVPool", dtype: s.sparse.dtype, tokens: z.tokens, k: n, v: n})
	}
	if st.indexK > 0 {
		out = append(out, pool{name: "index", class: "MHATokenToKOnlyPool", dtype: s.sparse.dtype, tokens: z.tokens, k: mul(rows, st.indexK)})
	}
	return out
}

// stateBytes is what the state pool of stage 0 takes: windows, recurrent states and, with
// speculation, a copy of each for every draft token of every running request.
func (s *setup) stateBytes(z *sizing) (conv, temporal, draftConv, draftTemporal int64) {
	t, layers := s.state, s.stages[0].states
	conv = mul(layers, z.slots+1, t.conv)
	temporal = mul(layers, z.slots+1, t.temporal)
	if d := &s.draft; d.on {
		draftTemporal = mul(layers, z.running+1, d.tokens, t.temporal)
		columns := d.tokens + t.taps - 1
		if t.dense {
			columns = mul(d.tokens, t.taps)
		}
		draftConv = mul(layers, z.running+1, columns, t.channels)
	}
	return conv, temporal, draftConv, draftTemporal
}

// reqToToken is the shape of the table from requests to tokens (ReqToTokenPool).
func (s *setup) reqToToken(z *sizing) [2]int64 {
	extra := int64(4)
	if d := &s.draft; d.on {
		extra += d.tokens
		if page := mul(s.page, s.dcp); page > 1 {
			extra = max(extra, 2*s.specAlloc()+page-1)
		}
	}
	return [2]int64{z.running + 1, add(s.context, extra)}
}
