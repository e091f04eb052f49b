package sglang

import "headcount/dtype"

// A setup is what the engine has decided by the time the weights are loaded: all that the
// size of its pools depends on. Sizes are of one rank, in elements or tokens.
type setup struct {
	ranks  int64 // tp · pp; above 1 the readings pass through a float32
	attnDP int64 // requests are divided by it
	dcp    int64 // decode context parallel ranks; tokens are divided by it

	fraction   float64 // mem_fraction_static
	page       int64   // page_size, tokens
	chunk      int64   // chunked_prefill_size, tokens; not positive: off
	maxPrefill int64   // max_prefill_tokens
	maxRunning int64   // --max-running-requests of the server; 0: not given
	maxTokens  int64   // --max-total-tokens; 0: not given
	context    int64   // context_len, tokens
	swaRatio   float64 // window tokens per full token
	noRadix    bool    // prefix cache off
	noOverlap  bool    // overlap scheduling off
	reserveMiB int64   // kept for multimodal features

	store   store
	priced  row // what one full-attention layer is priced at per token
	held    row // what its pool allocates; they differ where the engine's own two rules do
	index   indexer
	qsa     int64 // bytes of a compressed indexer per token and full-attention layer
	window  int64 // sliding_window_size that the pool sees; 0: none
	sliding *sliding
	dsv4    *dsv4
	sparse  *sparse
	state   *state
	draft   draft

	stages []stage
	one    [1]stage // where stages lie when there is one
}

// stageCell is the bytes of a token on a stage, fractional where a ratio enters.
func (s *setup) stageCell(st *stage) float64 {
	switch {
	case s.dsv4 != nil:
		_, full := s.dsv4Cells(st)
		return full
	case s.sliding != nil:
		return s.slidingCell(st)
	}
	return float64(s.cell(st))
}

// A stage is what one pipeline stage holds, in layers.
type stage struct {
	start, end int64
	effective  int64 // num_effective_layers
	layers     int64 // that grow with every token: of the full pool, or all
	sliding    int64 // of the window pool
	index      int64 // with indexer keys
	states     int64 // with a recurrent state
	indexK     int64 // sparse attention: with index keys alone
	indexKV    int64 // and with index keys and values

	c4, c128, all int64 // DeepSeek-V4: by compression
}

// A row is what one attention layer keeps of one token on one rank, in elements.
type row struct {
	heads, key, value int64 // heads × (key + value)
	latent            int64 // MLA: one latent instead; then heads is 0
}

// elems is the row's width.
func (r row) elems() int64 {
	if r.latent > 0 {
		return r.latent
	}
	return mul(r.heads, r.key+r.value)
}

// A format is how a cache packs its elements.
type format uint8

const (
	plain    format = iota
	mxfp8           // e4m3 with one scale byte for 32 elements
	nvfp4           // two e2m1 in a byte, one scale byte for 16 elements of a head
	fp4Block        // the same with scales over all heads (fp4_mx_block16)
)

// A store is the KV cache's element.
type store struct {
	name   string // PyTorch's, as the log has it: "bfloat16"
	bytes  int64  // torch's element size; 1 for packed formats
	format format

	// nvfp4 alone: scale layouts kept side by side, and whether prefill has an fp8 workspace.
	scales    int64
	workspace bool
}

// indexer is the key cache of a sparse-attention indexer, a byte an element. The zero
// indexer is none.
type indexer struct {
	row  int64 // bytes of one key with its scale
	pool int64 // tokens that share a key (index_kpool)
}

// bytes is what a token costs in one layer that has an indexer.
func (x indexer) bytes() int64 {
	if x.row == 0 {
		return 0
	}
	return ceilDiv(x.row, x.pool)
}

// sliding is the window pool of a hybrid sliding-window model.
type sliding struct {
	priced, held row
}

// sparse is MiniMax-M3's sparse attention: index pools of one head beside the main pool.
type sparse struct {
	dim   int64 // elements of an index key
	bytes int64 // of an element
	dtype string
}

// state is what a hybrid or state-space model keeps per request.
type state struct {
	layers   int64   // of the whole model
	most     int64   // of these, in the largest of equal shares over the stages
	conv     int64   // bytes of one slot in one layer: the convolutions' windows
	temporal int64   // and the recurrent state
	channels int64   // bytes of one column of those windows
	taps     int64   // columns of a window
	dense    bool    // draft tokens keep whole windows instead of overlapping ones
	ratio    float64 // mamba_full_memory_ratio
	slots    int64   // --max-mamba-cache-size; 0: not given
	perReq   int64   // slots a request needs

	windows    [][2]int64 // channels and columns of each convolution
	matrix     [3]int64   // recurrent state: heads, value width, key width
	matrixType dtype.Type
}

// slot is the bytes of one slot in layers layers.
func (s *state) slot(layers int64) int64 { return mul(layers, s.conv+s.temporal) }

// draft is speculative decoding as far as memory goes.
type draft struct {
	on      bool
	ngram   bool  // drafts without a KV cache
	tokens  int64 // speculative_num_draft_tokens
	steps   int64
	topK    int64
	layers  int64 // of an EAGLE draft, which share the target's row
	sliding int64 // of these, in the window pool
	wide    int64 // of these, with window rows at the full pool's capacity
	cell    int64 // bytes per token of a draft with rows of its own (DFLASH)
}
