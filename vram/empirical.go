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
		t := Term{Name: f[0], Basis: Empirical, Class: f[1], Source: "over " + logs(f[2]) + ": " + f[1]}
		for i, p := range []*int64{&t.P10, &t.P50, &t.P90} {
			x, _ := strconv.ParseFloat(f[3+i], 64)
			*p = int64(x * mib)
		}
		out[class{f[0], f[1]}] = t
	}
	return out
})

func logs(n string) string {
	if n == "1" {
		return "one public start-up log"
	}
	return n + " public start-up logs"
}

// distribution is a term of a class, or of the first other class that logs are known of.
func distribution(name string, of ...string) Term {
	known := distributions()
	for _, c := range of {
		if t, ok := known[class{name, c}]; ok {
			t.Class = of[0]
			return t
		}
	}
	return Term{Name: name, Basis: Empirical, Class: of[0], Source: "no public start-up log tells"}
}

// Distribution is a term of a class as the table has it.
func Distribution(name, of string) (Band, bool) {
	t, ok := distributions()[class{name, of}]
	return t.Band, ok
}

// Growth is what the process grows by outside of PyTorch while it is profiled: modules that
// load lazily, cuBLASLt, buffers of collectives, and what fragments. Compiled layers on
// several ranks of Hopper and datacentre Blackwell fuse their all-reduce with the norm, and
// FlashInfer's workspace for that is most of it.
func (l *Load) Growth() Term {
	major := l.Device.Capability[0]
	switch {
	case l.TP > 1 && l.Compiled && (major == 9 || major == 10) && !l.Version.before(Version{0, 12, 0}):
		return distribution("cuda_growth", "ranks that fuse all-reduce", "ranks")
	case l.TP > 1:
		return distribution("cuda_growth", "ranks", "one rank of Hopper")
	case l.PP > 1:
		return distribution("cuda_growth", "stages", "one rank of Hopper")
	case major < 9:
		return distribution("cuda_growth", "one rank before Hopper", "one rank of Hopper")
	case major > 9:
		return distribution("cuda_growth", "one rank after Hopper", "one rank of Hopper")
	}
	return distribution("cuda_growth", "one rank of Hopper", "one rank before Hopper")
}

// graphs is the estimate that the engine subtracts for captured graphs. It grows with their
// number: the first capture counts whole, each further one as much as the second.
func (l *Load) graphs() Term {
	var t Term
	switch {
	case l.States:
		t = distribution("cuda_graphs", "layers with a state", "one rank")
	case l.Experts:
		t = distribution("cuda_graphs", "experts", "one rank")
	case l.TP > 1:
		t = distribution("cuda_graphs", "ranks", "one rank")
	default:
		t = distribution("cuda_graphs", "one rank")
	}
	share := 0.4 + 0.6*l.captures()/allCaptures
	for _, p := range []*int64{&t.P10, &t.P50, &t.P90} {
		*p = size(share * float64(*p))
	}
	return t
}

// allCaptures are the batch sizes that are captured by default: 1, 2, 4, in steps of 8 up to
// 256 and of 16 up to 512.
const allCaptures = 51

// captures is how many of them R sequences leave (vllm/config/vllm.py,
// _set_cudagraph_sizes).
func (l *Load) captures() float64 {
	most := float64(min(2*l.Sequences, 512))
	switch {
	case most <= 4:
		return 1 + most/2
	case most <= 256:
		return 3 + most/8
	}
	return 35 + (most-256)/16
}

// Context is what the process and its communicators take before the weights.
func (l *Load) Context() Term {
	switch {
	case l.TP*l.PP > 1 && l.Device.Linked:
		return distribution("context", "ranks over NVLink", "ranks")
	case l.TP*l.PP > 1:
		return distribution("context", "ranks", "one rank")
	}
	return distribution("context", "one rank")
}

// leftover is what loading leaves beyond the weights.
func (l *Load) leftover() Term { return distribution("loading", "weights") }

// unexplained is what starts took beyond all of this, fragments for the most part: little
// where most logs are from, more elsewhere.
func (l *Load) unexplained() Term {
	if l.Device.Capability[0] == 9 {
		return distribution("fragmentation", "Hopper", "elsewhere")
	}
	return distribution("fragmentation", "elsewhere", "Hopper")
}
