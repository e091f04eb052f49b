package verify

import (
	"fmt"
	"math"
	"slices"

	"headcount"
	"headcount/engine"
	"headcount/problem"
)

// A fit is one plan held against the pool that was observed.
type fit struct {
	plan   *headcount.Report
	blocks span // that the pool may have; a rounded size leaves a few
	known  bool // anything tells how large the pool is
	unsaid bool // the length is the longest that fits, as nothing names one

	tokens      int64
	concurrency float64
	num         int64 // blocks of the pool, of those possible the ones that fit best
	closes      bool  // tokens and concurrency are the observed ones
	checked     bool  // there was something to compare
}

// A span is from lo to hi, both possible.
type span struct{ lo, hi int64 }

// first is the first number for which reached holds, which holds for all that follow; hi
// when it holds for none.
func (s span) first(reached func(int64) bool) int64 {
	for s.lo < s.hi {
		if mid := s.lo + (s.hi-s.lo)/2; reached(mid) {
			s.hi = mid
		} else {
			s.lo = mid + 1
		}
	}
	return s.lo
}

// mostBlocks bounds a pool whose size nothing tells.
const mostBlocks = 1 << 32

// vllm compares a start of vLLM.
func (c *comparison) vllm() error {
	f, err := c.fit(c.request)
	if err != nil {
		return err
	}
	c.report.Plan, c.report.Model = f.plan, f.plan.Model.Name
	if f.unsaid {
		c.report.Assumed = append(c.report.Assumed, "the longest request that the pool holds, as nothing names a length that fits (--max-model-len)")
	}
	c.weights(f.plan)
	c.poolSize()
	if f.checked {
		c.capacity(f)
	}
	c.graphs(f.plan)
	c.refusal(f.plan)
	c.adviseVLLM(f)
	return nil
}

// fit plans req and finds, among the pools that the log allows, the one whose tokens are
// those observed.
func (c *comparison) fit(req headcount.Request) (*fit, error) {
	plan, err := c.plan(c.pooled(req))
	if err != nil {
		return nil, err
	}
	if c.unsaidLength(&req, plan) {
		if plan, err = c.plan(c.pooled(req)); err != nil {
			return nil, err
		}
	}
	f := &fit{plan: plan, unsaid: req.MaxModelLen == -1}
	if !c.span(f, &req) {
		return f, nil
	}
	tokens, haveTokens := c.seen.Int("tokens")
	concurrency, haveConcurrency := c.seen.Float("max_concurrency")
	f.checked = haveTokens || haveConcurrency || c.said("num_blocks")
	if !f.checked {
		return f, nil
	}
	at := func(blocks int64) (int64, float64) { return c.holds(req, plan, blocks) }
	if haveTokens {
		f.num = f.blocks.first(func(blocks int64) bool { t, _ := at(blocks); return t >= tokens })
	}
	if haveConcurrency { // several numbers of blocks may print the same tokens
		f.num = max(f.num, f.blocks.first(func(blocks int64) bool { _, x := at(blocks); return math.Round(x*100) >= math.Round(concurrency*100) }))
	}
	f.num = max(f.num, f.blocks.lo)
	f.tokens, f.concurrency = at(f.num)
	f.closes = (!haveTokens || f.tokens == tokens) && (!haveConcurrency || printed(f.concurrency, concurrency)) && c.counted(f)
	if !f.closes && f.known {
		f.num = f.blocks.lo + (f.blocks.hi-f.blocks.lo)/2
		f.tokens, f.concurrency = at(f.num)
	}
	return f, nil
}

// holds is what a pool of so many blocks holds by req, whose plan may have told already.
func (c *comparison) holds(req headcount.Request, plan *headcount.Report, blocks int64) (tokens int64, concurrency float64) {
	if n := plan.KVCache.NumBlocks; n == nil || *n != blocks || plan.KVCache.Tokens == nil {
		req.NumGPUBlocksOverride, req.KVCacheMemory = blocks, 0
		var err error
		if plan, err = c.plan(req); err != nil {
			return 0, 0
		}
	}
	if kv := plan.KVCache; kv.Tokens != nil {
		return *kv.Tokens, *kv.MaxConcurrency
	}
	return refused(plan.KVCache.BlockSize, len(plan.KVCache.Groups), plan.Layout.DCP, blocks, plan.Model.MaxModelLen)
}

// refused is what a pool holds that is refused for want of room for one request, where that
// is plain: some releases print it before they refuse.
func refused(blockSize, groups, dcp int, blocks, maxLen int64) (tokens int64, concurrency float64) {
	if groups != 1 || maxLen <= 0 {
		return 0, 0
	}
	tokens = blocks * int64(blockSize) * int64(max(dcp, 1))
	return tokens, float64(tokens) / float64(maxLen)
}

// pooled is req with the pool that the log shows, so that none is estimated.
func (c *comparison) pooled(req headcount.Request) headcount.Request {
	if req.KVCacheMemory > 0 || req.NumGPUBlocksOverride > 0 {
		return req
	}
	if n, ok := c.seen.Int("num_blocks"); ok && n > 0 {
		req.NumGPUBlocksOverride = n
	} else if size, ok := c.seen.Size("available_bytes"); ok && size.Bytes > 0 {
		req.KVCacheMemory = size.Bytes
	} else if _, ok := c.seen.Int("tokens"); ok {
		req.NumGPUBlocksOverride = mostBlocks
	}
	return req
}

// unsaidLength takes the longest request that fits where the log names no length and the
// model's own is too long for the pool: the engine that printed this pool ran with less.
func (c *comparison) unsaidLength(req *headcount.Request, plan *headcount.Report) bool {
	if req.MaxModelLen != 0 || plan.Error == nil || plan.Error.Code != problem.DoesNotFit || !c.said("tokens") {
		return false
	}
	req.MaxModelLen = -1
	return true
}

// counted reports whether the blocks that the engine counted are among those that the pool
// as printed may have.
func (c *comparison) counted(f *fit) bool {
	n, counted := c.seen.Int("num_blocks")
	blocks, printed := c.printedBlocks(f.plan)
	return !counted || !printed || blocks.lo <= n && n <= blocks.hi
}

// printed reports whether the engine prints x as observed, with two decimals, or with what
// more a server's label has.
func printed(x, observed float64) bool {
	return fmt.Sprintf("%.2f", x) == fmt.Sprintf("%.2f", observed) || math.Abs(x-observed) < 1e-9*x
}

// said reports whether any rank said a fact.
func (c *comparison) said(name string) bool {
	_, ok := c.seen.Find(name)
	return ok
}

// span finds how many blocks the pool may have: as the server says, as the plan has them for
// a pool given to the byte, or as the printed sizes allow, on the rank that has the fewest.
func (c *comparison) span(f *fit, req *headcount.Request) bool {
	f.known = true
	if n, ok := c.seen.Int("num_blocks"); ok && n > 0 {
		f.blocks = span{n, n}
		return true
	}
	if req.KVCacheMemory > 0 || req.NumGPUBlocksOverride > 0 {
		n := f.plan.KVCache.NumBlocks
		if n == nil {
			return false
		}
		f.blocks = span{*n, *n}
		return true
	}
	var printed bool
	if f.blocks, printed = c.printedBlocks(f.plan); printed {
		return f.blocks.hi >= f.blocks.lo
	}
	f.known = false
	f.blocks = span{1, mostBlocks}
	return len(f.plan.KVCache.Groups) > 0
}

// printedBlocks are the blocks that the printed sizes of the pool allow, on the rank that
// has the fewest.
func (c *comparison) printedBlocks(plan *headcount.Report) (blocks span, ok bool) {
	blocks = span{math.MaxInt64, math.MaxInt64}
	covered := map[int]bool{}
	for _, reading := range c.seen.All("available_bytes") {
		size, isSize := reading.Value.(Size)
		if !isSize || size.Bytes <= 0 {
			continue
		}
		for i := range plan.Ranks {
			rank := &plan.Ranks[i]
			if rank.BytesPerBlock == nil || *rank.BytesPerBlock == 0 || !onStage(reading.Rank, rank.Stage) {
				continue
			}
			covered[rank.Stage] = true
			blocks.lo = min(blocks.lo, size.Least() / *rank.BytesPerBlock)
			blocks.hi = min(blocks.hi, size.Most() / *rank.BytesPerBlock)
		}
	}
	if len(covered) < len(plan.Ranks) {
		blocks.lo = 1 // a stage of which no size is printed may have less
	}
	blocks.lo = max(blocks.lo, 1)
	return blocks, blocks.hi != math.MaxInt64
}

// capacity adds the checks of blocks, tokens and concurrency, with the cause of a difference.
func (c *comparison) capacity(f *fit) {
	var cause *string
	if !f.closes && f.known {
		cause = c.cause()
	}
	how := "from the pool"
	switch {
	case f.blocks.lo == f.blocks.hi:
		how = fmt.Sprintf("%d blocks", f.num)
	case f.known:
		how = fmt.Sprintf("from the pool as printed: %d to %d blocks", f.blocks.lo, f.blocks.hi)
	default:
		how = "no pool is printed: only whether tokens and requests fit each other"
	}
	if n, ok := c.seen.Int("num_blocks"); ok {
		c.blockCount(f, n)
	}
	if n, ok := c.seen.Int("cpu_blocks"); ok {
		c.hostBlocks(f.plan, n)
	}
	if n, ok := c.seen.Int("resolved_block_size"); ok && f.plan.KVCache.BlockSize > 0 {
		c.exact("block_size", int64(f.plan.KVCache.BlockSize), n, "tokens of a block")
	}
	if n, ok := c.seen.Int("aligned_block_size"); ok && f.plan.KVCache.BlockSize > 0 {
		c.exact("block_size", attentionBlock(f.plan), n, "attention's, as large as a state's page")
	}
	if n, ok := c.seen.Int("tokens"); ok {
		c.exact("tokens", f.tokens, n, how)
		c.explain(cause)
	}
	if x, ok := c.seen.Float("max_concurrency"); ok {
		same := printed(f.concurrency, x)
		predicted := f.concurrency
		if same {
			predicted = x
		}
		c.add(Check{Name: "max_concurrency", Predicted: predicted, Observed: x, Exact: same, Agrees: same, Difference: x - predicted, How: how})
		c.explain(cause)
	}
}

// explain puts the cause to the last check, if it differs.
func (c *comparison) explain(cause *string) {
	if last := &c.report.Checks[len(c.report.Checks)-1]; !last.Agrees {
		last.Cause = cause
	}
}

// attentionBlock is the block size of the first layer that is no state.
func attentionBlock(plan *headcount.Report) int64 {
	for _, run := range plan.Ranks[0].Layers {
		if run.StateBytes == nil {
			return int64(run.BlockSize)
		}
	}
	return int64(plan.KVCache.BlockSize)
}

// blockCount checks the blocks that the engine counted against the pool that it printed.
func (c *comparison) blockCount(f *fit, observed int64) {
	if n := f.plan.KVCache.NumBlocks; n != nil && c.request.KVCacheMemory > 0 {
		c.exact("num_blocks", *n, observed, "pool ÷ bytes per block")
		return
	}
	blocks, ok := c.printedBlocks(f.plan)
	if !ok {
		return
	}
	check := Check{Name: "num_blocks", Predicted: blocks.lo + (blocks.hi-blocks.lo)/2, Observed: observed,
		How: fmt.Sprintf("%d to %d, as the pool is printed", blocks.lo, blocks.hi)}
	check.Exact = blocks.lo <= observed && observed <= blocks.hi
	if check.Exact {
		check.Predicted = observed
	} else {
		check.Difference = float64(observed - (blocks.lo + (blocks.hi-blocks.lo)/2))
		check.Cause = c.cause()
	}
	check.Agrees = check.Exact
	c.add(check)
}

// hostBlocks checks the blocks that the first engine kept on the host: as many as its swap
// space holds, so that they tell the bytes of a block whatever the pool.
func (c *comparison) hostBlocks(plan *headcount.Report, observed int64) {
	space, said := c.seen.Float("swap_space")
	if !said {
		space = 4 // GiB of a rank, the default
	}
	if len(plan.Ranks) == 0 || plan.Ranks[0].BytesPerBlock == nil || *plan.Ranks[0].BytesPerBlock == 0 || !(space >= 0 && space < 1<<20) {
		return
	}
	c.exact("cpu_blocks", int64(space*(1<<30)) / *plan.Ranks[0].BytesPerBlock, observed, fmt.Sprintf("%g GiB of swap space", space))
}

// weights compares what a rank loaded. The engine's figure is what the allocator took while
// loading: buffers and rounding are in it.
func (c *comparison) weights(plan *headcount.Report) {
	for _, reading := range c.seen.All("weights_bytes") {
		size, ok := reading.Value.(Size)
		if !ok {
			continue
		}
		rank := stageOf(plan, reading.Rank)
		if rank == nil || rank.WeightBytes == nil {
			continue
		}
		predicted := *rank.WeightBytes
		if rank.BufferBytes != nil {
			predicted += *rank.BufferBytes
		}
		c.estimate(named("weights_bytes", reading.Rank), predicted, predicted, predicted, size, "parameters and buffers of the rank")
		if last := &c.report.Checks[len(c.report.Checks)-1]; !last.Agrees {
			last.Cause = c.weightCause(size, *rank.WeightBytes)
		}
		if len(c.seen.All("weights_bytes")) > 1 && stageless(reading.Rank) && plan.Layout.PP == 1 {
			return // ranks of one stage load the same
		}
	}
}

func stageless(rank string) bool { return rank == "" || onStage(rank, -1) }

// named is a check's name with the rank that it is of.
func named(name, rank string) string {
	if rank == "" || stageless(rank) {
		return name
	}
	return name + " " + rank
}

// stageOf is the planned stage of a rank's name.
func stageOf(plan *headcount.Report, rank string) *engine.Rank {
	for i := range plan.Ranks {
		if onStage(rank, plan.Ranks[i].Stage) {
			return &plan.Ranks[i]
		}
	}
	return nil
}

// weightCause names what the weights differ by.
func (c *comparison) weightCause(observed Size, predicted int64) *string {
	ratio := float64(observed.Bytes) / float64(predicted)
	for _, known := range []struct {
		ratio float64
		why   string
	}{
		{0.5, "half of the checkpoint's bytes: quantised to 8 bits, or two ranks share what was planned for one"},
		{0.25, "a quarter of the checkpoint's bytes: quantised to 4 bits, or four ranks share what was planned for one"},
		{2, "twice the planned bytes: fewer ranks than planned, or a wider dtype"},
	} {
		if math.Abs(ratio/known.ratio-1) < 0.12 {
			return &known.why
		}
	}
	return nil
}

// poolSize compares the pool with the one asked for, or with the estimate for the device.
func (c *comparison) poolSize() {
	size, ok := c.seen.Size("available_bytes")
	if !ok {
		return
	}
	if c.request.KVCacheMemory > 0 {
		c.within("available_bytes", c.request.KVCacheMemory, size, "as asked for")
		return
	}
	plan, err := c.plan(c.request)
	if err != nil || plan.Memory == nil || plan.Memory.KVBytes == nil || plan.Layout.PP > 1 {
		return
	}
	band := plan.Memory.KVBytes
	c.estimate("available_bytes", band.P10, band.P50, band.P90, size, "estimate for "+c.request.GPU)
}

// graphs compares the memory of captured graphs with its band.
func (c *comparison) graphs(plan *headcount.Report) {
	size, ok := c.seen.Size("graph_bytes")
	if !ok || plan.Memory == nil {
		return
	}
	if term := plan.Memory.Term("cuda_graphs"); term != nil {
		c.estimate("graph_bytes", term.P10, term.P50, term.P90, size, "distribution over public logs")
	}
}

// refusal compares why the engine did not start with the planned refusal.
func (c *comparison) refusal(plan *headcount.Report) {
	r, planned := c.seen.Refusal, plan.Error
	switch {
	case r == nil && planned == nil:
		return
	case r == nil:
		given := c.request.KVCacheMemory > 0 || c.request.NumGPUBlocksOverride > 0
		if c.seen.Started && planned.Code == problem.DoesNotFit && (!given || c.compared("tokens", "max_concurrency", "num_blocks")) {
			return // the capacity says it, or the pool was estimated
		}
		check := Check{Name: "refusal", Predicted: planned.Message, Observed: "started", How: "it was to be refused"}
		if fell := c.seen.Fell; fell != nil {
			check.Observed, check.How = "started, and fell over: "+fell.Message, ""
			check.Agrees = sameRefusal(fell.Kind, planned)
			check.Exact = check.Agrees
		}
		c.add(check)
		return
	case r.Kind == poolTooSmall && r.Needed != nil:
		c.tooSmall(plan, r)
		return
	}
	check := Check{Name: "refusal", Observed: r.Message}
	if planned != nil {
		check.Predicted = planned.Message
		check.Agrees = sameRefusal(r.Kind, planned)
	}
	check.Exact = check.Agrees
	c.add(check)
}

// compared reports whether there is a check of one of these names.
func (c *comparison) compared(names ...string) bool {
	return slices.ContainsFunc(c.report.Checks, func(check Check) bool { return slices.Contains(names, check.Name) })
}

// sameRefusal reports whether a planned refusal is of the observed kind.
func sameRefusal(kind string, planned *problem.Error) bool {
	switch kind {
	case noBlocks, poolTooSmall:
		return planned.Code == problem.DoesNotFit
	case notDivisible:
		return planned.Code == problem.NotDivisible
	case tooLong:
		return planned.Field == "max_model_len"
	case failed:
		return true
	}
	return planned.Code != problem.DoesNotFit && planned.RefusedBy != ""
}

// tooSmall compares the numbers of a refusal for want of cache. What one request needs does
// not depend on the pool; the estimated length does.
func (c *comparison) tooSmall(plan *headcount.Report, r *Refusal) {
	planned := plan.Error
	if planned == nil || planned.NeededBytes == 0 {
		var widest int64
		for i := range plan.Ranks {
			if per := plan.Ranks[i].BytesPerBlock; per != nil {
				widest = max(widest, *per)
			}
		}
		at := func(available int64) *problem.Error {
			again := c.request
			again.KVCacheMemory = available
			if p, err := c.plan(again); err == nil && p.Error != nil {
				return p.Error
			}
			return nil
		}
		planned = c.shortPool(at, r, widest)
	}
	if planned == nil || planned.Code != problem.DoesNotFit {
		check := Check{Name: "refusal", Observed: r.Message}
		if planned != nil {
			check.Predicted = planned.Message
		}
		c.add(check)
		return
	}
	c.within("needed_bytes", planned.NeededBytes, *r.Needed, "one request of the maximum length")
	if c.request.KVCacheMemory > 0 && r.Available != nil {
		c.within("usable_bytes", planned.AvailableBytes, *r.Available, "the pool less the block that it keeps back")
	}
	if n := r.EstimatedMaxModelLen; n != nil {
		c.exact("estimated_max_model_len", planned.EstimatedMaxModelLen, *n, "the longest request that fits")
	}
}

// shortPool plans pools of the size that the refusal printed, and is the planned refusal
// whose estimated length is the observed one, else that of the middle.
func (c *comparison) shortPool(at func(available int64) *problem.Error, r *Refusal, widest int64) *problem.Error {
	if r.Available == nil {
		return nil
	}
	middle := at(r.Available.Bytes + widest)
	if middle == nil || r.EstimatedMaxModelLen == nil || widest == 0 {
		return middle
	}
	for _, kept := range []int64{widest, 0} { // releases that keep a block back print what is left
		lo, hi := (r.Available.Least()+kept)/widest, (r.Available.Most()+kept)/widest
		for lo < hi {
			mid := lo + (hi-lo)/2
			if e := at(mid * widest); e == nil || e.EstimatedMaxModelLen >= *r.EstimatedMaxModelLen {
				hi = mid
			} else {
				lo = mid + 1
			}
		}
		if e := at(lo * widest); e != nil && e.EstimatedMaxModelLen == *r.EstimatedMaxModelLen {
			return e
		}
	}
	return middle
}
