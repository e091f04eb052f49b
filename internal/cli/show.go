package cli

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"headcount"
	"headcount/engine"
	"headcount/internal/digest"
	"headcount/units"
)

// showReport prints one report: the model and the layout, what a rank holds, and the line
// that the engine will log. unsplit is the same model on one rank, for the whole model's
// column. A refusal goes to stderr after what was known before it.
func showReport(out, errs io.Writer, r, unsplit *headcount.Report) {
	if len(r.Ranks) > 0 {
		d := digest.Of(r, unsplit)
		fmt.Fprintln(out, spread(d.Title, d.Setup, lineWidth))
		showTable(out, d)
		showLog(out, r, d.Headline)
	}
	if r.PoolEstimated() {
		showBars(out, r)
	}
	showNotes(out, r.Notes)
	if r.Error != nil {
		fmt.Fprintf(out, "%s refuses this.\n", digest.EngineName(r.Engine.Name))
		complain(errs, r.Error)
	}
	if r.PoolEstimated() || r.Error != nil {
		showFlags(out, r.Advice)
	}
}

// showFlags prints flags to paste, each with what it does.
func showFlags(out io.Writer, advice []headcount.Advice) {
	width := 0
	for _, a := range advice {
		if a.Flag != "" {
			width = max(width, len(a.String()))
		}
	}
	for _, a := range advice {
		if a.Flag == "" {
			fmt.Fprintln(out, a.Why)
			continue
		}
		fmt.Fprintf(out, "  %s  %s\n", pad(a.String(), width), a.Why)
	}
}

const lineWidth = 118

// spread puts left and right at the two ends of a line.
func spread(left, right string, width int) string {
	gap := max(2, width-utf8.RuneCountInString(left)-utf8.RuneCountInString(right))
	return plain(left + strings.Repeat(" ", gap) + right)
}

func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s)))
}

func padLeft(s string, n int) string {
	return strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s))) + s
}

func showTable(out io.Writer, d digest.Digest) {
	show := func(name, rank, whole, how string) {
		line := fmt.Sprintf("%s %s %s   %s", pad(name, 24), padLeft(rank, 13), padLeft(whole, 14), how)
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	show("", "per rank", "whole model", "")
	for _, row := range d.Rows {
		if row.Part {
			row.Name = "  " + row.Name
		}
		show(row.Name, row.PerRank, row.WholeModel, row.How)
	}
}

func showLog(out io.Writer, r *headcount.Report, headline string) {
	if len(r.Log) == 0 {
		return
	}
	fmt.Fprintln(out, headline)
	for _, line := range r.Log {
		fmt.Fprintf(out, "  %s\n", line)
	}
	for _, c := range r.KVCache.Concurrency {
		fmt.Fprintf(out, "  at %s tokens: %.2f requests\n", units.Group(c.Tokens), c.Requests)
	}
}

func showNotes(out io.Writer, notes []engine.Note) {
	for _, n := range notes {
		if n.Severity == "info" {
			continue
		}
		fmt.Fprintf(out, "%s: %s [%s]\n", n.Severity, n.Text, n.ID)
		if n.Hint != "" {
			fmt.Fprintf(out, "  %s\n", n.Hint)
		}
	}
}

// showSweep prints a table with a row a layout; a refused one has the reason in its row.
func showSweep(out io.Writer, reports []*headcount.Report) {
	fmt.Fprintln(out, spread(digest.Title(first(reports)), digest.EngineName(reports[0].Engine.Name)+" "+reports[0].Engine.Version, lineWidth))
	w := newTable(out, tabwriter.AlignRight)
	fmt.Fprintln(w, "layout\tGPUs\tKV heads\tcopies\tKV/token\tweights\tpool\ttokens\trequests\t of length\t")
	for _, r := range reports {
		fmt.Fprintf(w, "%s\t%d\t%s\n", r.Layout.String(), r.Layout.GPUs(), sweepCells(r))
	}
	w.Flush()
	for _, r := range reports {
		if r.Error != nil {
			fmt.Fprintf(out, "%s: %s\n", r.Layout.String(), r.Error.Message)
		}
	}
	if r := first(reports); r.Memory != nil && r.Memory.KVBytes != nil {
		fmt.Fprintln(out, "KV heads, bytes and pool per rank; tokens and requests of one replica; pools are estimates, see plan of one layout")
	} else {
		fmt.Fprintln(out, "KV heads, bytes and pool per rank; tokens and requests of one replica")
	}
}

// first is the first report that got as far as ranks, else the first.
func first(reports []*headcount.Report) *headcount.Report {
	for _, r := range reports {
		if r.Error == nil {
			return r
		}
	}
	return reports[0]
}

func sweepCells(r *headcount.Report) string {
	if r.Error != nil {
		return "\t\t\t\t\trefused\t\t\t"
	}
	rank, kv := r.Heaviest(), r.KVCache
	cells := []string{strconv.Itoa(rank.KVHeads), strconv.Itoa(rank.KVReplication) + "×", units.Bytes(rank.BytesPerToken).String(), "", "", "", "", ""}
	if rank.WeightBytes != nil {
		cells[3] = units.Bytes(*rank.WeightBytes).String()
	}
	if kv.AvailableBytes != nil {
		cells[4] = units.Bytes(*kv.AvailableBytes).String()
	}
	if n := kv.Tokens; n != nil {
		cells[5] = units.Group(*n)
	}
	if c := kv.Requests(r.Model.MaxModelLen, r.Model.MaxModelLen); c != nil {
		cells[6], cells[7] = fmt.Sprintf("%.2f", *c), units.Group(r.Model.MaxModelLen)
	}
	return strings.Join(cells, "\t") + "\t"
}

// A table aligns columns and leaves no blanks at the ends of lines.
type table struct {
	*tabwriter.Writer
	out  io.Writer
	text bytes.Buffer
}

// newTable starts a table; flags are tabwriter's.
func newTable(out io.Writer, flags uint) *table {
	t := &table{out: out}
	t.Writer = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', flags)
	return t
}

// Flush writes the table.
func (t *table) Flush() error {
	if err := t.Writer.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(t.text.String()) {
		if _, err := io.WriteString(t.out, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	t.text.Reset()
	return nil
}
