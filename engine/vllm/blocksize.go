package vllm

import (
	"slices"
	"strings"

	"headcount/problem"
)

// chooseBlock settles the block size of a stage once its layers have their backends, found
// (platforms/interface.py, update_block_size_for_backend).
func (s *setup) chooseBlock(found []backend, w *want) *problem.Error {
	if len(found) == 0 {
		return nil
	}
	if s.opt.BlockSize == 0 || found[0] == cpuMLA {
		n, err := s.preferredBlock(found, w)
		if err != nil {
			return err
		}
		s.block = n
	}
	before := s.block
	if s.v.hybrid {
		if err := s.alignBlock(found, w); err != nil {
			return err
		}
	}
	if s.block == before {
		return nil
	}
	for _, b := range found {
		if !s.gpu.kernelBlocks(b, w, w.modelHead, 0).divide(b, s.block) {
			return problem.New(problem.Unsupported, "block_size", s.block, "Aligned KV cache block size %d is not supported by attention backend(s): %s.", s.block, b)
		}
	}
	return nil
}

// modelWant is the whole model seen as one layer, for block sizes that look at its totals.
func (s *setup) modelWant() want {
	v, tp := s.v, int64(s.layout.TP)
	return want{dtype: s.dtype, cache: s.cacheDType, modelHead: v.head, queries: v.queries / tp, kv: max(1, v.kv/tp),
		dcp: int64(s.layout.DCP), softcap: v.softcap, prefix: v.prefix, fa4: v.fa4 && !s.perLayerFlash(), pool: v.pool}
}

// perLayerFlash tells that layers of different head sizes get a FlashAttention each: an
// fp8 cache on Hopper.
func (s *setup) perLayerFlash() bool { return s.gpu.major == 9 && modeOf(s.cacheDType) == fp8Tensor }

// preferredBlock is the default if every backend takes it, else the smallest common size.
func (s *setup) preferredBlock(found []backend, w *want) (int64, *problem.Error) {
	def := s.rules.block(s.gpu)
	if !s.rules.backendBlocks {
		return s.rules.platformBlock(s.gpu, s.v.mla, s.v.sparse), nil
	}
	sizes := func(b backend) blocks { return s.gpu.kernelBlocks(b, w, w.modelHead, 0) }
	if len(found) == 1 {
		switch b := found[0]; {
		case b == sparseSWA:
			return 256, nil
		case b == flashAttn || b == flashAttnDiffKV:
			if k := sizes(b); k.multiple == 0 {
				return max(def, k.exact[0]), nil
			}
			return def, nil
		case sizes(b).divide(b, def):
			return def, nil
		default:
			return sizes(b).least(), nil
		}
	}
	all := func(n int64) bool {
		return !slices.ContainsFunc(found, func(b backend) bool { return !sizes(b).divide(b, n) })
	}
	if all(def) {
		return def, nil
	}
	candidates := []int64{1}
	for _, b := range found {
		k := sizes(b)
		if k.multiple > 0 {
			k.exact = []int64{k.multiple}
		}
		var next []int64
		for _, have := range candidates {
			for _, n := range k.exact {
				if m := lcm(have, n); !slices.Contains(next, m) {
					next = append(next, m)
				}
			}
		}
		candidates = next
	}
	slices.Sort(candidates)
	for _, n := range candidates {
		if all(n) {
			return n, nil
		}
	}
	var names []string
	for _, b := range found {
		names = append(names, b.String())
	}
	return 0, problem.New(problem.Unsupported, "block_size", nil, "The attention backends share no supported KV cache block size (%s).", strings.Join(names, ", "))
}

// streamState is the state of a convolution over the streams of Qwen4-Exp, which every rank
// holds whole; the class counts it whether layers have one or not (models/qwen4_exp,
// get_mamba_specs_from_config).
func (s *setup) streamState() int64 {
	if s.v.model.Family != "qwen4_exp" {
		return 0
	}
	c := s.v.model.Config
	number := func(key string, def int64) int64 {
		if n, ok := c.Int(key); ok && n > 0 && n <= maxHeadDim {
			return n
		}
		return def
	}
	width, ok := mul(int64(s.v.model.HiddenSize), number("hc_count", 1))
	rows := (number("ple_conv_kernel_size", 4)-1)*number("ngram_size", 3) + s.drafts
	n, fits := mul(rows, width)
	if !ok || !fits || n > maxPage {
		return 0
	}
	return n * s.stateType(s.convDType, s.dtype).Bytes()
}

// alignBlock makes the attention page at least as large as the state's, and pads the state
// to it (_align_hybrid_block_size). Whole-model totals decide, so it changes with tensor
// parallelism.
func (s *setup) alignBlock(found []backend, w *want) *problem.Error {
	token := spec{Class: fullAttention, BlockSize: 1, TokensPerState: 1, StatesPerToken: 1,
		DType: s.cacheType(s.cacheDType), Quant: modeOf(s.cacheDType), KeyDim: s.v.head}
	if s.v.mla {
		token.Class, token.HeadSlots, token.Content = mlaAttention, 1, s.v.head*token.DType.Bytes()
	} else {
		token.KVHeads = max(1, s.v.kv/int64(s.layout.TP))
		token.HeadSlots, token.ValueDim, token.Content = token.KVHeads, s.v.head, 2*s.v.head*token.DType.Bytes()
		s.gpu.pack(found[0], &token, w)
	}
	perToken := token.unpadded()
	state := int64(0)
	s.blockWanted = s.block
	for i := range s.v.states {
		_, n, err := s.states(&s.v.states[i])
		if err != nil {
			return err
		}
		state = max(state, n)
	}
	state = max(state, s.streamState())
	if s.stateBytes = state; state == 0 {
		return nil
	}
	if perToken <= 0 {
		return problem.New(problem.Unsupported, s.v.field("num_key_value_heads"), s.v.kv, "no attention page to align states of %d bytes with", state)
	}
	step := max(s.gpu.kernelBlocks(found[0], w, w.modelHead, 0).least(), s.block)
	common := int64(1)
	for _, b := range found {
		common = lcm(common, s.gpu.kernelBlocks(b, w, w.modelHead, 0).least())
	}
	if s.v.mla && s.rules.latentGrid {
		step = max(step, 128)
	}
	if s.align && s.keeps { // a stage without states leaves no checkpoints
		step = lcm(step, s.checkpointGrid())
	}
	size, ok := mul(step, perToken)
	if !ok || step == 0 || common == 0 {
		return problem.New(problem.BadValue, "block_size", s.block, "too large to align with states of %d bytes", state)
	}
	s.block = max(s.block, up(step*ceil(state, size), common))
	if s.align {
		s.stateBlock = s.block
	}
	page, ok := mul(s.block, perToken)
	if !ok || page > maxPage {
		return problem.New(problem.BadValue, "block_size", s.block, "a page of more than %d bytes", int64(maxPage))
	}
	if page != state {
		s.statePadded = page
	}
	return nil
}
