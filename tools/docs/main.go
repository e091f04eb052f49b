// Command docs writes docs/reference/commands from the commands' own help, and
// docs/reference/api.md from the server's own document.
package main

import (
	"fmt"
	"os"

	"headcount/internal/cli"
	"headcount/internal/server"
)

func main() {
	err := cli.Reference("docs/reference/commands")
	if err == nil {
		err = os.WriteFile("docs/reference/api.md", server.Reference(), 0o666)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}
