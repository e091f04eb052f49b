package cli

import (
	"bytes"
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"headcount"
	"headcount/internal/handout"
)

func newReport(a *app) *cobra.Command {
	var q question
	var file string
	cmd := &cobra.Command{
		Use:   "report MODEL",
		Short: "Write a plan as one HTML file, with its pictures",
		Long: `report writes what plan, explain and plan --plot say into one HTML file that loads
nothing from anywhere and can be mailed. It takes the flags of plan; of a sweep, numbers
and arithmetic are those of the last layout that the engine takes.`,
		Example: `  headcount report llama-3-70b --gpu h100 --tp 1,2,4,8 -o report.html
  headcount report deepseek-v3 --engine sglang --gpu h200 --tp 8 -o - > report.html`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			requests, err := q.requests(args[0])
			if err != nil {
				return err
			}
			data, err := a.report(cmd.Context(), requests, command("headcount plan", args[0], cmd.Flags()))
			if err != nil {
				return err
			}
			if file == "-" {
				_, err := a.stdout.Write(data)
				return err
			}
			return writeFile("--output", file, data)
		},
	}
	q.addFlags(cmd)
	a.allowNetwork(cmd)
	cmd.Flags().StringVarP(&file, "output", "o", "report.html", "`file` to write, - for standard output")
	return cmd
}

// report is the file's text.
func (a *app) report(ctx context.Context, requests []headcount.Request, command string) ([]byte, error) {
	reports, err := a.planEach(ctx, requests)
	if err != nil {
		return nil, err
	}
	f, err := a.draw(ctx, requests, reports)
	if err != nil {
		return nil, err
	}
	h := handout.Handout{Figures: f, Command: command, Version: version()}
	if len(reports) > 1 {
		h.Layouts = reports
	}
	var b bytes.Buffer
	err = h.Write(&b)
	return b.Bytes(), err
}

// command is the line that says the same to a shell.
func command(program, model string, fs *pflag.FlagSet) string {
	parts := []string{program, quoted(model)}
	fs.Visit(func(f *pflag.Flag) {
		if f.Name != "output" {
			parts = append(parts, "--"+f.Name+"="+quoted(f.Value.String()))
		}
	})
	return strings.Join(parts, " ")
}

// quoted is a word that a shell takes as one.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./,:@+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
