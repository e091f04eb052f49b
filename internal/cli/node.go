package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"text/tabwriter"

	"headcount"
	"headcount/internal/digest"
	"headcount/layout"
	"headcount/problem"
	"headcount/units"
)

// A ranked layout is one way to use a node: Replicas servers of Report's layout.
type ranked struct {
	Replicas int               `json:"replicas"`
	GPUs     int               `json:"gpus"`
	Requests float64           `json:"requests"` // of Tokens each, all replicas
	Tokens   int64             `json:"tokens"`
	Report   *headcount.Report `json:"report"`
}

// planNode plans every layout of n GPUs and prints the legal ones, the one that holds most
// requests of the length asked first.
func (a *app) planNode(ctx context.Context, q *question, req headcount.Request, n int, asJSON bool) error {
	if n < 1 || n > maxNode {
		return problem.New(problem.BadValue, "--gpus", n, "not between 1 and %d", maxNode).WithHint("the GPUs of one node or of a few")
	}
	if q.laidOut() {
		return problem.New(problem.BadValue, "--gpus", n, "layouts are chosen here, and sizes of one are given as well").
			WithHint("leave out --tp, --pp, --dp, --dcp and --enable-dp-attention, or leave out --gpus")
	}
	var found []ranked
	var refused *headcount.Report
	unknown := 0 // layouts without a pool
	for _, l := range nodeLayouts(n, req.Engine) {
		one := req
		l.EP = req.Layout.EP
		one.Layout = l
		r, err := a.planner.Plan(ctx, one)
		switch {
		case err != nil:
			return err
		case r.Error != nil:
			refused = r
			continue
		}
		length := r.Model.MaxModelLen
		if len(req.ConcurrencyAt) > 0 {
			length = req.ConcurrencyAt[0]
		}
		requests := r.KVCache.Requests(length, r.Model.MaxModelLen)
		if requests == nil {
			unknown++
			continue
		}
		replicas := n / l.GPUs()
		found = append(found, ranked{replicas, n, *requests * float64(replicas*servers(l)), length, r})
	}
	if len(found) == 0 && unknown > 0 {
		return problem.New(problem.MissingField, "--gpus", n, "layouts cannot be ranked without a pool, and what the engine would leave for one here is not known").
			WithHint("--kv-cache-memory gives the pool of a rank")
	}
	if len(found) == 0 {
		complain(a.stderr, refused.Error)
		return errFindings
	}
	slices.SortStableFunc(found, func(x, y ranked) int { return cmp.Compare(y.Requests, x.Requests) })
	if asJSON {
		return encode(a, found)
	}
	if unknown > 0 {
		fmt.Fprintf(a.stderr, "headcount: note: %d layouts without a known pool are left out\n", unknown)
	}
	return showRanked(a, found)
}

const maxNode = 1024

// servers is how many pools of their own a replica has: one, or one an attention-DP rank.
func servers(l layout.Layout) int {
	if l.DPAttention {
		return l.DP
	}
	return 1
}

// nodeLayouts are the layouts whose size divides n: TP × PP × replicas, with DCP inside TP
// and, for SGLang, attention DP inside TP.
func nodeLayouts(n int, engineName string) []layout.Layout {
	var out []layout.Layout
	for tp := 1; tp <= n; tp++ {
		for pp := 1; tp*pp <= n; pp++ {
			if n%(tp*pp) != 0 {
				continue
			}
			out = append(out, layout.Layout{TP: tp, PP: pp}.Normal())
			if pp > 1 || tp == 1 {
				continue
			}
			for inner := 2; inner <= tp; inner++ {
				if tp%inner != 0 {
					continue
				}
				out = append(out, layout.Layout{TP: tp, DCP: inner}.Normal())
				if engineName == "sglang" {
					out = append(out, layout.Layout{TP: tp, DP: inner, DPAttention: true}.Normal())
				}
			}
		}
	}
	return out
}

func showRanked(a *app, found []ranked) error {
	best := found[0]
	fmt.Fprintln(a.stdout, spread(digest.Title(best.Report), fmt.Sprintf("%s · %d GPUs", digest.EngineName(best.Report.Engine.Name), best.GPUs), lineWidth))
	w := newTable(a.stdout, tabwriter.AlignRight)
	fmt.Fprintln(w, "layout\treplicas\tKV heads\tcopies\tKV/token\tpool\ttokens a replica\trequests\t")
	for _, f := range found {
		r := f.Report
		rank, pool, tokens := r.Heaviest(), "", ""
		if b := r.KVCache.AvailableBytes; b != nil {
			pool = units.Bytes(*b).String()
		}
		if t := r.KVCache.Tokens; t != nil {
			tokens = units.Group(*t * int64(servers(r.Layout)))
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d×\t%s\t%s\t%s\t%.1f\t\n", r.Layout.String(), f.Replicas, rank.KVHeads, rank.KVReplication,
			units.Bytes(rank.BytesPerToken), pool, tokens, f.Requests)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "requests of %s tokens on all %d GPUs; KV heads, bytes and pool per rank\n", units.Group(best.Tokens), best.GPUs)
	return err
}
