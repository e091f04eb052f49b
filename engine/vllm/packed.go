package vllm

import (
	"slices"

	"headcount/problem"
)

// A pack is a bucket of layers that may be one uniform-type group, with its layers by
// page size, in order.
type pack struct {
	first    *spec
	pages    []int64
	layers   [][]share // by page size, one layer each
	n        int64     // layers of all page sizes
	most     int64     // layers of the commonest page size
	balanced bool      // as many layers of each page size
}

// packed groups layers of different pages for a layout whose blocks hold the pages of a
// group side by side (_get_packed_kv_cache_groups; DeepSeek-V4). Buckets with equally many
// layers of each page size repeat a pattern and are cut into groups of as many repeats.
func (c *caches) packed() ([]group, *problem.Error) {
	packs := c.packs()
	floor := int64(0)
	for _, p := range packs {
		if p.balanced && len(p.pages) > 1 {
			floor = max(floor, p.most)
		}
	}
	repeats := int64(0) // of the pattern in a group; 0: buckets stay whole
	if floor > 0 {
		repeats = leastPadding(packs, floor)
	}
	count := func(p *pack) int64 {
		if p.balanced && repeats > 0 {
			return ceil(p.most, repeats)
		}
		return 1
	}
	state := func(p *pack) bool {
		return p.first.Class == mambaState || p.first.Class == circularBuffer || repeats == 0 && p.first.Class.sliding()
	}
	anchor := int64(0) // bytes a block must hold anyway
	for _, p := range packs {
		n := count(p)
		if state(p) {
			n = p.n
		}
		widest := int64(0)
		for i, page := range p.pages {
			widest += ceil(int64(len(p.layers[i])), n) * page
		}
		anchor = max(anchor, widest)
	}
	var gs []group
	for _, p := range packs {
		n := count(p)
		if anchor > 0 && state(p) {
			if p.first.page() == 0 {
				return nil, errNoPage(p.first)
			}
			n = max(n, ceil(p.n, max(anchor/p.first.page(), 1)))
		}
		if n > 1 && !p.balanced {
			return nil, problem.New(problem.Unsupported, "", nil, "layers of unequal pages cannot be split into %d groups", n)
		}
		for i := range n {
			gs = append(gs, p.group(c.list(int(ceil(p.n, n))), int(i), int(n)))
		}
	}
	return gs, nil
}

// packs puts each layer into the first bucket with which it stays uniform.
func (c *caches) packs() []*pack {
	var packs []*pack
	of := make([]*pack, len(c.specs))
	for i := range c.specs {
		s := &c.specs[i]
		k := slices.IndexFunc(packs, func(p *pack) bool { return p.first.uniformWith(s) })
		if k < 0 {
			k = len(packs)
			packs = append(packs, &pack{first: s})
		}
		of[i] = packs[k]
	}
	for _, r := range c.runs {
		of[r.spec].n += r.n
	}
	for _, r := range c.runs {
		p, s := of[r.spec], &c.specs[r.spec]
		k := slices.Index(p.pages, s.page())
		if k < 0 {
			k = len(p.pages)
			p.pages = append(p.pages, s.page())
			p.layers = append(p.layers, c.list(int(min(p.n, 64))))
		}
		for range r.n {
			p.layers[k] = append(p.layers[k], share{s, r.stage, 1})
		}
	}
	for _, p := range packs {
		p.balanced = true
		for _, l := range p.layers {
			p.most = max(p.most, int64(len(l)))
			p.balanced = p.balanced && len(l) == len(p.layers[0])
		}
	}
	return packs
}

// leastPadding is the number of repeats, from floor on, that pads the balanced buckets
// least; the larger one of two that are equal (_approximate_gcd).
func leastPadding(packs []*pack, floor int64) int64 {
	most := int64(0)
	for _, p := range packs {
		if p.balanced {
			most = max(most, p.most)
		}
	}
	best, least := floor, int64(-1)
	for d := floor; d <= most; d++ {
		pad := int64(0)
		for _, p := range packs {
			if p.balanced {
				pad += up(p.most, d) - p.most
			}
		}
		if least < 0 || pad <= least {
			best, least = d, pad
		}
	}
	return best
}

// group is the i-th of n groups of a bucket: of each n-th repeat one layer of each page
// size. Its list is put into shares.
func (p *pack) group(shares []share, i, n int) group {
	g := group{uniform: true, shares: shares}
	for k := i; k < int(p.most); k += n {
		for _, l := range p.layers {
			if k >= len(l) {
				continue
			}
			g.layers++
			if last := len(g.shares) - 1; last >= 0 && g.shares[last].spec == l[k].spec && g.shares[last].stage == l[k].stage {
				g.shares[last].n++
				continue
			}
			g.shares = append(g.shares, l[k])
		}
	}
	g.spec = p.first
	if n > 1 {
		g.spec = g.shares[0].spec
	}
	return g
}
