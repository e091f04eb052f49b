package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"headcount/problem"
)

func newMan(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the man pages into a folder",
		Example: "  headcount man /usr/local/share/man/man1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); err != nil || !info.IsDir() {
				return problem.New(problem.BadValue, "DIR", args[0], "not a folder").WithHint("the folder has to be there: mkdir -p DIR")
			}
			root := cmd.Root()
			root.InitDefaultCompletionCmd()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Title: "HEADCOUNT", Section: "1", Source: "headcount"}, args[0])
		},
	}
}

// Reference writes the Markdown reference of every command, one file a command, into dir.
func Reference(dir string) error {
	root := newRoot(&app{stdin: bytes.NewReader(nil), stdout: io.Discard, stderr: io.Discard})
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := doc.GenMarkdownTree(root, dir); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(dir), err)
	}
	return nil
}
