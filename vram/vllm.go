package vram

import "math"

// A release is what differs between vLLM's releases in what start-up takes, from one version
// on; read from the sources of 0.9.2, 0.11.2, 0.17.1, 0.24.0 and 0.33.0, the versions
// between them as logs tell.
type release struct {
	since Version

	perLogit float64 // bytes that the sampler's pass keeps of each of r·V logits, beside the logits
	copies   float64 // hidden states of sampled rows that live beside them
	scratch  bool    // the sampler keeps a row of float32 a multiprocessor

	blas   bool // cuBLAS's workspace is born inside the pass, not before it
	second bool // the second model runner, which keeps tensors of its own
	padded bool // each encoder output is padded to the whole budget
	graphs bool // the estimate of captured graphs is subtracted
}

var changes = []struct {
	since Version
	apply func(*release)
}{
	{Version{}, func(r *release) { *r = release{perLogit: 36, copies: 2, blas: true} }}, // sorts: 4 + 12 + 20
	{Version{0, 17, 0}, func(r *release) { r.perLogit, r.scratch = 12, true }},          // a Triton kernel for top-k and top-p
	{Version{0, 21, 0}, func(r *release) { r.graphs = true }},
	{Version{0, 29, 0}, func(r *release) { r.second, r.blas, r.scratch, r.copies = true, false, false, 1 }},
}

// releases are the rules after each change.
var releases = func() []release {
	out := make([]release, len(changes))
	var r release
	for i, c := range changes {
		c.apply(&r)
		r.since = c.since
		out[i] = r
	}
	return out
}()

func releaseOf(v Version) *release {
	for i := len(releases) - 1; i > 0; i-- {
		if !v.before(releases[i].since) {
			return &releases[i]
		}
	}
	return &releases[0]
}

const (
	mib = 1 << 20
	gib = 1 << 30
)

// VLLM is vLLM's bill: requested = ⌈fraction × total⌉, less the weights, what stays
// allocated, the peak of the profiling pass and the graphs (vllm/v1/worker/gpu_worker.py
// determine_available_memory).
func VLLM(l *Load) *Memory {
	r := releaseOf(l.Version)
	m := &Memory{Stage: l.Stage, TotalBytes: l.Device.TotalBytes, FreeBytes: l.FreeBytes, Fraction: l.Fraction, WeightsBytes: l.WeightsBytes,
		TakenBytes: size(math.Ceil(float64(l.Device.TotalBytes) * l.Fraction))}
	m.Terms = make([]Term, 0, 6)
	m.Peaks = append(make([]Peak, 0, 2), Peak{"forward", l.ForwardAt, size(l.forward())})
	if l.Samples {
		m.Peaks = append(m.Peaks, Peak{Name: "sampler", Bytes: size(l.sampler(r))})
	}
	peak, widest := 0.0, m.Peaks[0]
	for _, p := range m.Peaks {
		if p.Bytes >= widest.Bytes {
			widest = p
		}
	}
	source := "forward pass: the widest point of a layer, of T tokens"
	if l.Compiled {
		source += "; T·e·(in + out + 2·h) + L2 once compiled"
	}
	if widest.Name == "sampler" {
		source = "sampler pass: r·V·(e + 12) + (T + r)·h·e"
		if r.perLogit > 12 {
			source = "sampler pass, which sorts: r·V·(e + 36) + (T + 2·r)·h·e"
		}
	}
	peak = float64(widest.Bytes) + l.encoder(r)
	if l.PP > 1 && !r.second {
		peak += l.received()
	}
	if r.blas {
		peak += l.blas()
	}
	m.Terms = append(m.Terms, Term{"activation", exact(peak), Modelled, source})
	if n := l.kept(r); n > 0 {
		m.Terms = append(m.Terms, Term{"workspace", exact(n), Modelled, "shared by all layers: tokens' rows of routed experts, exported states"})
	}
	if r.second {
		m.Terms = append(m.Terms, Term{"runner_tensors", exact(l.runner()), Exact, "R·V·4 + 2·R·⌈V/32⌉·4 + R·16384, and input buffers"})
	}
	m.Terms = append(m.Terms, l.growth())
	if r.graphs && l.Graphs {
		m.Terms = append(m.Terms, l.graphs())
	}
	m.settle()
	return m
}

// rows is how many sequences the sampler pass runs.
func (l *Load) rows() float64 { return float64(min(l.Sequences, l.BatchedTokens)) }

func (l *Load) tokens() float64 { return float64(l.BatchedTokens) * float64(l.ElemBytes) }

// sampler is the sampler pass: the logits of r rows of the whole vocabulary, what sampling
// makes of them, and the hidden states they came from.
func (l *Load) sampler(r *release) float64 {
	rows, h, e := l.rows(), float64(l.Hidden), float64(l.ElemBytes)
	return rows*float64(l.Vocab)*(e+r.perLogit) + l.tokens()*h + r.copies*rows*h*e
}

// forward is the forward pass. Compiled, it holds one tensor of T·h less, and the buffer
// with which kernels are tuned, as large as the L2 cache.
func (l *Load) forward() float64 {
	n := float64(l.Forward)
	if l.Compiled {
		n = max(n-l.tokens()*float64(l.Hidden), 0) + float64(l.Device.L2Bytes)
	}
	return n
}

// received are the two tensors that a pipeline stage takes from the one before it.
func (l *Load) received() float64 { return 2 * l.tokens() * float64(l.Hidden) }

// blas is PyTorch's workspace for cuBLAS.
func (l *Load) blas() float64 {
	if l.Device.Capability[0] >= 9 {
		return 32 * mib
	}
	return 8.125 * mib
}

// encoder is what the towers leave for the forward pass: outputs of as many items as the
// budget holds, and in the first runner their pixels.
func (l *Load) encoder(r *release) float64 {
	if !l.Towers {
		return 0
	}
	item, budget := float64(l.Item), float64(l.BatchedTokens)
	if item > 0 {
		budget = max(budget, item)
		budget = max(1, math.Floor(budget/item)) * item
	}
	n := budget * float64(l.Hidden) * float64(l.ElemBytes)
	if !r.second {
		n += budget * float64(l.Pixels) * float64(l.ElemBytes)
	}
	return n
}

// kept is what the pass allocates and never gives back.
func (l *Load) kept(r *release) float64 {
	n := float64(l.Workspace)
	if r.scratch && l.Samples {
		n += float64(l.Device.SMs) * float64(l.Vocab) * 4
	}
	return n
}

// runner are the tensors of the second model runner: counts, masks and tables of R
// sequences, and the input buffers of a step.
func (l *Load) runner() float64 {
	r, v := float64(l.Sequences), float64(l.Vocab)
	n := 13*float64(l.BatchedTokens) + 1638*r
	if l.Samples {
		n += r*v*4 + 2*r*math.Ceil(v/32)*4 + r*16384
	}
	if l.Towers {
		n += l.tokens() * float64(l.Hidden)
	}
	if l.Stage > 0 {
		n += l.received()
	}
	return n
}
