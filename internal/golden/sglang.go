package golden

import (
	"encoding/json"
	"iter"
	"path/filepath"
	"runtime"
)

// A SGLangRow is one job and the engine's answer: Resolved and Pool, or Error.
type SGLangRow struct {
	ID          string          `json:"id"`
	ModelID     string          `json:"model_id"`
	File        string          `json:"file"`
	Config      json.RawMessage `json:"config,omitempty"` // of a drawn row, in place of the file's
	HFQuant     json.RawMessage `json:"hf_quant_config,omitempty"`
	DraftConfig json.RawMessage `json:"draft_config,omitempty"`
	GPU         string          `json:"gpu"`
	Layout      SGLangLayout    `json:"layout"`
	Resolved    *SGLangResolved `json:"resolved"`
	Pool        *SGLangPool     `json:"pool"`
	Summary     string          `json:"summary_line"`
	Log         []string        `json:"log"`
	Error       *SGLangError    `json:"error"`
	PoolError   *SGLangError    `json:"pool_error"`
	ConfigClass string          `json:"config_class"` // "generic": remote code, keys taken as they are
	OracleLimit bool            `json:"oracle_limit"` // the error is the oracle's, not the engine's
}

// A SGLangLayout is the job's flags and its two memory readings.
type SGLangLayout struct {
	TP       int  `json:"tp,omitzero"`
	PP       int  `json:"pp,omitzero"`
	DP       int  `json:"dp,omitzero"`
	DPAttn   bool `json:"dp_attention,omitzero"`
	DCP      int  `json:"dcp,omitzero"`
	PageSize int  `json:"page_size,omitzero"`

	DType              string  `json:"dtype,omitzero"`
	KVCacheDType       string  `json:"kv_cache_dtype,omitzero"`
	ContextLength      int64   `json:"context_length,omitzero"`
	MemFractionStatic  float64 `json:"mem_fraction_static,omitzero"`
	MaxRunningRequests int     `json:"max_running_requests,omitzero"`
	MaxTotalTokens     int64   `json:"max_total_tokens,omitzero"`
	ChunkedPrefillSize int     `json:"chunked_prefill_size,omitzero"`
	AttentionBackend   string  `json:"attention_backend,omitzero"`

	SpeculativeAlgorithm string `json:"speculative_algorithm,omitzero"`
	SpeculativeSteps     int    `json:"speculative_num_steps,omitzero"`
	SpeculativeTopK      int    `json:"speculative_eagle_topk,omitzero"`
	SpeculativeTokens    int    `json:"speculative_num_draft_tokens,omitzero"`
	DraftID              string `json:"draft_id,omitzero"`

	BeginGiB float64 `json:"begin_gib,omitzero"`
	EndGiB   float64 `json:"end_gib,omitzero"`

	Args struct {
		DisableRadixCache    bool    `json:"disable_radix_cache,omitzero"`
		DisableOverlap       bool    `json:"disable_overlap_schedule,omitzero"`
		SWAFullTokensRatio   float64 `json:"swa_full_tokens_ratio,omitzero"`
		DisableHybridSWA     bool    `json:"disable_hybrid_swa_memory,omitzero"`
		MaxMambaCacheSize    int     `json:"max_mamba_cache_size,omitzero"`
		MambaFullMemoryRatio float64 `json:"mamba_full_memory_ratio,omitzero"`
		MambaRadixStrategy   string  `json:"mamba_radix_cache_strategy,omitzero"`
		DisableCUDAGraph     bool    `json:"disable_cuda_graph,omitzero"`
		EnableMultimodal     bool    `json:"enable_multimodal,omitzero"`
	} `json:"args,omitzero"`
}

// SGLangResolved is what the engine had decided when the weights were loaded, of rank 0.
type SGLangResolved struct {
	Architecture  string `json:"architecture"`
	ResolvedArch  string `json:"resolved_arch"`
	ModelType     string `json:"model_type"`
	AttentionArch string `json:"attention_arch"`
	UseMLA        bool   `json:"use_mla"`
	ContextLen    int64  `json:"context_len"`
	DType         string `json:"dtype"`
	Quantization  string `json:"quantization"`

	KVCacheDType       string  `json:"kv_cache_dtype"`
	KVCacheDTypeFlag   string  `json:"kv_cache_dtype_str"`
	MemFractionStatic  float64 `json:"mem_fraction_static"`
	PageSize           int64   `json:"page_size"`
	ChunkedPrefillSize int64   `json:"chunked_prefill_size"`
	MaxPrefillTokens   int64   `json:"max_prefill_tokens"`
	MaxRunningRequests int64   `json:"max_running_requests_arg"`
	SWAFullTokensRatio float64 `json:"swa_full_tokens_ratio"`
	DisableRadixCache  bool    `json:"disable_radix_cache"`
	DisableOverlap     bool    `json:"disable_overlap_schedule"`

	AttentionBackend string `json:"attention_backend"`
	PrefillBackend   string `json:"prefill_attention_backend"`
	DecodeBackend    string `json:"decode_attention_backend"`
	DecodeGraph      string `json:"decode_graph"`
	DecodeGraphMaxBS int    `json:"decode_graph_max_bs"`
	PrefillGraph     string `json:"prefill_graph"`
	PrefillGraphMax  int    `json:"prefill_graph_max_bs"`
	PrefillGraphNum  int    `json:"prefill_graph_num_bs"`

	IsMultimodal bool `json:"is_multimodal"`
	IsGeneration bool `json:"is_generation"`

	AttnTP int64 `json:"attn_tp_size"`
	AttnDP int64 `json:"attn_dp_size"`
	DCP    int64 `json:"attn_dcp_size"`

	QueryHeads   int64           `json:"num_attention_heads"`
	TotalKVHeads json.RawMessage `json:"total_kv_heads"` // a number, or the text of the engine's exception
	KVHeads      int64           `json:"kv_heads_per_rank"`
	HeadDim      int64           `json:"head_dim"`
	VHeadDim     int64           `json:"v_head_dim"`
	SWAHeadDim   int64           `json:"swa_head_dim"`
	SWAVHeadDim  int64           `json:"swa_v_head_dim"`
	HiddenLayers int64           `json:"num_hidden_layers"`
	AttnLayers   int64           `json:"num_attention_layers"`

	SlidingWindow *int64 `json:"sliding_window_size"`
	IsHybridSWA   bool   `json:"is_hybrid_swa"`
	StartLayer    int64  `json:"start_layer"`
	EndLayer      int64  `json:"end_layer"`
	Layers        int64  `json:"num_effective_layers"`
	SWALayers     int64  `json:"swa_layers"`
	FullLayers    int64  `json:"full_layers"`
	SWAKVHeads    int64  `json:"swa_kv_heads_per_rank"`

	VisionHiddenSize *int64  `json:"vision_hidden_size"`
	VisionLayers     *int64  `json:"vision_num_hidden_layers"`
	MMTransport      string  `json:"mm_feature_transport"`
	MMReservation    float64 `json:"mm_reservation_gib"`

	KVLoRARank      int64  `json:"kv_lora_rank"`
	RoPEHeadDim     int64  `json:"qk_rope_head_dim"`
	MLACacheDim     int64  `json:"mla_kv_cache_dim"`
	IsDSA           bool   `json:"is_dsa"`
	DSAPrefill      string `json:"dsa_prefill_backend"`
	DSADecode       string `json:"dsa_decode_backend"`
	IndexHeadDim    int64  `json:"index_head_dim"`
	IndexLayers     int64  `json:"index_layers"`
	KVCacheDTypeArg string `json:"kv_cache_dtype_arg"`

	Mamba *SGLangMamba `json:"mamba"`
	Spec  *SGLangSpec  `json:"spec"`
}

// SGLangMamba is the state of a hybrid or state-space model.
type SGLangMamba struct {
	Layers        int64   `json:"layers"`
	FullLayers    int64   `json:"full_attention_layers"`
	ConvShapes    [][]int `json:"conv_shapes"`
	TemporalShape []int   `json:"temporal_shape"`
	ConvDType     string  `json:"conv_dtype"`
	TemporalDType string  `json:"temporal_dtype"`
	BytesPerReq   int64   `json:"bytes_per_req"`
	Ratio         float64 `json:"full_memory_ratio"`
	ExtraBuffer   bool    `json:"extra_buffer"`
}

// SGLangSpec is speculative decoding as resolved.
type SGLangSpec struct {
	Algorithm         string `json:"algorithm"`
	Steps             int64  `json:"num_steps"`
	TopK              int64  `json:"eagle_topk"`
	DraftTokens       int64  `json:"num_draft_tokens"`
	DraftLayers       *int64 `json:"draft_layers"`
	DraftSWALayers    *int64 `json:"draft_swa_layers"`
	DFlashDraftLayers *int64 `json:"dflash_draft_layers"`
}

// SGLangPool is what the engine sized.
type SGLangPool struct {
	Configurator string        `json:"configurator"`
	CellSize     *float64      `json:"cell_size"`
	FullPerToken *float64      `json:"full_per_token"`
	SWAPerToken  *float64      `json:"swa_per_token"`
	PerFullToken *float64      `json:"bytes_per_full_token"`
	PerSWAToken  *float64      `json:"bytes_per_swa_token"`
	Available    int64         `json:"available_bytes"`
	Tokens       int64         `json:"max_total_num_tokens"`
	Logical      int64         `json:"logical_max_total_num_tokens"`
	FullTokens   *int64        `json:"full_max_total_num_tokens"`
	SWATokens    *int64        `json:"swa_max_total_num_tokens"`
	C4Tokens     int64         `json:"c4_max_total_num_tokens"`
	C128Tokens   int64         `json:"c128_max_total_num_tokens"`
	C4State      int64         `json:"c4_state_pool_size"`
	C128State    int64         `json:"c128_state_pool_size"`
	Slots        int64         `json:"max_mamba_cache_size"`
	SlotsPerReq  int64         `json:"mamba_slots_per_request"`
	MaxRunning   int64         `json:"max_running_requests"`
	MaxReqLen    int64         `json:"max_req_len"`
	ReqToToken   []int64       `json:"req_to_token"`
	KVPool       *SGLangKVPool `json:"kv_pool"`
	MambaPool    *struct {
		Size int64 `json:"size"`
	} `json:"mamba_pool"`
	Stages []SGLangStage `json:"pp_stages"`
}

// A SGLangKVPool is one pool object as the engine counts its bytes.
type SGLangKVPool struct {
	Class    string        `json:"class"`
	Size     int64         `json:"size"`
	KBytes   int64         `json:"k_bytes"`
	VBytes   int64         `json:"v_bytes"`
	KVBytes  int64         `json:"kv_bytes"`
	Heads    int64         `json:"head_num"`
	LayerNum int64         `json:"layer_num"`
	Full     *SGLangKVPool `json:"full_kv_pool"`
	SWA      *SGLangKVPool `json:"swa_kv_pool"`
}

// A SGLangStage is one pipeline stage's own capacity, before the minimum.
type SGLangStage struct {
	Start  int64    `json:"start_layer"`
	End    int64    `json:"end_layer"`
	Cell   *float64 `json:"cell_size"`
	Tokens int64    `json:"tokens"`
}

// An SGLangError is the engine's refusal.
type SGLangError struct {
	Stage   string `json:"stage"`
	Class   string `json:"class"`
	Message string `json:"message"`
	At      string `json:"at"`
}

// SGLangKept are words of the log lines that a report gives; the extract keeps these alone.
var SGLangKept = []string{"KV Cache is allocated", "Mamba Cache is allocated", "sliding window memory pool", "SWAKVPool", "DSV4 pool sizes", "capped to", "Reserving"}

// SGLangFile is the committed extract, below the repository's root.
const SGLangFile = "engine/sglang/testdata/golden.jsonl.gz"

// SGLang yields the rows of the committed extract.
func SGLang() iter.Seq2[*SGLangRow, error] {
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	return ReadSGLang(filepath.Join(root, filepath.FromSlash(SGLangFile)))
}

// ReadSGLang yields the rows of a file of JSON lines, gzipped or not. A line without an
// id is a heading and is passed over.
func ReadSGLang(name string) iter.Seq2[*SGLangRow, error] { return read[SGLangRow](name) }
