package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"headcount/units"
	"headcount/verify"
)

// encodeLine writes v as one line of JSON.
func encodeLine(a *app, v any) error { return json.NewEncoder(a.stdout).Encode(v) }

// engines are how engines write themselves.
var engines = map[string]string{"vllm": "vLLM", "sglang": "SGLang", "llama.cpp": "llama.cpp", "tensorrt-llm": "TensorRT-LLM"}

// showComparison prints one start: what was planned, figure by figure what was printed, what
// explains a difference, and what to change.
func showComparison(w io.Writer, r *verify.Report) {
	out := new(strings.Builder)
	defer func() { io.WriteString(w, plain(out.String())) }() // a log may say anything
	left := strings.TrimSpace(engines[r.Engine.Name] + " " + r.Engine.Version)
	if r.Plan != nil {
		left += " · " + r.Model + " · " + r.Plan.Layout.String()
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
	showFacts(out, r.Observed)
}

// showRefusal prints why the engine did not start, or stopped.
func showRefusal(out io.Writer, r *verify.Report) {
	for _, end := range []struct {
		what string
		why  *verify.Refusal
	}{{"It refused to start", r.Refusal}, {"It started, and fell over", r.Fell}} {
		if end.why == nil {
			continue
		}
		where := ""
		if end.why.Line > 0 {
			where = fmt.Sprintf(" (line %d)", end.why.Line)
		}
		fmt.Fprintf(out, "%s%s:\n", end.what, where)
		for _, line := range wrapped(strings.Fields(end.why.Message), " ") {
			fmt.Fprintf(out, "  %s\n", line)
		}
	}
}

// wrapped joins parts by sep into lines that fit in print, with room for an indent.
func wrapped(parts []string, sep string) []string {
	var lines []string
	line := ""
	for _, part := range parts {
		if line != "" && utf8.RuneCountInString(line+sep+part) > lineWidth-2 {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += sep
		}
		line += part
	}
	return append(lines, line)
}

func showChecks(out io.Writer, r *verify.Report) {
	if len(r.Checks) == 0 {
		return
	}
	var text strings.Builder
	w, rows := newTable(&text, tabwriter.AlignRight), 0
	fmt.Fprintln(w, "\tpredicted\tprinted\tdifference\t")
	var notes []string
	for _, c := range r.Checks {
		name := label(c.Name)
		if planned, ok := c.Predicted.(string); ok || c.Name == "refusal" {
			notes = append(notes, refusalNote(planned, c))
			continue
		}
		rows++
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", name, figure(c.Name, c.Predicted), printed(c), difference(c))
	}
	w.Flush()
	if rows > 0 {
		io.WriteString(out, aligned(text.String()))
	}
	for _, note := range notes {
		for i, line := range wrapped(strings.Fields(note), " ") {
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

// printed is the engine's figure, as rounded as it printed it.
func printed(c verify.Check) string {
	bytes, ok := c.Observed.(int64)
	switch {
	case !ok || c.Slack == 0:
		return figure(c.Name, c.Observed)
	case c.Slack > 1<<16:
		return units.Fixed(float64(bytes)/(1<<30), 2) + " GiB"
	}
	return units.Fixed(float64(bytes)/(1<<20), 2) + " MiB"
}

// refusalNote sets a refusal that was planned beside the one that came.
func refusalNote(planned string, c verify.Check) string {
	switch {
	case planned == "":
		return "Not predicted: the plan would start."
	case c.Agrees:
		return "Predicted: " + planned
	}
	return fmt.Sprintf("Predicted: %s. Instead: %v", strings.TrimRight(planned, "."), c.Observed)
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
			for i, line := range wrapped(strings.Fields(label(c.Name)+": "+why), " ") {
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

// showFacts prints what ran, each fact with the line that says it.
func showFacts(out io.Writer, o *verify.Observation) {
	var said []string
	for _, f := range o.Facts {
		name := strings.TrimSpace(f.Name + " " + f.Rank)
		from := f.From
		if f.Line > 0 {
			from = units.Group(f.Line)
		}
		if from != "" && !f.Moves() {
			said = append(said, fmt.Sprintf("%s %s (%s)", name, fact(f.Value), from))
		}
	}
	if len(said) == 0 {
		return
	}
	fmt.Fprintln(out, "What ran, and which line says so")
	for _, line := range wrapped(said, " · ") {
		fmt.Fprintf(out, "  %s\n", line)
	}
}

// fact prints a value as a log has it.
func fact(v any) string {
	switch v := v.(type) {
	case verify.Size:
		return units.Fixed(float64(v.Bytes)/(1<<30), 2) + " GiB"
	case int64:
		return units.Group(v)
	case float64:
		return units.PythonFloat(v)
	case json.RawMessage:
		return string(v)
	}
	return fmt.Sprint(v)
}
