// Command headcount says what a serving engine will allocate and log for a model on a
// layout of GPUs, before anything is loaded.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"headcount/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends what the first could not
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
