package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"headcount/internal/bench"
	"headcount/internal/chart"
	"headcount/internal/series"
	"headcount/problem"
	"headcount/roofline"
	"headcount/units"
)

// benchBudget is how long rounds go on by default.
const benchBudget = 12 * time.Second

func newBench(a *app) *cobra.Command {
	var asJSON bool
	var plot string
	var cases []string
	opt := bench.Options{Budget: benchBudget}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Run decode attention on this machine, beside the machine's own roof",
		Long: `bench runs one decode step of Llama-3-70B's attention as MHA, GQA-8 and MQA, and of
DeepSeek-V3's MLA, with the share that one rank of TP 1, 8 and 16 has, over a paged KV
cache whose blocks lie at random. Every round measures the machine's roof too: memory read
as a stream and in random blocks, and the peak of the instructions that are used.

Rounds in which the process waited for a CPU are discarded. No round reads what a cache
still holds: the cases take turns on a buffer larger than the last-level cache.`,
		Example: `  headcount bench
  headcount bench --cases mla,gqa-8
  headcount bench --plot roof.svg`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if opt.Cases, err = bench.Select(bench.Cases(), cases); err != nil {
				return err
			}
			if err := checkBench(opt.Rounds, plot); err != nil {
				return err
			}
			fmt.Fprintf(a.stderr, "headcount: measuring %s\n", units.Plural(len(opt.Cases), "case"))
			r, err := bench.Run(cmd.Context(), opt)
			if err != nil {
				return err
			}
			if asJSON {
				err = encode(a, r)
			} else {
				showBench(a.stdout, r)
			}
			if plot != "" { // last, so that a file that cannot be written costs no figures
				err = errors.Join(err, plotBench(r, plot))
			}
			return err
		},
	}
	cmd.Flags().StringSliceVar(&cases, "cases", nil, "measure the cases with these `words` in their names: mla, gqa-8, \"tp 8\", fp8, gemv")
	cmd.Flags().IntVar(&opt.Rounds, "rounds", 0, fmt.Sprintf("rounds of every case (default until each has 25 undisturbed ones, for %s at most)", benchBudget))
	cmd.Flags().Var(&byteSize{&opt.Memory}, "memory", "buffer that rounds take turns on (default twice the last-level cache, at most a fourth of free memory)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one object")
	cmd.Flags().StringVar(&plot, "plot", "", "draw the roofline with predicted and measured points into an SVG `file`")
	return cmd
}

func checkBench(rounds int, plot string) error {
	if rounds < 0 || rounds > 1_000_000 {
		return problem.New(problem.BadValue, "--rounds", rounds, "not a number of rounds")
	}
	if plot != "" {
		return checkSVG(plot)
	}
	return nil
}

// showBench prints the roof, a line for each case, and what the ratios are held to.
func showBench(out io.Writer, r *bench.Report) {
	showMachine(out, r)
	w := newTable(out, tabwriter.AlignRight)
	fmt.Fprintln(w, "one rank       \theads×width\tread\tMFLOP\tFLOP/B\tms\tp10–p90\tpredicted\tGB/s\tGFLOP/s\tof roof\trounds\t")
	for _, c := range r.Cases {
		fmt.Fprintf(w, "%-15s\t%s\t%s\t%.0f\t%s\t%s\t%s–%s\t%s\t%.1f\t%.1f\t%.2f %s\t%s\t\n",
			c.Name, benchShape(c), units.Bytes(c.BytesRead), float64(c.FLOP)/1e6, units.Digits(c.Intensity, 3),
			millis(c.Median), millis(c.P10), millis(c.P90), millis(c.Predicted.Seconds), c.BytesPerSec/1e9, c.FLOPPerSec/1e9,
			c.Share, roofWord[c.Bound], benchRounds(c.Timing))
	}
	w.Flush()
	fmt.Fprintln(out, "Query heads / KV heads; the median of the rounds kept, in ms; rounds kept / all: in the others the process waited for a CPU.")
	showPredicted(out, r)
	if len(r.Musts) == 0 {
		return
	}
	fmt.Fprintln(out, "\nRatios that the kernels are held to, on two threads of a processor with AVX-512 and bfloat16")
	w = newTable(out, 0)
	fmt.Fprintln(w, "case\tmeasured\tmust\taim\tof\t")
	for _, m := range r.Musts {
		reached := "reached"
		if !m.Reached {
			reached = "not reached"
		}
		if m.Disturbed {
			reached = "! " + reached
		}
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%s\t%s\n", m.Name, m.Measured, m.Least, m.Aim, m.Of, reached)
	}
	w.Flush()
}

// showMachine prints what was measured on, its roof, and what a slow round could hide behind.
func showMachine(out io.Writer, r *bench.Report) {
	m := r.Machine
	fmt.Fprintf(out, "%s, %s, kernels %s\n", m.Processor, units.Plural(m.Threads, "thread"), m.Kernels)
	buffer := units.Bytes(m.BufferBytes).String()
	if m.HugePages {
		buffer += " in huge pages"
	}
	switch {
	case m.CacheBytes == nil:
		fmt.Fprintf(out, "Buffer %s; how large the last-level cache is, this system does not say\n", buffer)
	case *m.CacheBytes >= m.BufferBytes:
		fmt.Fprintf(out, "Buffer %s, not larger than the last-level cache, %s: some reads may be the cache's\n", buffer, units.Bytes(*m.CacheBytes))
	default:
		fmt.Fprintf(out, "Buffer %s, last-level cache %s\n", buffer, units.Bytes(*m.CacheBytes))
	}
	fmt.Fprintf(out, "Roof   read %s as a stream, %s in random blocks of 8 KiB; compute %s in f32", units.BytesPerSec(r.Roof.Stream.PerSecond),
		units.BytesPerSec(r.Roof.Blocks.PerSecond), units.FLOPPerSec(r.Roof.FMA.PerSecond))
	if p := r.Roof.Pairs; p != nil {
		fmt.Fprintf(out, ", %s in pairs of bf16", units.FLOPPerSec(p.PerSecond))
	}
	fmt.Fprintln(out)
	unseen := strings.Join(m.NotGatedOn, ", ")
	if s := m.StealShare; s != nil && *s >= 0.005 {
		unseen += fmt.Sprintf("; a hypervisor gave %.0f %% of the CPUs' time to others", *s*100)
	}
	fmt.Fprintf(out, "Unseen %s\n\n", unseen)
}

// showPredicted says whether the bytes that were counted are those that attn predicts.
func showPredicted(out io.Writer, r *bench.Report) {
	same, disturbed := true, false
	for _, c := range r.Cases {
		if c.BytesRead != c.Predicted.BytesRead {
			same = false
			fmt.Fprintf(out, "%s read %s, attn predicts %s\n", c.Name, units.Bytes(c.BytesRead), units.Bytes(c.Predicted.BytesRead))
		}
		disturbed = disturbed || c.Disturbed
	}
	if same {
		fmt.Fprintln(out, "Bytes read are counted, and in every case what attn predicts.")
	}
	if disturbed {
		fmt.Fprintln(out, "! hardly a round was left undisturbed, and the least disturbed ones are shown: measure again on an idle machine.")
	}
}

// roofWord is the limit that binds.
var roofWord = map[string]string{string(roofline.Bandwidth): "read", string(roofline.Compute): "peak"}

// benchShape is query heads / KV heads × width, or a matrix's rows × columns.
func benchShape(c bench.Result) string {
	if c.Rows > 0 {
		return fmt.Sprintf("%d×%d", c.Rows, c.Cols)
	}
	return fmt.Sprintf("%d/%d×%d", c.QueryHeads, c.KVHeads, c.KeyDim)
}

// millis prints milliseconds with three digits.
func millis(seconds float64) string { return units.Digits(seconds*1e3, 3) }

// benchRounds is "25/31", with a mark where too few were kept.
func benchRounds(t bench.Timing) string {
	mark := ""
	if t.Disturbed {
		mark = "!"
	}
	return fmt.Sprintf("%s%d/%d", mark, t.Kept, t.Kept+t.Discarded)
}

// plotBench draws the cases under the roof that was measured.
func plotBench(r *bench.Report, file string) error {
	f := series.NewRoofline(fmt.Sprintf("Decode attention on one rank: %s, %s", r.Machine.Processor, units.Plural(r.Machine.Threads, "thread")))
	ceiling := func(p *bench.ProbeResult, in string) {
		if p != nil {
			roof := roofline.Roof{Peak: units.FLOPPerSec(p.PerSecond), Bandwidth: units.BytesPerSec(r.Roof.Stream.PerSecond)}
			f.Under(fmt.Sprintf("%v as a stream, %v in %s", roof.Bandwidth, roof.Peak, in), roof)
		}
	}
	ceiling(r.Roof.Pairs, "pairs of bf16")
	ceiling(&r.Roof.FMA, "f32")
	for _, c := range r.Cases {
		f.Predict(series.RooflinePoint{TP: []int{c.TP}, Intensity: c.Predicted.Intensity})
		f.Measure(c.Name, units.Intensity(c.Intensity), units.FLOPPerSec(c.FLOPPerSec))
	}
	panel, err := chart.Roofline(f)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := chart.WriteSVG(&b, panel); err != nil {
		return err
	}
	return writeFile("--plot", file, b.Bytes())
}
