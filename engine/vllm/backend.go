package vllm

import (
	"slices"
	"strings"

	"headcount/dtype"
	"headcount/problem"
)

// A backend is one of the engine's attention backends (v1/attention/backends). It decides
// which block sizes a kernel takes and how a cache is packed.
type backend uint8

const (
	noBackend backend = iota
	flashAttn
	flashInfer
	tritonAttn
	flexAttention
	turboQuant
	tritonFlashAttn  // Triton where an image is attended to whole, FlashAttention elsewhere
	tritonFlashInfer // the same with FlashInfer
	flashAttnDiffKV
	tritonAttnDiffKV
	flashAttnMLA
	flashMLA
	flashInferMLA
	tritonMLA
	cutlassMLA
	tokenSpeedMLA
	flashAttnMLASparse
	flashAttnMLASparseFA4
	paddedMLASparse
	flashMLASparse
	flashInferMLASparse
	flashInferMLASparseSM90
	flashInferMLASparseSM120
	indexerV32
	indexerV4
	indexerV41
	indexerM3
	indexerPool
	ringTail
	sparseStep5
	summaryStep5
	ringStep5
	ringQwen4
	sparseQwen4
	sparseM3
	convInkling
	sparseSWA
	flashMLASparseV4
	flashMLASparseV41
	compressor
	cpuAttn
	cpuMLA
	amxMLA
	mamba1Attn
	mamba2Attn
	gdnAttn
	kdaK3
	shortConvAttn
	linearAttn
)

var backendNames = [...]string{"", "FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION", "TURBOQUANT",
	"TRITON_FLASH_ATTN", "TRITON_FLASHINFER", "FLASH_ATTN_DIFFKV", "TRITON_ATTN_DIFFKV", "FLASH_ATTN_MLA", "FLASHMLA",
	"FLASHINFER_MLA", "TRITON_MLA", "CUTLASS_MLA", "TOKENSPEED_MLA", "FLASH_ATTN_MLA_SPARSE", "FLASH_ATTN_MLA_SPARSE_FA4", "DOTS3_NOTE_PADDED_MLA_SPARSE",
	"FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM90", "FLASHINFER_MLA_SPARSE_SM120",
	"DEEPSEEK_V32_INDEXER", "DEEPSEEK_V4_INDEXER", "DEEPSEEK_V41_INDEXER", "MINIMAX_M3_SPARSE_INDEXER", "DEEPSEEK_V32_INDEXER", "KPOOL_TAIL", "STEP5_DSA", "STEP5_CSA_SUMMARY", "STEP5_CSA_TAIL_RING", "QWEN4_EXP_EXP_QSA_STATE", "QWEN4_EXP_QSA_TRITON", "MINIMAX_M3_SPARSE", "INKLING_SCONV_SWA", "DEEPSEEK_SPARSE_SWA", "FLASHMLA_SPARSE_DSV4", "FLASHMLA_SPARSE_DSV41", "CompressorBackend",
	"CPU_ATTN", "CPU_MLA", "AMX_MLA", "MAMBA1_ATTN", "MAMBA2_ATTN", "GDN_ATTN", "KIMI_K3_KDA", "SHORT_CONV_ATTN", "LINEAR_ATTN"}

// String is the engine's name.
func (b backend) String() string { return backendNames[b] }

// recurrent tells whether the backend serves layers that keep a state.
func (b backend) recurrent() bool { return b >= mamba1Attn }

// A want is what one layer asks of a backend, and what else the choice looks at
// (v1/attention/selector.py, AttentionSelectorConfig).
type want struct {
	head, value int64 // elements of a key and of a value
	dtype       dtype.Type
	cache       string // kv_cache_dtype
	block       int64  // --block-size; 0: the engine chooses
	queries     int64  // query heads on a rank
	kv          int64  // KV heads on a rank
	mla, sparse bool
	sinks       bool
	prefix      bool // images are attended to in both directions
	headScales  bool // scales per KV head
	encoder     bool // an encoder's own attention, which caches nothing
	cross       bool // a decoder's attention to an encoder
	dcp         int64

	// Of the whole model.
	modelHead  int64 // head size
	softcap    bool  // logits are capped
	fa4        bool  // asks for FlashAttention 4 in all layers
	triton     bool  // asks for Triton in all layers
	nope, rope int64 // qk_nope_head_dim, qk_rope_head_dim
	rank, topK int64 // kv_lora_rank, index_topk
	pool       int64 // tokens that an indexer pools to one key
}

// quantised tells whether a cache dtype packs its numbers.
func quantised(cache string) bool { return modeOf(cache) != plain }

// modeOf is the packing of a kv_cache_dtype (get_kv_quant_mode).
func modeOf(cache string) quantMode {
	switch {
	case cache == "int4_per_token_head":
		return int4TokenHead
	case cache == "int8_per_token_head":
		return int8TokenHead
	case cache == "fp8_per_token_head":
		return fp8TokenHead
	case cache == "nvfp4_ds_mla":
		return nvfp4Latent
	case strings.HasPrefix(cache, "nvfp4"):
		return nvfp4
	case strings.HasPrefix(cache, "fp8"):
		return fp8Tensor
	}
	return plain
}

// choose is the first backend of the device's list that takes what the layer wants
// (platforms/cuda.py, get_attn_backend_cls).
func (d device) choose(w *want) (backend, *problem.Error) {
	for _, b := range d.preferred(w) {
		if d.takes(b, w) {
			return b, nil
		}
	}
	return noBackend, d.noneValid(w)
}

// noneValid is the refusal when no backend takes a layer. It names the flag that keeps the
// first one off, if one does.
func (d device) noneValid(w *want) *problem.Error {
	without := *w
	switch {
	case w.block > 0:
		without.block = 0
		if _, err := d.choose(&without); err == nil {
			return problem.New(problem.Unsupported, "block_size", w.block, "No valid attention backend found: no kernel takes blocks of this size").
				WithHint("leave block_size to the engine, or take a multiple of 16")
		}
	case w.dcp > 1:
		without.dcp = 1
		if _, err := d.choose(&without); err == nil {
			return problem.New(problem.Unsupported, "decode_context_parallel_size", w.dcp, "No valid attention backend found: none that takes this model splits the context").
				WithHint("decode_context_parallel_size 1")
		}
	case w.cache != "auto":
		without.cache = "auto"
		if _, err := d.choose(&without); err == nil {
			return problem.New(problem.Unsupported, "kv_cache_dtype", w.cache, "No valid attention backend found: none on compute capability %d.%d stores it", d.major, d.minor).
				WithHint("kv_cache_dtype auto")
		}
	}
	return problem.New(problem.Unsupported, "head_dim", w.head, "No valid attention backend found: none on compute capability %d.%d takes this head size with dtype %s", d.major, d.minor, w.dtype)
}

// The lists are shared and never written.
var (
	cpuList          = []backend{cpuAttn}
	tritonList       = []backend{tritonAttn}
	cpuLatentList    = []backend{cpuMLA}
	amxLatentList    = []backend{amxMLA}
	plainList        = []backend{flashAttn, flashInfer, tritonAttn, flexAttention, turboQuant}
	hopperImageList  = []backend{tritonFlashAttn, flashAttn, flashInfer, tritonAttn, flexAttention, turboQuant}
	blackwellList    = []backend{flashInfer, flashAttn, tritonAttn, flexAttention, turboQuant}
	blackwellImages  = []backend{tritonFlashInfer, flashInfer, flashAttn, tritonAttn, flexAttention, turboQuant}
	latentList       = []backend{flashAttnMLA, flashMLA, flashInferMLA, tritonMLA, flashAttnMLASparse, flashMLASparse, flashInferMLASparseSM90}
	latentList512    = []backend{flashAttnMLA, flashMLA, flashInferMLA, tritonMLA, flashInferMLASparseSM90, flashAttnMLASparse, flashMLASparse}
	latentSM12       = []backend{tritonMLA, flashInferMLASparseSM120}
	latentSM10       = []backend{flashInferMLA, tokenSpeedMLA, cutlassMLA, flashAttnMLA, flashMLA, tritonMLA}
	sparseSM10Quant  = []backend{flashInferMLASparse, flashMLASparse}
	sparseSM10Narrow = []backend{flashAttnMLASparseFA4, flashInferMLASparse, flashMLASparse}
	sparseSM10       = []backend{flashMLASparse, flashInferMLASparse}
)

// preferred lists the device's backends, best first (_get_backend_priorities).
func (d device) preferred(w *want) []backend {
	switch {
	case d.cpu && w.mla && d.amx:
		return amxLatentList
	case d.cpu && w.mla:
		return cpuLatentList
	case d.cpu:
		return cpuList
	case w.triton:
		return tritonList
	case !w.mla && d.major == 10 && w.prefix:
		return blackwellImages
	case !w.mla && d.major == 10:
		return blackwellList
	case !w.mla && d.major == 9 && w.prefix:
		return hopperImageList
	case !w.mla:
		return plainList
	case d.major == 12:
		return latentSM12
	case d.major != 10 && w.head == 512:
		return latentList512
	case d.major != 10:
		return latentList
	case !w.sparse:
		return latentSM10
	case quantised(w.cache):
		return sparseSM10Quant
	case w.queries <= 16:
		return sparseSM10Narrow
	}
	return sparseSM10
}

// A backendRule is what a backend takes, as far as a table can say it.
type backendRule struct {
	mla, sparse bool
	heads       []int64      // head sizes; nil: see takes
	dtypes      []dtype.Type // of the model
	caches      []string     // kv_cache_dtype
	majors      []int        // compute capabilities; nil: all
	sinks       bool
	encoder     bool // takes an encoder's own attention
	cross       bool // takes attention to an encoder
	dcp         bool
}

var (
	halves    = []dtype.Type{dtype.Float16, dtype.BFloat16}
	anyFloat  = []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Float32}
	onlyBF16  = []dtype.Type{dtype.BFloat16}
	plainKV   = []string{"auto", "float16", "bfloat16"}
	plainFP8  = []string{"auto", "float16", "bfloat16", "fp8", "fp8_e4m3"}
	latentDim = []int64{320, 512, 576}
)

var backendRules = [...]backendRule{
	flashAttn:     {dtypes: halves, caches: plainFP8, sinks: true, encoder: true, cross: true, dcp: true},
	flashInfer:    {dtypes: halves, caches: []string{"auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "nvfp4", "nvfp4_4over6"}, heads: []int64{64, 128, 256, 512}, sinks: true, dcp: true},
	tritonAttn:    {dtypes: anyFloat, caches: []string{"auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "int4_per_token_head", "int8_per_token_head", "fp8_per_token_head"}, sinks: true, encoder: true, cross: true},
	flexAttention: {dtypes: anyFloat, caches: plainKV, encoder: true},
	turboQuant:    {dtypes: halves, caches: []string{"turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc"}},

	tritonFlashAttn:  {dtypes: halves, caches: plainFP8, heads: []int64{256, 512}, majors: []int{9}},
	tritonFlashInfer: {dtypes: halves, caches: []string{"auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"}, heads: []int64{256, 512}, majors: []int{10}},

	flashAttnMLA:  {mla: true, dtypes: halves, caches: plainKV, heads: latentDim, majors: []int{9}, dcp: true},
	flashMLA:      {mla: true, dtypes: halves, caches: plainFP8, heads: latentDim, majors: []int{9}, dcp: true},
	flashInferMLA: {mla: true, dtypes: halves, caches: plainFP8, heads: latentDim, majors: []int{10}, dcp: true},
	tritonMLA:     {mla: true, dtypes: halves, caches: plainFP8, dcp: true},
	cutlassMLA:    {mla: true, dtypes: halves, caches: plainFP8, heads: latentDim, majors: []int{10}, dcp: true},
	tokenSpeedMLA: {mla: true, majors: []int{}}, // needs a package that the engine's image does not hold

	flashAttnMLASparse:       {mla: true, sparse: true, dtypes: halves, caches: plainKV, majors: []int{9}},
	flashAttnMLASparseFA4:    {mla: true, sparse: true, dtypes: onlyBF16, caches: []string{"auto", "bfloat16"}, heads: []int64{576}, majors: []int{10}, dcp: true},
	flashMLASparse:           {mla: true, sparse: true, dtypes: onlyBF16, caches: []string{"auto", "bfloat16", "fp8_ds_mla", "fp8", "nvfp4_ds_mla"}, heads: []int64{576, 512}, majors: []int{9, 10}, dcp: true},
	flashInferMLASparse:      {mla: true, sparse: true, dtypes: halves, caches: plainFP8, heads: []int64{512, 576}, majors: []int{10}, dcp: true},
	flashInferMLASparseSM90:  {mla: true, sparse: true, dtypes: onlyBF16, caches: []string{"auto", "bfloat16", "fp8", "fp8_e4m3"}, heads: []int64{512, 576}, majors: []int{9}},
	flashInferMLASparseSM120: {mla: true, sparse: true, dtypes: onlyBF16, caches: []string{"auto", "fp8", "fp8_e4m3", "fp8_ds_mla"}, heads: []int64{512, 576}, majors: []int{12}},

	cpuAttn: {dtypes: anyFloat, caches: []string{"auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"}, heads: []int64{32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512}, sinks: true, encoder: true, cross: true},
	cpuMLA:  {mla: true, dtypes: anyFloat, caches: []string{"auto"}, heads: []int64{576}},
	amxMLA:  {mla: true, dtypes: onlyBF16, caches: []string{"auto"}, heads: []int64{576}},
}

// takes tells whether a backend serves the layer (validate_configuration of each).
func (d device) takes(b backend, w *want) bool {
	r := &backendRules[b]
	switch {
	case r.mla != w.mla, r.sparse != w.sparse,
		r.majors != nil && !slices.Contains(r.majors, d.major),
		r.heads != nil && !slices.Contains(r.heads, w.head),
		!slices.Contains(r.dtypes, w.dtype),
		!slices.Contains(r.caches, w.cache),
		w.sinks && !r.sinks, w.encoder && !r.encoder, w.cross && !r.cross, w.dcp > 1 && !r.dcp,
		!d.kernelBlocks(b, w, w.modelHead, 0).divide(b, w.block):
		return false
	}
	switch b {
	case flashAttn:
		return d.flashTakes(w, w.prefix)
	case flashInfer:
		return d.flashInferTakes(w) && !w.prefix && !w.headScales
	case tritonAttn:
		return w.head >= 32 && !w.headScales
	case flexAttention:
		return !w.headScales
	case tritonFlashAttn:
		v := d.flashVersion(w, flashFor{head: w.head, block: w.block, sinks: w.sinks, hd256: true})
		return d.flashTakes(w, false) && (v == 3 || v == 4) && !w.headScales
	case tritonFlashInfer:
		return d.flashInferTakes(w) && !w.headScales
	case flashInferMLA:
		return w.nope == 64 || w.nope == 128 || w.nope == 192
	case flashAttnMLASparse:
		return w.topK > 0
	case flashAttnMLASparseFA4:
		return d.sparseFA4Takes(w)
	case flashInferMLASparse:
		return d.sparseInferTakes(w)
	case flashInferMLASparseSM90:
		return w.rank == 512 && (w.rope == 0 || w.rope == 64)
	case flashMLASparse:
		if w.head == 512 {
			return d.major == 9 && w.cache != "fp8" && w.rope == 0
		}
		return w.cache != "nvfp4_ds_mla" || d.major == 10
	}
	return true
}

// flashTakes is FlashAttention's own part of takes.
func (d device) flashTakes(w *want, prefix bool) bool {
	any, layer := flashFor{}, flashFor{head: w.head, value: w.head, block: w.block, sinks: w.sinks, hd256: true}
	switch {
	case !d.atLeast(8, 0), w.head%8 != 0, w.head > 512, w.head > 256 && !d.hasFA4():
		return false
	case (w.sinks || w.headScales) && d.flashVersion(w, any) < 3:
		return false
	case quantised(w.cache) && !(d.flashStoresFP8(w, any) && d.flashStoresFP8(w, layer)):
		return false
	case prefix:
		onHopper := d.major == 9 && d.minor == 0
		layer.value = 0
		return d.hasFA4() && !(quantised(w.cache) && onHopper) && d.flashVersion(w, layer) == 4
	}
	return true
}

// flashInferTakes is FlashInfer's own part of takes. Its kernels are taken to be there, as
// in the engine's image.
func (d device) flashInferTakes(w *want) bool {
	if !d.atLeast(8, 0) || d.atLeast(12, 2) {
		return false
	}
	if w.sinks && d.major != 10 && d.major != 12 && (d.major != 9 || d.minor != 0) {
		return false
	}
	if strings.HasPrefix(w.cache, "nvfp4") {
		switch d.major {
		case 8, 9, 12:
			return w.cache == "nvfp4" && w.head != 64 && !w.sinks
		}
		return d.major == 10
	}
	return true
}

func (d device) sparseFA4Takes(w *want) bool {
	n := w.queries * w.dcp // heads that the kernel sees
	return w.topK > 0 && w.topK%128 == 0 && w.rank == 512 && w.rope == 64 && d.sparseInferTakes(w) &&
		(n == 8 || n == 16 || n == 32 || n == 64 || n == 128 && w.dcp == 1)
}

func (d device) sparseInferTakes(w *want) bool {
	if w.rope == 0 {
		return w.nope == 256 && w.rank == 512 && w.topK > 0
	}
	return (w.nope == 128 || w.nope == 192) && w.topK > 0
}

// hasFA4 tells whether FlashAttention 4 runs on the device.
func (d device) hasFA4() bool { return d.major == 9 || d.major == 10 || d.major == 11 }

// A flashFor is what FlashAttention's version is asked for; 0 is not asked about.
type flashFor struct {
	head, value, block int64
	sinks, alibi       bool
	hd256              bool // the caller can use Blackwell's kernel for heads of 256
}

// flashVersion is the FlashAttention that serves f, 0 for none
// (v1/attention/backends/fa_utils.py, get_flash_attn_version).
func (d device) flashVersion(w *want, f flashFor) int {
	version := 2
	switch d.major {
	case 9:
		version = 3
	case 10:
		version = 4
	}
	if w.fa4 && d.hasFA4() {
		version = 4
	}
	if f.alibi {
		version = 2
	}
	if version == 3 && (f.head > 256 || f.sinks && f.head != 0 && f.value != 0 && f.head != f.value) {
		version = 4
	}
	wide := f.head == 256 && (f.value == 0 || f.value == 256)
	if version == 4 && d.major >= 10 && wide {
		if !f.hd256 || f.sinks || w.softcap || quantised(w.cache) || f.block%fa4Page != 0 || w.prefix || w.dcp > 1 {
			version = 2
		}
	}
	if version == 4 && d.major >= 10 && f.head > 128 && !wide && (f.head != 192 || f.value != 128) {
		version = 2
	}
	if version == 2 && !d.atLeast(8, 0) {
		return 0
	}
	return version
}

// fa4Page is the block of FlashAttention 4's kernel for heads of 256 on Blackwell, tokens.
const fa4Page = 128

// flashStoresFP8 tells whether FlashAttention reads an fp8 cache.
func (d device) flashStoresFP8(w *want, f flashFor) bool {
	if w.cache == "fp8_e5m2" {
		return false
	}
	version := d.flashVersion(w, f)
	switch d.major {
	case 9:
		return version == 3 || version == 4 && (f.head == 0 || f.head == 512)
	case 10:
		return version == 4
	}
	return false
}

// Blocks are the block sizes that a backend's kernel takes: the multiples of one, or a list.
type blocks struct {
	multiple int64
	exact    []int64
}

var (
	anyBlock   = blocks{multiple: 1}
	sixteen    = blocks{multiple: 16}
	inferSizes = blocks{exact: []int64{16, 32, 64}}
	inferLarge = blocks{exact: []int64{16, 32, 64, 128, 256, 512, 1024}}
	block32    = blocks{multiple: 32}
	block64    = blocks{multiple: 64}
	pair32     = blocks{exact: []int64{32, 64}}
	only16     = blocks{exact: []int64{16}}
	only64     = blocks{exact: []int64{64}}
	only128    = blocks{exact: []int64{128}}
	only256    = blocks{exact: []int64{256}}
)

// kernelBlocks are the block sizes of a backend for keys of head elements and values of
// value, 0 where nothing is said of them (get_supported_kernel_block_sizes).
func (d device) kernelBlocks(b backend, w *want, head, value int64) blocks {
	switch b {
	case flashAttn, flashAttnDiffKV, tritonFlashAttn:
		switch {
		case d.major == 9 && modeOf(w.cache) == fp8Tensor && head == 512:
			return only64
		case (d.major == 10 || d.major == 11) && head == 256 && d.flashVersion(w, flashFor{head: 256, value: value, hd256: true}) == 4:
			return only128
		}
		return sixteen
	case flashInfer:
		if d.major == 10 && w.kv > 0 && w.queries/w.kv > 1 && w.queries%w.kv == 0 {
			return inferLarge
		}
		return inferSizes
	case turboQuant:
		return blocks{exact: []int64{16, 32, 64, 128}}
	case tritonFlashInfer, flashMLA, indexerV32, indexerV41, flashMLASparseV41:
		return only64
	case flashInferMLA, tokenSpeedMLA:
		return pair32
	case cutlassMLA, indexerM3, sparseM3:
		return only128
	case flashMLASparse:
		if quantised(w.cache) && d.major == 10 {
			return only64
		}
		return block64
	case flashAttnMLASparse, flashAttnMLASparseFA4, paddedMLASparse, flashInferMLASparseSM90, flashInferMLASparseSM120:
		return block64
	case flashInferMLASparse, sparseSWA, cpuAttn, amxMLA:
		return block32
	case indexerV4, flashMLASparseV4:
		return only256
	case indexerPool: // pages of 32 or 64 states
		if d.major == 12 {
			return blocks{exact: []int64{64 * max(w.pool, 1)}}
		}
		return blocks{exact: []int64{32 * max(w.pool, 1), 64 * max(w.pool, 1)}}
	case compressor, convInkling, ringTail, summaryStep5, ringStep5, ringQwen4:
		return anyBlock
	case cpuMLA:
		return only16
	}
	return sixteen
}

// least is the smallest size, tokens.
func (s blocks) least() int64 {
	if s.multiple > 0 {
		return s.multiple
	}
	return slices.Min(s.exact)
}

// divide tells whether a backend accepts blocks of n tokens: whole kernel blocks, of one
// size for the CPU's latents. 0 is no wish.
func (s blocks) divide(b backend, n int64) bool {
	switch {
	case n == 0:
		return true
	case b == cpuMLA:
		return n == 16
	case s.multiple > 0:
		return n%s.multiple == 0
	}
	return slices.ContainsFunc(s.exact, func(k int64) bool { return n%k == 0 })
}

// pack is the backend's change to a spec (customize_spec, customize_attention_spec): how
// numbers and scales lie together, and how far apart blocks must be.
func (d device) pack(b backend, s *spec, w *want) {
	switch {
	case b == flashInfer && s.Quant == nvfp4:
		s.HeadSlots, s.Content = 2*s.KVHeads, s.KeyDim/2+s.KeyDim/16
	case (b == tritonAttn || b == tritonAttnDiffKV) && s.Quant.perTokenHead():
		s.Content = (s.KeyDim+s.ValueDim)/s.Quant.perByte()*s.DType.Bytes() + 2*4 // a float32 scale each for K and V
	case s.Class.latent() && s.Quant.perTokenHead():
		s.Content = s.KeyDim/s.Quant.perByte()*s.DType.Bytes() + 2*4
	}
	switch b {
	case flashAttnMLASparse, paddedMLASparse, flashInferMLASparseSM90:
		s.StrideBytes = s.Content
	case sparseStep5:
		s.StrideTokens = 8
	case flashInferMLASparse:
		s.StrideBytes = 32 * s.Content
	case flashAttnMLASparseFA4, flashInferMLASparseSM120:
		s.StrideBytes = 64 * s.Content
	case flashMLASparse:
		if s.Quant != plain && d.major != 10 {
			s.StrideTokens = 64
		} else {
			s.StrideBytes = s.Content
		}
	}
	if sizes := d.kernelBlocks(b, w, s.KeyDim, s.ValueDim); sizes.multiple == 0 && s.StrideBytes == 0 && s.StrideTokens == 0 {
		s.StrideTokens = slices.Max(sizes.exact)
	}
}

// perTokenHead tells whether each head of each token has scales of its own.
func (m quantMode) perTokenHead() bool {
	return m == int8TokenHead || m == fp8TokenHead || m == int4TokenHead
}

// perByte is how many numbers a byte of the cache holds.
func (m quantMode) perByte() int64 {
	if m == int4TokenHead {
		return 2
	}
	return 1
}
