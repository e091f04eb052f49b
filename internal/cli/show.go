package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"headcount"
	"headcount/dtype"
	"headcount/engine"
	"headcount/layout"
	"headcount/model"
	"headcount/units"
)

// showReport prints one report: the model and the layout, what a rank holds, and the line
// that the engine will log. unsplit is the same model on one rank, for the whole model's
// column. A refusal goes to stderr after what was known before it.
func showReport(out, errs io.Writer, r, unsplit *headcount.Report) {
	if len(r.Ranks) > 0 {
		fmt.Fprintln(out, spread(title(r), setup(r), lineWidth))
		showTable(out, r, unsplit)
		showLog(out, r)
	}
	showNotes(out, r.Notes)
	if r.Error != nil {
		fmt.Fprintf(out, "%s refuses this.\n", engineName(r.Engine.Name))
		complain(errs, r.Error)
	}
}

const lineWidth = 118

// title names the model and its heads: "llama-3-70b · GQA-8: 64 query heads, ...".
func title(r *headcount.Report) string {
	m := r.Model
	heads := fmt.Sprintf("%d query heads, %s × %d", m.QueryHeads, units.Plural(m.KVHeads, "KV head"), m.HeadDim)
	if m.AttentionArch == "MLA" {
		heads = fmt.Sprintf("%d query heads, one latent of %d", m.QueryHeads, r.LatentDim())
	}
	return fmt.Sprintf("%s · %s: %s, %d layers", m.Name, m.Variant, heads, m.Layers)
}

// setup names the engine, the layout and the dtype: "vLLM 0.33 · TP 8 · bf16".
func setup(r *headcount.Report) string {
	parts := []string{engineName(r.Engine.Name) + " " + strings.TrimSuffix(r.Engine.Version, ".0"), layoutName(r.Layout), shortDType(r.Model.DType)}
	if kv := r.KVCache.DType; kv != r.Model.DType && kv != dtype.Unknown {
		name := kv.String()
		if kv == dtype.UInt8 && r.Resolved.CacheDType != "" {
			name = r.Resolved.CacheDType // how the engine calls what it stores as bytes
		}
		parts = append(parts, "KV "+name)
	}
	return strings.Join(parts, " · ")
}

func engineName(name string) string {
	if name == "sglang" {
		return "SGLang"
	}
	return "vLLM"
}

// layoutName is "TP 8 · PP 2 · DCP 2"; sizes of one are left out, but for TP.
func layoutName(l layout.Layout) string {
	parts := []string{fmt.Sprintf("TP %d", l.TP)}
	add := func(name string, n int) {
		if n > 1 {
			parts = append(parts, fmt.Sprintf("%s %d", name, n))
		}
	}
	add("PP", l.PP)
	if l.DPAttention {
		add("attention DP", l.DP)
	} else {
		add("DP", l.DP)
	}
	add("DCP", l.DCP)
	if l.EP {
		parts = append(parts, "EP")
	}
	return strings.Join(parts, " · ")
}

func shortDType(t dtype.Type) string {
	switch t {
	case dtype.BFloat16:
		return "bf16"
	case dtype.Float16:
		return "fp16"
	case dtype.Float32:
		return "fp32"
	}
	return t.String()
}

// spread puts left and right at the two ends of a line.
func spread(left, right string, width int) string {
	gap := max(2, width-utf8.RuneCountInString(left)-utf8.RuneCountInString(right))
	return left + strings.Repeat(" ", gap) + right
}

// A row is one line of a report's table; how tells how the number came about.
type row struct{ name, rank, whole, how string }

func showTable(out io.Writer, r, unsplit *headcount.Report) {
	rows := []row{{"", "per rank", "whole model", ""}}
	for i := range r.Ranks {
		if i > 0 && sameStage(&r.Ranks[i], &r.Ranks[i-1]) && i < len(r.Ranks)-1 {
			continue // as the stage before it
		}
		rows = append(rows, cacheRows(r, unsplit, &r.Ranks[i])...)
	}
	if n := r.KVCache.FixedBytesPerRequest; n > 0 {
		rows = append(rows, row{"KV cache per request", units.Bytes(n).String(), "", "whatever its length, beside what its tokens add"})
	}
	rows = append(rows, poolRows(r)...)
	rows = append(rows, roofRows(r)...)
	for _, row := range rows {
		line := fmt.Sprintf("%s %s %s   %s", pad(row.name, 24), padLeft(row.rank, 13), padLeft(row.whole, 14), row.how)
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}

func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s)))
}

func padLeft(s string, n int) string {
	return strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s))) + s
}

// cacheRows are one stage's cache and weights.
func cacheRows(r, unsplit *headcount.Report, rank *engine.Rank) []row {
	stage := ""
	if len(r.Ranks) > 1 {
		stage = fmt.Sprintf(", stage %d", rank.Stage)
	}
	perToken := row{"KV cache per token" + stage, units.Bytes(rank.BytesPerToken).String(), "", growing(rank)}
	if rank.Stage == 0 && len(unsplit.Ranks) > 0 {
		perToken.whole = units.Bytes(unsplit.Ranks[0].BytesPerToken).String()
	}
	rows := []row{perToken}
	for _, run := range merged(rank.Layers) {
		if how := fixed(run); how != "" {
			rows = append(rows, row{"  " + kindName(run.Kind), units.Bytes(run.PageSize).String(), "", how})
		}
	}
	if rank.Stage == 0 {
		rows = append(rows, row{"KV replication", strconv.Itoa(rank.KVReplication) + "×", "", replication(r, rank)})
	}
	if why := noteText(r, "weights-not-known"); why != "" && rank.Stage == 0 {
		rows = append(rows, row{"Weights", "not known", "", why})
	}
	if rank.WeightBytes != nil {
		w := row{"Weights" + stage, units.Bytes(*rank.WeightBytes).String(), "", ""}
		if rank.Stage == 0 && r.Model.Parameters != nil {
			w.whole = units.Bytes(*r.Model.WeightBytes).String()
			w.how = units.Group(*r.Model.Parameters) + " parameters"
		}
		rows = append(rows, w)
	}
	return rows
}

// noteText is the text of the note of an id, "" when there is none.
func noteText(r *headcount.Report, id string) string {
	for _, n := range r.Notes {
		if n.ID == id {
			return n.Text
		}
	}
	return ""
}

// growing is the arithmetic of the bytes that one token adds on a rank.
func growing(rank *engine.Rank) string {
	var terms []string
	for _, run := range merged(rank.Layers) {
		size := run.DType.Bytes()
		switch {
		case run.Kind == model.Full && run.KeyDim == run.ValueDim:
			terms = append(terms, fmt.Sprintf("2 × %d layers × %s × %d × %d B", run.Layers, units.Plural(run.KVHeads, "head"), run.KeyDim, size))
		case run.Kind == model.Full:
			terms = append(terms, fmt.Sprintf("%d layers × %s × (%d + %d) × %d B", run.Layers, units.Plural(run.KVHeads, "head"), run.KeyDim, run.ValueDim, size))
		case run.Kind == model.Latent || run.Kind == model.Indexer:
			terms = append(terms, fmt.Sprintf("%d layers × %d B", run.Layers, run.PageUnpadded/int64(max(run.BlockSize, 1))))
		}
	}
	return strings.Join(terms, " + ")
}

// merged sums the layers of runs that differ in nothing else, in order of first appearance.
func merged(runs []engine.Run) []engine.Run {
	var out []engine.Run
	for _, run := range runs {
		i := slices.IndexFunc(out, func(o engine.Run) bool {
			return o.Kind == run.Kind && o.KVHeads == run.KVHeads && o.KeyDim == run.KeyDim && o.ValueDim == run.ValueDim &&
				o.DType == run.DType && o.PageSize == run.PageSize && o.PageUnpadded == run.PageUnpadded && o.BlockSize == run.BlockSize &&
				value(o.Window) == value(run.Window)
		})
		if i < 0 {
			out = append(out, run)
		} else {
			out[i].Layers += run.Layers
		}
	}
	return out
}

func value(p *int) int {
	if p == nil {
		return 0
	}
	return *p
}

// fixed says what a layer that does not grow with every token keeps.
func fixed(run engine.Run) string {
	switch {
	case run.Window != nil:
		return fmt.Sprintf("a page of %d tokens a layer, %d layers with a window of %s tokens", run.BlockSize, run.Layers, units.Group(int64(*run.Window)))
	case run.StateBytes != nil:
		return fmt.Sprintf("a state a layer, %d layers", run.Layers)
	}
	return ""
}

func kindName(k model.Kind) string { return strings.ReplaceAll(string(k), "_", " ") }

func replication(r *headcount.Report, rank *engine.Rank) string {
	if r.Layout.DPAttention && r.Layout.DP > 1 {
		return fmt.Sprintf("%s, each with its own requests", units.Plural(r.Layout.DP, "attention-DP rank"))
	}
	if r.Model.AttentionArch == "MLA" {
		if dcp := r.Layout.DCP; dcp > 1 {
			return fmt.Sprintf("%s share the tokens, each a latent in %d", units.Plural(dcp, "rank"), dcp)
		}
		return fmt.Sprintf("the latent is whole on each of %s", units.Plural(r.Layout.TP, "rank"))
	}
	return fmt.Sprintf("%s over %s", units.Plural(r.Model.KVHeads, "KV head"), units.Plural(r.Layout.TP, "rank"))
}

// poolRows are the pool of one rank and what made it.
func poolRows(r *headcount.Report) []row {
	if r.KVCache.AvailableBytes == nil {
		return nil
	}
	pool := row{"KV cache pool", units.Bytes(*r.KVCache.AvailableBytes).String(), "", "as given"}
	if m := r.Memory; r.PoolEstimated() {
		taken := 0.0
		for _, t := range m.Terms {
			taken += gib(t.P50)
		}
		half := gib(m.KVBytes.P90-m.KVBytes.P10) / 2
		pool.how = fmt.Sprintf("%s − %.1f weights − %.1f ± %.1f at peak", have(r), gib(*m.WeightsBytes), taken, half)
	}
	return []row{pool}
}

func have(r *headcount.Report) string {
	if r.Engine.Name == "sglang" {
		return fmt.Sprintf("%.1f GiB", gib(r.Memory.TotalBytes))
	}
	return fmt.Sprintf("%.2f × %.1f GiB", r.Memory.Fraction, gib(r.Memory.TotalBytes))
}

func gib(n int64) float64 { return float64(n) / (1 << 30) }

func roofRows(r *headcount.Report) []row {
	if r.Roofline == nil {
		return nil
	}
	var rows []row
	for i, p := range r.Roofline.Layers {
		if i > 0 && p.Intensity == r.Roofline.Layers[i-1].Intensity {
			continue
		}
		name := "Decode intensity"
		if i > 0 {
			name = "  " + kindName(model.Kind(p.Kind))
		}
		how := "where it stands under the roof of the " + r.Roofline.Accelerator + " is not known"
		if p.ShareOfRidge != nil {
			how = fmt.Sprintf("%.1f %% of the ridge of the %s, %.0f: bound by %s", *p.ShareOfRidge*100, r.Roofline.Accelerator, *r.Roofline.Ridge, p.Bound)
		}
		rows = append(rows, row{name, fmt.Sprintf("%.3g FLOP/byte", p.Intensity), "", how})
	}
	return rows
}

func showLog(out io.Writer, r *headcount.Report) {
	if len(r.Log) == 0 {
		return
	}
	head := "The engine will log"
	if r.PoolEstimated() {
		head = fmt.Sprintf("The engine will log, within ± %.0f %%", r.Memory.KVBytes.PerCent())
	}
	fmt.Fprintln(out, head)
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
	fmt.Fprintln(out, spread(title(first(reports)), engineName(reports[0].Engine.Name)+" "+reports[0].Engine.Version, lineWidth))
	w := newTable(out, tabwriter.AlignRight)
	fmt.Fprintln(w, "layout\tGPUs\tKV heads\tcopies\tKV/token\tweights\tpool\ttokens\trequests\t of length\t")
	for _, r := range reports {
		fmt.Fprintf(w, "%s\t%d\t%s\n", layoutName(r.Layout), r.Layout.GPUs(), sweepCells(r))
	}
	w.Flush()
	for _, r := range reports {
		if r.Error != nil {
			fmt.Fprintf(out, "%s: %s\n", layoutName(r.Layout), r.Error.Message)
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

// sameStage reports whether two stages print alike.
func sameStage(a, b *engine.Rank) bool {
	known := a.WeightBytes != nil && b.WeightBytes != nil
	return a.BytesPerToken == b.BytesPerToken && (!known && a.WeightBytes == b.WeightBytes || known && *a.WeightBytes == *b.WeightBytes)
}

// heaviest is the stage on which a token costs most, and so the one that binds.
func heaviest(r *headcount.Report) *engine.Rank {
	best := &r.Ranks[0]
	for i := range r.Ranks {
		if r.Ranks[i].BytesPerToken > best.BytesPerToken {
			best = &r.Ranks[i]
		}
	}
	return best
}

func sweepCells(r *headcount.Report) string {
	if r.Error != nil {
		return "\t\t\t\t\trefused\t\t\t"
	}
	rank, kv := heaviest(r), r.KVCache
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
