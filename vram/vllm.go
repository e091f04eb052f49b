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
	m.Terms = make([]Term, 0, 7)
	left, own := l.encoder(r)
	m.Peaks = append(make([]Peak, 0, 3), Peak{"forward", l.ForwardAt, size(l.forward())})
	if l.Samples {
		m.Peaks = append(m.Peaks, Peak{Name: "sampler", Bytes: size(l.sampler(r) + l.scratch(r))})
	}
	if own > 0 {
		m.Peaks = append(m.Peaks, Peak{Name: "encoder", Bytes: size(own)})
	}
	widest := m.Widest()
	peak, source := float64(widest.Bytes), r.formula(widest.Name, l.Compiled)
	if l.PP > 1 && !r.second {
		peak += l.received()
	}
	if r.blas {
		peak += l.blas()
	}
	if l.Loading > 0 {
		m.Terms = append(m.Terms, Term{"loading", exact(float64(l.Loading)), Modelled, "", "rests of the allocator's segments, and what latent attention keeps twice to absorb it"})
	}
	m.Terms = append(m.Terms, Term{"activation", exact(peak), Modelled, "", source})
	if left > 0 {
		m.Terms = append(m.Terms, Term{"encoder_outputs", exact(left), Modelled, "", "images that fill the budget of tokens: tokens·h·e, and before 0.29 their pixels"})
	}
	if l.Workspace > 0 {
		m.Terms = append(m.Terms, Term{"workspace", exact(float64(l.Workspace)), Modelled, "", "shared by all layers: tokens' rows of routed experts, exported states"})
	}
	if r.second {
		m.Terms = append(m.Terms, Term{"runner_tensors", exact(l.runner()), Exact, "", "R·V·4 + 2·R·⌈V/32⌉·4 + R·16384, and input buffers"})
	}
	m.Terms = append(m.Terms, l.Growth())
	if r.graphs && l.Graphs {
		m.Terms = append(m.Terms, l.graphs())
	}
	m.Terms = append(m.Terms, l.unexplained())
	m.settle()
	return m
}

// formula is what a step of the pass holds at its widest.
func (r *release) formula(step string, compiled bool) string {
	switch {
	case step == "encoder":
		return "encoder pass: 9 hidden states for each patch of the largest images"
	case step == "forward" && compiled:
		return "forward pass: the widest point of a layer, for an MLP T·e·(3·I/t + 2·h + attention output), + L2"
	case step == "forward":
		return "forward pass: the widest point of a layer, for an MLP T·e·(3·I/t + 4·h)"
	case r.perLogit > 12:
		return "sampler pass, which sorts: r·V·(e + 36) + (T + 2·r)·h·e"
	}
	return "sampler pass: r·V·(e + 12) + (T + r)·h·e"
}

// HintCountsGraphsTwice reports whether the flag that a release of vLLM proposes in its log
// takes graphs off twice: it subtracts their estimate with the peak, and what they took.
func HintCountsGraphsTwice(version string) bool {
	return releaseOf(ParseVersion(version)).second
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

// forward is the forward pass. Compiled, it holds the buffer with which kernels are tuned as
// well, as large as the L2 cache.
func (l *Load) forward() float64 {
	n := float64(l.Forward)
	if l.Compiled {
		n += float64(l.Device.L2Bytes)
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

// encoder is what the towers leave for the passes that follow, outputs of as many items as
// the budget holds and in the first runner their pixels, and what they hold themselves
// beside that.
func (l *Load) encoder(r *release) (left, own float64) {
	if !l.Towers {
		return 0, 0
	}
	item, budget := float64(l.Item), float64(l.BatchedTokens)
	if item > 0 {
		budget = max(1, math.Floor(max(budget, item)/item)) * item
	}
	left = budget * float64(l.Hidden) * float64(l.ElemBytes)
	if !r.second {
		left += budget * float64(l.Pixels) * float64(l.ElemBytes)
	}
	return left, budget * float64(l.Encoder) * float64(l.ElemBytes)
}

// scratch is the row of float32 that the sampler's kernel keeps for each multiprocessor.
func (l *Load) scratch(r *release) float64 {
	if !r.scratch {
		return 0
	}
	return float64(l.Device.SMs) * float64(l.Vocab) * 4
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
