package vllm

import (
	"math/bits"

	"headcount/dtype"
	"headcount/problem"
)

// A class is one of the engine's cache spec classes (v1/kv_cache_interface.py).
type class uint8

const (
	fullAttention class = iota
	sinkAttention       // full attention with sink tokens kept in the cache
	mlaAttention        // one latent a token; also a sparse indexer's keys
	slidingWindow
	slidingMLA
	chunkedLocal
	crossAttention
	circularBuffer // one block a request
	mambaState
)

var classNames = [...]string{"FullAttentionSpec", "SinkFullAttentionSpec", "MLAAttentionSpec", "SlidingWindowSpec",
	"SlidingWindowMLASpec", "ChunkedLocalAttentionSpec", "CrossAttentionSpec", "CircularBufferSpec", "MambaSpec"}

// String is the engine's name of the class.
func (c class) String() string { return classNames[c] }

// full tells whether the class keeps every token: FullAttentionSpec and what derives from it.
func (c class) full() bool { return c <= mlaAttention }

// sliding tells whether the class keeps a window: SlidingWindowSpec and what derives from it.
func (c class) sliding() bool { return c == slidingWindow || c == slidingMLA }

// latent tells whether the class keeps one latent a token.
func (c class) latent() bool { return c == mlaAttention || c == slidingMLA }

// A spec is what one layer's cache takes on one rank. It is comparable: equal specs are
// one spec to the engine. The page of a block of b tokens has, unpadded,
//
//	HeadSlots · b·StatesPerToken/TokensPerState · Content   bytes,
//
// a Mamba page, which does not grow with b, Content bytes.
type spec struct {
	Class     class
	BlockSize int64 // tokens of a block

	KVHeads, KeyDim, ValueDim int64
	DType                     dtype.Type
	HeadSlots                 int64 // slots that hold one token's state each: KVHeads, unless the backend packs otherwise
	Content                   int64 // bytes of one state in one slot; Mamba: of all states of a request
	TokensPerState            int64 // 1, or the ratio of a compressed latent
	StatesPerToken            int64 // 1, or the states that pooled blocks store for one token
	Padded                    int64 // page the engine asks for, bytes; 0: the unpadded one
	Alignment                 int64 // what a page is rounded up to, bytes; 0: nothing
	StrideBytes               int64 // blocks lie multiples of this apart, bytes; 0: no rule
	StrideTokens              int64 // or multiples of the page of a kernel block of up to this many tokens; 0: no rule

	Window   int64 // sliding window, tokens; kept when a window is allocated as full attention
	Chunk    int64 // local attention chunk, tokens; the same
	Retained int64 // tokens kept below the window for drafts of several modules

	Replicated bool   // decode context parallelism leaves this cache whole
	TPShards   int64  // shards this cache can be cut into over tensor parallel ranks; 0: unknown
	CacheDType string // of latents: the engine's kv_cache_dtype
	Quant      quantMode
	Indexer    bool  // keys of a sparse indexer
	Leader     bool  // a latent whose layer has an indexer
	V4         bool  // DeepSeek-V4's packing
	TopK       int64 // width of the sparse top-k buffer
	Replay     bool  // a window that is replayed instead of cached by prefix
	NonCausal  bool
	SinkLen    int64

	States           [maxStates]state // Mamba, in the engine's order
	CheckpointBlocks int64            // blocks a request holds for prefill checkpoints
	CheckpointAlign  int64            // tokens a checkpoint lies a multiple of; 0: no checkpoints
	SpecBlocks       int64            // blocks a request holds for draft tokens
	TPReplicated     bool             // every rank holds the whole state
}

// A quantMode is how a cache's numbers are packed (KVQuantMode).
type quantMode uint8

const (
	plain quantMode = iota
	fp8Tensor
	int8TokenHead
	fp8TokenHead
	int4TokenHead
	nvfp4
	nvfp4Latent
)

// maxStates bounds the tensors of one recurrent layer's state: convolution and recurrence,
// with room for a convolution per projection.
const maxStates = 4

// A state is one tensor of a recurrent layer's state on a rank. The zero state is none.
type state struct {
	Dims  [3]int32
	Rank  uint8 // dims in use
	DType dtype.Type
}

// bytes is the size of the tensor; false when it exceeds int64.
func (s state) bytes() (int64, bool) {
	n, ok := s.DType.Bytes(), true
	for _, d := range s.Dims[:s.Rank] {
		if ok {
			n, ok = mul(n, int64(d))
		}
	}
	return n, ok
}

// states is how many states a block of so many tokens holds.
func (s *spec) states(block int64) int64 {
	if s.Class == mambaState {
		return 1
	}
	return block * s.StatesPerToken / s.TokensPerState
}

// unpadded is the page of a block, bytes.
func (s *spec) unpadded() int64 { return s.HeadSlots * s.states(s.BlockSize) * s.Content }

// page is what a block takes in this layer, bytes.
func (s *spec) page() int64 {
	if s.Padded != 0 {
		return s.Padded
	}
	return s.unpadded()
}

// stride is the distance of two blocks where each layer has a region of its own: the page
// rounded up to the layer's alignment.
func (s *spec) stride() int64 { return up(s.page(), s.alignment()) }

// alignment is what the distance of blocks must be a multiple of, bytes
// (KVCacheSpec.get_block_stride_alignment). Blocks of several kernel blocks must keep each
// kernel block whole.
func (s *spec) alignment() int64 {
	if s.StrideTokens == 0 {
		return max(s.StrideBytes, 1)
	}
	kernel := gcd(s.StrideTokens, s.BlockSize)
	if kernel == s.BlockSize {
		return 1
	}
	small := s.withBlock(kernel)
	return max(small.page(), 1)
}

// withBlock is the same cache in blocks of another size. An aligned latent's page is
// rounded up again, any other padding stays.
func (s *spec) withBlock(tokens int64) spec {
	c := *s
	c.BlockSize = tokens
	c.pad()
	return c
}

// pad rounds the page up to the spec's own alignment.
func (s *spec) pad() {
	if s.Alignment == 0 {
		return
	}
	if n := s.unpadded(); up(n, s.Alignment) != n {
		s.Padded = up(n, s.Alignment)
	}
}

// check refuses sizes that no page can have: products beyond int64, or a page of nothing.
func (s *spec) check() *problem.Error {
	n, ok := mul(s.BlockSize, s.StatesPerToken)
	if ok && s.Class != mambaState {
		n, ok = mul(n/s.TokensPerState, s.HeadSlots)
	} else {
		n = 1
	}
	if ok {
		n, ok = mul(n, s.Content)
	}
	if !ok || n > maxPage {
		return problem.New(problem.BadValue, "block_size", s.BlockSize, "a page of %s exceeds %d bytes", s.Class, int64(maxPage))
	}
	return nil
}

// maxPage bounds one layer's page, bytes, so that sums over layers stay within int64.
const maxPage = 1 << 44

// mul is a·b for a, b ≥ 0; false when it exceeds int64.
func mul(a, b int64) (int64, bool) {
	if a < 0 || b < 0 {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return int64(lo), hi == 0 && lo>>63 == 0
}

// ceil is ⌈a/b⌉ for a ≥ 0, b > 0.
func ceil(a, b int64) int64 { return (a + b - 1) / b }

// up is the next multiple of b from a on.
func up(a, b int64) int64 { return ceil(a, b) * b }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// lcm is the least common multiple of a, b > 0; 0 when it exceeds int64.
func lcm(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	n, ok := mul(a/gcd(a, b), b)
	if !ok {
		return 0
	}
	return n
}
