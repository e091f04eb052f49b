package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"headcount"
	"headcount/catalog"
	"headcount/engine/sglang"
	"headcount/engine/vllm"
	"headcount/hw"
	"headcount/internal/digest"
	"headcount/problem"
	"headcount/units"
)

func newModels(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "models [WORD]",
		Short:   "List the models known offline",
		Long:    "models lists the catalogue: hub ids, short names and KV heads. WORD keeps those whose name holds it.",
		Example: "  headcount models\n  headcount models qwen",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			word := strings.ToLower(strings.Join(args, ""))
			found := digest.Models(cmd.Context(), a.planner, word)
			if len(found) == 0 {
				err := problem.New(problem.BadValue, "WORD", args[0], "no model of the catalogue is named so")
				if near := catalog.Nearest(word, 5); len(near) > 0 {
					return err.WithHint("near: %s", strings.Join(near, ", "))
				}
				return err.WithHint("headcount models lists them all")
			}
			if asJSON {
				return encode(a, found)
			}
			w := newTable(a.stdout, 0)
			fmt.Fprintln(w, "model\tshort name\tvariant\tlayers\tKV per token, whole model")
			for _, m := range found {
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", m.ID, strings.Join(m.Short, ", "), m.Variant, m.Layers, perToken(m.KVBytesPerToken))
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a list of objects")
	return cmd
}

// perToken is "-" for a model that vLLM has no path for.
func perToken(n *int64) string {
	if n == nil {
		return "-"
	}
	return units.Bytes(*n).String()
}

func newGPUs(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "gpus",
		Short: "List the accelerators that are known, with the source of each figure",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON {
				return encode(a, hw.All())
			}
			w := newTable(a.stdout, 0)
			fmt.Fprintln(w, "id\tname\tmemory\tbandwidth\tdense bf16\tridge")
			for _, g := range hw.All() {
				fmt.Fprintf(w, "%s\t%s\t%s\n", g.ID, g.Name, strings.Join(g.Figures(), "\t"))
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a list of objects, with the source of each figure")
	return cmd
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the engine releases whose rules it holds",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.stdout, "headcount %s\nvLLM %s, SGLang %s by default\n", version(), vllm.Version, sglang.Version)
			return err
		},
	}
}

// version is the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel " + s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}

// maxGPUFile bounds a file that describes an accelerator.
const maxGPUFile = 64 << 10

// setGPU takes an accelerator's name, or a file that describes one.
func setGPU(req *headcount.Request, name string) error {
	if !strings.HasSuffix(name, ".json") {
		req.GPU = name
		return nil
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() { // a pipe may never say a word
		return problem.New(problem.Unreadable, "--gpu", name, "not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return problem.New(problem.Unreadable, "--gpu", name, "%s", errors.Unwrap(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxGPUFile))
	if err != nil {
		return problem.New(problem.Unreadable, "--gpu", name, "%s", err)
	}
	req.Accelerator, err = hw.Parse(data)
	return err
}
