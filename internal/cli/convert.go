package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"headcount"
	"headcount/convert"
	"headcount/internal/source"
	"headcount/problem"
	"headcount/units"
)

// A conversion is what the flags of convert ask.
type conversion struct {
	question
	heads                  int
	method                 string
	dryRun, report, asJSON bool
}

// A converted is what convert prints as JSON.
type converted struct {
	SchemaVersion int                  `json:"schema_version"`
	In            string               `json:"in"`
	Out           string               `json:"out"`
	DryRun        bool                 `json:"dry_run"`
	Method        convert.Method       `json:"method"`
	KVHeadsBefore int                  `json:"kv_heads_before"`
	KVHeadsAfter  int                  `json:"kv_heads_after"`
	Tensors       []changedTensor      `json:"tensors"`
	Config        map[string]any       `json:"config"` // fields of config.json and their new values
	Copied        []string             `json:"copied"`
	LeftOut       []string             `json:"left_out"`
	Bytes         int64                `json:"bytes"`       // of OUT
	SavedBytes    int64                `json:"saved_bytes"` // of tensors
	Before        *headcount.Report    `json:"before"`
	After         *headcount.Report    `json:"after"`
	Similarities  []convert.Similarity `json:"similarities,omitempty"` // with --report
}

type changedTensor struct {
	Name   string  `json:"name"`
	Before []int64 `json:"before"`
	After  []int64 `json:"after"`
}

func newConvert(a *app) *cobra.Command {
	var v conversion
	cmd := &cobra.Command{
		Use:   "convert IN OUT",
		Short: "Make a checkpoint with fewer KV heads: MHA to GQA, GQA to MQA",
		Long: `convert reads the checkpoint in the folder IN, makes one KV head of each group of
adjacent ones by their mean, and writes the folder OUT: safetensors files with the same
tensors in the same order, config.json with the new number of KV heads, everything else
as it was. OUT must not exist. The result serves at once, and needs some more training
to be good again.

What changes is printed, and what it buys: a column for the checkpoint as it is and one
for what it becomes, on the engine, the layout and the accelerator that the flags of plan
name. --dry-run prints the same and writes nothing. --report reads the key and value
projections and prints how alike the heads are that become one: a hint of how much
training it takes.`,
		Example: `  headcount convert Llama-2-7b Llama-2-7b-gqa8 --kv-heads 8
  headcount convert Llama-2-7b Llama-2-7b-gqa8 --kv-heads 8 --dry-run --gpu h100 --tp 8
  headcount convert Llama-2-7b Llama-2-7b-mqa --kv-heads 1 --method weighted --report`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.convert(cmd.Context(), &v, args[0], args[1]) },
	}
	cmd.Flags().IntVar(&v.heads, "kv-heads", 0, "`n` KV heads in each layer of OUT, a divisor of those in IN")
	cmd.Flags().StringVar(&v.method, "method", string(convert.Mean), "`how` heads become one: mean, first (the first as it is) or weighted (by the norms of values and output)")
	cmd.Flags().BoolVar(&v.dryRun, "dry-run", false, "write nothing: print what would change and what it buys")
	cmd.Flags().BoolVar(&v.report, "report", false, "print how alike the heads are that become one, layer by layer")
	cmd.Flags().BoolVar(&v.asJSON, "json", false, "print all of it as JSON")
	v.addFlags(cmd)
	v.gpu = "h100"
	cmd.Flags().Lookup("gpu").DefValue = v.gpu
	return cmd
}

// inside reports whether a path lies beneath a folder, as far as their names tell.
func inside(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}

func (a *app) convert(ctx context.Context, v *conversion, in, out string) error {
	folder, name, err := source.Folder(in)
	if err != nil {
		return err
	}
	if inside(out, in) {
		return problem.New(problem.BadValue, "OUT", out, "inside the folder that is read").WithHint("name a folder beside it")
	}
	c, err := convert.New(folder, name, convert.Options{KVHeads: v.heads, Method: convert.Method(v.method)})
	if err != nil {
		return err
	}
	before, after, err := a.gain(ctx, v, c, in, out)
	if err != nil {
		return err
	}
	if !v.dryRun {
		bar := newBar(a.stderr, c.Bytes)
		err := c.Write(ctx, out, bar.show)
		bar.clear()
		switch {
		case errors.Is(err, context.Canceled):
			return problem.New(problem.BadValue, "OUT", out, "interrupted; what was written of it is removed")
		case err != nil:
			return err
		}
	}
	var layers []convert.Similarity
	if v.report {
		if layers, err = c.Similarities(ctx); err != nil {
			return err
		}
	}
	if v.asJSON {
		return encode(a, v.result(c, out, before, after, layers))
	}
	showConversion(a.stdout, c, out, v.dryRun)
	heading := "What it buys"
	if before.Roofline != nil {
		heading += " on " + before.Roofline.Accelerator
	}
	fmt.Fprintln(a.stdout, heading)
	showColumns(a, []*headcount.Report{before, after})
	if v.report {
		return showSimilarities(a.stdout, c, layers)
	}
	return nil
}

// result is a conversion with everything about it.
func (v *conversion) result(c *convert.Conversion, out string, before, after *headcount.Report, layers []convert.Similarity) *converted {
	r := &converted{SchemaVersion: headcount.SchemaVersion, In: c.Name, Out: out, DryRun: v.dryRun, Method: c.Method,
		KVHeadsBefore: c.OldHeads, KVHeadsAfter: c.NewHeads, Tensors: []changedTensor{}, Config: map[string]any{},
		Copied: append([]string{}, c.Copied...), LeftOut: append([]string{}, c.LeftOut...), Bytes: c.Bytes, SavedBytes: c.Saved,
		Before: before, After: after, Similarities: layers}
	for _, change := range c.Changes {
		r.Tensors = append(r.Tensors, changedTensor{change.Tensor.Name, change.Tensor.Shape, change.Shape})
	}
	for _, edit := range c.Edits {
		r.Config[strings.Join(edit.Path, ".")] = edit.Value
	}
	return r
}

// gain plans the checkpoint as it is and as it becomes, on one layout.
func (a *app) gain(ctx context.Context, v *conversion, c *convert.Conversion, in, out string) (before, after *headcount.Report, err error) {
	requests, err := v.requests(in)
	if err != nil {
		return nil, nil, err
	}
	if len(requests) > 1 {
		return nil, nil, problem.New(problem.BadValue, "layout", len(requests), "layouts given, convert takes one").
			WithHint("convert once, and compare IN and OUT on other layouts")
	}
	if before, err = a.planner.Plan(ctx, requests[0]); err != nil {
		return nil, nil, err
	}
	requests[0].Model, requests[0].Config = "", c.Config
	after, err = a.planner.Plan(ctx, requests[0])
	after.Model.Name = filepath.Base(out)
	return before, after, err
}

// showConversion says what changes, or has changed, in the files.
func showConversion(out io.Writer, c *convert.Conversion, name string, dryRun bool) {
	verb := ""
	if dryRun {
		verb = "would be "
	}
	fmt.Fprintf(out, "%s → %s: %s → %d, ", plain(c.Name), plain(name), units.Plural(c.OldHeads, "KV head"), c.NewHeads)
	if len(c.Changes) == 0 {
		fmt.Fprintf(out, "%sa copy, %s\n\n", verb, units.Bytes(c.Bytes))
		return
	}
	fmt.Fprintf(out, "%d into one by %s\n\n", c.Group(), byMethod[c.Method])
	w := newTable(out, 0)
	for _, kind := range kindsOf(c) {
		fmt.Fprintf(w, "  %d × %s\t%v\t→ %v\n", kind.count, kind.inside, kind.from, kind.to)
	}
	w.Flush()
	for _, edit := range c.Edits {
		fmt.Fprintf(out, "  config.json: %s → %s\n", strings.Join(edit.Path, "."), edit.Value.AppendJSON(nil))
	}
	fmt.Fprintf(out, "  %s copied as they are; %s %swritten, %s of tensors saved\n", units.Plural(len(c.Copied), "file"), units.Bytes(c.Bytes), verb, units.Bytes(c.Saved))
	if len(c.LeftOut) > 0 {
		fmt.Fprintf(out, "  left out: %s\n", strings.Join(c.LeftOut, ", "))
	}
	fmt.Fprintln(out)
}

var byMethod = map[convert.Method]string{
	convert.Mean: "their mean", convert.First: "taking the first", convert.Weighted: "their weighted mean",
}

// A kind is tensors of one name and shape in several layers.
type kind struct {
	inside   string
	from, to []int64
	count    int
}

func kindsOf(c *convert.Conversion) []kind {
	var out []kind
	at := map[string]int{}
	for _, change := range c.Changes {
		key := fmt.Sprint(change.Inside, change.Tensor.Shape, change.Shape)
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, kind{inside: change.Inside, from: change.Tensor.Shape, to: change.Shape})
		}
		out[i].count++
	}
	return out
}

// showSimilarities prints a row a layer.
func showSimilarities(out io.Writer, c *convert.Conversion, layers []convert.Similarity) error {
	if len(layers) == 0 {
		_, err := fmt.Fprintln(out, "\nEvery head stays as it is: there is nothing to compare.")
		return err
	}
	fmt.Fprintf(out, "\nMean cosine of the %d heads that become one, by layer; in brackets the group that is least alike\n", c.Group())
	w := newTable(out, tabwriter.AlignRight)
	fmt.Fprintln(w, "layer\tkeys\t\tvalues\t\t")
	var keys, values float64
	for _, s := range layers {
		fmt.Fprintf(w, "%s\t%s\t(%s)\t%s\t(%s)\t\n", s.Layer, cosine(s.Keys), cosine(s.LeastKeys), cosine(s.Values), cosine(s.LeastValues))
		keys, values = keys+s.Keys/float64(len(layers)), values+s.Values/float64(len(layers))
	}
	fmt.Fprintf(w, "all\t%s\t\t%s\t\t\n", cosine(keys), cosine(values))
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "1: equal, and pooling changes nothing; 0: nothing in common, and training has to make up for it")
	return err
}

// cosine prints three digits, and no minus before zeros.
func cosine(x float64) string { return fmt.Sprintf("%.3f", math.Round(x*1000)/1000+0) }

// A bar shows how far a run is, on a terminal and nowhere else.
type bar struct {
	out   io.Writer // nil: not shown
	total int64
	start time.Time
	last  time.Time
}

func newBar(w io.Writer, total int64) *bar {
	b := &bar{total: total, start: time.Now()}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			b.out = w
		}
	}
	return b
}

// show draws the bar, at most ten times a second.
func (b *bar) show(done int64) {
	now := time.Now()
	if b.out == nil || now.Sub(b.last) < time.Second/10 {
		return
	}
	b.last = now
	const width = 30
	share := float64(done) / float64(max(b.total, 1))
	full := min(width, int(share*width))
	rate := float64(done) / max(now.Sub(b.start).Seconds(), 0.001)
	fmt.Fprintf(b.out, "\r%s%s %3.0f %%  %s of %s, %.0f MB/s\x1b[K", strings.Repeat("█", full), strings.Repeat("░", width-full),
		100*share, units.Bytes(done), units.Bytes(b.total), rate/1e6)
}

// clear takes the bar away.
func (b *bar) clear() {
	if b.out != nil && !b.last.IsZero() {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
}
