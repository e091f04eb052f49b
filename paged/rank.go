package paged

import (
	"slices"

	"headcount/attn"
	"headcount/layout"
	"headcount/problem"
	"headcount/units"
)

// A Place is which rank of a [Group] one is.
type Place struct {
	Replica int // of DP
	TPRank  int // in its replica
	DCPRank int // among the ranks that share its KV heads and divide their tokens
}

// A rank is one worker of a group: its pool, its attention in each layer, and the scratch
// memory of a step.
type rank struct {
	Place
	tp, dcp   int
	pool      *Pool
	attention []*Attention // by layer

	batch   Batch // of its replica's sequences
	rows    []int // where each query token of the batch is in the step
	q       []float32
	out     []float32
	lse     []float32
	own     []float32 // log-sum-exps of the heads that it collects
	k, v    []float32
	err     error
	queries []int
}

// newRank makes the rank at a place of the layout.
func newRank(layers []Config, over layout.Layout, at Place, blocks int) (*rank, error) {
	r := &rank{Place: at, tp: over.TP, dcp: over.DCP}
	shard := Shard{}
	if over.DCP > 1 {
		shard = Shard{Rank: at.DCPRank, Ranks: over.DCP}
	}
	r.batch.Shard = shard
	shares := make([]Layout, len(layers))
	for i, c := range layers {
		g, err := shareOf(c.Layout.Geometry, over)
		if err != nil {
			return nil, err
		}
		shares[i] = c.Layout
		shares[i].Geometry = g
	}
	var err error
	if r.pool, err = newPool(shares, blocks, shard); err != nil {
		return nil, err
	}
	for i, c := range layers {
		if c.Sinks != nil {
			if len(c.Sinks) != c.Layout.Geometry.QueryHeads {
				r.close()
				return nil, wrongLength("sinks", len(c.Sinks), "[%d], one for each query head", c.Layout.Geometry.QueryHeads)
			}
			first := r.firstQuery(i)
			c.Sinks = c.Sinks[first : first+shares[i].Geometry.QueryHeads]
		}
		c.Layout, c.Workers = shares[i], 1
		a, err := NewAttention(c)
		if err != nil {
			r.close()
			return nil, err
		}
		r.attention = append(r.attention, a)
	}
	return r, nil
}

// shareOf is what a rank holds of a layer. Without DCP it is that of one of TP ranks. With
// it, DCP ranks in a row that would hold the same KV heads compute the query heads of all
// of them, each over its tokens: the share of one of TP / DCP ranks.
func shareOf(g attn.Geometry, over layout.Layout) (attn.Geometry, error) {
	share, err := g.Rank(over.TP)
	if err != nil {
		return share, err
	}
	copies, err := g.Replication(over.TP)
	if err != nil {
		return share, err
	}
	if copies%over.DCP != 0 {
		return share, problem.New(problem.IllegalLayout, "decode_context_parallel_size", over.DCP,
			"does not divide the %s that hold the same KV heads at tensor parallel size %d", units.Plural(copies, "rank"), over.TP)
	}
	return g.Rank(over.TP / over.DCP)
}

func (r *rank) close() error {
	for _, a := range r.attention {
		a.Close()
	}
	return r.pool.Close()
}

// bytesRead is what the rank's steps have read of the cache, in all layers.
func (r *rank) bytesRead() units.Bytes {
	var n int64
	for _, a := range r.attention {
		n += a.BytesRead()
	}
	return units.Bytes(n)
}

// firstQuery is the first of the query heads that the rank computes in a layer.
func (r *rank) firstQuery(layer int) int {
	return r.TPRank / r.dcp * r.pool.layers[layer].Geometry.QueryHeads
}

// decode computes the rank's heads over the rank's tokens.
func (r *rank) decode(s *groupStep) error {
	share := r.pool.layers[s.layer].Geometry
	b, whole := &r.batch, r.tp/r.dcp*share.QueryHeads
	b.Tables, b.Lengths, r.queries, r.rows, r.q = b.Tables[:0], b.Lengths[:0], r.queries[:0], r.rows[:0], r.q[:0]
	row := 0
	for i, seq := range s.seqs {
		n := s.queriesOf(i)
		if seq.replica == r.Replica {
			part := seq.parts[r.TPRank]
			b.Tables, b.Lengths, r.queries = append(b.Tables, part.Table()), append(b.Lengths, part.Len()), append(r.queries, n)
			for t := row; t < row+n; t++ {
				r.rows = append(r.rows, t)
			}
			r.q = appendHeads(r.q, s.q[row*whole*share.KeyDim:(row+n)*whole*share.KeyDim], whole, share.KeyDim, r.firstQuery(s.layer), share.QueryHeads)
		}
		row += n
	}
	if len(b.Tables) == 0 {
		return nil
	}
	b.Queries = r.queries
	b.Blocks = r.pool.blocks[s.layer]
	r.out = resize(r.out, len(r.rows)*share.QueryHeads*(share.ValueDim+share.LatentDim))
	r.lse = resize(r.lse, len(r.rows)*share.QueryHeads)
	return r.attention[s.layer].Decode(*b, r.q, r.out, r.lse)
}

// collect writes the query heads that TP alone gives the rank into the step's result,
// merged from the ranks that computed them over parts of the tokens.
func (r *rank) collect(s *groupStep, replica []*rank) {
	share := r.pool.layers[s.layer].Geometry
	value, n := share.ValueDim+share.LatentDim, share.QueryHeads/r.dcp
	partners := replica[r.TPRank-r.DCPRank:][:r.dcp]
	for i, t := range r.rows {
		dst := s.out[(t*r.tp+r.TPRank)*n*value:][:n*value]
		first := i*share.QueryHeads + r.DCPRank*n
		for d, p := range partners {
			src, lse := p.out[first*value:][:n*value], p.lse[first:][:n]
			if d == 0 {
				copy(dst, src)
				r.own = append(r.own[:0], lse...)
			} else if err := Merge(dst, r.own, src, lse, value); err != nil {
				r.err = err
			}
		}
	}
}

// appendHeads appends heads [first, first+n) of rows x, which are [rows, heads, width].
func appendHeads(dst, x []float32, heads, width, first, n int) []float32 {
	for row := heads * width; len(x) > 0; x = x[row:] {
		dst = append(dst, x[first*width:(first+n)*width]...)
	}
	return dst
}

// resize is a slice of n elements, x itself if it has room.
func resize(x []float32, n int) []float32 { return slices.Grow(x[:0], n)[:n] }
