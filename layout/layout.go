// Package layout is how ranks divide a model: tensor, pipeline, data, expert and
// decode-context parallelism, and which sizes go together.
package layout

import "headcount/problem"

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
