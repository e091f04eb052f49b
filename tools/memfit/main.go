// Command memfit fits the distributions of vram that no config tells to public start-up logs:
// it plans each start, takes what is exact or modelled from what was printed, prints what
// remains, and writes the table that package vram embeds.
//
//	go run ./tools/memfit -logs ../shared -plot docs/explanation/residuals.svg > vram/empirical.tsv
//
// Residuals and the coverage of the intervals, each start left out with all others of its
// model, go to standard error.
package main

import (
	"flag"
	"fmt"
	"os"

	"headcount/internal/bootlog"
	"headcount/internal/chart"
	"headcount/internal/series"
)

func main() {
	dir := flag.String("logs", "../shared", "`folder` of logs and configs")
	plot := flag.String("plot", "", "draw the residuals of pools into an SVG `file`")
	flag.Parse()
	if err := run(*dir, *plot); err != nil {
		fmt.Fprintln(os.Stderr, "memfit:", err)
		os.Exit(1)
	}
}

func run(dir, plot string) error {
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
	if plot != "" {
		if err := draw(tally, plot); err != nil {
			return err
		}
	}
	fitted := bootlog.Fit(samples)
	fmt.Print(append(fitted, fitted.Unexplained(starts)...).Table())
	return nil
}

func draw(tally *bootlog.Tally, file string) error {
	panel, err := chart.Residuals(&series.Residuals{Title: "The pool that starts printed, less the plan's; box: P10 to P90, fitted without the model", Unit: "GiB", Rows: tally.Residuals})
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return chart.WriteSVG(f, panel)
}
