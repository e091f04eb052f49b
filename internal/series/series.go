// Package series is what pictures show: numbers and labels read off Reports, once, for the
// terminal's SVG, the API and the page alike. It plans and reads; it holds no formula of
// memory or attention.
package series

import (
	"context"
	"slices"
	"strings"

	"headcount"
	"headcount/internal/digest"
	"headcount/layout"
	"headcount/problem"
)

// A Planner answers requests: a [*headcount.Planner].
type Planner = digest.Planner

// A Query says what to draw.
type Query struct {
	Requests []headcount.Request `json:"requests" minItems:"1" maxItems:"8" doc:"models and layouts side by side"`
	Lead     int                 `json:"lead,omitempty" minimum:"0" doc:"which of them the strips, the roof and the layers are of"`
	TP       []int               `json:"tp,omitempty" maxItems:"32" doc:"tensor parallel sizes of capacity and roof; powers of two from 1 to 64 unless given"`
	Lengths  []int64             `json:"lengths,omitempty" maxItems:"64" doc:"request lengths in tokens; powers of two from 1,024 to the longest unless given"`
}

// Figures are everything the pictures show. A figure that nothing is known of is null.
type Figures struct {
	Report   *headcount.Report `json:"report" doc:"of the request that leads"`
	Digest   digest.Digest     `json:"digest" doc:"the report in words"`
	Steps    []headcount.Step  `json:"steps" doc:"its way from config.json to the log line, and what stands beside it"`
	Strips   *Strips           `json:"strips" doc:"null where the engine refused before there was a rank"`
	Memory   *Memory           `json:"memory" doc:"null without an accelerator, or where neither weights nor pool are known"`
	Capacity *Capacity         `json:"capacity"`
	Roofline *Roofline         `json:"roofline" doc:"null where the roof is not known"`
	Requests *Requests         `json:"requests" doc:"null without a pool"`
	Layers   *Layers           `json:"layers" doc:"null where the model was not resolved"`
}

// Bounds of one query.
const (
	MaxRequests = 8 // side by side
	maxSizes    = 32
	maxLengths  = 64
)

// check holds a query to its bounds, and fills in what it leaves out.
func (q *Query) check() error {
	for _, f := range []struct {
		field          string
		n, least, most int
	}{
		{"requests", len(q.Requests), 1, MaxRequests}, {"tp", len(q.TP), 0, maxSizes}, {"lengths", len(q.Lengths), 0, maxLengths},
		{"lead", q.Lead, 0, len(q.Requests) - 1},
	} {
		if f.n < f.least || f.n > f.most {
			return problem.New(problem.BadValue, f.field, f.n, "not between %d and %d", f.least, f.most)
		}
	}
	for _, tp := range q.TP {
		if tp < 1 || tp > layout.MaxRanks {
			return problem.New(problem.BadValue, "tp", tp, "not between 1 and %d", layout.MaxRanks)
		}
	}
	if len(q.TP) == 0 {
		q.TP = []int{1, 2, 4, 8, 16, 32, 64}
	}
	return nil
}

// plan plans each request.
func plan(ctx context.Context, p Planner, reqs []headcount.Request) ([]*headcount.Report, error) {
	reports := make([]*headcount.Report, len(reqs))
	for i, req := range reqs {
		r, err := p.Plan(ctx, req)
		if err != nil {
			return nil, err
		}
		reports[i] = r
	}
	return reports, nil
}

// Compare plans a query's requests and holds their capacities against each other.
func Compare(ctx context.Context, p Planner, q Query) ([]*headcount.Report, *Capacity, error) {
	if err := q.check(); err != nil {
		return nil, nil, err
	}
	reports, err := plan(ctx, p, q.Requests)
	if err != nil {
		return nil, nil, err
	}
	sweeps, err := sweep(ctx, p, &q)
	if err != nil {
		return nil, nil, err
	}
	return reports, capacityOf(sweeps, q.TP), nil
}

// Draw plans what a query asks. A layout that the engine refuses is left out of the
// pictures with its reason; the error is that of unusable input.
func Draw(ctx context.Context, p Planner, q Query) (*Figures, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	reports, err := plan(ctx, p, q.Requests)
	if err != nil {
		return nil, err
	}
	lead := reports[q.Lead]
	f := &Figures{Report: lead, Digest: digest.Of(lead, digest.Unsplit(ctx, p, q.Requests[q.Lead])), Steps: append(lead.Explain(), lead.Beside()...),
		Strips: stripsOf(lead), Memory: memoryOf(reports), Layers: layersOf(lead)}
	sweeps, err := sweep(ctx, p, &q)
	if err != nil {
		return nil, err
	}
	f.Capacity = capacityOf(sweeps, q.TP)
	if f.Requests, err = requestsOf(ctx, p, &q, reports); err != nil {
		return nil, err
	}
	gpu, err := q.Requests[q.Lead].Device()
	if err == nil && gpu != nil {
		f.Roofline = rooflineOf(gpu, sweeps[q.line(q.Lead)], q.TP)
	}
	return f, err
}

// lines are the requests that differ in more than their tensor parallel size: each is a
// line over TP.
func (q *Query) lines() []headcount.Request {
	var out []headcount.Request
	for _, req := range q.Requests {
		if !slices.ContainsFunc(out, func(have headcount.Request) bool { return sameButTP(&have, &req) }) {
			out = append(out, req)
		}
	}
	return out
}

// line is which of the lines a request is on.
func (q *Query) line(i int) int {
	return slices.IndexFunc(q.lines(), func(line headcount.Request) bool { return sameButTP(&line, &q.Requests[i]) })
}

// sweep plans each line at each size: [lines][sizes].
func sweep(ctx context.Context, p Planner, q *Query) ([][]*headcount.Report, error) {
	lines := q.lines()
	out := make([][]*headcount.Report, len(lines))
	for i, req := range lines {
		req.ID = nil
		for _, tp := range q.TP {
			req.Layout.TP = tp
			r, err := p.Plan(ctx, req)
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], r)
		}
	}
	return out, nil
}

// modelName is the name without the owner, "Meta-Llama-3-70B".
func modelName(r *headcount.Report) string {
	_, name, found := strings.Cut(r.Model.Name, "/")
	if !found {
		return r.Model.Name
	}
	return name
}

// labels name reports by what sets them apart: always the model, the engine and the layout
// where they differ.
func labels(reports []*headcount.Report, layoutOf func(*headcount.Report) string) []string {
	engines, layouts := map[string]bool{}, map[string]bool{}
	for _, r := range reports {
		engines[r.Engine.Name+r.Engine.Version] = true
		layouts[layoutOf(r)] = true
	}
	out := make([]string, len(reports))
	for i, r := range reports {
		parts := []string{modelName(r)}
		if r.Model.Variant != "" {
			parts = append(parts, r.Model.Variant)
		}
		if len(engines) > 1 {
			parts = append(parts, digest.EngineName(r.Engine.Name))
		}
		if l := layoutOf(r); len(layouts) > 1 && l != "" {
			parts = append(parts, l)
		}
		out[i] = strings.Join(parts, " · ")
	}
	return out
}

// refusal is why the report holds no figure, "" if it does.
func refusal(r *headcount.Report) string {
	if r.Error != nil {
		return r.Error.Message
	}
	return ""
}

// firstLegal is the first report of a line that is not refused, else its first.
func firstLegal(line []*headcount.Report) *headcount.Report {
	for _, r := range line {
		if r.Error == nil {
			return r
		}
	}
	return line[0]
}
