// Package golden reads what running the engines gave: rows of one config on one layout,
// with the engine's own answer. A compact extract is committed beside the package that it
// tests; the whole corpus, when at hand, reads through the same types.
package golden

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// A VLLMRow is one run of vLLM 0.33.0's own classes on a config and a layout.
type VLLMRow struct {
	ID           string          `json:"id"` // file stem | layout | GPU
	ModelID      string          `json:"model_id"`
	File         string          `json:"file"`             // in shared/configs
	Config       json.RawMessage `json:"config,omitempty"` // of a drawn row, in place of the file's
	HFQuant      json.RawMessage `json:"hf_quant_config,omitempty"`
	GPU          string          `json:"gpu"`
	Layout       VLLMLayout      `json:"layout"`
	RemoteConfig string          `json:"remote_config,omitempty"` // "generic": the config class of the checkpoint was left out
	Needs        string          `json:"needs,omitempty"`
	Resolved     *VLLMResolved   `json:"resolved,omitempty"` // absent when the engine stopped before
	Specs        [][]VLLMSpec    `json:"specs,omitempty"`    // per pipeline stage, run-length; see Unroll
	Weights      []VLLMWeights   `json:"weights,omitempty"`  // per pipeline stage
	DraftWeights []VLLMWeights   `json:"draft_weights,omitempty"`
	Groups       []VLLMGroup     `json:"groups,omitempty"`
	Results      []VLLMResult    `json:"results,omitempty"` // one per pool size
	Error        *VLLMError      `json:"error,omitempty"`   // the engine refused before it had pools to fill
}

// VLLMLayout is what was set on the command line; zero means that it was not.
type VLLMLayout struct {
	Name          string           `json:"name"`
	TP            int              `json:"tp"`
	PP            int              `json:"pp"`
	DCP           int              `json:"dcp"`
	EP            bool             `json:"ep,omitempty"`
	DType         string           `json:"dtype,omitempty"`
	KVCacheDType  string           `json:"kv_cache_dtype,omitempty"`
	MaxNumBatched int              `json:"max_num_batched_tokens,omitempty"`
	BlockSize     int              `json:"block_size,omitempty"`
	MaxModelLen   int64            `json:"max_model_len,omitempty"`
	PrefixCaching *bool            `json:"prefix_caching,omitempty"`
	DisableHybrid bool             `json:"disable_hybrid,omitempty"`
	Spec          *VLLMSpeculative `json:"spec,omitempty"`
}

// VLLMSpeculative is --speculative-config.
type VLLMSpeculative struct {
	Method string `json:"method"`
	Tokens int    `json:"num_speculative_tokens"`
}

// VLLMResolved is what the engine's configuration came to.
type VLLMResolved struct {
	Arch          string   `json:"arch"`
	Archs         []string `json:"archs_in_config"`
	ModelType     string   `json:"model_type"`
	TextModelType string   `json:"text_model_type"`
	Runner        string   `json:"runner"`

	IsHybrid         bool `json:"is_hybrid,omitempty"`
	IsAttentionFree  bool `json:"is_attention_free,omitempty"`
	IsEncoderDecoder bool `json:"is_encoder_decoder,omitempty"`
	IsMultimodal     bool `json:"is_multimodal,omitempty"`
	UseMLA           bool `json:"use_mla,omitempty"`

	Layers      int     `json:"layers"`
	QueryHeads  int     `json:"total_q_heads"`
	KVHeads     int     `json:"total_kv_heads"`
	HeadSize    int     `json:"head_size"`
	HiddenSize  int     `json:"hidden_size"`
	VocabSize   int     `json:"vocab_size"`
	RankQHeads  int     `json:"rank_q_heads"`
	RankKVHeads int     `json:"rank_kv_heads"`
	MaxModelLen int64   `json:"max_model_len"`
	Window      *int64  `json:"sliding_window,omitempty"`
	DType       string  `json:"dtype"`
	Quant       *string `json:"quant,omitempty"`

	MaxNumBatchedTokens int   `json:"max_num_batched_tokens"`
	MaxNumSeqs          int   `json:"max_num_seqs"`
	MaxInFlightTokens   int64 `json:"max_in_flight_tokens"`
	AsyncScheduling     bool  `json:"async_scheduling"`
	ChunkedPrefill      bool  `json:"chunked_prefill"`
	PrefixCaching       bool  `json:"prefix_caching"`
	DisableHybrid       bool  `json:"disable_hybrid,omitempty"`

	MambaCacheMode     string `json:"mamba_cache_mode"`
	MambaBlockSize     *int64 `json:"mamba_block_size_worker,omitempty"`
	MambaPagePadded    *int64 `json:"mamba_page_size_padded,omitempty"`
	MambaCacheDType    string `json:"mamba_cache_dtype"`
	MambaSSMCacheDType string `json:"mamba_ssm_cache_dtype"`

	CacheDTypeArg     string   `json:"cache_dtype_arg"`
	CacheDType        string   `json:"cache_dtype,omitempty"`
	BlockSizeWorker   int64    `json:"block_size_worker,omitempty"`
	Interleave        int      `json:"interleave"`
	ModelClass        string   `json:"model_class,omitempty"`
	AttentionBackends []string `json:"attention_backends,omitempty"`
	KVLayout          string   `json:"kv_layout,omitempty"`
	PPLayers          [][2]int `json:"pp_layers,omitempty"`
}

// A VLLMSpec is a run of equal cache specs, or a repeated run of runs.
type VLLMSpec struct {
	Repeat int        `json:"repeat,omitempty"`
	Of     []VLLMSpec `json:"of,omitempty"`

	Kind         string `json:"kind,omitempty"` // the engine's class, FullAttentionSpec
	Layers       int    `json:"layers,omitempty"`
	KVHeads      int64  `json:"num_kv_heads,omitempty"`
	HeadSize     int64  `json:"head_size,omitempty"`
	HeadSizeV    int64  `json:"head_size_v,omitempty"`
	DType        string `json:"dtype,omitempty"`
	BlockSize    int64  `json:"block_size,omitempty"`
	PageSize     int64  `json:"page_size_bytes,omitempty"`
	PageUnpadded int64  `json:"page_size_unpadded,omitempty"`
	PagePadded   int64  `json:"page_size_padded,omitempty"`
	Window       int64  `json:"sliding_window,omitempty"`
	ChunkSize    int64  `json:"attention_chunk_size,omitempty"`

	StateContentBytes   int64  `json:"state_content_bytes,omitempty"`
	MaxTPShards         int64  `json:"max_tp_shards,omitempty"`
	CacheDType          string `json:"cache_dtype_str,omitempty"`
	Alignment           int64  `json:"alignment,omitempty"`
	ModelVersion        string `json:"model_version,omitempty"`
	TopKWidth           int64  `json:"topk_buffer_width,omitempty"`
	IndexGroupLeader    bool   `json:"is_index_group_leader,omitempty"`
	TokensPerState      int64  `json:"tokens_per_state,omitempty"`
	QuantMode           string `json:"kv_quant_mode,omitempty"`
	Role                string `json:"cache_role,omitempty"`
	StrideAlignment     any    `json:"block_stride_alignment,omitempty"` // bytes, or "MultipleOf(tokens)"
	StrideAlignmentByte int64  `json:"block_stride_alignment_bytes,omitempty"`
	Draft               bool   `json:"draft,omitempty"`

	Shapes           [][]int64 `json:"shapes,omitempty"`
	DTypes           []string  `json:"dtypes,omitempty"`
	MambaType        string    `json:"mamba_type,omitempty"`
	CacheMode        string    `json:"cache_mode,omitempty"`
	CheckpointBlocks int64     `json:"num_prefill_checkpoint_blocks,omitempty"`
	SpecBlocks       int64     `json:"num_speculative_blocks,omitempty"`
}

// Unroll yields each layer's spec of one stage in order; equal layers of a run share one
// pointer.
func Unroll(runs []VLLMSpec) iter.Seq[*VLLMSpec] {
	return func(yield func(*VLLMSpec) bool) { unroll(runs, yield) }
}

func unroll(runs []VLLMSpec, yield func(*VLLMSpec) bool) bool {
	for i := range runs {
		r := &runs[i]
		for range r.Repeat {
			if !unroll(r.Of, yield) {
				return false
			}
		}
		for range r.Layers {
			if !yield(r) {
				return false
			}
		}
	}
	return true
}

// VLLMWeights are the parameters of one stage, tensor-parallel rank 0.
type VLLMWeights struct {
	Params      int64            `json:"params"`
	Bytes       int64            `json:"bytes"`
	BufferBytes int64            `json:"buffer_bytes"`
	BytesBy     map[string]int64 `json:"bytes_by,omitempty"` // by category, a label
}

// A VLLMGroup is one KV cache group of the whole model.
type VLLMGroup struct {
	Kind      string `json:"kind"`
	Layers    int    `json:"layers"`
	BlockSize int64  `json:"block_size"`
	PageSize  int64  `json:"page_size_bytes"`
}

// A VLLMResult is what a pool of Available bytes on every rank holds.
type VLLMResult struct {
	Available          int64        `json:"available"`
	NumBlocks          int64        `json:"num_blocks,omitempty"`
	Workers            []VLLMWorker `json:"workers,omitempty"`
	KVTPReplicas       int          `json:"kv_tp_replicas,omitempty"`
	BlockSize          int64        `json:"block_size,omitempty"`
	Tokens             int64        `json:"tokens,omitempty"`
	MaxConcurrency     float64      `json:"max_concurrency,omitempty"`
	SchedulerBlockSize int64        `json:"scheduler_block_size,omitempty"`
	HashBlockSize      int64        `json:"hash_block_size,omitempty"`
	Log                []string     `json:"log,omitempty"`
	Error              *VLLMError   `json:"error,omitempty"`
}

// A VLLMWorker is one pipeline stage.
type VLLMWorker struct {
	NumBlocksAlone int64 `json:"num_blocks_alone"`
	BytesPerBlock  int64 `json:"bytes_per_block"`
}

// A VLLMError is an exception the engine raised.
type VLLMError struct {
	Stage   string `json:"stage,omitempty"` // config, model, kv
	Class   string `json:"class"`
	Message string `json:"message"`
}

// Shorten drops what a message repeats in every row: the dump of the arguments that pydantic
// appends, and the list of all architectures.
func Shorten(message string) string {
	message, _, _ = strings.Cut(message, " [type=value_error")
	message, _, _ = strings.Cut(message, " Supported architectures:")
	return message
}

// VLLMFile is the committed extract, below the repository's root.
const VLLMFile = "engine/vllm/testdata/golden.jsonl.gz"

// VLLM yields the rows of the committed extract.
func VLLM() iter.Seq2[*VLLMRow, error] {
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	return ReadVLLM(filepath.Join(root, filepath.FromSlash(VLLMFile)))
}

// ReadVLLM yields the rows of a file of JSON lines, gzipped or not. A line without an id
// is a heading and is passed over.
func ReadVLLM(name string) iter.Seq2[*VLLMRow, error] { return read[VLLMRow](name) }

func read[Row any](name string) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		f, err := os.Open(name)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		var r io.Reader = bufio.NewReaderSize(f, 1<<20)
		if strings.HasSuffix(name, ".gz") {
			if r, err = gzip.NewReader(r); err != nil {
				yield(nil, fmt.Errorf("%s: %w", name, err))
				return
			}
		}
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 1<<20), 64<<20)
		for n := 1; lines.Scan(); n++ {
			var head struct{ ID string }
			if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
				yield(nil, fmt.Errorf("%s:%d: %w", name, n, err))
				return
			}
			if head.ID == "" {
				continue
			}
			row := new(Row)
			if err := json.Unmarshal(lines.Bytes(), row); err != nil {
				yield(nil, fmt.Errorf("%s:%d: %w", name, n, err))
				return
			}
			if !yield(row, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, fmt.Errorf("%s: %w", name, err))
		}
	}
}
