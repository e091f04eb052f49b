package vllm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"headcount/engine"
	"headcount/problem"
	"headcount/units"
)

// Version is the release whose rules are applied unless another is asked for: the one
// that made the golden rows.
const Version = "0.33.0"

// A release is what differs between versions of the engine, from one version on.
// Everything else in this package is [Version]'s.
type release struct {
	since version

	fraction float64 // default of --gpu-memory-utilization (config/cache.py)

	// Default size of a step (engine/arg_utils.py, get_batch_defaults).
	large160 bool // devices of 160 GiB take a step of 16,384 tokens
	smallA100,
	smallSpark bool // an A100, a device of capability 12.1 takes the small step

	scalesTwice bool // experts' scales in MXFP4 stay beside the kernel's copy

	// Mixers whose prefills leave states behind, for which a request holds a block more.
	kdaLeaves, mambaLeaves, deltaLeaves bool
	latentGrid                          bool // beside states, blocks of latents are multiples of 128

	opaqueStates bool // no prefix caching of models with states, unless told otherwise

	async    bool // schedules the next step while one runs, unless told otherwise
	inFlight bool // windows hold what all steps in flight schedule, not one step's tokens

	// Whether attention backends choose the block size. Before that the platform did: 16
	// tokens, and on latents of capability 9 and 10, and on sparse ones, these
	// (platforms/cuda.py); 0: 16 as well.
	backendBlocks             bool
	hopper, blackwell, sparse int64

	wholePool bool // a request may take all blocks; later one is kept back

	v0      bool // the first engine: no hybrid cache manager, a pool of blocks on the host beside
	expands bool // latents are cached as keys and values of all heads

	// How a pool is logged (v1/core/kv_cache_utils.py; v0: executor/executor_base.py).
	blocksOnly bool // no requests
	byPage     bool // a request's blocks are its bytes in the first group's pages, not a sum over groups
	twoLines   bool // tokens and concurrency in a line each
	byBlocks   bool // tokens are blocks / groups × the smallest block, not concurrency × length
	perToken   bool // concurrency is tokens / length
	alwaysGPU  bool // the line says GPU on any device
}

// changes are what releases did to the rules, each by the first version that has it; read
// from the sources of the versions on either side.
var changes = []struct {
	since version
	apply func(*release)
}{
	{version{0, 5, 0}, func(r *release) {
		*r = release{fraction: 0.9, scalesTwice: true, opaqueStates: true, wholePool: true, byPage: true, twoLines: true, byBlocks: true, perToken: true, alwaysGPU: true,
			v0: true, expands: true, blocksOnly: true}
	}},
	{version{0, 6, 3}, func(r *release) { r.blocksOnly = false }},
	{version{0, 7, 1}, func(r *release) { r.expands = false }},
	{version{0, 8, 0}, func(r *release) { r.hopper, r.v0 = 64, false }},
	{version{0, 9, 0}, func(r *release) { r.smallA100 = true }},
	{version{0, 9, 1}, func(r *release) { r.perToken = false }},
	{version{0, 10, 1}, func(r *release) { r.blackwell = 128 }}, // CUTLASS_MLA
	{version{0, 11, 0}, func(r *release) { r.sparse = 64 }},
	{version{0, 14, 0}, func(r *release) { r.async = true }},
	{version{0, 15, 0}, func(r *release) { r.blackwell = 64 }}, // FLASHINFER_MLA
	{version{0, 18, 0}, func(r *release) { r.backendBlocks = true }},
	{version{0, 20, 0}, func(r *release) { r.fraction = 0.92 }},
	{version{0, 20, 1}, func(r *release) { r.byBlocks = false }},
	{version{0, 26, 0}, func(r *release) { r.inFlight = true }},
	{version{0, 27, 0}, func(r *release) { r.byPage, r.latentGrid = false, true }},
	{version{0, 28, 0}, func(r *release) { r.large160, r.opaqueStates, r.twoLines = true, false, false }},
	{version{0, 29, 0}, func(r *release) { r.wholePool, r.kdaLeaves = false, true }},
	{version{0, 30, 0}, func(r *release) { r.alwaysGPU = false }},
	{version{0, 32, 0}, func(r *release) { r.mambaLeaves = true }},
	{version{0, 33, 0}, func(r *release) { r.smallSpark, r.deltaLeaves, r.scalesTwice = true, true, false }},
}

// releases are the rules after each change; the last one that is not after a version holds
// for it.
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

// block is the default block size before any backend is asked, tokens.
func (r *release) block(d device) int64 {
	if d.cpu {
		return 128
	}
	return 16
}

// platformBlock is the block size that the platform sets for a model of latents or of none.
func (r *release) platformBlock(d device, latents, sparse bool) int64 {
	n := int64(0)
	switch {
	case d.cpu || !latents:
	case sparse:
		n = r.sparse
	case d.major == 9:
		n = r.hopper
	case d.major == 10:
		n = r.blackwell
	}
	if n == 0 {
		n = r.block(d)
	}
	return n
}

// A batch is the default size of one scheduler step.
type batch struct{ tokens, seqs int }

// batch is the default for an API server by the device's memory and name.
func (r *release) batch(d device, ranks int) batch {
	const gib = 1 << 30
	small := r.smallA100 && strings.Contains(strings.ToLower(d.name), "a100") || r.smallSpark && d.major == 12 && d.minor == 1
	switch {
	case d.cpu:
		return batch{2048 * ranks, 128 * ranks}
	case r.large160 && d.memory >= 160*gib:
		return batch{16384, 1024}
	case d.memory >= 70*gib && !small:
		return batch{8192, 1024}
	}
	return batch{2048, 256}
}

// capacity is what the release says that a pool holds.
func (r *release) capacity(d *demand, gs []group, blocks int64) capacity {
	c := d.capacity(gs, blocks)
	if !r.byBlocks || len(gs) == 0 {
		return c
	}
	least := gs[0].spec.BlockSize
	for i := range gs {
		least = min(least, gs[i].spec.BlockSize)
	}
	tokens, ok := mul(blocks/int64(len(gs)), least)
	if ok {
		tokens, ok = mul(tokens, d.dcp)
	}
	if ok {
		c.tokens = tokens
	}
	if r.perToken {
		c.concurrency = float64(c.tokens) / float64(d.maxLen)
	}
	return c
}

// lines are what the release logs of a pool:
//
//	GPU KV cache size: 1,048,576 tokens, Maximum concurrency for 8,192 tokens per request: 128.00x
func (r *release) lines(to []string, d device, c capacity, maxLen int64) []string {
	if r.v0 {
		return r.linesV0(to, c, maxLen)
	}
	var room [192]byte
	b := append(room[:0], r.label(d)...)
	b = append(b, " KV cache size: "...)
	b = units.AppendGroup(b, c.tokens)
	b = append(b, " tokens"...)
	if r.twoLines {
		to = append(to, string(b))
		b = b[:0]
	} else {
		b = append(b, ", "...)
	}
	b = append(b, "Maximum concurrency for "...)
	b = units.AppendGroup(b, maxLen)
	b = append(b, " tokens per request: "...)
	b = strconv.AppendFloat(b, c.concurrency, 'f', 2, 64)
	return append(to, string(append(b, 'x')))
}

// swapSpace is the default of --swap-space, bytes of a rank: what the first engine keeps on
// the host.
const swapSpace = 4 << 30

// linesV0 are what the first engine logs of a pool:
//
//	# GPU blocks: 27793, # CPU blocks: 2048
//	Maximum concurrency for 8192 tokens per request: 54.28x
func (r *release) linesV0(to []string, c capacity, maxLen int64) []string {
	to = append(to, fmt.Sprintf("# GPU blocks: %d, # CPU blocks: %d", c.blocks, swapSpace/max(c.perBlock, 1)))
	if r.blocksOnly {
		return to
	}
	return append(to, fmt.Sprintf("Maximum concurrency for %d tokens per request: %.2fx", maxLen, c.concurrency))
}

// label is the first word of the pool's line.
func (r *release) label(d device) string {
	if d.cpu && !r.alwaysGPU {
		return "CPU"
	}
	return "GPU"
}

// A version is a release's major, minor and patch number.
type version [3]int

func (v version) before(o version) bool { return slices.Compare(v[:], o[:]) < 0 }

// parseVersion reads "0.33.0" or "0.33", with or without a "v" and what builds append:
// "0.29.1rc1.dev17+gd2d649e67" has the rules of 0.29.1.
func parseVersion(s string) (v version, ok bool) {
	s, _, _ = strings.Cut(strings.TrimPrefix(s, "v"), "+")
	parts := strings.Split(s, ".")
	if len(parts) < 2 || strings.HasPrefix(parts[min(2, len(parts)-1)], "dev") {
		return v, false // a build without tags calls itself 0.1.dev1
	}
	for i, part := range parts[:min(len(parts), len(v))] {
		part, _, _ = strings.Cut(part, "rc")
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

// New returns the engine of a version, "0.33.0" or "0.33", "" for the default.
func New(asked string) (engine.Engine, error) {
	if asked == "" || asked == Version {
		return Engine{}, nil
	}
	v, ok := parseVersion(asked)
	newest, _ := parseVersion(Version)
	if !ok || v.before(releases[0].since) || slices.Compare(v[:2], newest[:2]) > 0 {
		return nil, problem.New(problem.BadValue, "engine", "vllm@"+asked, "not a version whose rules are known").WithHint("0.5 to %s", Version)
	}
	return Engine{version: strings.TrimPrefix(asked, "v"), rules: releaseOf(v)}, nil
}

// latest is [Version]'s.
func latest() *release { return &releases[len(releases)-1] }

// releaseOf is the release that holds for v.
func releaseOf(v version) *release {
	for i := len(releases) - 1; i > 0; i-- {
		if !v.before(releases[i].since) {
			return &releases[i]
		}
	}
	return &releases[0]
}
