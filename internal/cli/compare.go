package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"headcount"
	"headcount/internal/digest"
	"headcount/layout"
	"headcount/problem"
	"headcount/units"
)

func newCompare(a *app) *cobra.Command {
	var q question
	var asJSON bool
	var plot string
	cmd := &cobra.Command{
		Use:   "compare MODEL [MODEL ...]",
		Short: "Put models or engines side by side on one layout",
		Long: `compare plans each model, on each engine named, on one layout, and prints a column for
each: bytes per token, intensity, share of the ridge, capacity; then the bytes of a token
on a rank at TP 1 to 64, where a replicated latent and sharded KV heads cross.`,
		Example: `  headcount compare llama-3-70b deepseek-v3 --gpu h200 --tp 8
  headcount compare llama-3-70b deepseek-v3 --kv-cache-memory 40GiB --plot out.svg
  headcount compare llama-3-70b --engine vllm,sglang --gpu h100 --tp 8`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			requests, err := q.columns(args)
			if err != nil {
				return err
			}
			columns := make([]*headcount.Report, len(requests))
			for i, req := range requests {
				if columns[i], err = a.planner.Plan(cmd.Context(), req); err != nil {
					return fmt.Errorf("%s: %w", req.Model, err)
				}
			}
			if plot != "" {
				if err := a.plot(cmd.Context(), requests, columns, plot); err != nil {
					return err
				}
			}
			if asJSON {
				return encode(a, columns)
			}
			showColumns(a, columns)
			showDifference(a, columns)
			return a.showCrossover(cmd.Context(), requests)
		},
	}
	q.addFlags(cmd)
	a.allowNetwork(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a list of Reports")
	cmd.Flags().StringVar(&plot, "plot", "", "draw them side by side into an SVG `file`: capacity against TP, memory, requests")
	return cmd
}

// columns are the questions to compare: each model on each engine.
func (q *question) columns(models []string) ([]headcount.Request, error) {
	engines := strings.Split(q.engine, ",")
	q.mixed = len(engines) > 1
	if n := len(engines) * len(models); n < 2 || n > 8 {
		hint := "name fewer models"
		if n < 2 {
			hint = "name another model, or both engines: --engine vllm,sglang"
		}
		return nil, problem.New(problem.BadValue, "MODEL", nil, "models × engines are %d, want 2 to 8", n).WithHint("%s", hint)
	}
	var columns []headcount.Request
	for _, name := range models {
		for _, q.engine = range engines {
			requests, err := q.requests(name)
			if err != nil {
				return nil, err
			}
			if len(requests) > 1 {
				return nil, problem.New(problem.BadValue, "layout", len(requests), "layouts given, compare takes one")
			}
			columns = append(columns, requests[0])
		}
	}
	return columns, nil
}

// showColumns prints a row a quantity.
func showColumns(a *app, columns []*headcount.Report) {
	w := newTable(a.stdout, 0)
	line := func(name string, cell func(*headcount.Report) string) {
		cells := []string{name}
		for _, r := range columns {
			cells = append(cells, cell(r))
		}
		if strings.Join(cells[1:], "") != "" {
			fmt.Fprintln(w, strings.Join(cells, "\t"))
		}
	}
	line("", func(r *headcount.Report) string { return r.Model.Name })
	line("engine", func(r *headcount.Report) string { return digest.EngineName(r.Engine.Name) + " " + r.Engine.Version })
	line("variant", func(r *headcount.Report) string { return r.Model.Variant })
	line("layout", func(r *headcount.Report) string { return r.Layout.String() })
	line("layers", func(r *headcount.Report) string { return strconv.Itoa(r.Model.Layers) })
	line("refused", func(r *headcount.Report) string {
		if r.Error == nil {
			return ""
		}
		return "yes, see below"
	})
	line("KV per token, a rank", ranked0(func(r *headcount.Report) string { return units.Bytes(r.Ranks[0].BytesPerToken).String() }))
	line("copies of each KV head", ranked0(func(r *headcount.Report) string { return strconv.Itoa(r.Ranks[0].KVReplication) + "×" }))
	line("weights, a rank", ranked0(func(r *headcount.Report) string { return bytesOrNone(r.Ranks[0].WeightBytes) }))
	line("reserved, a rank", reserved)
	line("slots of states, a rank", func(r *headcount.Report) string {
		if n := r.StateBytes(); n > 0 {
			return units.Bytes(n).String()
		}
		return ""
	})
	line("KV cache pool, a rank", func(r *headcount.Report) string { return bytesOrNone(r.KVCache.AvailableBytes) })
	line("tokens in it", func(r *headcount.Report) string {
		if n := r.KVCache.Tokens; n != nil {
			return units.Group(*n)
		}
		return ""
	})
	line("requests of max_model_len", func(r *headcount.Report) string {
		if n := r.KVCache.Requests(r.Model.MaxModelLen, r.Model.MaxModelLen); n != nil {
			return fmt.Sprintf("%.2f of %s", *n, units.Group(r.Model.MaxModelLen))
		}
		return ""
	})
	line("decode intensity", func(r *headcount.Report) string {
		if r.Roofline == nil || len(r.Roofline.Layers) == 0 {
			return ""
		}
		p := r.Roofline.Layers[0]
		if p.ShareOfRidge == nil {
			return fmt.Sprintf("%.3g FLOP/byte", p.Intensity)
		}
		return fmt.Sprintf("%.3g FLOP/byte, %.1f %% of the ridge", p.Intensity, *p.ShareOfRidge*100)
	})
	w.Flush()
	for _, r := range columns {
		if r.Error != nil {
			fmt.Fprintf(a.stdout, "\n%s, %s: %s\n", r.Model.Name, digest.EngineName(r.Engine.Name), r.Error.Message)
		}
	}
}

// ranked0 is a cell that needs a rank.
func ranked0(cell func(*headcount.Report) string) func(*headcount.Report) string {
	return func(r *headcount.Report) string {
		if len(r.Ranks) == 0 {
			return ""
		}
		return cell(r)
	}
}

func bytesOrNone(n *int64) string {
	if n == nil {
		return ""
	}
	return units.Bytes(*n).String()
}

// reserved is what the engine keeps of the device beside weights and pool.
func reserved(r *headcount.Report) string {
	if !r.PoolEstimated() {
		return "" // a pool that was given says nothing of it
	}
	return units.Bytes(r.Memory.TotalBytes - *r.Memory.WeightsBytes - r.Memory.KVBytes.P50).String()
}

// showCrossover prints each column's bytes of a token on a rank against TP.
func (a *app) showCrossover(ctx context.Context, requests []headcount.Request) error {
	fmt.Fprintln(a.stdout, "\nKV cache of one token on one rank, all layers")
	w := newTable(a.stdout, tabwriter.AlignRight)
	sizes := []int{1, 2, 4, 8, 16, 32, 64}
	fmt.Fprint(w, "TP\t")
	for _, tp := range sizes {
		fmt.Fprintf(w, "%d\t", tp)
	}
	fmt.Fprintln(w)
	for _, req := range requests {
		label := req.Model
		if req.Engine != requests[0].Engine || req.Engine != requests[len(requests)-1].Engine {
			label += " on " + digest.EngineName(req.Engine)
		}
		fmt.Fprintf(w, "%s\t", label)
		for _, tp := range sizes {
			req.Layout = layout.Layout{TP: tp}
			r, err := a.planner.Plan(ctx, req)
			if err != nil || len(r.Ranks) == 0 {
				fmt.Fprint(w, "refused\t")
				continue
			}
			fmt.Fprintf(w, "%s\t", units.Bytes(r.Ranks[0].BytesPerToken))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// showDifference says which terms set two engines apart on one model.
func showDifference(a *app, columns []*headcount.Report) {
	x := columns[0]
	for _, y := range columns[1:] {
		if y.Model.Name != x.Model.Name || y.Engine.Name == x.Engine.Name || x.Error != nil || y.Error != nil {
			continue
		}
		fmt.Fprintf(a.stdout, "\nWhat sets %s and %s apart\n", digest.EngineName(x.Engine.Name), digest.EngineName(y.Engine.Name))
		for _, line := range slices.Concat(poolDifference(x, y), tokenDifference(x, y), countDifference(x, y)) {
			fmt.Fprintf(a.stdout, "  %s\n", line)
		}
	}
}

// poolDifference names what each engine keeps of the device beside weights and pool.
func poolDifference(x, y *headcount.Report) []string {
	if reserved(x) == "" || reserved(y) == "" {
		return nil
	}
	var lines []string
	for _, r := range []*headcount.Report{x, y} {
		line := fmt.Sprintf("memory: %s reserves %s a rank", digest.EngineName(r.Engine.Name), reserved(r))
		for _, t := range r.Memory.Terms {
			if t.P50 == 0 {
				continue
			}
			line += fmt.Sprintf(", %s %s", strings.ReplaceAll(t.Name, "_", " "), units.Bytes(t.P50))
		}
		if r.Engine.Name == "vllm" {
			line += fmt.Sprintf(", and %.0f %% of the device that it does not touch", 100*(1-r.Memory.Fraction))
		}
		lines = append(lines, line)
	}
	return lines
}

// tokenDifference names what a token costs, and which layers do not grow with it.
func tokenDifference(x, y *headcount.Report) []string {
	var lines []string
	for _, r := range []*headcount.Report{x, y} {
		rank, fixed := r.Ranks[0], 0
		for _, run := range rank.Layers {
			if run.Window != nil || run.StateBytes != nil {
				fixed += run.Layers
			}
		}
		line := fmt.Sprintf("tokens: on %s one adds %s to a rank", digest.EngineName(r.Engine.Name), units.Bytes(rank.BytesPerToken))
		if fixed > 0 {
			line += fmt.Sprintf("; %d of its layers keep a window or a state, %s a request", fixed, units.Bytes(r.KVCache.FixedBytesPerRequest))
		}
		lines = append(lines, line)
	}
	if x.Ranks[0].BytesPerToken == y.Ranks[0].BytesPerToken && x.KVCache.FixedBytesPerRequest == y.KVCache.FixedBytesPerRequest {
		return nil
	}
	return lines
}

// countDifference says what the two engines' figures count.
func countDifference(x, y *headcount.Report) []string {
	if x.KVCache.Tokens == nil || y.KVCache.Tokens == nil {
		return nil
	}
	return []string{"figures: vLLM logs requests of max_model_len × max_model_len, in whole blocks; SGLang logs the slots of its pool, in whole pages"}
}
