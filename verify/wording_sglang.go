package verify

import "strings"

const sglangName = "sglang"

// sglangWordings are SGLang's. GB in its lines is GiB.
var sglangWordings = []wording{
	{"server_args=ServerArgs(", sglangName, func(l *line) {
		l.announce("server")
		l.settings(sglangArguments)
	}},
	{"Load weight begin. avail mem=", sglangName, func(l *line) { l.size("memory_begin") }},
	{"Load weight end. ", sglangName, func(l *line) {
		if _, rest, ok := strings.Cut(l.after, "avail mem="); ok {
			l.sizeAt(rest, "memory_end")
		}
		if _, rest, ok := strings.Cut(l.after, "mem usage="); ok {
			l.sizeAt(rest, "weights_bytes")
		}
		for name, value := range pairs(l.after) {
			switch name {
			case "type":
				l.option("architecture", value)
			case "dtype":
				l.option("loaded_dtype", strings.TrimPrefix(value, "torch."))
			}
		}
	}},
	{"KV Cache is allocated. ", sglangName, sglangPool},
	{"Mamba Cache is allocated. ", sglangName, func(l *line) {
		l.named("mamba_slots", "max_mamba_cache_size: ")
		l.sizeAfter("conv_state_bytes", "conv_state size: ")
		l.sizeAfter("ssm_state_bytes", "ssm_state size: ")
	}},
	{"full_layer_tokens=", sglangName, func(l *line) {
		l.whole("full_tokens")
		l.named("swa_tokens", "swa_layer_tokens=")
	}},
	{"Memory pool end. avail mem=", sglangName, func(l *line) { l.size("memory_after") }},
	{"max_total_num_tokens=", sglangName, func(l *line) {
		if !strings.Contains(l.after, "context_len=") {
			return
		}
		l.whole("max_total_num_tokens")
		l.named("chunked_prefill", "chunked_prefill_size=")
		l.named("max_running", "max_running_requests=")
		l.named("context_len", "context_len=")
		l.sizeAfter("memory_left", "available_gpu_mem=")
		l.start().Started = true
	}},
	{"Capture cuda graph end. ", sglangName, func(l *line) { l.sizeAfter("graph_bytes", "mem usage=") }},
	{"The server is fired up and ready to roll", sglangName, func(l *line) { l.option("ready", true) }},
	{"#running-req: ", sglangName, func(l *line) {
		l.whole("running")
		l.named("waiting", "#queue-req: ")
		if _, rest, ok := strings.Cut(l.after, "token usage: "); ok {
			if x, _, ok := decimal(rest); ok {
				l.set("kv_cache_usage", x)
			}
		}
	}},
}

// sglangArguments names SGLang's arguments as a Request does.
var sglangArguments = settings{
	"model_path": text("model"), "tp_size": as("tensor_parallel_size"), "pp_size": as("pipeline_parallel_size"),
	"dp_size": as("data_parallel_size"), "enable_dp_attention": plain, "dtype": dtypeName, "kv_cache_dtype": plain,
	"quantization": plain, "page_size": plain, "context_length": as("max_model_len"), "mem_fraction_static": plain,
	"chunked_prefill_size": plain, "max_running_requests": plain, "max_total_tokens": plain,
	"swa_full_tokens_ratio": plain, "mamba_full_memory_ratio": plain, "max_mamba_cache_size": plain, "attention_backend": plain,
	"disable_radix_cache": plain, "disable_overlap_schedule": plain, "disable_hybrid_swa_memory": plain, "enable_multimodal": plain,
	"disable_cuda_graph": plain, "speculative_algorithm": plain, "speculative_num_steps": plain, "speculative_eagle_topk": plain,
	"speculative_num_draft_tokens": plain, "speculative_draft_model_path": plain,
}

// sglangPool reads the line of one pool; a model with windows has one a kind, a draft model
// another:
//
//	KV Cache is allocated. dtype: torch.bfloat16, #tokens: 442750, K size: 27.02 GB, V size: 27.02 GB
//	KV Cache is allocated. #tokens: 131072, KV size: 8.58 GB
func sglangPool(l *line) {
	o := l.start()
	name := func(s string) string { return s }
	switch {
	case strings.HasSuffix(l.before, "SWA "):
		name = func(s string) string { return "swa_" + s }
	case o.said("pool_tokens", l.rank) || o.said("k_bytes", l.rank):
		name = func(s string) string { return "second_" + s }
	}
	l.named(name("pool_tokens"), "#tokens: ")
	l.sizeAfter(name("kv_bytes"), "KV size: ")
	if !strings.Contains(l.after, "KV size: ") {
		l.sizeAfter(name("k_bytes"), "K size: ")
		l.sizeAfter(name("v_bytes"), "V size: ")
	}
	if _, rest, ok := strings.Cut(l.after, "dtype: torch."); ok {
		l.option(name("kv_dtype"), word(rest))
	}
	o.Started = true
}

// said reports whether a rank has said a fact.
func (o *Observation) said(name, rank string) bool {
	for i := range o.Facts {
		if o.Facts[i].Name == name && o.Facts[i].Rank == rank {
			return true
		}
	}
	return false
}

// named keeps the whole number after a label.
func (l *line) named(name, label string) {
	text := l.after
	if _, rest, ok := strings.Cut(text, label); ok {
		if n, _, ok := wholeNumber(rest); ok {
			l.set(name, n)
		}
	}
}

// sizeAfter keeps the GiB after a label.
func (l *line) sizeAfter(name, label string) {
	if _, rest, ok := strings.Cut(l.after, label); ok {
		l.sizeAt(rest, name)
	}
}

// sizeAt keeps the GiB at the beginning of text.
func (l *line) sizeAt(text, name string) {
	if digits, _, ok := numeral(text); ok {
		if s, ok := gibibytes(digits); ok {
			l.set(name, s)
		}
	}
}
