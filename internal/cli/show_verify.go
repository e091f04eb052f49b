package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"headcount/units"
	"headcount/verify"
)

// encodeLine writes v as one line of JSON.
func encodeLine(a *app, v any) error { return json.NewEncoder(a.stdout).Encode(v) }

// engines are how engines write themselves.
var engines = map[string]string{"vllm": "vLLM", "sglang": "SGLang", "llama.cpp": "llama.cpp", "tensorrt-llm": "TensorRT-LLM"}

// showComparison prints one start: what was planned, figure by figure what was printed, what
// explains a difference, and what to change.
func showComparison(out io.Writer, r *verify.Report) {
	left := strings.TrimSpace(engines[r.Engine.Name] + " " + r.Engine.Version)
	if r.Plan != nil {
		left += " · " + r.Model + " · " + layoutName(r.Plan.Layout)
	} else if r.Model != "" {
		left += " · " + r.Model
	}
	fmt.Fprintln(out, spread(left, r.Source, lineWidth))
	for _, text := range r.Assumed {
		fmt.Fprintf(out, "assumed: %s\n", text)
	}
	showRefusal(out, r)
	showChecks(out, r)
	showVerdict(out, r)
	showAdvice(out, r.Advice)
}

// showRefusal prints why the engine did not start, and whether that was to be expected.
func showRefusal(out io.Writer, r *verify.Report) {
	if r.Refusal == nil {
		return
	}
	where := ""
	if r.Refusal.Line > 0 {
		where = fmt.Sprintf(" (line %d)", r.Refusal.Line)
	}
	fmt.Fprintf(out, "It refused to start%s:\n", where)
	for _, line := range wrapped(r.Refusal.Message, lineWidth-2) {
		fmt.Fprintf(out, "  %s\n", line)
	}
}

// wrapped breaks text into lines of at most width bytes, at blanks.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

func showChecks(out io.Writer, r *verify.Report) {
	if len(r.Checks) == 0 {
		return
	}
	w := newTable(out, tabwriter.AlignRight)
	fmt.Fprintln(w, "\tpredicted\tprinted\tdifference\t")
	var notes []string
	for _, c := range r.Checks {
		name := label(c.Name)
		if text, ok := c.Predicted.(string); ok || c.Name == "refusal" {
			notes = append(notes, refusalNote(text, c))
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", name, figure(c.Name, c.Predicted), figure(c.Name, c.Observed), difference(c))
	}
	var table strings.Builder
	swap := w.out
	w.out = &table
	w.Flush()
	w.out = swap
	io.WriteString(out, aligned(table.String()))
	for _, note := range notes {
		for i, line := range wrapped(note, lineWidth-2) {
			fmt.Fprintf(out, "%s%s\n", strings.Repeat(" ", 2*min(i, 1)), line)
		}
	}
}

// aligned puts the first column of a table to the left.
func aligned(table string) string {
	var b strings.Builder
	for line := range strings.Lines(table) {
		text := strings.TrimLeft(line, " ")
		name, _, _ := strings.Cut(text, "  ")
		pad := len(line) - len(text)
		if strings.HasPrefix(text, "predicted") || pad == 0 {
			b.WriteString(line)
			continue
		}
		b.WriteString(name + strings.Repeat(" ", pad) + text[len(name):])
	}
	return b.String()
}

// refusalNote sets a refusal that was planned beside the one that came.
func refusalNote(planned string, c verify.Check) string {
	switch {
	case planned == "":
		return "Not predicted: the plan would start."
	case c.Agrees:
		return "Predicted: " + planned
	}
	return fmt.Sprintf("Predicted: %s. Instead: %v", planned, c.Observed)
}

// labels are what checks are called in print.
var labels = map[string]string{
	"weights_bytes": "weights of a rank", "available_bytes": "pool of a rank", "tokens": "tokens of the pool", "num_blocks": "blocks",
	"max_concurrency": "requests of max length", "needed_bytes": "needed for one request", "usable_bytes": "usable of the pool",
	"estimated_max_model_len": "longest that fits", "graph_bytes": "CUDA graphs", "k_bytes": "keys", "v_bytes": "values", "kv_bytes": "keys and values",
	"max_total_num_tokens": "tokens of the pool", "context_len": "longest request", "pools_bytes": "all pools", "block_size": "tokens of a block",
}

func label(name string) string {
	base, rank, _ := strings.Cut(name, " ")
	text, ok := labels[base]
	if !ok {
		text = strings.ReplaceAll(base, "_", " ")
	}
	return strings.TrimSpace(text + " " + rank)
}

// figure prints one number of a check.
func figure(name string, v any) string {
	base, _, _ := strings.Cut(name, " ")
	switch v := v.(type) {
	case int64:
		if strings.HasSuffix(base, "_bytes") {
			return units.Bytes(v).String()
		}
		return units.Group(v)
	case float64:
		return units.Fixed(v, 2)
	case nil:
		return "not known"
	}
	return fmt.Sprint(v)
}

// difference is the last column: of an estimate in per cent, else in the figure's own unit.
func difference(c verify.Check) string {
	switch {
	case c.Exact:
		return "none"
	case c.Estimate:
		text := fmt.Sprintf("%+.1f %%", 100*c.Difference)
		if !c.Agrees {
			text += " !"
		}
		return text
	}
	base, _, _ := strings.Cut(c.Name, " ")
	switch sign := "+"; {
	case strings.HasSuffix(base, "_bytes"):
		if c.Difference < 0 {
			sign = "-"
		}
		return sign + units.Bytes(math.Abs(c.Difference)).String() + " !"
	case c.Difference != math.Trunc(c.Difference):
		return fmt.Sprintf("%+.2f !", c.Difference)
	}
	if c.Difference > 0 {
		return "+" + units.Group(int64(c.Difference)) + " !"
	}
	return units.Group(int64(c.Difference)) + " !"
}

// showVerdict says whether all agrees, and of what does not, why.
func showVerdict(out io.Writer, r *verify.Report) {
	told := map[string]bool{}
	differ := 0
	for _, c := range r.Checks {
		if c.Agrees {
			continue
		}
		differ++
		why := "not explained"
		if c.Cause != nil {
			why = "closed if " + *c.Cause
		}
		if !told[why] {
			told[why] = true
			for i, line := range wrapped(label(c.Name)+": "+why, lineWidth-2) {
				fmt.Fprintf(out, "%s%s\n", strings.Repeat(" ", 2*min(i, 1)), line)
			}
		}
	}
	switch {
	case r.Expected():
		fmt.Fprintln(out, "The refusal was to be expected.")
	case differ > 0:
		fmt.Fprintf(out, "%d of %s.\n", differ, units.Plural(len(r.Checks), "check")+differVerb(differ))
	case len(r.Checks) == 0:
		fmt.Fprintln(out, "Nothing in it can be compared.")
	default:
		fmt.Fprintln(out, "All agree.")
	}
}

func differVerb(n int) string {
	if n == 1 {
		return " differs"
	}
	return " differ"
}

func showAdvice(out io.Writer, advice []verify.Advice) {
	if len(advice) == 0 {
		return
	}
	fmt.Fprintln(out, "What to change")
	for _, a := range advice {
		flag := strings.TrimSpace(a.Flag + " " + a.Value)
		gives := ""
		if a.Tokens != nil {
			gives = units.Group(*a.Tokens) + " tokens"
			if a.MaxConcurrency != nil {
				gives += fmt.Sprintf(", %.2f requests", *a.MaxConcurrency)
			}
			gives += ": "
		}
		fmt.Fprintf(out, "  %s  %s%s\n", pad(flag, 34), gives, a.Why)
	}
}
