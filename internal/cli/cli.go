// Package cli is the headcount command: flags in, a Report shown. It holds no formula.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"headcount"
	"headcount/internal/source"
	"headcount/problem"
)

// Exit statuses.
const (
	exitFine     = 0
	exitFindings = 1 // an engine would refuse
	exitUnusable = 2 // unusable input or flags
)

// findings is the error of a run that answered, and whose answer is a refusal.
var errFindings = errors.New("the engine would refuse")

// An app is what commands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	planner        *headcount.Planner
	network        bool // the hub itself may be asked
}

// Run executes the command line args, which exclude the program's name, and returns the
// exit status.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &output{w: stdout}
	a := &app{stdin: stdin, stdout: out, stderr: stderr}
	a.planner = &headcount.Planner{
		Resolver: source.New(stdin),
		Hub:      newHubs(a),
	}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if out.err != nil && (err == nil || errors.Is(err, errFindings)) {
		err = problem.New(problem.Unreadable, "", nil, "standard output: %s", cause(out.err))
	}
	switch {
	case err == nil:
		return exitFine
	case errors.Is(err, errFindings):
		return exitFindings
	default:
		complain(stderr, err)
		return exitUnusable
	}
}

// complain prints an error and its remedy, a line each.
func complain(w io.Writer, err error) {
	fmt.Fprintf(w, "headcount: error: %s\n", plain(err.Error()))
	if p, ok := errors.AsType[*problem.Error](err); ok && p.Hint != "" {
		fmt.Fprintf(w, "headcount: hint: %s\n", plain(p.Hint))
	}
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "headcount",
		Short: "Say what vLLM and SGLang will allocate for a model, before anything is loaded",
		Long: `headcount says what vLLM and SGLang will allocate and log for a model on a layout of
GPUs: KV heads per rank, pages, blocks, tokens, concurrency, or the refusal with its
reason. It needs no GPU, no Python and no network.`,
		Example: `  headcount plan llama-3-70b --gpu h100 --tp 8
  headcount plan ./config.json --kv-cache-memory 40GiB --tp 1,2,4,8
  headcount explain deepseek-v3 --gpu h200 --tp 8
  headcount compare llama-3-70b deepseek-v3 --gpu h200 --tp 8
  headcount verify vllm.log`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newPlan(a), newExplain(a), newCompare(a), newConvert(a), newVerify(a), newBench(a), newModels(a), newGPUs(a), newServe(a), newReport(a), newVersion(a), newMan(a))
	root.SetHelpCommand(newHelp(root))
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.RunE = func(cmd *cobra.Command, args []string) error { return helpOn(cmd, args) }
		}
	}
	return root
}

func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE:  func(_ *cobra.Command, args []string) error { return helpOn(root, args) },
	}
}

// helpOn prints the help of a command beneath cmd; what is none is of no use.
func helpOn(cmd *cobra.Command, args []string) error {
	for _, name := range args {
		under, names := (*cobra.Command)(nil), []string(nil)
		for _, c := range cmd.Commands() {
			if c.Name() == name || c.HasAlias(name) {
				under = c
			}
			names = append(names, c.Name())
		}
		if under == nil {
			err := problem.New(problem.BadValue, "", nil, "%.80q: not a command of %s", name, cmd.CommandPath())
			if near := problem.Nearest(name, names, 1); len(near) > 0 {
				return err.WithHint("did you mean %s %s?", cmd.CommandPath(), near[0])
			}
			return err.WithHint("%s --help lists them", cmd.CommandPath())
		}
		cmd = under
	}
	cmd.InitDefaultHelpFlag()
	return cmd.Help()
}
