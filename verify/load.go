package verify

import (
	"context"
	"fmt"
	"math"
	"strings"

	"headcount"
	"headcount/units"
)

// A Load is what a server is doing, over all of its replicas.
type Load struct {
	Usage         float64  `json:"kv_cache_usage"` // of the pool, 0 to 1, of the fullest replica
	Running       int64    `json:"running"`
	Waiting       int64    `json:"waiting"`
	Preemptions   int64    `json:"preemptions"`
	PrefixHitRate *float64 `json:"prefix_cache_hit_rate"` // null before the first query
	MeanTokens    int64    `json:"mean_tokens"`           // of the requests that have finished, prompt and answer; 0: none has
	Room          *float64 `json:"room"`                  // how many more of that length fit; null: not known
}

// Moves reports whether a fact is about what a server is doing, and not about what it is.
func (f Fact) Moves() bool {
	switch f.Name {
	case "kv_cache_usage", "running", "waiting", "preemptions", "prefix_queries", "prefix_hits", "prefix_cache_hit_rate",
		"prompt_tokens", "generated_tokens", "finished", "ready":
		return true
	}
	return false
}

// Load reads what a server is doing from its Observation.
func (o *Observation) Load() Load {
	var l Load
	var queries, hits, tokens, finished float64
	for _, f := range o.Facts {
		x := number(f.Value)
		if math.IsInf(x, 0) {
			continue
		}
		switch f.Name {
		case "kv_cache_usage":
			l.Usage = max(l.Usage, x)
		case "running":
			l.Running += int64(x)
		case "waiting":
			l.Waiting += int64(x)
		case "preemptions":
			l.Preemptions += int64(x)
		case "prefix_queries":
			queries += x
		case "prefix_hits":
			hits += x
		case "prefix_cache_hit_rate":
			l.PrefixHitRate = &x
		case "prompt_tokens", "generated_tokens":
			tokens += x
		case "finished":
			finished += x
		}
	}
	if queries > 0 {
		l.PrefixHitRate = new(hits / queries)
	}
	if finished > 0 {
		l.MeanTokens = int64(tokens / finished)
	}
	return l
}

// Room says how many more requests of the mean length the free part of a pool holds, by the
// plan of the server.
func (v *Verifier) Room(ctx context.Context, r *Report, o *Observation) Load {
	l := o.Load()
	if l.MeanTokens <= 0 || r == nil || r.Plan == nil {
		return l
	}
	req := r.request
	req.ConcurrencyAt = []int64{l.MeanTokens}
	if n, ok := o.Int("num_blocks"); ok {
		req.NumGPUBlocksOverride, req.KVCacheMemory = n, 0
	}
	plan, err := v.Planner.Plan(ctx, req)
	if err != nil {
		return l
	}
	l.Room = free(plan, l)
	return l
}

// free is the part of a plan's requests that is not taken.
func free(plan *headcount.Report, l Load) *float64 {
	for _, c := range plan.KVCache.Concurrency {
		if c.Tokens == l.MeanTokens {
			return new(math.Floor(c.Requests * (1 - min(max(l.Usage, 0), 1))))
		}
	}
	return nil
}

// String is one line.
func (l Load) String() string {
	parts := []string{fmt.Sprintf("pool %.1f %%", 100*l.Usage), fmt.Sprintf("%d running", l.Running), fmt.Sprintf("%d waiting", l.Waiting),
		units.Plural(int(l.Preemptions), "preemption")}
	if l.PrefixHitRate != nil {
		parts = append(parts, fmt.Sprintf("prefix hits %.1f %%", 100**l.PrefixHitRate))
	}
	if l.Room != nil {
		parts = append(parts, fmt.Sprintf("room for %s more of %s tokens", units.Group(int64(*l.Room)), units.Group(l.MeanTokens)))
	}
	return strings.Join(parts, " · ")
}
