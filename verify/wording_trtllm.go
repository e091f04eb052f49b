package verify

import "strings"

const trtllmName = "tensorrt-llm"

// trtllmWordings are TensorRT-LLM's.
var trtllmWordings = []wording{
	{"TensorRT-LLM version: ", trtllmName, func(l *line) { l.announce("server").Version = word(l.after) }},
	{"Number of tokens per block: ", trtllmName, func(l *line) { l.whole("tokens_per_block") }},
	{"tokens per block=", trtllmName, func(l *line) { l.whole("tokens_per_block"); l.named("num_blocks", "primary blocks=") }},
	{"Number of blocks in KV cache primary pool: ", trtllmName, func(l *line) { l.whole("num_blocks") }},
	{"blocks in KV cache primary pool: ", trtllmName, func(l *line) { l.whole("num_blocks") }},
	{"for max tokens in paged KV cache (", trtllmName, func(l *line) {
		// "[MemUsageChange] Allocated 26.91 GiB for max tokens in paged KV cache (220480)."
		l.whole("tokens")
		if _, size, ok := strings.Cut(l.before, "Allocated "); ok {
			l.sizeAt(size, "kv_bytes")
		}
		l.start().Started = true
	}},
	{"Max KV cache pages per sequence: ", trtllmName, func(l *line) { l.whole("pages_per_sequence") }},
	{"Memory usage when calculating max tokens in paged kv cache: total: ", trtllmName, func(l *line) {
		l.size("total_bytes")
		l.sizeAfter("free_bytes", "available: ")
	}},
	{"free_gpu_memory_fraction: ", trtllmName, func(l *line) {
		if x, _, ok := decimal(l.after); ok {
			l.option("free_gpu_memory_fraction", x)
		}
	}},
}
