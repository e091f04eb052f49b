// Command memfit fits the distributions of vram that no config tells to public start-up logs:
// it plans each start, takes what is exact or modelled from what was printed, prints what
// remains, and writes the table that package vram embeds.
//
//	go run ./tools/memfit -logs ../shared > vram/empirical.tsv
//
// Residuals and the coverage of the intervals, each start left out with all others of its
// model, go to standard error.
package main

import (
	"flag"
	"fmt"
	"os"

	"headcount/internal/bootlog"
)

func main() {
	dir := flag.String("logs", "../shared", "`folder` of logs and configs")
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "memfit:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	starts, err := bootlog.Starts(dir)
	if err != nil {
		return err
	}
	samples, err := bootlog.All(dir, starts)
	if err != nil {
		return err
	}
	for _, s := range samples {
		fmt.Fprintln(os.Stderr, s)
	}
	tally := bootlog.Measure(starts, samples)
	for _, line := range tally.Lines {
		fmt.Fprintln(os.Stderr, line)
	}
	fmt.Fprint(os.Stderr, tally)
	fitted := bootlog.Fit(samples)
	fmt.Print(append(fitted, fitted.Unexplained(starts)...).Table())
	return nil
}
