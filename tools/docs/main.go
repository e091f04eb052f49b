// Command docs writes what docs/reference holds of the programs themselves: commands from
// their own help, the API from the server's own document, and the pictures of --plot.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"headcount/internal/cli"
	"headcount/internal/server"
)

func main() {
	if err := errors.Join(
		cli.Reference("docs/reference/commands"),
		os.WriteFile("docs/reference/api.md", server.Reference(), 0o666),
		plot("docs/reference/plots"),
	); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

// plot draws the picture that docs/how-to/draw.md shows.
func plot(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	args := []string{"plan", "llama-3-70b", "--gpu", "h100", "--tp", "1,2,4,8,16", "--plot", dir + "/llama-3-70b.svg"}
	if status := cli.Run(context.Background(), args, nil, io.Discard, os.Stderr); status != 0 {
		return fmt.Errorf("%v: status %d", args, status)
	}
	return nil
}
