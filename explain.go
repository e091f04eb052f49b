package headcount

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"headcount/engine"
	"headcount/engine/vllm"
	"headcount/model"
	"headcount/units"
)

// A Step is one stage of the way from config.json to the engine's log line. Its lines can
// be redone by hand.
type Step struct {
	ID    string   `json:"id"` // one of the constants Step...
	Title string   `json:"title"`
	Lines []string `json:"lines"`
}

// The steps of [Report.Explain], in their order, then those of [Report.Beside].
const (
	StepFields = "fields"
	StepLayer  = "layer"
	StepRank   = "rank"
	StepDType  = "dtype"
	StepToken  = "token"
	StepUnit   = "unit"
	StepPool   = "pool"
	StepBlocks = "blocks"
	StepTokens = "tokens"

	StepWeights = "weights"
	StepDecode  = "decode"
)

// Explain walks from the config's fields to the log line with the Report's own numbers, in
// nine steps. A Report that ends early, for want of a pool or by a refusal, has the steps
// up to there.
func (r *Report) Explain() []Step {
	if len(r.Ranks) == 0 {
		return []Step{r.fieldsStep()}
	}
	rank := &r.Ranks[0]
	steps := []Step{r.fieldsStep(), r.layerStep(), r.rankStep(rank), dtypeStep(rank), tokenStep(rank)}
	unit := r.pageStep(rank)
	if len(unit.Lines) == 0 { // refused before there were groups
		return steps
	}
	steps = append(steps, unit)
	if r.KVCache.AvailableBytes == nil {
		return steps
	}
	steps = append(steps, r.poolStep())
	if r.KVCache.Tokens == nil {
		return steps
	}
	return append(steps, r.blocksStep(), r.tokensStep())
}

func step(id, title string, lines ...string) Step { return Step{id, title, lines} }

// fieldsStep: what config.json says, and where each value came from.
func (r *Report) fieldsStep() Step {
	m := &r.Model
	s := Step{ID: StepFields, Title: "Fields of config.json"}
	for _, f := range []struct {
		name  string
		value int
	}{{"layers", m.Layers}, {"query_heads", m.QueryHeads}, {"kv_heads", m.KVHeads}, {"head_dim", m.HeadDim}} {
		if where := m.Provenance[f.name]; where != "" && !(f.name == "kv_heads" && m.AttentionArch == "MLA") {
			s.Lines = append(s.Lines, fmt.Sprintf("%-11s %6d  ← %s", f.name, f.value, where))
		}
	}
	return s
}

// layerStep: what a layer caches for one token, before any split. This is where the two
// architectures part.
func (r *Report) layerStep() Step {
	m := &r.Model
	if m.AttentionArch == "MLA" {
		mha := fmt.Sprintf("With K and V per head instead it would be %d heads × (key + value) elements, and TP could split them.", m.QueryHeads)
		return step(StepLayer, "What a layer keeps of a token",
			fmt.Sprintf("MLA: one latent of %d elements (kv_lora_rank + qk_rope_head_dim), whatever the number of heads", r.LatentDim()), mha)
	}
	group := m.QueryHeads / max(m.KVHeads, 1)
	return step(StepLayer, "What a layer keeps of a token",
		fmt.Sprintf("%s: %s for %s each: K and V, 2 × %d × %d = %s elements",
			m.Variant, units.Plural(m.KVHeads, "KV head"), units.Plural(group, "query head"), m.KVHeads, m.HeadDim, units.Group(2*int64(m.KVHeads)*int64(m.HeadDim))),
		"An MLA model would keep one latent here instead, and TP could not split it.")
}

// LatentDim is the elements of a latent that MLA caches for a token in one layer, 0 for
// models without one.
func (r *Report) LatentDim() int {
	for _, rank := range r.Ranks {
		for _, run := range rank.Layers {
			if run.Kind == model.Latent || run.Kind == model.SlidingLatent {
				return run.KeyDim
			}
		}
	}
	return 0
}

// rankStep: what tensor parallelism does to it.
func (r *Report) rankStep(rank *engine.Rank) Step {
	tp, m := r.Layout.AttentionTP(), &r.Model
	heads := fmt.Sprintf("query heads: %d / TP %d = %d a rank", m.QueryHeads, tp, rank.QueryHeads)
	kv := fmt.Sprintf("KV heads: max(1, %d / TP %d) = %d a rank, %d× in all", m.KVHeads, tp, rank.KVHeads, rank.KVReplication)
	if m.AttentionArch == "MLA" {
		kv = fmt.Sprintf("the latent is whole on every rank: %d copies", rank.KVReplication)
	}
	return step(StepRank, "On one rank", heads, kv)
}

// dtypeStep: bytes of a token in one layer.
func dtypeStep(rank *engine.Rank) Step {
	s := Step{ID: StepDType, Title: "In the cache's dtype, one layer"}
	for _, run := range rank.Layers {
		switch {
		case run.StateBytes != nil:
			s.Lines = append(s.Lines, fmt.Sprintf("%s: a state of %s per request", run.Kind, units.Bytes(*run.StateBytes)))
		case run.BlockSize > 0:
			bytes, is := run.PageUnpadded/int64(run.BlockSize), " ="
			if bytes != int64(max(run.KVHeads, 1)*(run.KeyDim+run.ValueDim))*run.DType.Bytes() {
				is = ", as the engine packs or pools them:"
			}
			s.Lines = append(s.Lines, fmt.Sprintf("%s: %s%s %s B a token", run.Kind, run.Elements(), is, units.Group(bytes)))
		}
	}
	s.Lines = unique(s.Lines)
	return s
}

func unique(lines []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, l := range lines {
		if !seen[l] {
			seen[l] = true
			out = append(out, l)
		}
	}
	return out
}

// tokenStep: over the layers of the stage.
func tokenStep(rank *engine.Rank) Step {
	byKind := map[model.Kind]int{}
	var order []model.Kind
	for _, run := range rank.Layers {
		if byKind[run.Kind] == 0 {
			order = append(order, run.Kind)
		}
		byKind[run.Kind] += run.Layers
	}
	var parts []string
	for _, kind := range order {
		parts = append(parts, fmt.Sprintf("%d %s", byKind[kind], kind.Words()))
	}
	return step(StepToken, "Over the layers of a rank", fmt.Sprintf("%s layers: %s B a token on a rank that grow with every token",
		strings.Join(parts, " + "), units.Group(rank.BytesPerToken)))
}

// pageStep: what the engine hands out.
func (r *Report) pageStep(rank *engine.Rank) Step {
	if r.Engine.Name == "sglang" {
		line := "pages of " + units.Plural(r.Resolved.PageSize, "token")
		if cell := r.KVCache.CellSize; cell != nil {
			line = fmt.Sprintf("cell_size %s B, %s", groupFloat(*cell), line)
		}
		return step(StepUnit, "SGLang's unit", line)
	}
	s := Step{ID: StepUnit, Title: "vLLM's unit, the block"}
	for _, g := range r.KVCache.Groups {
		layers, page := fmt.Sprintf("%d layers", g.Layers), "a layer"
		if len(r.Ranks) > 1 {
			layers += " of all stages"
		}
		if g.Kind == vllm.UniformKind {
			page = "for all of them"
		}
		line := fmt.Sprintf("a group of %s (%s): blocks of %d tokens, page %s B %s", layers, g.Kind, g.BlockSize, units.Group(g.PageSize), page)
		if rank.BytesPerBlock != nil && len(r.KVCache.Groups) > 1 && len(r.Ranks) == 1 {
			line += ", " + padding(rank, g)
		}
		s.Lines = append(s.Lines, line)
	}
	s.Lines = counted(s.Lines)
	if b := rank.BytesPerBlock; b != nil {
		of := "all layers of a rank"
		if len(r.KVCache.Groups) > 1 {
			of = "on a rank, for the blocks of every group"
		}
		s.Lines = append(s.Lines, fmt.Sprintf("bytes per block: %s, %s", units.Group(*b), of))
	}
	return s
}

// padding is what a block of group g holds that no layer uses: layers that fill the group
// up to the largest, and pages made equal.
func padding(rank *engine.Rank, g engine.Group) string {
	page := g.PageSize
	for _, run := range rank.Layers {
		state := strings.HasPrefix(g.Kind, "Mamba")
		if run.BlockSize == g.BlockSize && run.PageSize == g.PageSize && (run.Kind == model.Recurrent) == state {
			page = run.PageUnpadded
		}
	}
	used := int64(g.Layers) * page
	if g.Kind == vllm.UniformKind {
		used = g.PageSize
	}
	waste := *rank.BytesPerBlock - used
	if waste <= 0 {
		return "no padding"
	}
	return fmt.Sprintf("padding %s B a block, %.1f %%", units.Group(waste), 100*float64(waste)/float64(*rank.BytesPerBlock))
}

// counted folds equal lines into one with their number.
func counted(lines []string) []string {
	number := map[string]int{}
	for _, l := range lines {
		number[l]++
	}
	out := unique(lines)
	for i, l := range out {
		if n := number[l]; n > 1 {
			out[i] = fmt.Sprintf("%d × %s", n, l)
		}
	}
	return out
}

// poolStep: what is left for the cache.
func (r *Report) poolStep() Step {
	available := *r.KVCache.AvailableBytes
	if !r.PoolEstimated() {
		how := "given"
		if r.KVCache.MambaSlots != nil {
			how = "for tokens, what the states leave of what is given"
		}
		return step(StepPool, "The pool of a rank", fmt.Sprintf("%s: %s B (%s)", how, units.Group(available), units.Bytes(available)))
	}
	share := units.Bytes(r.Memory.TotalBytes).String()
	if r.Engine.Name == "vllm" {
		share = fmt.Sprintf("%.2f of %s", r.Memory.Fraction, share)
	}
	if len(r.Ranks) > 1 {
		share += fmt.Sprintf(", on stage %d, which leaves least", r.Memory.Stage)
	}
	s := step(StepPool, "The pool of a rank", share,
		fmt.Sprintf("− %-22s %10s", "weights", units.Bytes(*r.Memory.WeightsBytes)))
	for _, t := range r.Memory.Terms {
		line := fmt.Sprintf("− %-22s %10s", t.Name, units.Bytes(t.P50))
		if t.P10 != t.P90 {
			line += fmt.Sprintf("  (%s to %s)", units.Bytes(t.P10), units.Bytes(t.P90))
		}
		s.Lines = append(s.Lines, line+"  "+t.Source)
	}
	kv := r.Memory.KVBytes
	s.Lines = append(s.Lines, fmt.Sprintf("= %-22s %10s  (%s to %s)", "pool, estimated", units.Bytes(kv.P50), units.Bytes(kv.P10), units.Bytes(kv.P90)))
	if states := r.StateBytes(); states > 0 {
		s.Lines = append(s.Lines, fmt.Sprintf("− %-22s %10s  %s slots", "states", units.Bytes(states), units.Group(*r.KVCache.MambaSlots)),
			fmt.Sprintf("= %-22s %10s", "for tokens", units.Bytes(available)))
	}
	return s
}

// PoolEstimated reports whether the pool came out of the device's bill, and was not given.
func (r *Report) PoolEstimated() bool {
	return r.KVCache.AvailableBytes != nil && slices.ContainsFunc(r.Notes, func(n engine.Note) bool { return n.ID == poolEstimated })
}

// StateBytes is what SGLang's slots of states take of a rank's pool before tokens do: the
// report's available bytes are the rest.
func (r *Report) StateBytes() int64 {
	if r.KVCache.MambaSlots == nil || r.KVCache.AvailableBytes == nil {
		return 0
	}
	if r.PoolEstimated() {
		return r.Memory.KVBytes.P50 - *r.KVCache.AvailableBytes
	}
	bytes := int64(0)
	for _, p := range r.KVCache.Pools {
		if p.Name == "state" {
			bytes += p.KBytes + p.VBytes
		}
	}
	return bytes
}

// blocksStep: how much of its unit the pool holds.
func (r *Report) blocksStep() Step {
	available := *r.KVCache.AvailableBytes
	if cell := r.KVCache.CellSize; cell != nil && *cell > 0 {
		return step(StepBlocks, "Cells in the pool", fmt.Sprintf("%s // %s, whole pages of %d = %s tokens", units.Group(available), groupFloat(*cell), r.Resolved.PageSize, units.Group(*r.KVCache.MaxTotalNumTokens)))
	}
	s := Step{ID: StepBlocks, Title: "Blocks in the pool"}
	for i := range r.Ranks {
		if n, b := r.Ranks[i].NumBlocks, r.Ranks[i].BytesPerBlock; n != nil && b != nil {
			s.Lines = append(s.Lines, fmt.Sprintf("stage %d: %s // %s = %s", i, units.Group(available), units.Group(*b), units.Group(*n)))
		}
	}
	if r.KVCache.NumBlocks != nil && len(r.Ranks) > 1 {
		s.Lines = append(s.Lines, "the smallest stage binds: "+units.Group(*r.KVCache.NumBlocks))
	}
	return s
}

// tokensStep: what the log says of it.
func (r *Report) tokensStep() Step {
	s := Step{ID: StepTokens, Title: "Tokens and requests"}
	length := r.Model.MaxModelLen
	if c := r.KVCache.MaxConcurrency; c != nil && r.KVCache.NumBlocks != nil && *c > 0 {
		s.Lines = append(s.Lines,
			fmt.Sprintf("a request of max_model_len = %s tokens takes %s blocks", units.Group(length), units.Group(int64(float64(*r.KVCache.NumBlocks)/(*c)+0.5))),
			fmt.Sprintf("concurrency %s blocks / that = %.2f; tokens = concurrency × max_model_len = %s", units.Group(*r.KVCache.NumBlocks), *c, units.Group(*r.KVCache.Tokens)))
	}
	if n := r.KVCache.MaxRunningRequests; n != nil {
		s.Lines = append(s.Lines, fmt.Sprintf("max_running_requests %s, context_len %s", units.Group(*n), units.Group(length)))
	}
	s.Lines = append(s.Lines, r.idealised()...)
	s.Lines = append(s.Lines, r.Log...)
	return s
}

// idealised is what one rate of bytes per token would have said of a pool that windows and
// states share, and what a request really takes: a fixed part and a part per token.
func (r *Report) idealised() []string {
	kv, rank := &r.KVCache, &r.Ranks[0]
	if len(kv.Groups) < 2 || rank.BytesPerToken == 0 {
		return nil
	}
	tokens := *kv.AvailableBytes / rank.BytesPerToken
	return []string{
		fmt.Sprintf("a request of that length takes %s B for windows and states + %s B a token", units.Group(kv.FixedBytesPerRequest), units.Group(kv.BytesPerToken)),
		fmt.Sprintf("pool / %s B a token alone would have said %s tokens", units.Group(rank.BytesPerToken), units.Group(tokens)),
	}
}

// Beside are two steps that lie beside that way: the weights of a rank, and where decode
// attention stands under the device's roof. Either is left out where it is not known.
func (r *Report) Beside() []Step {
	var steps []Step
	if len(r.Ranks) > 0 && r.Ranks[0].Weights != nil {
		steps = append(steps, weightsStep(&r.Ranks[0]))
	}
	if r.Roofline != nil && len(r.Roofline.Layers) > 0 {
		steps = append(steps, r.decodeStep())
	}
	return steps
}

// weightsStep: what the weights of a rank are made of.
func weightsStep(rank *engine.Rank) Step {
	s, w := step(StepWeights, "The weights of a rank"), rank.Weights
	for _, part := range []struct {
		name  string
		bytes int64
	}{
		{"embedding", w.Embedding}, {"lm_head", w.LMHead}, {"attention", w.Attention}, {"mlp", w.MLP},
		{"moe_experts", w.MoEExperts}, {"moe_router", w.MoERouter}, {"moe_shared", w.MoEShared},
		{"norm", w.Norm}, {"vision", w.Vision}, {"other", w.Other},
	} {
		if part.bytes > 0 {
			s.Lines = append(s.Lines, fmt.Sprintf("+ %-11s %18s B", part.name, units.Group(part.bytes)))
		}
	}
	total := *rank.WeightBytes
	s.Lines = append(s.Lines, fmt.Sprintf("= %-11s %18s B  (%s)", "weights", units.Group(total), units.Bytes(total)))
	return s
}

// decodeStep: the operations that a cached token feeds for each of its bytes, and the
// device's ridge.
func (r *Report) decodeStep() Step {
	s := step(StepDecode, "Decode attention under the roof, one layer on one rank")
	for _, p := range r.Roofline.Layers {
		s.Lines = append(s.Lines, fmt.Sprintf("%s: %s FLOP for each cached token / its %s B = %s FLOP/byte",
			p.Kind, units.Group(p.FLOPPerToken), units.Group(p.CellBytes), units.Digits(p.Intensity, 3)))
		if p.ShareOfRidge != nil {
			s.Lines = append(s.Lines, fmt.Sprintf("   %s / %.1f, the ridge of the %s = %.1f %%: bound by %s",
				units.Digits(p.Intensity, 3), *r.Roofline.Ridge, r.Roofline.Accelerator, *p.ShareOfRidge*100, p.Bound))
		}
	}
	return s
}

// groupFloat writes a number of bytes, which windows and states can make a fraction.
func groupFloat(x float64) string {
	if x == math.Trunc(x) {
		return units.Group(int64(x))
	}
	_, fraction, _ := strings.Cut(strconv.FormatFloat(x, 'f', -1, 64), ".")
	return units.Group(int64(x)) + "." + fraction
}
