package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"headcount"
	"headcount/internal/digest"
	"headcount/internal/jobs"
	"headcount/problem"
)

func newPlan(a *app) *cobra.Command {
	var q question
	var asJSON bool
	var file, plot string
	var gpus int
	cmd := &cobra.Command{
		Use:   "plan MODEL",
		Short: "Say what an engine will allocate and log for a model on a layout",
		Long: `plan says what an engine will allocate and log: KV heads per rank, bytes per token,
blocks, tokens, concurrency and the log line, or the refusal with its reason.

MODEL is a folder, a config.json, a GGUF file, - for standard input, a name from headcount
models, or a hub id that is in the catalogue or the hub's local cache; with --allow-network
the hub itself is asked for configs and tensor headers, never for weights. A size given as a list
makes a sweep, a row a layout; --gpus ranks the layouts that use a node.

Without --gpu the pool comes from --kv-cache-memory; without either, what does not
depend on the pool is printed. With --gpu alone the pool is an estimate with its band.`,
		Example: `  headcount plan llama-3-70b --gpu h100 --tp 8
  headcount plan llama-3-70b --kv-cache-memory 40GiB --tp 1,2,4,8,16
  headcount plan deepseek-v3 --engine sglang --gpu h200 --tp 8 --dp 8 --enable-dp-attention
  headcount plan qwen3-32b --gpu h100 --gpus 8 --max-model-len 32k
  headcount plan llama-3-70b --gpu h100 --tp 1,2,4,8,16 --plot out.svg
  headcount plan - --tp 2 --json < config.json
  headcount plan --jobs requests.jsonl > reports.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			if want := 1 - min(1, len(file)); len(args) != want {
				return problem.New(problem.BadValue, "MODEL", nil, "%d given, want %d", len(args), want).
					WithHint("headcount plan MODEL, or headcount plan --jobs FILE")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if file != "" {
				if err := alone(cmd.Flags()); err != nil {
					return err
				}
				return a.runJobs(cmd.Context(), file)
			}
			requests, err := q.requests(args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("gpus") {
				return a.planNode(cmd.Context(), &q, requests[0], gpus, asJSON)
			}
			return a.planAll(cmd.Context(), requests, asJSON, plot)
		},
	}
	q.addFlags(cmd)
	a.allowNetwork(cmd)
	cmd.Flags().IntVar(&gpus, "gpus", 0, "rank the legal layouts of `n` GPUs by requests at the length asked")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the Report as JSON, a sweep as one Report a line")
	cmd.Flags().StringVar(&plot, "plot", "", "draw memory, capacity, requests, roof, KV heads and layers into an SVG `file`")
	cmd.Flags().StringVar(&file, "jobs", "", "`file` of requests, one JSON object a line (- for standard input): one Report a line, in order")
	return cmd
}

// planEach plans each request, in order.
func (a *app) planEach(ctx context.Context, requests []headcount.Request) ([]*headcount.Report, error) {
	reports := make([]*headcount.Report, len(requests))
	planner := a.planner
	if len(requests) > 1 { // of one model, which is read once; what is wrong with it, its plan says
		if pinned, err := a.planner.Pin(ctx, requests[0]); err == nil {
			planner = pinned
		}
	}
	for i, req := range requests {
		var err error
		if reports[i], err = planner.Plan(ctx, req); err != nil {
			return nil, err
		}
	}
	return reports, nil
}

// planAll plans each request: one prints its report, several a table with a row each.
func (a *app) planAll(ctx context.Context, requests []headcount.Request, asJSON bool, plot string) error {
	reports, err := a.planEach(ctx, requests)
	if err != nil {
		return err
	}
	if len(requests) == 1 {
		reports[0].Advice = a.planner.Advise(ctx, requests[0], reports[0])
	}
	if plot != "" {
		if err := a.plot(ctx, requests, reports, plot); err != nil {
			return err
		}
	}
	switch {
	case asJSON && len(reports) == 1:
		if err := encode(a, reports[0]); err != nil {
			return err
		}
	case asJSON:
		for _, r := range reports {
			if err := json.NewEncoder(a.stdout).Encode(r); err != nil {
				return err
			}
		}
	case len(reports) == 1:
		showReport(a.stdout, a.stderr, reports[0], digest.Unsplit(ctx, a.planner, requests[0]))
	default:
		showSweep(a.stdout, reports)
	}
	for _, r := range reports {
		if r.Error == nil {
			return nil
		}
	}
	return errFindings
}

// alone wants no flag beside --jobs that would have no say.
func alone(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if f.Name != "jobs" && f.Name != "allow-network" && err == nil {
			err = problem.New(problem.BadValue, "--"+f.Name, nil, "of no effect with --jobs, where each line is a request of its own").
				WithHint("give it in each line, with _ for -")
		}
	})
	return err
}

// runJobs answers the requests of a file.
func (a *app) runJobs(ctx context.Context, name string) error {
	in := a.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return problem.New(problem.Unreadable, "--jobs", name, "%s", errors.Unwrap(err))
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return problem.New(problem.Unreadable, "--jobs", name, "a folder, not a file of requests").WithHint("one JSON object a line")
		}
		in = f
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	return jobs.Run(ctx, a.planner, in, a.stdout)
}

// gcPercent is four times what Go collects at, for a stream of reports and for a server: each
// report leaves up to 150 KB behind, and a program that lives on few megabytes would else
// spend a fourth of its time on collecting.
const gcPercent = 400
