package vllm

import (
	"math/bits"
	"slices"

	"headcount/dtype"
	"headcount/model"
	"headcount/problem"
)

// A layerCache is one cache of a distinct layer on a rank: what the layer asked of a
// backend, which one it got, and the spec that came of it.
type layerCache struct {
	layer int32 // index of the distinct layer
	cache *model.Cache
	want  want
	by    backend
	spec  spec
	known int32 // one more than where the spec stands among those of all stages, 0 before it is there
	none  bool  // no cache of its own: shared, or an encoder's attention

	before, after *model.Cache // the layer's caches beside it; nil: it is the first, or the last
}

// layerCaches picks a backend for each cache of each distinct layer, in the order in which
// the model builds them. Draft layers only count when there is a draft.
// They are put into room if they fit.
func (s *setup) layerCaches(room []layerCache) ([]layerCache, *problem.Error) {
	layers := s.v.layers
	if s.drafts == 0 && len(s.v.draft) > 0 {
		layers = s.targetLayers()
	}
	n := 0
	for _, l := range layers {
		n += len(l.Caches)
	}
	out := room
	if cap(out) < n {
		out = make([]layerCache, 0, n)
	}
	for i, l := range layers {
		for k := range l.Caches {
			c := &l.Caches[k]
			if c.Kind == model.None {
				continue
			}
			lc := layerCache{layer: int32(i), cache: c}
			if k > 0 {
				lc.before = &l.Caches[k-1]
			}
			if k+1 < len(l.Caches) {
				lc.after = &l.Caches[k+1]
			}
			if err := s.place(&lc); err != nil {
				return nil, err
			}
			out = append(out, lc)
			s.rewriteCacheDType(&lc)
		}
	}
	if s.v.v4() {
		s.cacheDType = "fp8_ds_mla"
	}
	return out, nil
}

// targetLayers are the distinct layers that are not the draft's alone. The draft's come
// last in the list.
func (s *setup) targetLayers() []*model.Layer {
	last := int32(-1)
	for _, r := range s.v.runs {
		last = max(last, r.layer)
	}
	return s.v.layers[:last+1]
}

// rewriteCacheDType is what building one layer does to the cache dtype of those after it:
// a sparse backend packs fp8 its own way.
func (s *setup) rewriteCacheDType(lc *layerCache) {
	if lc.by == flashMLASparse && quantised(s.cacheDType) && s.cacheDType != "nvfp4_ds_mla" ||
		lc.by == flashInferMLASparseSM120 && (s.cacheDType == "fp8" || s.cacheDType == "fp8_e4m3") {
		s.cacheDType = "fp8_ds_mla"
	}
	if lc.want.cache != "" {
		lc.want.cache = s.storedAs(lc.layer)
	}
}

// storedAs is the cache dtype as a layer sees it. Attention of a few classes is built without
// the cache's configuration (models/falcon.py, clip.py, modernbert.py, exaone_moe_mtp.py).
func (s *setup) storedAs(layer int32) string {
	v := s.v
	switch {
	case v.arch == "FalconForCausalLM", v.arch == "CLIPModel", v.model.TextType == "modernbert" && !v.transformers,
		v.model.Family == "exaone_moe" && int(layer) >= len(s.targetLayers()):
		return "auto"
	}
	return s.cacheDType
}

// diffKV tells whether the model class caches values of another width than keys; any other
// pads the values.
func (v *view) diffKV() bool {
	return len(v.kind) >= 7 && v.kind[:7] == "mimo_v2" || v.arch == "PanguProMoEV2ForCausalLM"
}

// place checks that the ranks divide a cache's heads and picks its backend.
func (s *setup) place(lc *layerCache) *problem.Error {
	c := lc.cache
	switch c.Kind {
	case model.Recurrent:
		lc.by = s.stateBackend(c.State.Mixer)
		return nil
	case model.Indexer:
		lc.by = indexerV32
		switch {
		case s.v.v41():
			lc.by = indexerV41
		case c.Ratio > 1 && s.v.v4():
			lc.by = indexerV4
		case c.Ratio > 1 && c.DType == dtype.BFloat16:
			lc.by = ringQwen4
			return nil
		case c.Ratio > 1 && c.DType != 0:
			lc.by = summaryStep5
			return nil
		case c.Ratio > 1:
			lc.by = indexerPool
		case c.DType != 0:
			lc.by = indexerM3
		}
		lc.want.cache, lc.want.pool = s.cacheDType, int64(c.Ratio)
		return nil
	case model.Ring:
		switch {
		case s.v.v4():
			lc.by = compressor
		case lc.before == nil:
			lc.by = ringQwen4
		case lc.before.DType != 0:
			lc.by = ringStep5
		default:
			lc.by = ringTail
		}
		return nil
	case model.Sliding:
		if c.Convolved() {
			lc.by = convInkling
			if s.dtype != c.DType {
				return s.onlyIn(c.DType)
			}
			if kv := int64(c.Attn.KVHeads); kv%int64(s.layout.TP) != 0 {
				return s.indivisible("num_key_value_heads", kv)
			}
			return nil
		}
	case model.SlidingLatent:
		if s.v.v4() {
			lc.by = sparseSWA
			if c.DType == dtype.Float32 { // tokens that wait to be compressed
				lc.by = compressor
				return nil
			}
			return s.checkV4()
		}
	case model.Latent:
		if s.v.v4() {
			lc.by = s.v.latentsV4()
			return s.checkV4()
		}
	}
	w, err := s.wants(lc)
	if err != nil {
		return err
	}
	if s.v.layerFP8 && s.cacheDType == "auto" && !w.mla { // a scheme for caches decides before the backend is chosen
		s.cacheDType = "fp8"
		w.cache = s.storedAs(lc.layer)
	}
	lc.want, lc.none = w, c.Kind == model.Shared || w.encoder
	if s.gpu.cpu && w.mla && !s.gpu.amx {
		w.block = 0 // overruled
	}
	if s.v.diffKV() && w.value != w.head && !w.mla {
		lc.by = tritonAttnDiffKV
		if v := s.gpu.flashVersion(&w, flashFor{head: w.head, value: w.value, sinks: w.sinks}); v == 3 || v == 4 {
			lc.by = flashAttnDiffKV
		}
		return s.checkFlash(lc)
	}
	if s.v.note() && c.Kind == model.SlidingLatent { // as the class has it (models/dots3_note)
		lc.by, lc.want.sparse = tritonMLA, false
		return s.checkNote()
	}
	if s.v.model.Family == "step5" { // as the classes have it, on any device (models/step5)
		lc.by = flashAttn
		if lc.after != nil {
			lc.by = sparseStep5
			return s.checkStep5(c)
		}
		return nil
	}
	if before := lc.before; before != nil && c.Kind != model.Latent {
		switch {
		case before.Kind == model.Indexer && before.Ratio > 0:
			lc.by = sparseQwen4
			if s.dtype != before.DType {
				return s.onlyIn(before.DType)
			}
			if s.layout.DCP > 1 {
				return problem.New(problem.Unsupported, "decode_context_parallel_size", s.layout.DCP, "Qwen4Exp QSA does not support context parallelism").
					WithHint("decode_context_parallel_size 1")
			}
			return nil
		case before.Kind == model.Indexer:
			lc.by = sparseM3
			return nil
		case before.Convolved(): // as the class has it, on any device (models/inkling)
			lc.by = flashAttn
			return nil
		}
	}
	if w.encoder { // whose attention does not ask for them (attention/encoder_only_attention.py)
		w.sinks, w.prefix = false, false
	}
	by, choice := s.gpu.choose(&w)
	if choice != nil {
		return choice
	}
	lc.by = by
	if s.v.note() { // whatever was chosen
		lc.by = paddedMLASparse
		if quantised(w.cache) {
			return problem.New(problem.Unsupported, "kv_cache_dtype", w.cache, "FlashAttnMLASparseImpl currently supports only FP16/BF16 KV cache.").
				WithHint("kv_cache_dtype auto")
		}
		return s.checkNote()
	}
	if s.v.latentSink && s.gpu.takes(flashMLASparse, &w) { // the one kernel of latents that applies them (models/hy_v4)
		lc.by = flashMLASparse
	}
	if w.mla && !w.sparse && !s.gpu.cpu {
		if err := s.checkPrefill(); err != nil {
			return err
		}
	}
	if lc.by == flashMLASparse && w.dcp > 1 && !quantised(w.cache) {
		return problem.New(problem.Unsupported, "decode_context_parallel_size", w.dcp,
			"DCP for FlashMLA sparse requires an fp8_ds_mla kv-cache; the bf16 sparse path is not supported under DCP.").
			WithHint("kv_cache_dtype fp8, or decode_context_parallel_size 1")
	}
	return s.checkFlash(lc)
}

// prefillDims are the widths of expanded latents that a kernel for prefills takes: of a key
// without and with position, and of a value (v1/attention/backends/mla/prefill).
var prefillDims = [][3]int64{{128, 64, 128}, {192, 64, 256}, {64, 64, 128}, {256, 0, 256}}

// checkPrefill refuses latents that no kernel can prefill.
func (s *setup) checkPrefill() *problem.Error {
	v := s.v
	if slices.Contains(prefillDims, [3]int64{v.nope, v.rope, v.value}) {
		return nil
	}
	return problem.New(problem.Unsupported, v.field("qk_nope_head_dim"), v.nope,
		"No valid MLA prefill backend found: none takes keys of %d + %d and values of %d", v.nope, v.rope, v.value)
}

// checkFlash refuses sinks and a quantised cache that FlashAttention, once chosen, finds that
// it cannot read in this layer (FlashAttentionImpl).
func (s *setup) checkFlash(lc *layerCache) *problem.Error {
	switch lc.by {
	case flashAttn, flashAttnDiffKV, tritonFlashAttn:
	default:
		return nil
	}
	w := &lc.want
	if w.sinks && s.gpu.flashVersion(w, flashFor{}) < 3 {
		return problem.New(problem.Unsupported, "", nil, "Sinks are only supported in FlashAttention 3, which compute capability %d.%d does not run", s.gpu.major, s.gpu.minor)
	}
	if !quantised(w.cache) || s.gpu.flashStoresFP8(w, flashFor{head: w.head, value: w.head, sinks: w.sinks, alibi: s.v.alibi, hd256: true}) {
		return nil
	}
	return problem.New(problem.Unsupported, "kv_cache_dtype", w.cache, "FlashAttention does not support %s kv-cache on this device.", w.cache).
		WithHint("kv_cache_dtype auto")
}

// checkV4 refuses a cache dtype that DeepSeek-V4's packing is not.
func (s *setup) checkV4() *problem.Error {
	if s.v.v41() && s.gpu.major != 9 {
		return problem.New(problem.NotKnown, "", nil, "the records of DeepSeek-V4.1 on compute capability %d.%d are not known", s.gpu.major, s.gpu.minor)
	}
	if c := s.cacheDType; c != "auto" && modeOf(c) != fp8Tensor {
		return problem.New(problem.Unsupported, "kv_cache_dtype", c, "DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache").
			WithHint("kv_cache_dtype fp8")
	}
	return nil
}

// note tells that latents have rows as wide as those of sliding layers, whose sizes are their
// own (models/dots3_note).
func (v *view) note() bool { return v.model.Family == "dots3_note" }

// checkNote refuses devices that Dots3's kernels are not written for.
func (s *setup) checkNote() *problem.Error {
	if s.gpu.major == 9 {
		return nil
	}
	return problem.New(problem.NotKnown, "", nil, "the kernels of Dots3 NOTE are Hopper's; what compute capability %d.%d makes of them is not known", s.gpu.major, s.gpu.minor)
}

// onlyIn refuses a dtype other than the one that a cache is kept in.
func (s *setup) onlyIn(t dtype.Type) *problem.Error {
	return problem.New(problem.Unsupported, "dtype", s.dtype, "a cache of the model supports %s only", t).WithHint("--dtype %s", t)
}

// checkStep5 refuses what Step-5's kernels do not take.
func (s *setup) checkStep5(c *model.Cache) *problem.Error {
	per := int64(c.Attn.QueryHeads / max(c.Attn.KVHeads, 1))
	if tp := int64(s.layout.TP); tp > int64(c.Attn.KVHeads) {
		per = int64(c.Attn.QueryHeads) / tp
	}
	switch {
	case s.gpu.major != 9 && (s.gpu.major != 10 || s.gpu.minor != 0 && s.gpu.minor != 3):
		return problem.New(problem.Unsupported, "", nil, "Step5 DSA requires SM90, SM100 or SM103, not compute capability %d.%d", s.gpu.major, s.gpu.minor)
	case c.Attn.KeyDim != 192:
		return problem.New(problem.Unsupported, s.v.field("head_dim"), c.Attn.KeyDim, "Step5 DSA kernels require head_size 192")
	case per != 4 && per != 8 && per != 16:
		return problem.New(problem.Unsupported, s.v.field("num_attention_heads"), c.Attn.QueryHeads, "Step5 DSA kernels require 4, 8, or 16 local query heads per KV group, got %d", per)
	}
	return nil
}

// stateBackend is the backend of a layer that keeps a state.
func (s *setup) stateBackend(m model.Mixer) backend {
	switch m {
	case model.Mamba1:
		return mamba1Attn
	case model.Mamba2:
		return mamba2Attn
	case model.ShortConv:
		return shortConvAttn
	case model.LinearAttention:
		return linearAttn
	case model.KDA:
		if s.v.kimiK3() {
			return kdaK3
		}
	}
	return gdnAttn
}

// kimiK3 tells whether delta attention is Kimi K3's own, which its gate decides, in Kimi Linear
// as well (models/kimi_k3).
func (v *view) kimiK3() bool {
	if v.model.Family != "kimi_linear" {
		return false
	}
	gate, _ := v.model.Config.Object("linear_attn_config").Get("use_full_rank_gate")
	full, _ := gate.Bool()
	return full
}

// wants is what an attention layer asks of a backend on one rank.
func (s *setup) wants(lc *layerCache) (want, *problem.Error) {
	v, c := s.v, lc.cache
	g := c.Attn
	latent := c.Kind == model.Latent || c.Kind == model.SlidingLatent
	if latent && !v.mla {
		g, latent = c.Expanded, false
		if s.rules.expands {
			g.KeyDim = max(g.KeyDim, 256) // the next size that FlashAttention took
		}
		g.ValueDim = g.KeyDim // the narrower values are padded
	}
	tp := int64(s.layout.TP)
	w := want{
		head: int64(g.KeyDim), value: int64(g.ValueDim), dtype: s.dtype, cache: s.storedAs(lc.layer), block: int64(s.opt.BlockSize),
		queries: int64(g.QueryHeads) / tp, kv: 1, mla: latent, sparse: latent && v.sparse,
		prefix: v.prefix && !latent, headScales: v.headScales && !latent,
		encoder: c.Kind == model.EncoderOnly || v.bidirectional && c.Kind != model.Cross, cross: c.Kind == model.Cross, dcp: int64(s.layout.DCP),
		modelHead: v.head, softcap: v.softcap, fa4: v.fa4 && !s.perLayerFlash(), triton: v.triton || v.fa4 && !s.gpu.hasFA4(),
		nope: v.nope, rope: v.rope, rank: v.rank, topK: v.topK,
	}
	switch v.sinks {
	case allSinks:
		w.sinks = true
	case windowSinks:
		w.sinks = c.Kind == model.Sliding
	case fullSinks:
		w.sinks = c.Kind == model.Full
	}
	if int64(g.QueryHeads)%tp != 0 {
		return w, s.indivisible("num_attention_heads", int64(g.QueryHeads))
	}
	if latent {
		return w, nil
	}
	kv, err := s.kvHeads(int64(g.KVHeads))
	w.kv = kv
	if err == nil && (kv == 0 || w.queries%kv != 0) {
		err = problem.New(problem.NotDivisible, v.field("num_key_value_heads"), g.KVHeads, "num_heads (%d) is not divisible by num_kv_heads (%d)", w.queries, kv)
	}
	if !v.diffKV() {
		w.value = w.head
	}
	return w, err
}

// oneOwner are the families whose classes do not replicate a KV head (models/gpt_oss.py,
// openai_privacy_filter.py, openpangu.py).
var oneOwner = []string{"gpt_oss", "openai_privacy_filter", "pangu_pro_moe"}

// kvHeads is how many of a layer's KV heads a rank holds: a share, or one that other ranks
// hold as well (linear.py, QKVParallelLinear).
func (s *setup) kvHeads(heads int64) (int64, *problem.Error) {
	tp := int64(s.layout.TP)
	switch {
	case heads <= 0:
		return 0, problem.New(problem.BadValue, s.v.field("num_key_value_heads"), heads, "no KV heads")
	case heads%tp == 0:
		return heads / tp, nil
	case tp%heads != 0 || slices.Contains(oneOwner, s.v.model.Family):
		return 0, s.indivisible("num_key_value_heads", heads)
	}
	return 1, nil
}

func (s *setup) indivisible(key string, n int64) *problem.Error {
	return problem.New(problem.NotDivisible, s.v.field(key), n, "not divisible by tensor parallel size %d", s.layout.TP)
}

// specs fills the spec of each cache for the block sizes in force.
func (s *setup) specs(caches []layerCache) *problem.Error {
	for i := range caches {
		lc := &caches[i]
		if lc.none {
			continue
		}
		lc.known = 0
		stored := s.storedAs(lc.layer)
		lc.spec = spec{TokensPerState: 1, StatesPerToken: 1, BlockSize: s.block, DType: s.cacheType(stored), Quant: modeOf(stored)}
		err := s.fill(lc)
		if lc.by == ringStep5 && i >= 2 {
			err = s.fillRingStep5(lc, &caches[i-2].spec)
		}
		if err == nil {
			err = lc.spec.check()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fill derives one spec (get_kv_cache_spec of each layer class).
func (s *setup) fill(lc *layerCache) *problem.Error {
	c, w, sp := lc.cache, &lc.want, &lc.spec
	sp.KeyDim, sp.HeadSlots, sp.KVHeads = int64(c.Attn.KeyDim), 1, 1
	switch lc.by {
	case indexerV32, indexerV4, indexerV41, indexerPool:
		s.fillIndexer(lc)
		return nil
	case ringTail:
		return s.fillRing(lc)
	case ringStep5:
		return nil
	case ringQwen4:
		s.fillQwen4(lc)
		return nil
	case summaryStep5:
		sp.Class, sp.Quant, sp.DType, sp.TokensPerState = fullAttention, plain, c.DType, int64(c.Ratio)
		sp.Content = sp.KeyDim * sp.DType.Bytes()
		return nil
	case indexerM3:
		sp.Class, sp.Quant, sp.DType, sp.Indexer, sp.Content = mlaAttention, plain, c.DType, true, sp.KeyDim*c.DType.Bytes()
		s.gpu.pack(lc.by, sp, w)
		return nil
	case sparseSWA, compressor, flashMLASparseV4, flashMLASparseV41:
		s.fillV4(lc)
		return nil
	case convInkling: // a head's share in a power of two, so that pages are multiples of each other
		sp.Class, sp.Quant, sp.DType = slidingWindow, plain, c.DType
		sp.Window, sp.BlockSize, sp.Retained = int64(c.Window), int64(c.Window), s.retained()
		sp.KVHeads = int64(c.Attn.KVHeads / s.layout.TP)
		sp.HeadSlots, sp.KeyDim = sp.KVHeads, 1<<bits.Len64(uint64(sp.KeyDim-1))
		sp.Content = sp.KeyDim * sp.DType.Bytes()
		return nil
	}
	if lc.by.recurrent() {
		return s.fillState(lc)
	}
	if w.mla {
		sp.Class, sp.TPShards, sp.CacheDType = mlaAttention, 1, s.cacheDType
		if lc.by == paddedMLASparse {
			rank, _ := s.v.model.Config.Int("swa_kv_lora_rank")
			rope, _ := s.v.model.Config.Int("swa_qk_rope_head_dim")
			sp.KeyDim = rank + rope
		}
		sp.Content = sp.KeyDim * sp.DType.Bytes()
		switch s.cacheDType {
		case "fp8_ds_mla":
			sp.Content = 656
		case "nvfp4_ds_mla":
			sp.Content = 352
		}
		if c.Kind == model.SlidingLatent {
			sp.Class, sp.Window, sp.Retained = slidingMLA, int64(c.Window), s.retained()
		}
		if w.sparse {
			sp.TopK = w.topK
		}
	} else {
		sp.KVHeads, sp.HeadSlots, sp.KeyDim, sp.ValueDim = w.kv, w.kv, w.head, w.value
		sp.Content = (w.head + w.value) * sp.DType.Bytes()
		s.classify(lc)
	}
	s.gpu.pack(lc.by, sp, w)
	return nil
}

// classify gives an attention layer its class: what it keeps.
func (s *setup) classify(lc *layerCache) {
	c, sp := lc.cache, &lc.spec
	window := int64(0)
	switch {
	case c.Kind == model.Cross:
		sp.Class = crossAttention
		return
	case c.Kind == model.Chunked:
		sp.Class, sp.Chunk = chunkedLocal, int64(c.Window)
		return
	case !s.v.windowed(lc):
	case c.Kind == model.Sliding && !s.v.uniform():
		window = int64(c.Window)
	case c.Kind == model.Sliding, c.Kind == model.Full, c.Kind == model.Latent && !s.v.mla:
		window = s.v.windowOnly
	}
	if window == 0 {
		sp.Class = fullAttention
		if c.Sinks > 0 {
			sp.Class, sp.SinkLen = sinkAttention, int64(c.Sinks)
		}
		return
	}
	sp.Class, sp.Window, sp.Retained = slidingWindow, window, s.retained()
	if lc.before == nil || !lc.before.Convolved() { // whose class takes the cache's (models/inkling)
		sp.BlockSize = s.windowBlock(lc)
	}
}

// windowBlock is the block size of a sliding window: the largest of its kernel's whose page
// is no larger than a block of the others would take (_largest_kernel_block_within).
func (s *setup) windowBlock(lc *layerCache) int64 {
	sizes := s.gpu.kernelBlocks(lc.by, &lc.want, lc.spec.KeyDim, lc.spec.ValueDim)
	if sizes.multiple > 0 {
		return max(s.block/sizes.multiple*sizes.multiple, sizes.multiple)
	}
	best := slices.Min(sizes.exact)
	for _, n := range sizes.exact {
		if n <= s.block {
			best = max(best, n)
		}
	}
	return best
}

// fillIndexer is the cache of a sparse indexer's keys: a byte an element and a float32
// scale for each 128, whatever the cache dtype.
func (s *setup) fillIndexer(lc *layerCache) {
	sp := &lc.spec
	sp.Class, sp.Quant, sp.DType, sp.Indexer = mlaAttention, plain, dtype.UInt8, true
	if lc.by != indexerV41 { // which does not say
		sp.TPShards = 1
	}
	sp.KeyDim += sp.KeyDim / 128 * 4
	sp.Content = sp.KeyDim
	switch lc.by {
	case indexerV4, indexerV41:
		sp.TokensPerState, sp.Alignment = int64(lc.cache.Ratio), v4Row
		sp.pad()
	case indexerPool:
		sp.TokensPerState = int64(lc.cache.Ratio)
	}
	sp.StrideTokens = slices.Max(s.gpu.kernelBlocks(lc.by, &lc.want, 0, 0).exact)
}

// fillQwen4 is a cache of Qwen4-Exp's index: the keys of complete runs, or a ring of whole
// runs for those of the last one and of drafts (models/qwen4_exp/common/qsa_cache.py). The
// ring keeps three positions beside a key where pictures have some.
func (s *setup) fillQwen4(lc *layerCache) {
	const positions = 3 * 8 / 2 // three int64, in elements of two bytes
	c, sp := lc.cache, &lc.spec
	sp.Class, sp.Quant, sp.DType, sp.TokensPerState = mlaAttention, plain, c.DType, int64(c.Ratio)
	if c.Kind == model.Ring {
		sp.Class, sp.TokensPerState, sp.BlockSize = circularBuffer, 1, up(int64(c.Ratio)+s.drafts, int64(c.Ratio))
		if s.v.mrope() {
			sp.KeyDim = up(sp.KeyDim, 4) + positions
		}
	}
	sp.Content = sp.KeyDim * sp.DType.Bytes()
}

// fillRingStep5 is the cache of the region of tokens that has no summary yet, in a page of the
// layer's keys and values (models/step5/nvidia/csa_tail_ring.py).
func (s *setup) fillRingStep5(lc *layerCache, main *spec) *problem.Error {
	const row = 1024 // bytes of a token
	sp, page := &lc.spec, main.page()
	sp.Class, sp.Quant, sp.DType, sp.BlockSize, sp.StrideBytes = circularBuffer, plain, lc.cache.DType, main.BlockSize, row
	sp.Content = page / main.BlockSize
	sp.KeyDim = sp.Content / sp.DType.Bytes()
	if needs := int64(lc.cache.Ratio) - 1 + s.drafts; page%row != 0 || page/row < needs {
		return problem.New(problem.Unsupported, "block_size", s.block, "Step5 CSA tail ring needs %d rows of %d bytes in one %d-byte KV page", needs, int64(row), page).
			WithHint("increase --block-size")
	}
	return nil
}

// fillRing is the cache of the run of tokens that an indexer does not yet pool: runs enough,
// a power of two of them, for one and the drafts behind it (models/glm5next).
func (s *setup) fillRing(lc *layerCache) *problem.Error {
	c, sp := lc.cache, &lc.spec
	run := int64(c.Ratio)
	runs := int64(1) << bits.Len64(uint64(ceil(run+s.drafts, run)-1))
	sp.Class, sp.Quant, sp.DType, sp.Replicated, sp.BlockSize = circularBuffer, plain, c.DType, true, run*runs
	sp.KVHeads, sp.HeadSlots = int64(c.Attn.KVHeads), int64(c.Attn.KVHeads)
	sp.Content = sp.KeyDim * sp.DType.Bytes()
	if s.block%sp.BlockSize != 0 {
		return problem.New(problem.Unsupported, "block_size", s.block, "not a multiple of the ring of %d tokens that are not yet pooled", sp.BlockSize)
	}
	return nil
}

// DeepSeek-V4's packing: a token's latent with its scales, and what pages are rounded up to.
const (
	v4Token = 584 // bytes: 448 of fp8 without position, 128 of bfloat16 with it, 8 of scales
	v4Row   = 576 // bytes
	v4SWA   = 64  // tokens of a block of the windowed latents
	v41SWA  = 32  // the same of DeepSeek-V4.1
)

// fillV4 is a cache of DeepSeek-V4 (models/deepseek_v4): compressed latents, windowed ones,
// and the running state of a compressor, which keeps a window of its own.
func (s *setup) fillV4(lc *layerCache) {
	c, sp := lc.cache, &lc.spec
	sp.TPShards, sp.Alignment, sp.Content = 1, v4Row, v4Token
	sp.DType, sp.Quant = dtype.UInt8, fp8Tensor
	switch lc.by {
	case flashMLASparseV4:
		sp.Class, sp.CacheDType, sp.V4 = mlaAttention, s.cacheDType, true
		sp.TokensPerState, sp.StrideTokens = max(int64(c.Ratio), 1), only256.exact[0]
		lc.none = c.Ratio <= 1
	case flashMLASparseV41:
		sp.Class, sp.CacheDType, sp.V4 = mlaAttention, s.cacheDType, true
		sp.TokensPerState, sp.StrideTokens, sp.TPShards = int64(c.Ratio), only64.exact[0], 0
	case sparseSWA:
		sp.Class, sp.CacheDType, sp.V4 = slidingMLA, s.cacheDType, true
		sp.BlockSize, sp.Window, sp.Retained = v4SWA, int64(c.Window), s.retained()
		if s.v.v41() {
			sp.BlockSize, sp.Replay = v41SWA, true
		}
	case compressor:
		if c.Kind == model.Ring { // drafts, the token after them and the one before, a power of two of them
			rows := int64(1) << bits.Len64(uint64(s.drafts+1))
			*sp = spec{Class: circularBuffer, TokensPerState: 1, StatesPerToken: 1, HeadSlots: 1, KVHeads: 1,
				KeyDim: sp.KeyDim, DType: c.DType, Content: sp.KeyDim * c.DType.Bytes(), BlockSize: max(8, rows)}
			return
		}
		sp.Class, sp.DType, sp.Quant = slidingMLA, dtype.Float32, plain
		sp.Content, sp.Window, sp.Retained = sp.KeyDim*4, int64(c.Window), s.retained()
		sp.BlockSize = 8
		if c.Window < 128 { // runs of 4 tokens
			sp.BlockSize = 4
		}
	}
	sp.pad()
}

// fillState is the state of a recurrent layer (layers/mamba/mamba_utils.py).
func (s *setup) fillState(lc *layerCache) *problem.Error {
	sp := &lc.spec
	*sp = spec{Class: mambaState, TokensPerState: 1, StatesPerToken: 1, HeadSlots: 1,
		BlockSize: s.stateBlock, Padded: s.statePadded, SpecBlocks: s.drafts}
	states, bytes, err := s.states(&lc.cache.State)
	if err != nil {
		return err
	}
	sp.States, sp.Content = states, bytes
	sp.CheckpointBlocks, sp.CheckpointAlign = s.checkpoints(&lc.cache.State)
	if sp.Padded != 0 && sp.Padded < bytes {
		return problem.New(problem.Unsupported, "block_size", s.block, "a page of %d bytes is smaller than a layer's state of %d", sp.Padded, bytes)
	}
	return nil
}

// backendNames lists the distinct backends of all layers in order, as the engine logs them.
func (s *setup) backendNames(caches []layerCache, from []int32) []string {
	var found []backend
	see := func(by backend) {
		if !slices.Contains(found, by) {
			found = append(found, by)
		}
	}
	add := func(runs []layerRun) {
		for _, r := range runs {
			for i := from[r.layer]; i < from[r.layer+1]; i++ {
				by := caches[i].by
				if by == sparseSWA && s.v.v41() {
					see(flashMLASparseV41)
				}
				see(by)
				if by == sparseSWA {
					see(s.v.latentsV4())
				}
			}
		}
	}
	add(s.v.runs)
	if s.drafts > 0 {
		add(s.v.draft)
	}
	if len(found) == 1 {
		return backendNames[found[0] : found[0]+1 : found[0]+1]
	}
	names := make([]string, len(found))
	for i, b := range found {
		names[i] = b.String()
	}
	return names
}

// rings are the backends whose rings, summaries or smaller pages lie beside a layer's keys in
// each block.
var rings = []backend{ringTail, sparseStep5, ringQwen4, paddedMLASparse}

// agreeOnRings refuses stages of which some have layers with a ring and others have not: each
// worker supports other layouts of memory (v1/attention/backends/utils.py).
func (p *plan) agreeOnRings() *problem.Error {
	if len(p.spans) == 1 || !slices.ContainsFunc(p.caches, func(lc layerCache) bool { return slices.Contains(rings, lc.by) }) {
		return nil
	}
	with := 0
	for stage := range p.spans {
		found, _ := p.backendsOn(stage)
		if slices.ContainsFunc(found, func(b backend) bool { return slices.Contains(rings, b) }) {
			with++
		}
	}
	if with == 0 || with == len(p.spans) {
		return nil
	}
	return problem.New(problem.IllegalLayout, "pipeline_parallel_size", len(p.spans), "Workers disagree on supported KV cache layouts: %d of %d stages have layers with a ring", with, len(p.spans)).
		WithHint("a smaller pipeline_parallel_size")
}

// blockOuter tells whether blocks lie outside of layers in memory
// (v1/attention/backends/utils.py, resolve_kv_cache_layout): only DeepSeek-V4's indexer
// and rings ask for it. Backends that ask for what excludes each other are refused.
func (s *setup) blockOuter(caches []layerCache) (bool, *problem.Error) {
	var outer, headMajor, tokenMajor bool
	for i := range caches {
		switch by := caches[i].by; by {
		case indexerV4, indexerV41, ringTail, sparseStep5, ringQwen4, paddedMLASparse:
			outer = true
		case flashInfer, tritonFlashInfer:
			headMajor = headMajor || s.gpu.major == 10
		case flexAttention, turboQuant:
			tokenMajor = true
		}
	}
	if tokenMajor && (headMajor || outer) {
		return false, problem.New(problem.Unsupported, "head_dim", nil, "No KV cache layout satisfies every supported set: layers of different head sizes need different layouts")
	}
	return outer, nil
}
