// Package sglang is SGLang 0.5.23 as far as its KV cache goes: which flags it fills in, what
// a token costs on a rank, how the memory that the weights leave becomes pools, what it
// logs, and when it refuses. CUDA, one server, no disaggregation.
//
// The stages, a file or two each: reading (what the engine takes from a config), flags
// (its arguments resolved in its order), setup (all that pools depend on), sizing (a budget
// divided), pools and lines (what is allocated and logged).
package sglang

import (
	"headcount/engine"
	"headcount/model"
	"headcount/problem"
)

const name = "sglang"

// Version is the release whose rules are held.
const Version = "0.5.23"

// An Engine plans for SGLang. The zero Engine is ready; it holds nothing.
type Engine struct{}

// New returns the engine of a release; "" is [Version], and no other is known.
func New(asked string) (engine.Engine, error) {
	if asked != "" && asked != Version {
		return nil, problem.New(problem.BadValue, "engine", "sglang@"+asked, "no rules for this release").WithHint("sglang@%s is known", Version)
	}
	return Engine{}, nil
}

// Name is "sglang".
func (Engine) Name() string { return name }

// Version is the release whose rules are applied.
func (Engine) Version() string { return Version }

// Plan implements [engine.Engine].
func (Engine) Plan(job engine.Job) (*engine.Result, error) {
	a := &answer{}
	if refusal := a.plan(job); refusal != nil {
		return &a.Result, refusal
	}
	return &a.Result, nil
}

// plan fills a as far as it gets.
func (a *answer) plan(job engine.Job) *problem.Error {
	opts := job.Options
	if opts == nil {
		opts = &engine.Options{}
	}
	if err := job.Layout.Check(); err != nil {
		return asProblem(err)
	}
	r, refusal := once(job.Model, readingKey{}, func() (*reading, *problem.Error) { return read(job.Model) })
	if refusal != nil {
		return refusal
	}
	f := &a.flags
	*f = flags{reading: r, dev: deviceOf(job.GPU), opts: opts, lay: job.Layout.Normal()}
	if refusal := f.resolve(); refusal != nil {
		return refusal
	}
	s := &a.setup
	if refusal := f.setup(s); refusal != nil {
		return refusal
	}
	a.describe()
	a.weigh(job.Model)
	b := budget{begin: opts.MemoryBeginGiB, end: opts.MemoryEndGiB, bytes: opts.KVCacheMemory}
	if b == (budget{}) || f.dev.other {
		return nil
	}
	if a.sizing, refusal = s.size(b); refusal != nil {
		return refusal.By(name)
	}
	a.fill()
	return nil
}

// readingKey is where a Model keeps what the engine took from it.
type readingKey struct{}

// once is what read takes from m, taken the first time that it is asked for under key.
func once(m *model.Model, key any, read func() (*reading, *problem.Error)) (*reading, *problem.Error) {
	type outcome struct {
		reading *reading
		refusal *problem.Error
	}
	o := m.Memo(key, func() any {
		r, refusal := read()
		return outcome{r, refusal}
	}).(outcome)
	if o.refusal != nil {
		refusal := *o.refusal
		return nil, &refusal
	}
	return o.reading, nil
}

// asProblem is err as the one shape in which problems are told.
func asProblem(err error) *problem.Error {
	if p, ok := err.(*problem.Error); ok {
		return p
	}
	return problem.New(problem.BadValue, "", nil, "%v", err)
}
