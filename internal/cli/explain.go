package cli

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"headcount"
	"headcount/internal/digest"
	"headcount/problem"
	"headcount/units"
)

func newExplain(a *app) *cobra.Command {
	var q question
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain MODEL",
		Short: "Walk from config.json to the engine's log line, step by step",
		Long: `explain takes the nine steps from a field of config.json to the line that the engine
logs, each with its numbers, so that it can be redone by hand. It takes the flags of
plan, for one layout.`,
		Example: "  headcount explain llama-3-70b --gpu h100 --tp 8\n  headcount explain deepseek-v3 --kv-cache-memory 40GiB --tp 8",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			requests, err := q.requests(args[0])
			if err != nil {
				return err
			}
			if len(requests) > 1 {
				return problem.New(problem.BadValue, "layout", len(requests), "layouts given, explain takes one")
			}
			r, err := a.planner.Plan(cmd.Context(), requests[0])
			if err != nil {
				return err
			}
			steps := r.Explain()
			if asJSON {
				err = encode(a, steps)
			} else {
				fmt.Fprintln(a.stdout, spread(digest.Title(r), digest.Setup(r), lineWidth))
				for i, s := range steps {
					fmt.Fprintf(a.stdout, "\n%d. %s\n", i+1, s.Title)
					for _, line := range s.Lines {
						fmt.Fprintf(a.stdout, "   %s\n", line)
					}
				}
				a.showLengths(cmd.Context(), requests[0], r)
			}
			if r.Error != nil {
				complain(a.stderr, r.Error)
				return errFindings
			}
			return err
		},
	}
	q.addFlags(cmd)
	a.allowNetwork(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the steps as JSON")
	return cmd
}

// showLengths prints the tokens of a pool that windows or states share against
// max_model_len: the engine's figure moves with it.
func (a *app) showLengths(ctx context.Context, req headcount.Request, r *headcount.Report) {
	if len(r.KVCache.Groups) < 2 || r.KVCache.AvailableBytes == nil {
		return
	}
	fmt.Fprintln(a.stdout, "\nThe same pool, by max_model_len")
	w := newTable(a.stdout, tabwriter.AlignRight)
	fmt.Fprintln(w, "max_model_len\ttokens\tconcurrency\t")
	req.KVCacheMemory = *r.KVCache.AvailableBytes
	for length := int64(4096); ; length = min(4*length, r.Model.MaxModelLen) {
		req.MaxModelLen = min(length, r.Model.MaxModelLen)
		at, err := a.planner.Plan(ctx, req)
		if err != nil || at.Error != nil || at.KVCache.MaxConcurrency == nil {
			break
		}
		fmt.Fprintf(w, "%s\t%s\t%.2f\t\n", units.Group(req.MaxModelLen), units.Group(*at.KVCache.Tokens), *at.KVCache.MaxConcurrency)
		if length >= r.Model.MaxModelLen {
			break
		}
	}
	w.Flush()
}
