// Package layout is how ranks divide a model: tensor, pipeline, data, expert and
// decode-context parallelism, and which sizes go together.
package layout

import (
	"fmt"
	"strings"

	"headcount/problem"
)

// A Layout is the parallel sizes of one server. The zero Layout is one rank.
type Layout struct {
	TP          int  `json:"tensor_parallel_size" help:"ranks that split each layer; a list is a sweep"`
	PP          int  `json:"pipeline_parallel_size" help:"stages that split the layers; a list is a sweep"`
	DP          int  `json:"data_parallel_size" help:"replicas, or attention-DP ranks with --enable-dp-attention; a list is a sweep"`
	DCP         int  `json:"decode_context_parallel_size" help:"ranks that split the tokens of the cache; a list is a sweep"`
	EP          bool `json:"enable_expert_parallel" help:"whole experts on each rank instead of slices"`
	DPAttention bool `json:"enable_dp_attention" help:"attention replicated over DP ranks, each with its own requests (SGLang)"` // SGLang: DP ranks share the TP ranks, attention TP is TP/DP
}

// Normal returns l with every zero size as 1.
func (l Layout) Normal() Layout {
	l.TP, l.PP, l.DP, l.DCP = max(l.TP, 1), max(l.PP, 1), max(l.DP, 1), max(l.DCP, 1)
	return l
}

// String is "TP 8 · PP 2 · DCP 2"; sizes of one are left out, but for TP.
func (l Layout) String() string {
	parts := []string{fmt.Sprintf("TP %d", max(l.TP, 1))}
	add := func(name string, n int) {
		if n > 1 {
			parts = append(parts, fmt.Sprintf("%s %d", name, n))
		}
	}
	add("PP", l.PP)
	if l.DPAttention {
		add("attention DP", l.DP)
	} else {
		add("DP", l.DP)
	}
	add("DCP", l.DCP)
	if l.EP {
		parts = append(parts, "EP")
	}
	return strings.Join(parts, " · ")
}

// AttentionTP is the ranks that split the heads of one attention layer: TP, or TP / DP where
// attention-DP ranks each have their own requests.
func (l Layout) AttentionTP() int {
	l = l.Normal()
	if l.DPAttention {
		return max(1, l.TP/l.DP)
	}
	return l.TP
}

// Heads says which of n heads a rank of tp holds: count of them from first on. With fewer
// heads than ranks, neighbours hold the same one; sizes that do not divide are the engines'
// to refuse. It is how vLLM's and SGLang's QKVParallelLinear cut heads.
func Heads(n, tp, rank int) (first, count int) {
	if n < 1 || tp < 1 || rank < 0 || rank >= tp {
		return 0, 0
	}
	return int(int64(rank) * int64(n) / int64(tp)), max(1, n/tp)
}

// Bounds of parallel sizes; nobody runs one model over more ranks, or in more stages.
const (
	MaxRanks  = 65536
	MaxStages = 1024
)

// Check reports a size that is negative or absurd.
func (l Layout) Check() error {
	for _, f := range [...]struct {
		name    string
		n, most int
	}{
		{"tensor_parallel_size", l.TP, MaxRanks}, {"pipeline_parallel_size", l.PP, MaxStages},
		{"data_parallel_size", l.DP, MaxRanks}, {"decode_context_parallel_size", l.DCP, MaxRanks},
	} {
		if f.n < 0 || f.n > f.most {
			return problem.New(problem.BadValue, f.name, f.n, "not between 1 and %d", f.most).WithHint("leave it out for 1")
		}
	}
	return nil
}

// GPUs is the number of devices the layout takes: TP × PP, times DP where DP ranks are
// replicas of their own.
func (l Layout) GPUs() int {
	l = l.Normal()
	n := l.TP * l.PP
	if !l.DPAttention {
		n *= l.DP
	}
	return n
}

// A Span is the layers [Start, End) of one pipeline stage.
type Span struct{ Start, End int }

// Len is the number of layers of the stage.
func (s Span) Len() int { return s.End - s.Start }
