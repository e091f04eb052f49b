// Package vram is what a serving engine leaves of one device's memory for the KV cache.
// Terms with a closed form are given by it; those that no config determines are bands
// taken from public start-up logs. The result is always an interval.
package vram

// A Band is an estimate in bytes: the tenth, fiftieth and ninetieth percentile.
type Band struct {
	P10 int64 `json:"p10"`
	P50 int64 `json:"p50"`
	P90 int64 `json:"p90"`
}

// most bounds a term, far above any device, so that sums of a few stay exact or absurd but
// never wrap.
const most = 1 << 60

// size is x bytes, between 0 and most. Formulas are in float64, which holds every size of a
// device exactly.
func size(x float64) int64 { return int64(min(max(x, 0), most)) }

// exact is a band of no width.
func exact(n int64) Band { return Band{n, n, n} }

// gib is a band given in GiB.
func gib(p10, p50, p90 float64) Band {
	const g = 1 << 30
	return Band{int64(p10 * g), int64(p50 * g), int64(p90 * g)}
}

// A Term is one use of the memory of one device.
type Term struct {
	Name string `json:"name"`
	Band
	Source string `json:"source"` // how it is known
}

// A Memory is one device's bill, in bytes. KVBytes is null when the weights are not known.
type Memory struct {
	TotalBytes   int64   `json:"total_bytes"` // as the runtime reports it
	Fraction     float64 `json:"fraction"`    // of it that the engine takes
	WeightsBytes *int64  `json:"weights_bytes"`
	Terms        []Term  `json:"terms"`
	KVBytes      *Band   `json:"kv_bytes"`

	short float64 // see Shortage
}

// Shortage is by how many bytes weights and terms exceed what the engine takes, by the
// middle of the bands; 0 where a pool is left or the weights are not known.
func (m *Memory) Shortage() float64 { return m.short }

// A Load is what one rank runs, as far as memory depends on it.
type Load struct {
	TotalBytes   int64   // of the device, as the runtime reports it
	Fraction     float64 // the engine's
	WeightsBytes *int64  // parameters and buffers of the rank; nil: not known
	L2Bytes      int64   // of the device

	TP, PP          int
	Layers          int // of the stage
	Hidden, Vocab   int
	MLPWidth        int // dense MLP, whole model; 0: none
	ExpertWidth     int // one routed expert, whole model; 0: none
	ExpertsPerToken int
	ElemBytes       int64 // of the model's dtype
	BatchedTokens   int64 // max_num_batched_tokens
	Sequences       int64 // max_num_seqs
	Eager           bool
}

// VLLM is vLLM 0.33's bill: requested = fraction × total, less the weights, what stays
// allocated, the peak of the profiling pass and the graphs (vllm/v1/worker/gpu_worker.py
// determine_available_memory). Sampler and forward peaks are closed forms that match
// public logs within 0.01 GiB; growth of the process and graphs are bands.
func VLLM(l Load) *Memory {
	terms := []Term{
		{"activation", exact(max(l.sampler(), l.forward())), "larger of sampler pass, r·V·(e + 12) + (T + r)·h·e, and forward pass, T·e·(3·I/t + 3·h) + L2"},
		{"runner_tensors", exact(l.runner()), "R·V·4 + 2·R·⌈V/32⌉·4 + R·16384 and input buffers"},
		{"cuda_growth", growth(l.TP), "modules, cuBLAS and NCCL: band over public start-up logs of H100 and H200"},
		{"cuda_graphs", graphs(l.Layers, l.Eager), "trial capture: band over public start-up logs"},
	}
	if w := l.expertWorkspace(); w > 0 {
		terms = append(terms, Term{"moe_workspace", exact(w), "T·k·e·(max(2·Im/t, h) + max(Im/t, h))"})
	}
	requested := int64(float64(l.TotalBytes)*l.Fraction) + 1
	return l.bill(requested, terms)
}

// SGLang is SGLang's bill: free memory after the weights, less what the fraction leaves
// (sglang/srt/mem_cache/kv_cache_configurator.py _profile_available_bytes). Activations and
// graphs live in what the fraction leaves.
func SGLang(l Load) *Memory {
	context := gib(0.45, 0.55, 0.75)
	if l.TP*l.PP > 1 {
		context = gib(0.55, 1.2, 2.3)
	}
	begin := max(l.TotalBytes-context.P50, 0)
	terms := []Term{
		{"context", context, "process and communicators before the weights: band over public start-up logs"},
		{"loading", gib(0.02, 0.1, 0.4), "left by loading beyond the weights: band over public start-up logs"},
		{"reserved", exact(int64(float64(begin) * (1 - l.Fraction))), "free memory before the weights × (1 − mem_fraction_static): activations and graphs"},
	}
	return l.bill(l.TotalBytes, terms)
}

// bill takes the terms from what is there. The pool's low end pays every term's high end.
func (l Load) bill(have int64, terms []Term) *Memory {
	m := &Memory{TotalBytes: l.TotalBytes, Fraction: l.Fraction, WeightsBytes: l.WeightsBytes, Terms: terms}
	if l.WeightsBytes == nil {
		return m
	}
	low := float64(have) - float64(*l.WeightsBytes)
	middle, high := low, low
	for _, t := range terms {
		low -= float64(t.P90)
		middle -= float64(t.P50)
		high -= float64(t.P10)
	}
	m.KVBytes, m.short = &Band{size(low), size(middle), size(high)}, max(-middle, 0)
	return m
}

// rows is how many sequences the sampler pass runs.
func (l Load) rows() int64 { return min(l.Sequences, l.BatchedTokens) }

func (l Load) sampler() int64 {
	r, h, e := float64(l.rows()), float64(l.Hidden), float64(l.ElemBytes)
	return size(r*float64(l.Vocab)*(e+12) + (float64(l.BatchedTokens)+r)*h*e)
}

func (l Load) forward() int64 {
	h, mlp := float64(l.Hidden), float64(3*int64(l.MLPWidth)/int64(l.TP))
	tokens := float64(l.BatchedTokens) * float64(l.ElemBytes)
	if l.Eager {
		return size(tokens * (mlp + 4*h))
	}
	return size(tokens*(mlp+3*h) + float64(l.L2Bytes))
}

func (l Load) runner() int64 {
	r, v, tokens := float64(l.Sequences), float64(l.Vocab), float64(l.BatchedTokens)
	n := r*v*4 + 2*r*float64((l.Vocab+31)/32)*4 + r*16384 + 13*tokens + 1638*r
	if l.PP > 1 {
		n += 2 * tokens * float64(l.Hidden) * float64(l.ElemBytes)
	}
	return size(n)
}

func (l Load) expertWorkspace() int64 {
	if l.ExpertWidth == 0 {
		return 0
	}
	h, width := float64(l.Hidden), float64(l.ExpertWidth/l.TP)
	return size(float64(l.BatchedTokens) * float64(l.ExpertsPerToken) * float64(l.ElemBytes) * (max(2*width, h) + max(width, h)))
}

// growth is what the process grows by outside of torch while profiling.
func growth(tp int) Band {
	if tp > 1 {
		return gib(1.1, 2.1, 2.3)
	}
	return gib(0.13, 0.25, 0.46)
}

// graphs is the estimate that the engine subtracts for captured graphs.
func graphs(layers int, eager bool) Band {
	if eager {
		return Band{}
	}
	low := 0.3 + 0.004*float64(layers)
	return gib(low, max(0.84, low), max(1.9, low))
}

// PerCent is half the width of a band in per cent of its middle.
func (b Band) PerCent() float64 {
	if b.P50 <= 0 {
		return 0
	}
	return 50 * float64(b.P90-b.P10) / float64(b.P50)
}
