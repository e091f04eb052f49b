package verify

import (
	"strings"
)

const vllmName = "vllm"

// vllmWordings are vLLM's, of 0.5 to 0.33. Where releases differ in a word, both stand here.
var vllmWordings = []wording{
	{"vLLM API server version ", vllmName, func(l *line) { l.announce("server").Version = word(l.after) }},
	{"█  version ", vllmName, func(l *line) { l.announce("server").Version = word(l.after) }}, // the banner, from 0.15
	{"non-default args: ", vllmName, func(l *line) { l.announce("arguments"); l.settings(vllmArguments) }},
	{"] args: Namespace(", vllmName, func(l *line) { l.announce("arguments"); l.settings(vllmNamespace) }},
	{" LLM engine (v", vllmName, func(l *line) {
		if !strings.Contains(l.before, "Initializing a") {
			return // a dump of one that fell over
		}
		l.announce("engine").Version = strings.TrimRight(word(l.after), ")")
		_, l.after, _ = strings.Cut(l.after, "config: ")
		l.settings(vllmConfig)
	}},

	{"Using max model len ", vllmName, func(l *line) { l.rank = ""; l.whole("max_model_len") }},
	{"Resolved architecture: ", vllmName, func(l *line) { l.option("architecture", word(l.after)) }},
	{"Chunked prefill is enabled with max_num_batched_tokens=", vllmName, func(l *line) { l.rank = ""; l.whole("max_num_batched_tokens") }},
	{"Setting attention block size to ", vllmName, func(l *line) { l.rank = ""; l.whole("aligned_block_size") }},
	{"Using AMX_MLA backend", vllmName, func(l *line) { l.option("attention_backend", "AMX_MLA") }}, // a processor's choice, not a flag
	{"Hybrid KV cache manager is disabled", vllmName, func(l *line) { l.option("disable_hybrid_kv_cache_manager", true) }},
	{"Forcing kv cache block size to ", vllmName, func(l *line) { l.rank = ""; l.whole("block_size") }},
	{"Setting kv cache block size to ", vllmName, func(l *line) { l.rank = ""; l.whole("block_size") }},
	{"with num_gpu_blocks_override=", vllmName, func(l *line) { l.rank = ""; l.whole("num_gpu_blocks_override") }},
	{"Auto-fit max_model_len: reduced from ", vllmName, func(l *line) {
		_, l.after, _ = strings.Cut(l.after, " to ")
		l.rank = ""
		l.whole("max_model_len")
	}},
	{",device_name=", "", deviceName},

	// Memory. GB in older lines is GiB as well.
	{"odel loading took ", vllmName, func(l *line) { l.size("weights_bytes") }},
	{"Loading model weights took ", vllmName, func(l *line) { l.size("weights_bytes") }},
	{"model weights take ", vllmName, func(l *line) { l.profile("weights_bytes", "non_torch_bytes", "activation_bytes", "available_bytes") }},
	{"Available KV cache memory: ", vllmName, func(l *line) { l.size("available_bytes") }},
	{"Current kv cache memory in use is ", vllmName, func(l *line) { l.size("available_bytes") }},
	{"GiB) to fit into requested memory, or `--kv-cache-memory=", vllmName, func(l *line) { l.rank = ""; l.whole("suggested_pool") }},
	{"Explicitly set (", vllmName, func(l *line) { l.size("available_bytes") }},
	{"reserved ", vllmName, func(l *line) { // "Initial free memory 139.8 GiB, reserved 40.0 GiB memory for KV Cache as specified by kv_cache_memory_bytes"
		if strings.Contains(l.after, " memory for KV Cache as specified by kv_cache_memory_bytes") {
			l.size("available_bytes")
		}
	}},
	{"Total non KV cache memory: ", vllmName, func(l *line) {
		l.profile("non_kv_bytes", "activation_bytes", "non_torch_bytes", "weights_bytes")
	}},
	{"total_gpu_memory (", vllmName, func(l *line) { l.size("total_bytes") }},
	{"Free memory on device ", vllmName, func(l *line) {
		if _, total, ok := strings.Cut(l.after, "/"); ok {
			l.after = total
			l.size("total_bytes")
		}
	}},
	{"Graph capturing finished in ", vllmName, func(l *line) {
		if _, took, ok := strings.Cut(l.after, "took "); ok {
			l.after = took
			l.size("graph_bytes")
		}
	}},

	// The pool.
	{"KV cache size: ", vllmName, func(l *line) {
		if n, rest, ok := wholeNumber(l.after); ok && strings.HasPrefix(rest, " tokens") {
			if strings.HasSuffix(l.before, "CPU ") {
				l.option("gpu", "cpu")
			}
			l.set("tokens", n)
			l.start().Started = true
		}
	}},
	{"Maximum concurrency for ", vllmName, func(l *line) {
		if n, rest, ok := wholeNumber(l.after); ok {
			if x, _, ok := decimal(strings.TrimPrefix(rest, " tokens per request: ")); ok {
				l.option("max_model_len", n)
				l.set("max_concurrency", x)
			}
		}
	}},
	{", # CPU blocks: ", vllmName, func(l *line) { // V0's only line
		if n, ok := lastWhole(l.before); ok {
			l.set("num_blocks", n)
			l.whole("cpu_blocks")
			l.start().Started = true
		}
	}},
	{"after num_gpu_blocks is: ", vllmName, func(l *line) { l.whole("num_blocks") }},

	// While it runs.
	{" KV cache usage: ", vllmName, throughput},
	{"Application startup complete", "", func(l *line) { l.option("ready", true) }},
	{"Starting vLLM server on ", vllmName, func(l *line) { l.option("ready", true) }},
	{"Starting vLLM API server", vllmName, func(l *line) { l.option("ready", true) }},
}

// vllmArguments names vLLM's arguments as a Request does; those that are not here change no
// number, or are not read from a log.
var vllmArguments = settings{
	"model": text("model"), "model_tag": text("model"),
	"tensor_parallel_size": plain, "pipeline_parallel_size": plain, "data_parallel_size": plain,
	"decode_context_parallel_size": plain, "enable_expert_parallel": plain, "dtype": dtypeName,
	"kv_cache_dtype": plain, "quantization": plain, "block_size": plain, "max_model_len": plain,
	"max_num_seqs": plain, "max_num_batched_tokens": plain, "gpu_memory_utilization": plain,
	"kv_cache_memory_bytes": plain, "num_gpu_blocks_override": plain, "disable_hybrid_kv_cache_manager": plain,
	"enable_prefix_caching": plain, "enable_chunked_prefill": plain, "async_scheduling": plain, "enforce_eager": plain,
	"mamba_cache_mode": plain, "mamba_ssm_cache_dtype": plain, "cp_kv_cache_interleave_size": plain,
	"attention_backend": plain, "hf_overrides": dict, "speculative_config": speculation, "swap_space": plain,
}

// vllmNamespace is what older releases print: every argument, set or not.
var vllmNamespace = settings{
	"model": text("model"), "tensor_parallel_size": plain, "pipeline_parallel_size": plain, "data_parallel_size": plain,
	"enable_expert_parallel": plain, "kv_cache_dtype": plain, "max_num_seqs": plain, "max_num_batched_tokens": plain,
	"gpu_memory_utilization": plain, "num_gpu_blocks_override": plain, "enable_prefix_caching": plain,
	"enable_chunked_prefill": plain, "enforce_eager": plain, "swap_space": plain, "block_size": plain,
}

// vllmConfig is the configuration that the engine prints of itself, resolved. The method of
// quantisation that it names is one that it found in the checkpoint, as headcount does.
var vllmConfig = settings{
	"model": text("model"), "max_seq_len": as("max_model_len"), "dtype": dtypeName, "kv_cache_dtype": plain,
	"tensor_parallel_size": plain, "pipeline_parallel_size": plain, "data_parallel_size": plain,
	"decode_context_parallel_size": plain, "enforce_eager": plain, "device_config": device,
	"enable_prefix_caching": plain, "enable_chunked_prefill": plain, "chunked_prefill_enabled": as("enable_chunked_prefill"),
	"speculative_config": speculation,
}

// device tells the CPU build; of a GPU the configuration says no more than that it is one.
func device(l *line, _, value string) {
	if strings.Trim(value, "'") == "cpu" {
		l.option("gpu", "cpu")
	}
}

// speculation reads a dict of arguments or a SpeculativeConfig(...).
func speculation(l *line, name, value string) {
	if i := strings.IndexAny(value, "({"); i >= 0 {
		value = value[i:]
	}
	for key, v := range pairs(value) {
		switch key {
		case "method":
			l.option("speculative_method", scalar(v))
		case "num_speculative_tokens", "num_spec_tokens":
			l.option("num_speculative_tokens", scalar(v))
		case "model":
			l.option("speculative_model", scalar(v))
		}
	}
}

// deviceName is the file of a tuned kernel: "E=128,N=768,device_name=NVIDIA_H100_80GB_HBM3.json".
func deviceName(l *line) {
	name := l.after
	if end := strings.IndexAny(name, ",.] "); end >= 0 {
		name = name[:end]
	}
	l.option("gpu", strings.ReplaceAll(name, "_", " "))
}

// profile keeps the sizes of a sentence in their order: "14.99GiB; non_torch_memory takes 0.13GiB; …".
func (l *line) profile(names ...string) {
	rest := l.after
	for _, name := range names {
		text, after, ok := numeral(rest)
		if !ok {
			return
		}
		if s, ok := gibibytes(text); ok {
			l.set(name, s)
		}
		rest = after
	}
}

// throughput is the line of every ten seconds:
//
//	Running: 5 reqs, Waiting: 0 reqs, GPU KV cache usage: 2.2%, Prefix cache hit rate: 78.9%
func throughput(l *line) {
	if x, _, ok := decimal(l.after); ok {
		l.set("kv_cache_usage", x/100)
	}
	for _, pair := range [...][2]string{{"Running: ", "running"}, {"Waiting: ", "waiting"}} {
		if _, rest, ok := strings.Cut(l.before, pair[0]); ok {
			if n, _, ok := wholeNumber(rest); ok {
				l.set(pair[1], n)
			}
		}
	}
	if _, rest, ok := strings.Cut(l.after, "Prefix cache hit rate: "); ok {
		if x, _, ok := decimal(rest); ok {
			l.set("prefix_cache_hit_rate", x/100)
		}
	}
}
