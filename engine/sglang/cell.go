package sglang

// cell is the bytes one token costs on a rank of a stage, drafts included
// (pool_configurator.py, DefaultPoolConfigurator).
func (s *setup) cell(st *stage) int64 {
	bytes := s.targetCell(st)
	d := &s.draft
	switch {
	case d.cell > 0 && st.layers > 0:
		return add(bytes, mul(d.cell, s.dcp))
	case d.layers <= 0 || st.layers <= 0:
		return bytes
	case s.index.row > 0:
		target := mul(s.index.bytes(), st.index, s.dcp)
		kv := truncate(float64(bytes-target) * float64(d.layers) / float64(st.layers))
		return add(bytes, mul(kv, s.dcp), mul(s.index.bytes(), d.layers, s.dcp))
	}
	return add(bytes, truncate(float64(mul(bytes, d.layers))/float64(st.layers)))
}

// targetCell is the same without drafts (_compute_cell_size).
func (s *setup) targetCell(st *stage) int64 {
	r := s.priced
	if s.sparse != nil {
		return add(mul(st.layers, 2, r.heads, r.key, s.store.bytes),
			mul(2*st.indexKV+st.indexK, s.sparse.dim, s.sparse.bytes))
	}
	bytes := mul(r.elems(), st.layers, s.store.bytes)
	switch {
	case s.store.format == mxfp8 && r.latent == 0:
		bytes = add(bytes, mul(r.elems(), st.layers)/32)
	case s.store.format >= nvfp4 && r.latent > 0:
		bytes = add(bytes/2, mul(r.latent/16, st.layers, s.store.bytes))
	case s.store.format == fp4Block:
		bytes = 2 * mul(mul(r.heads, r.key/2)+mul(r.heads, r.key)/16, st.layers)
	case s.store.format == nvfp4:
		bytes = 2 * mul(mul(r.heads, r.key/2)+mul(r.heads, r.key/16, s.store.scales), st.layers)
		if s.store.workspace {
			bytes = add(bytes, 2*mul(r.heads, r.key))
		}
	}
	return add(bytes, mul(s.index.bytes(), st.index, s.dcp), mul(s.qsa, st.layers))
}
