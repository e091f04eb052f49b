// Package engine is what serving engines share: the options that change their numbers,
// and the shape of their answer. Each engine's rules are a package of their own.
package engine

import (
	"fmt"

	"headcount/attn"
	"headcount/dtype"
	"headcount/hw"
	"headcount/layout"
	"headcount/model"
	"headcount/weights"
)

// An Engine plans the KV cache of a model on a layout.
type Engine interface {
	// Name is "vllm" or "sglang"; Version the release whose rules are applied.
	Name() string
	Version() string
	// Plan fills what the engine would allocate and log. When the engine would refuse, the
	// error is a [*problem.Error] with RefusedBy set, and the Result holds what was known
	// before it; the Result is never nil.
	Plan(Job) (*Result, error)
}

// A Job is one question to an engine. Model is shared and read only.
type Job struct {
	Model   *model.Model
	Layout  layout.Layout
	GPU     *hw.Accelerator // nil: no device named; the engine takes its golden default class, and says so
	Options *Options
}

// Options are the engine flags that change a number, under the engine's own names with
// "-" as "_". Zero, "" and nil mean the engine's default.
type Options struct {
	DType         string `json:"dtype,omitempty" help:"dtype of weights and activations: auto, bfloat16, float16, float32"`
	KVCacheDType  string `json:"kv_cache_dtype,omitempty" help:"dtype of the KV cache: auto, bfloat16, fp8, fp8_e4m3, fp8_e5m2, ..."`
	Quantization  string `json:"quantization,omitempty" help:"quantisation method, in place of what the checkpoint says"`
	BlockSize     int    `json:"block_size,omitempty" help:"tokens per KV cache block (vLLM)"`
	PageSize      int    `json:"page_size,omitempty" help:"tokens per page (SGLang)"`
	MaxModelLen   int64  `json:"max_model_len,omitempty" help:"longest request in tokens: 8192, 8k, 1m, or auto for as long as fits"`
	MaxNumSeqs    int    `json:"max_num_seqs,omitempty" help:"sequences per batch (vLLM)"`
	MaxNumBatched int    `json:"max_num_batched_tokens,omitempty" help:"tokens per batch (vLLM)"`

	GPUMemoryUtilization float64 `json:"gpu_memory_utilization,omitempty" help:"fraction of the device that the engine takes (vLLM)"`
	MemFractionStatic    float64 `json:"mem_fraction_static,omitempty" help:"fraction of free memory for weights and pool (SGLang)"`
	KVCacheMemory        int64   `json:"kv_cache_memory_bytes,omitempty" help:"KV cache pool of one rank: 40GiB, 42949672960; nothing about memory is then estimated"`
	FreeMemory           int64   `json:"free_memory_bytes,omitempty" help:"memory that is free on the device before the engine starts: 70GiB"`
	NumGPUBlocksOverride int64   `json:"num_gpu_blocks_override,omitempty" help:"blocks of the pool, in place of what fits (vLLM)"`
	MemoryBeginGiB       float64 `json:"memory_begin_gib,omitempty" help:"free GiB before the weights, as SGLang logs it"`
	MemoryEndGiB         float64 `json:"memory_end_gib,omitempty" help:"free GiB after the weights, as SGLang logs it"`

	ChunkedPrefillSize int     `json:"chunked_prefill_size,omitempty" help:"tokens of a prefill chunk, -1 for none (SGLang)"`
	MaxRunningRequests int     `json:"max_running_requests,omitempty" help:"requests at a time (SGLang)"`
	MaxTotalTokens     int64   `json:"max_total_tokens,omitempty" help:"cap on the tokens of the pool (SGLang)"`
	SWAFullTokensRatio float64 `json:"swa_full_tokens_ratio,omitempty" help:"window tokens per full token (SGLang)"`
	MambaFullRatio     float64 `json:"mamba_full_memory_ratio,omitempty" help:"memory of states per memory of tokens (SGLang)"`
	MaxMambaCacheSize  int     `json:"max_mamba_cache_size,omitempty" help:"state slots (SGLang)"`
	MambaRadixStrategy string  `json:"mamba_radix_cache_strategy,omitempty" help:"auto, extra_buffer or no_buffer (SGLang)"`
	AttentionBackend   string  `json:"attention_backend,omitempty" help:"attention backend, in place of the one the engine picks"`
	DisableRadixCache  bool    `json:"disable_radix_cache,omitempty" help:"no prefix cache (SGLang)"`
	DisableOverlap     bool    `json:"disable_overlap_schedule,omitempty" help:"no overlap of scheduling and forward pass (SGLang)"`
	DisableHybridSWA   bool    `json:"disable_hybrid_swa_memory,omitempty" help:"one pool for window and full layers (SGLang)"`
	EnableMultimodal   bool    `json:"enable_multimodal,omitempty" help:"take images or audio where that is off by default (SGLang)"`
	DisableCUDAGraph   bool    `json:"disable_cuda_graph,omitempty" help:"capture no graphs (SGLang)"`

	DisableHybridKVCacheManager bool   `json:"disable_hybrid_kv_cache_manager,omitempty" help:"price window layers as full ones (vLLM)"`
	MLADisable                  bool   `json:"vllm_mla_disable,omitempty" help:"cache keys and values of all heads in place of latents, as VLLM_MLA_DISABLE=1 does (vLLM)"`
	EnablePrefixCaching         *bool  `json:"enable_prefix_caching,omitempty" help:"reuse blocks of equal prefixes (vLLM)"`
	EnableChunkedPrefill        *bool  `json:"enable_chunked_prefill,omitempty" help:"cut prefills into chunks (vLLM)"`
	AsyncScheduling             *bool  `json:"async_scheduling,omitempty" help:"schedule the next step while one runs (vLLM)"`
	LanguageModelOnly           bool   `json:"language_model_only,omitempty" help:"take text alone: towers are not profiled (vLLM)"`
	EnforceEager                bool   `json:"enforce_eager,omitempty" help:"no compilation and no graphs (vLLM)"`
	MambaCacheMode              string `json:"mamba_cache_mode,omitempty" help:"none or align (vLLM)"`
	MambaSSMCacheDType          string `json:"mamba_ssm_cache_dtype,omitempty" help:"dtype of recurrent states (vLLM)"`
	CPInterleave                int    `json:"cp_kv_cache_interleave_size,omitempty" help:"tokens that go to one context-parallel rank in a row (vLLM)"`

	Speculative            *Speculative `json:"speculative,omitempty"` // vLLM
	SpeculativeAlgorithm   string       `json:"speculative_algorithm,omitempty" help:"EAGLE, EAGLE3, STANDALONE, ... (SGLang)"`
	SpeculativeSteps       int          `json:"speculative_num_steps,omitempty" help:"draft steps (SGLang)"`
	SpeculativeTopK        int          `json:"speculative_eagle_topk,omitempty" help:"draft branches (SGLang)"`
	SpeculativeDraftTokens int          `json:"speculative_num_draft_tokens,omitempty" help:"draft tokens per step (SGLang)"`
	SpeculativeDraftModel  string       `json:"speculative_draft_model_path,omitempty" help:"the draft model (SGLang)"`

	ConcurrencyAt []int64 `json:"concurrency_at,omitempty" help:"further request lengths to report requests for: 8k,128k"`

	Draft *model.Model `json:"-"` // the draft model, once resolved
}

// Speculative is vLLM's speculative configuration.
type Speculative struct {
	Method string `json:"method"`
	Tokens int    `json:"num_speculative_tokens"`
	Model  string `json:"model,omitempty"`
}

// A Result is what one engine answers. Its parts are the report's own.
type Result struct {
	Model    View
	Ranks    []Rank
	KVCache  KVCache
	Resolved Resolved
	Fraction float64 // of the device's memory that the engine takes
	Startup  Startup
	Log      []string
	Notes    []Note
}

// A Startup is what the memory that an engine takes while it starts depends on, beside the
// flags and the weights.
type Startup struct {
	Spans   []layout.Span // layers of each pipeline stage
	Loading []int64       // bytes of each stage that loading leaves beyond parameters and buffers

	Samples  bool // the model generates: logits are sampled
	Towers   bool // images, audio or video are profiled as well
	Wrapped  bool // Transformers' modules run inside of the engine's
	Packed   bool // products' inputs are quantised as well
	Ragged   bool // experts' rows are gathered beside the shared workspace
	Compiled bool // the forward pass is compiled
	Graphs   bool // CUDA graphs are captured

	Item, Pixels int64 // tokens of the largest image, 0: not known; values of it for each token
	Encoder      int64 // elements of its tower that live at once, for each token
	Context      int64 // tokens for which latent attention expands keys and values
	Grid         int64 // tokens between two exported recurrent states; 0: none exported
}

// A View is the model as the engine sees it.
type View struct {
	QueryHeads    int
	KVHeads       int
	HeadDim       int
	MaxModelLen   int64
	DType         dtype.Type
	Quantization  string
	AttentionArch attn.Arch
}

// A Rank is tensor-parallel rank 0 of one pipeline stage.
type Rank struct {
	Stage         int    `json:"stage"`
	QueryHeads    int    `json:"query_heads"`
	KVHeads       int    `json:"kv_heads"`
	KVReplication int    `json:"kv_replication"`
	BytesPerToken int64  `json:"kv_bytes_per_token"` // all layers of the stage that grow with every token
	Layers        []*Run `json:"layers"`             // equal ones are one Run, which is not to be changed

	Parameters  *int64          `json:"parameters"` // null when not known
	WeightBytes *int64          `json:"weight_bytes"`
	BufferBytes *int64          `json:"buffer_bytes"`
	Weights     *weights.ByPart `json:"weights"`

	NumBlocks     *int64 `json:"num_blocks"` // that this stage alone would have; null without a pool
	BytesPerBlock *int64 `json:"bytes_per_block"`
}

// A Run is Layers equal caches in a row, per rank.
type Run struct {
	Kind         model.Kind   `json:"kind"`
	Layers       int          `json:"layers"`
	KVHeads      int          `json:"kv_heads"`
	KeyDim       int          `json:"key_dim"`
	ValueDim     int          `json:"value_dim"`
	DType        dtype.Type   `json:"dtype"`
	BlockSize    int          `json:"block_size"`
	PageSize     int64        `json:"page_size_bytes"`
	PageUnpadded int64        `json:"page_size_unpadded_bytes"`
	Window       *int         `json:"sliding_window"`
	StateBytes   *int64       `json:"state_bytes"`
	StateShapes  [][]int      `json:"state_shapes,omitempty"`
	StateDTypes  []dtype.Type `json:"state_dtypes,omitempty"`
}

// Over is the run with a number of layers: r itself if it has that many.
func (r *Run) Over(layers int) *Run {
	if r.Layers == layers {
		return r
	}
	other := *r
	other.Layers = layers
	return &other
}

// Elements is what one token adds in one layer of the run, as arithmetic that can be redone:
// "1 × (128 + 128) × 2 B (bfloat16)".
func (r *Run) Elements() string {
	if r.Kind == model.Latent || r.Kind == model.Indexer {
		return fmt.Sprintf("%d elements, %s", r.KeyDim, r.DType)
	}
	return fmt.Sprintf("%d × (%d + %d) × %d B (%s)", r.KVHeads, r.KeyDim, r.ValueDim, r.DType.Bytes(), r.DType)
}

// A Group is layers that share block tables (vLLM).
type Group struct {
	Kind      string `json:"kind"`
	Layers    int    `json:"layers"`
	BlockSize int    `json:"block_size"`
	PageSize  int64  `json:"page_size_bytes"`
}

// A KVCache is the pool of one rank and what it holds. Null means that no pool was given
// or estimated, or that the field is the other engine's.
type KVCache struct {
	DType          dtype.Type `json:"dtype"`
	AvailableBytes *int64     `json:"available_bytes"`
	BlockSize      int        `json:"block_size"`

	Groups             []Group  `json:"groups"`
	NumBlocks          *int64   `json:"num_blocks"`
	Tokens             *int64   `json:"tokens"`
	MaxConcurrency     *float64 `json:"max_concurrency"`
	SchedulerBlockSize *int     `json:"scheduler_block_size,omitempty"`
	HashBlockSize      *int     `json:"hash_block_size,omitempty"`
	KVTPReplicas       *int     `json:"kv_tp_replicas,omitempty"`

	CellSize           *float64 `json:"cell_size_bytes,omitempty"` // bytes; fractional where SGLang prices a window pool by its ratio
	MaxTotalNumTokens  *int64   `json:"max_total_num_tokens,omitempty"`
	FullTokens         *int64   `json:"full_tokens,omitempty"`
	SWATokens          *int64   `json:"swa_tokens,omitempty"`
	MambaSlots         *int64   `json:"mamba_slots,omitempty"`
	StateBytesPerReq   *int64   `json:"state_bytes_per_request,omitempty"`
	MaxRunningRequests *int64   `json:"max_running_requests,omitempty"`
	MaxReqLen          *int64   `json:"max_req_len,omitempty"`
	Pools              []Pool   `json:"pools,omitempty"`

	FixedBytesPerRequest int64         `json:"fixed_bytes_per_request"`
	BytesPerToken        int64         `json:"bytes_per_token"`
	Concurrency          []Concurrency `json:"concurrency"`
}

// A Pool is one allocation of SGLang's.
type Pool struct {
	Name   string `json:"name"`
	Tokens int64  `json:"tokens"`
	KBytes int64  `json:"k_bytes"`
	VBytes int64  `json:"v_bytes"`
}

// Concurrency is how many requests of a length the pool holds.
type Concurrency struct {
	Tokens   int64   `json:"tokens"`
	Requests float64 `json:"requests"`
}

// Resolved are the engine defaults that were filled in.
type Resolved struct {
	MaxNumBatchedTokens int      `json:"max_num_batched_tokens,omitempty"`
	MaxNumSeqs          int      `json:"max_num_seqs,omitempty"`
	MaxInFlightTokens   int      `json:"max_in_flight_tokens,omitempty"`
	AsyncScheduling     *bool    `json:"async_scheduling,omitempty"`
	ChunkedPrefill      *bool    `json:"chunked_prefill,omitempty"`
	PrefixCaching       *bool    `json:"prefix_caching,omitempty"`
	MambaCacheMode      string   `json:"mamba_cache_mode,omitempty"`
	CacheDType          string   `json:"cache_dtype,omitempty"`
	AttentionBackends   []string `json:"attention_backends,omitempty"`
	AttentionBackend    string   `json:"attention_backend,omitempty"`
	DType               string   `json:"dtype,omitempty"`
	Quant               *string  `json:"quant"`

	PageSize           int     `json:"page_size,omitempty"`
	ChunkedPrefillSize int     `json:"chunked_prefill_size,omitempty"`
	MaxPrefillTokens   int     `json:"max_prefill_tokens,omitempty"`
	KVCacheDType       string  `json:"kv_cache_dtype,omitempty"`
	ContextLen         int64   `json:"context_len,omitempty"`
	NumEffectiveLayers int     `json:"num_effective_layers,omitempty"`
	VHeadDim           int     `json:"v_head_dim,omitempty"`
	AttentionTPSize    int     `json:"attn_tp_size,omitempty"`
	MemFractionStatic  float64 `json:"mem_fraction_static,omitempty"`
}

// A Note is a finding that changes no number: a replicated head, a default taken, a
// duplicate key.
type Note struct {
	ID       string `json:"id"`
	Severity string `json:"severity"` // info, warning
	Text     string `json:"text"`
	Hint     string `json:"hint,omitempty"`
}

// Requests is how many requests of a length the pool holds, nil when it is not known.
// maxModelLen is the length that MaxConcurrency speaks of.
func (k *KVCache) Requests(tokens, maxModelLen int64) *float64 {
	if tokens == maxModelLen && k.MaxConcurrency != nil {
		return k.MaxConcurrency
	}
	for i := range k.Concurrency {
		if k.Concurrency[i].Tokens == tokens {
			return &k.Concurrency[i].Requests
		}
	}
	return nil
}
