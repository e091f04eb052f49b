package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"headcount"
	"headcount/internal/chart"
	"headcount/internal/series"
	"headcount/problem"
)

// plot draws the layouts of a sweep into an SVG file. The strips and the layers are those
// of the last layout that the engine takes.
func (a *app) plot(ctx context.Context, requests []headcount.Request, reports []*headcount.Report, file string) error {
	if err := checkSVG(file); err != nil {
		return err
	}
	f, err := a.draw(ctx, requests, reports)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := chart.WriteSVG(&b, chart.Panels(f)...); err != nil {
		return err
	}
	return writeFile("--plot", file, b.Bytes())
}

// checkSVG refuses a name that is not an SVG file's, before any work.
func checkSVG(file string) error {
	if !strings.EqualFold(filepath.Ext(file), ".svg") {
		return problem.New(problem.BadValue, "--plot", file, "not the name of an SVG file").WithHint("--plot out.svg")
	}
	return nil
}

// draw plans what the pictures of a sweep need beside its reports.
func (a *app) draw(ctx context.Context, requests []headcount.Request, reports []*headcount.Report) (*series.Figures, error) {
	var q series.Query
	for i, req := range requests {
		if tp := req.Layout.Normal().TP; !slices.Contains(q.TP, tp) {
			q.TP = append(q.TP, tp)
		}
		if reports[i].Error != nil {
			continue
		}
		q.Requests = append(q.Requests, req)
	}
	if len(q.Requests) == 0 {
		q.Requests = requests[:1]
	}
	if n := len(q.Requests); n > series.MaxRequests {
		q.Requests = q.Requests[n-series.MaxRequests:]
	}
	q.Lead = len(q.Requests) - 1
	slices.Sort(q.TP)
	if len(q.TP) < 2 {
		q.TP = nil
	}
	return series.Draw(ctx, a.planner, q)
}

// writeFile writes a file that a flag names.
func writeFile(flag, name string, data []byte) error {
	if err := os.WriteFile(name, data, 0o666); err != nil {
		return problem.New(problem.BadValue, flag, name, "%s", errors.Unwrap(err))
	}
	return nil
}
