// Package verify reads what a serving engine printed, or what a running one answers, sets a
// plan beside it, and says which term explains a difference.
//
// A [Parser] makes [Observation]s of a log; [FromVLLM] and its kin make one of what a server
// answers. [Verifier.Verify] plans what was observed, and compares.
package verify

import (
	"context"
	"fmt"
	"strings"

	"headcount"
	"headcount/problem"
)

// SchemaVersion is the version of the Report's JSON.
const SchemaVersion = 1

// A Report is what a comparison came to.
type Report struct {
	SchemaVersion int                `json:"schema_version"`
	Source        string             `json:"source"`
	Engine        headcount.EngineID `json:"engine"` // as observed
	Model         string             `json:"model"`  // that was planned
	Started       bool               `json:"started"`
	Observed      *Observation       `json:"observed"`
	Lines         map[string]int64   `json:"lines"`   // of the log, for each name under observed that has one
	Assumed       []string           `json:"assumed"` // what nothing says, and was taken as it is by default
	Checks        []Check            `json:"checks"`
	Refusal       *Refusal           `json:"refusal"`
	Fell          *Refusal           `json:"fell"` // the exception that ended it after it had started
	Advice        []Advice           `json:"advice"`

	Plan    *headcount.Report `json:"-"` // what was planned
	request headcount.Request // that asked for it
}

// A Check is one figure, predicted and observed.
type Check struct {
	Name      string `json:"name"`
	Predicted any    `json:"predicted"` // int64, float64 or string; nil: not known
	Observed  any    `json:"observed"`
	Slack     int64  `json:"slack"` // how far what was printed may be off for its rounding, in bytes
	// Exact tells that the two are the same, as far as the engine's rounding lets see.
	Exact bool `json:"exact"`
	// Difference is observed less predicted; of an estimate it is per predicted.
	Difference float64 `json:"difference"`
	// Estimate tells that the prediction is one, and agrees within the tolerance.
	Estimate bool `json:"estimate"`
	Agrees   bool `json:"agrees"`

	Cause *string `json:"cause"` // what closes the difference; nil: it agrees, or is not explained
	How   string  `json:"how"`   // where the prediction comes from
}

// An Advice is a flag to set, and what would come of it.
type Advice struct {
	Flag  string `json:"flag"`
	Value string `json:"value"`
	Why   string `json:"why"`

	Tokens         *int64   `json:"tokens"` // of the plan with it
	MaxConcurrency *float64 `json:"max_concurrency"`
}

// A Verifier compares. Its Planner says what may be touched to find models.
type Verifier struct {
	Planner   *headcount.Planner
	Tolerance float64 // of estimates, as a fraction; 0 is [DefaultTolerance]
}

// DefaultTolerance is how far an estimate may be off.
const DefaultTolerance = 0.1

// Agrees reports whether the engine started and stayed up, and all checks agree.
func (r *Report) Agrees() bool {
	for i := range r.Checks {
		if !r.Checks[i].Agrees {
			return false
		}
	}
	return r.Refusal == nil && r.Fell == nil
}

// Expected reports whether a refusal was predicted, with its numbers.
func (r *Report) Expected() bool {
	for i := range r.Checks {
		if !r.Checks[i].Agrees {
			return false
		}
	}
	return r.Refusal != nil
}

// Verify plans what was observed and compares. given is what is known beside: a model, a
// layout, flags; it wins over what was observed. The error is a [*problem.Error] when
// nothing can be planned.
func (v *Verifier) Verify(ctx context.Context, o *Observation, given headcount.Request) (*Report, error) {
	r := &Report{SchemaVersion: SchemaVersion, Source: o.Source, Engine: headcount.EngineID{Name: o.Engine, Version: o.Version},
		Started: o.Started, Observed: o, Lines: map[string]int64{}, Refusal: o.Refusal, Fell: o.Fell}
	for _, f := range o.Facts {
		if binding, _ := o.Find(f.Name); binding.Line > 0 {
			r.Lines[f.Name] = binding.Line
		}
	}
	err := v.verify(ctx, r, given)
	r.Assumed, r.Checks, r.Advice = list(r.Assumed), list(r.Checks), list(r.Advice)
	return r, err
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func (v *Verifier) verify(ctx context.Context, r *Report, given headcount.Request) error {
	o := r.Observed
	if o.Engine == "" || !o.Started && o.Refusal == nil {
		return problem.New(problem.Unreadable, "", nil, "%s: no start of an engine that sizes its cache", o.Source).
			WithHint("a start-up log of vLLM, SGLang, llama.cpp or TensorRT-LLM, from its first line on")
	}
	req, assumed, err := request(o, given)
	if err != nil {
		return err
	}
	r.Assumed, r.request = assumed, req
	if o.Engine == llamaName && given.Model == "" && len(given.Config) == 0 {
		req.Model = "" // general.name is prose, and the log has the widths of the layers
	}
	if req.Model == "" && len(req.Config) == 0 && o.Engine != llamaName {
		return problem.New(problem.MissingField, "model", nil, "%s does not name its model", o.Source).WithHint("--model NAME, or a folder or config.json")
	}
	alone, _, err := request(o, headcount.Request{Model: given.Model, Config: given.Config, HFQuantConfig: given.HFQuantConfig, Params: given.Params})
	if err != nil {
		return err
	}
	c := &comparison{ctx: ctx, verifier: v, planner: v.Planner, report: r, seen: o, request: req, logged: alone}
	if known, err := v.Planner.Pin(ctx, req); err == nil {
		c.planner = known // many plans of one model follow
	}
	switch o.Engine {
	case vllmName:
		err = c.vllm()
	case sglangName:
		err = c.sglang()
	case llamaName:
		err = c.llama()
	case trtllmName:
		err = c.trtllm()
	}
	if p, ok := err.(*problem.Error); ok && p.Field == "model" && given.Model == "" {
		located := *p
		located.Message = fmt.Sprintf("the log's model %s is not at hand: %s", req.Model, strings.TrimPrefix(p.Message, "model = "+req.Model+": "))
		located.Hint = "--model NAME, or a folder or config.json"
		return &located
	}
	return err
}

// A comparison is one Report in the making.
type comparison struct {
	ctx      context.Context
	verifier *Verifier
	planner  *headcount.Planner
	report   *Report
	seen     *Observation
	request  headcount.Request
	logged   headcount.Request // what the log alone asks for

	tried   bool    // the causes have been
	closing *string // the one that closes the difference
}

// plan asks the Planner.
func (c *comparison) plan(req headcount.Request) (*headcount.Report, error) {
	return c.planner.Plan(c.ctx, req)
}

func (c *comparison) add(check Check) { c.report.Checks = append(c.report.Checks, check) }

// exact adds a check of a whole number that has to be the same.
func (c *comparison) exact(name string, predicted, observed int64, how string) {
	c.add(Check{Name: name, Predicted: predicted, Observed: observed, Exact: predicted == observed, Agrees: predicted == observed,
		Difference: float64(observed) - float64(predicted), How: how})
}

// within adds a check of bytes that the engine printed rounded.
func (c *comparison) within(name string, predicted int64, observed Size, how string) {
	same := observed.Least() <= predicted && predicted <= observed.Most()
	check := Check{Name: name, Predicted: predicted, Observed: observed.Bytes, Slack: observed.Slack, Exact: same, Agrees: same, How: how}
	if !same {
		check.Difference = float64(observed.Bytes) - float64(predicted)
	}
	c.add(check)
}

// estimate adds a check of bytes that are estimated, to lie between low and high give or
// take the tolerance.
func (c *comparison) estimate(name string, low, predicted, high int64, observed Size, how string) {
	check := Check{Name: name, Predicted: predicted, Observed: observed.Bytes, Slack: observed.Slack, Estimate: true, How: how}
	if predicted != 0 {
		check.Difference = (float64(observed.Bytes) - float64(predicted)) / float64(predicted)
	}
	room := c.verifier.tolerance() * float64(predicted)
	check.Agrees = float64(observed.Most()) >= float64(low)-room && float64(observed.Least()) <= float64(high)+room
	check.Exact = observed.Least() <= predicted && predicted <= observed.Most()
	c.add(check)
}

func (v *Verifier) tolerance() float64 {
	if v.Tolerance > 0 {
		return v.Tolerance
	}
	return DefaultTolerance
}
