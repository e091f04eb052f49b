package series

import (
	"cmp"
	"context"
	"slices"

	"headcount"
	"headcount/engine"
)

// Requests is how many requests the pool holds against their length.
type Requests struct {
	Title string        `json:"title"`
	Lines []RequestLine `json:"lines"`
}

// A RequestLine is one layout.
type RequestLine struct {
	Label  string               `json:"label"`
	Line   int                  `json:"line" doc:"which line of capacity it is a point of"`
	Points []engine.Concurrency `json:"points"`
}

// requestsOf asks each legal report's request again at every length; nil where no pool is
// known.
func requestsOf(ctx context.Context, p Planner, q *Query, reports []*headcount.Report) (*Requests, error) {
	f := &Requests{Title: "Requests that one replica holds"}
	names := labels(reports, func(r *headcount.Report) string { return r.Layout.String() })
	for i, r := range reports {
		if r.Error != nil || r.KVCache.AvailableBytes == nil {
			continue
		}
		req := q.Requests[i]
		if req.ConcurrencyAt = q.Lengths; len(q.Lengths) == 0 {
			req.ConcurrencyAt = doublings(r.Model.MaxModelLen)
		}
		at, err := p.Plan(ctx, req)
		if err != nil {
			return nil, err
		}
		if points := ordered(at.KVCache.Concurrency); len(points) > 0 {
			f.Lines = append(f.Lines, RequestLine{names[i], q.line(i), points})
		}
	}
	if len(f.Lines) == 0 {
		return nil, nil
	}
	return f, nil
}

// doublings are the lengths from 1,024 tokens to the longest, each twice the one before.
func doublings(longest int64) []int64 {
	var lengths []int64
	for n := int64(1024); n < longest && len(lengths) < maxLengths-1; n *= 2 {
		lengths = append(lengths, n)
	}
	return append(lengths, longest)
}

// ordered are points by length, each length once: an engine may answer for its own first.
func ordered(points []engine.Concurrency) []engine.Concurrency {
	points = slices.Clone(points)
	slices.SortFunc(points, func(a, b engine.Concurrency) int { return cmp.Compare(a.Tokens, b.Tokens) })
	return slices.CompactFunc(points, func(a, b engine.Concurrency) bool { return a.Tokens == b.Tokens })
}
