// Command docs writes docs/reference/commands from the commands' own help.
package main

import (
	"fmt"
	"os"

	"headcount/internal/cli"
)

func main() {
	if err := cli.Reference("docs/reference/commands"); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}
