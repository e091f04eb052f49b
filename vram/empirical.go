package vram

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
)

// empirical holds a line for each distribution, written by tools/memfit: the term, its class,
// the number of logs, and the tenth, fiftieth and ninetieth percentile in MiB.
//
//go:embed empirical.tsv
var empirical string

// A class names one distribution.
type class struct{ term, of string }

// distributions are the terms of the table.
var distributions = sync.OnceValue(func() map[class]Term {
	out := map[class]Term{}
	for line := range strings.Lines(empirical) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 6 || strings.HasPrefix(line, "#") {
			continue // a test reads every other line
		}
		t := Term{Name: f[0], Basis: Empirical, Source: f[2] + " public start-up logs: " + f[1]}
		for i, p := range []*int64{&t.P10, &t.P50, &t.P90} {
			x, _ := strconv.ParseFloat(f[3+i], 64)
			*p = int64(x * mib)
		}
		out[class{f[0], f[1]}] = t
	}
	return out
})

// distribution is the term of the first class that logs are known of.
func distribution(name string, of ...string) Term {
	known := distributions()
	for _, c := range of {
		if t, ok := known[class{name, c}]; ok {
			return t
		}
	}
	return Term{Name: name, Basis: Empirical, Source: "no public start-up log tells"}
}

// growth is what the process grows by outside of PyTorch while it is profiled: modules that
// load lazily, cuBLASLt, buffers of collectives, and what fragments.
func (l *Load) growth() Term { return distribution("cuda_growth", l.GrowthClass()) }

// GrowthClass names the logs by which growth is told.
func (l *Load) GrowthClass() string {
	switch {
	case l.TP > 1:
		return "ranks"
	case l.PP > 1:
		return "stages"
	}
	return "one rank"
}

// graphs is the estimate that the engine subtracts for captured graphs.
func (l *Load) graphs() Term { return distribution("cuda_graphs", l.GraphClass()) }

// GraphClass names the logs by which the estimate of graphs is told.
func (l *Load) GraphClass() string {
	switch {
	case l.Experts:
		return "experts"
	case l.TP > 1:
		return "ranks"
	}
	return "one rank"
}

// context is what the process and its communicators take before the weights.
func (l *Load) context() Term { return distribution("context", l.ContextClass()) }

// ContextClass names the logs by which SGLang's context is told.
func (l *Load) ContextClass() string {
	if l.TP*l.PP > 1 {
		return "ranks"
	}
	return "one rank"
}

// loading is what loading leaves beyond the weights.
func (l *Load) loading() Term { return distribution("loading", "") }
