// Package weights is what a model's parameters take on each rank, before any kernel
// repacks them. It knows how parameters are split; it knows nothing of the KV cache.
package weights

import (
	"math"
	"math/bits"

	"headcount/dtype"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
)

// vocabPadding is the multiple to which embedding rows are padded before they are split
// (vllm vocab_parallel_embedding.py DEFAULT_VOCAB_PADDING_SIZE; SGLang's is the same).
const vocabPadding = 64

// A Build is how an engine builds a model: over which ranks, and what it leaves out.
type Build struct {
	Layout layout.Layout
	Spans  []layout.Span // layers of each pipeline stage
	DType  dtype.Type    // the model's; parameters that have their own keep it
	Length int           // tokens of the longest request that is served; 0: not known
	Step   int64         // tokens that are scheduled at once, of which some buffers have a row each

	// AttentionTP is the ranks that share attention and the token embedding where these are
	// fewer than share the rest, as under SGLang's attention DP. 0: Layout.TP.
	AttentionTP int

	ByPlan  bool // the engine runs Transformers' modules and shards what their plan names
	NoHead  bool // an embedding model: no language-model head
	NoTower bool // text alone is served: towers are not built

	// FusedKDA: the engine's kernel decodes Kimi delta attention from copies of its convolution
	// and of its norm.
	FusedKDA bool

	// AllExpertScales: the engine's kernel for experts in NVFP4 wants the input scales of all
	// experts on each rank.
	AllExpertScales bool

	Router dtype.Type // of routers that have none of their own; Unknown: the model's

	// Swizzled: the engine's kernel lays experts in MXFP4 out anew; KeepsScales: and leaves the
	// scales that it was given.
	Swizzled, KeepsScales bool

	// How far the engine's kernel pads what a rank holds of an expert: of unquantised ones,
	// of those in MXFP4, and of gpt-oss's, which have a kernel of their own.
	Experts, MXFP4Experts, GPTOSSExperts Padding
}

// A Padding is the multiples to which the axes of routed experts are padded on a rank: the
// one that is divided, and the one that is whole. 0: not padded.
type Padding struct{ Divided, Whole int }

// A Stage is the parameters of tensor-parallel rank 0 of one pipeline stage.
type Stage struct {
	Parameters int64
	Bytes      int64
	ByPart     ByPart
}

// ByPart is a stage's weight bytes by what they are for.
type ByPart struct {
	Embedding  int64 `json:"embedding"`
	LMHead     int64 `json:"lm_head"`
	Attention  int64 `json:"attention"`
	MLP        int64 `json:"mlp"`
	MoEExperts int64 `json:"moe_experts"`
	MoERouter  int64 `json:"moe_router"`
	MoEShared  int64 `json:"moe_shared"`
	Norm       int64 `json:"norm"`
	Vision     int64 `json:"vision"`
	Other      int64 `json:"other"`
}

// of is the account of a part.
func (b *ByPart) of(p model.Part) *int64 {
	switch p {
	case model.Embedding:
		return &b.Embedding
	case model.Head:
		return &b.LMHead
	case model.Attention:
		return &b.Attention
	case model.MLP:
		return &b.MLP
	case model.MoEExperts:
		return &b.MoEExperts
	case model.MoERouter:
		return &b.MoERouter
	case model.MoEShared:
		return &b.MoEShared
	case model.Norm:
		return &b.Norm
	case model.Tower:
		return &b.Vision
	}
	return &b.Other
}

// Stages sums the parameters of each pipeline stage. The error is a [*problem.Error]:
// not_divisible names the field whose dimension the tensor-parallel size does not divide,
// not_known says why the parameters are not known from the config. Then the checkpoint's own
// tensors count, as they are stored, where their headers were read. What does not divide is
// told also of a model whose parameters are not all known.
func Stages(m *model.Model, b Build) ([]Stage, error) {
	b.Layout = b.Layout.Normal()
	q, stored := quantisedOf(m), WantsHeaders(m) && len(m.Tensors) > 0
	if stored {
		q = nil
	}
	stages, err := b.stages(m, q)
	if err != nil {
		return nil, err
	}
	why := Unknown(m)
	if stored {
		return stagesOfTensors(m, b)
	}
	if why != "" {
		return nil, problem.New(problem.NotKnown, "weights", nil, "%s", why)
	}
	return stages, nil
}

// stages sums the parameters of each pipeline stage, of a checkpoint that is so quantised.
func (b *Build) stages(m *model.Model, q *quantised) ([]Stage, error) {
	stages := make([]Stage, len(b.Spans))
	for i, span := range b.Spans {
		t := tally{build: *b, stage: &stages[i]}
		t.layers(m.Layers, q, span)
		for j := range m.Outer {
			if p := &m.Outer[j]; onStage(b.stageOf(m, p), i, len(b.Spans)) && !b.leavesOut(m, p) && !q.packs(j) {
				t.outer(p, q)
			}
		}
		t.towers(m, q, i)
		if t.err != nil {
			return nil, t.err
		}
	}
	return stages, nil
}

// Unknown says why a model's parameters are not known from its config, "" when they are.
func Unknown(m *model.Model) string {
	if q := quantisedOf(m); m.WeightsUnknown == "" && q != nil {
		return q.unknown
	}
	return m.WeightsUnknown
}

// WantsHeaders reports whether the checkpoint's own tensors say more than its config does.
func WantsHeaders(m *model.Model) bool {
	q := quantisedOf(m)
	return Unknown(m) != "" || q != nil && q.headers
}

// ranks is how many ranks share the parameters of a part.
func (b *Build) ranks(part model.Part) int64 {
	if b.AttentionTP > 0 && (part == model.Attention || part == model.Embedding) {
		return int64(b.AttentionTP)
	}
	return int64(b.Layout.TP)
}

// leavesOut reports whether an engine does not build a parameter outside of layers. The
// bias of a head is made while loading where Transformers' modules are used (vllm
// models/transformers/causal.py).
func (b *Build) leavesOut(m *model.Model, p *model.Param) bool {
	switch p.Part {
	case model.Head:
		return b.NoHead || b.ByPlan && (p.Cols.Size == 0 || p.Rows.Split == model.Vocab && b.tied(m))
	case model.Pooler:
		return !b.ByPlan
	case model.Tower:
		return b.NoTower
	}
	return false
}

// tied reports whether head and embedding are one tensor. Transformers' modules are where
// either the wrapper's config or the text config says so (vllm models/transformers/base.py,
// _get_tie_word_embeddings).
func (b *Build) tied(m *model.Model) bool {
	if m.TiedEmbeddings || !b.ByPlan {
		return m.TiedEmbeddings
	}
	tied, _ := m.Config.Bool("tie_word_embeddings")
	return tied
}

// stageOf is where a parameter outside of layers stands. Transformers' modules are dealt out
// by their order in the model, also those that an engine's own class builds on each stage
// (vllm models/transformers/base.py, pipeline_parallel).
func (b *Build) stageOf(m *model.Model, p *model.Param) model.Stage {
	switch {
	case b.ByPlan && p.Part == model.Embedding && p.Stage != model.LastStage && b.tied(m):
		return model.BothEnds
	case !b.ByPlan || p.Stage != model.EveryStage:
		return p.Stage
	case p.Part == model.Embedding:
		return model.FirstStage
	case p.Part == model.Norm, p.Part == model.Head && p.Rows.Split == model.Vocab:
		return model.LastStage
	}
	return p.Stage
}

// onStage reports whether a parameter outside of layers is built on stage i of n.
func onStage(s model.Stage, i, n int) bool {
	switch s {
	case model.FirstStage:
		return i == 0
	case model.LastStage:
		return i == n-1
	case model.BothEnds:
		return i == 0 || i == n-1
	}
	return true
}

// A tally adds parameters to a stage and keeps the first error.
type tally struct {
	tp      int64 // ranks that share the parameter at hand
	build   Build
	stage   *Stage
	padding Padding // of routed experts
	err     *problem.Error
}

// A layerOf is a layer as it is quantised.
type layerOf struct {
	layer   *model.Layer
	modules *layerModules
}

// layers counts the layers of a stage, those that are one and the same at once.
func (t *tally) layers(all []*model.Layer, q *quantised, span layout.Span) {
	kind := func(i int) layerOf { return layerOf{all[span.Start+i], q.of(span.Start + i)} }
	eachKind(span.End-span.Start, kind, func(l layerOf, times int64) { t.layer(l, q, times) })
}

// eachKind visits the kinds of n layers with how often each comes, be they side by side or in
// turns: of the last few kinds, it holds how many have come. One may be visited again.
func eachKind[K comparable](n int, kind func(int) K, visit func(k K, times int64)) {
	var held [6]struct {
		kind  K
		times int64
	}
	next := 0 // the kind that gives way to a new one
	for i := range n {
		l := kind(i)
		k := 0
		for k < len(held) && (held[k].kind != l || held[k].times == 0) {
			k++
		}
		if k == len(held) {
			k = next
			next = (next + 1) % len(held)
			if held[k].times > 0 {
				visit(held[k].kind, held[k].times)
			}
			held[k].kind, held[k].times = l, 0
		}
		held[k].times++
	}
	for _, h := range held {
		if h.times > 0 {
			visit(h.kind, h.times)
		}
	}
}

// layer counts a layer that occurs so many times.
func (t *tally) layer(at layerOf, q *quantised, times int64) {
	l, modules := at.layer, at.modules
	if modules == nil {
		t.padding = t.build.Experts
		for i := range l.Params {
			t.add(&l.Params[i], times)
		}
		return
	}
	t.padding = t.build.paddingOf(modules.experts)
	for _, i := range modules.plain {
		t.add(&l.Params[i], times)
	}
	for i := range modules.modules {
		t.module(l.Params, &modules.modules[i], times)
	}
	t.scales(l.Caches, q.scales, times)
}

// towers counts the quantised modules of towers on a stage.
func (t *tally) towers(m *model.Model, q *quantised, stage int) {
	if q == nil || t.build.NoTower {
		return
	}
	for i := range q.towers.modules {
		one := &q.towers.modules[i]
		if p := &m.Outer[one.params[0]]; onStage(t.build.stageOf(m, p), stage, len(t.build.Spans)) {
			t.module(m.Outer, one, int64(max(p.Times, 1)))
		}
	}
}

// outer counts a parameter outside of layers.
func (t *tally) outer(p *model.Param, q *quantised) {
	if q != nil && q.head != nil && isHead(*p) {
		t.module([]model.Param{*p}, &module{params: []int{0}, scheme: q.head}, 1)
		return
	}
	t.add(p, int64(max(p.Times, 1)))
}

// add counts a parameter that occurs so many times.
func (t *tally) add(p *model.Param, times int64) {
	t.count(p.Part, t.times(t.elements(p), times), p.DType)
}

// count puts elements on a part's bill.
func (t *tally) count(part model.Part, elems int64, size dtype.Type) {
	if size == dtype.Unknown && part == model.MoERouter {
		size = t.build.Router
	}
	if size == dtype.Unknown {
		size = t.build.DType
	}
	bytes := t.times(elems, size.Bytes())
	t.stage.Parameters = t.plus(t.stage.Parameters, elems)
	t.stage.Bytes = t.plus(t.stage.Bytes, bytes)
	*t.stage.ByPart.of(part) += bytes
}

// elements is what one rank holds of p.
func (t *tally) elements(p *model.Param) int64 {
	height, width := t.shape(p)
	return t.times(t.times(height, width), t.copies(p))
}

// copies are how many of p a rank has: one, or those of its experts.
func (t *tally) copies(p *model.Param) int64 {
	n := int64(max(p.Experts, 1))
	if p.Experts > 0 && t.build.Layout.EP {
		ranks := int64(t.build.Layout.TP * t.build.Layout.DP)
		n = (n + ranks - 1) / ranks // rank 0 is among those that get one more
	}
	return n
}

// axes are those of p as its ranks divide it.
func (t *tally) axes(p *model.Param) (rows, cols model.Axis) {
	t.tp = t.build.ranks(p.Part)
	rows, cols = p.Rows, p.Cols
	if p.OffPlan && t.build.ByPlan || p.Experts > 0 && t.build.Layout.EP || p.Evenly > 0 && int64(p.Evenly)%t.tp != 0 {
		rows.Split, cols.Split = model.Whole, model.Whole
	}
	return rows, cols
}

// shape is what one rank holds of one copy of p, [height, width]; a vector has width 1.
func (t *tally) shape(p *model.Param) (height, width int64) {
	rows, cols := t.axes(p)
	height, width = t.axis(&rows), int64(1)
	if cols.Size > 0 {
		width = t.axis(&cols)
	}
	if p.Experts > 0 {
		height = t.padding.pad(height, p.Rows)
		if cols.Size > 0 {
			width = t.padding.pad(width, p.Cols)
		}
	}
	return height, width
}

// pad is a rank's part of an expert's axis as its kernel wants it.
func (p *Padding) pad(n int64, a model.Axis) int64 {
	multiple := p.Whole
	if a.Split == model.Sharded {
		multiple = p.Divided
	}
	if multiple == 0 {
		return n
	}
	return roundUp(n, int64(multiple))
}

// axis is the part of one dimension that a rank holds.
func (t *tally) axis(a *model.Axis) int64 {
	tp, n := t.tp, int64(a.Size)
	switch a.Split {
	case model.Whole:
		return n
	case model.Heads:
		heads, unit := n/int64(a.Unit), int64(a.Unit)
		if tp >= heads {
			t.divide(a, tp, heads)
			return unit
		}
		return t.divide(a, heads, tp) * unit
	case model.Vocab:
		n = roundUp(n, vocabPadding)
	case model.Filler:
		unit := int64(a.Unit)
		return (unit - (t.divide(a, n, tp)+int64(a.Least))%unit) % unit
	case model.Sharded:
		if block := int64(a.Block); tp > 1 && block > 0 {
			return (n/block + tp - 1) / tp * block
		}
		least := int64(a.Least)
		if tp > 1 {
			least = max(least, int64(a.Share))
		}
		if n/tp < least {
			return least
		}
		if a.Drops {
			return n / tp
		}
		if unit := int64(a.Unit); unit > 0 { // whole heads to each rank
			return t.divide(a, n/unit, tp) * unit
		}
	}
	return t.divide(a, n, tp)
}

func roundUp(n, multiple int64) int64 { return (n + multiple - 1) / multiple * multiple }

// divide is a/b, which must be whole.
func (t *tally) divide(axis *model.Axis, a, b int64) int64 {
	if a%b != 0 && t.err == nil {
		size := axis.Size
		if axis.Unit > 0 {
			size /= axis.Unit
		}
		t.err = problem.New(problem.NotDivisible, axis.Field, size, "not divisible by tensor parallel size %d", t.tp)
	}
	return a / b
}

// times is a·b of two numbers that are not negative.
func (t *tally) times(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high != 0 || low > math.MaxInt64 {
		t.tooLarge()
		return 0
	}
	return int64(low)
}

func (t *tally) plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		t.tooLarge()
		return 0
	}
	return a + b
}

func (t *tally) tooLarge() {
	if t.err == nil {
		t.err = problem.New(problem.BadValue, "weights", nil, "more than 2^63 - 1 bytes: a size in the config is absurd")
	}
}

// Share is the part of an axis that one of tp ranks holds, where it divides.
func Share(a *model.Axis, tp int) int64 {
	t := tally{tp: int64(tp)}
	return t.axis(a)
}
