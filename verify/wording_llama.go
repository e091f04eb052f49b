package verify

import (
	"strconv"
	"strings"
)

const llamaName = "llama.cpp"

// llamaWordings are llama.cpp's, and so Ollama's, which runs it.
var llamaWordings = []wording{
	{"llama_model_loader: loaded meta data with ", llamaName, func(l *line) { l.announce("model") }},
	{"build: ", llamaName, func(l *line) {
		if n, rest, ok := wholeNumber(l.after); ok && strings.HasPrefix(rest, " (") {
			l.announce("build").Version = "b" + strconv.FormatInt(n, 10)
		}
	}},
	{"general.name ", llamaName, func(l *line) { l.metadata("model") }},
	{"general.name", llamaName, func(l *line) { l.printed("model") }},
	{" n_layer ", llamaName, func(l *line) { l.printed("n_layer") }},
	{" n_embd_k_gqa ", llamaName, func(l *line) { l.printed("n_embd_k_gqa") }},
	{" n_embd_v_gqa ", llamaName, func(l *line) { l.printed("n_embd_v_gqa") }},
	{" n_ctx ", llamaName, func(l *line) { l.printed("n_ctx") }},
	{" n_seq_max ", llamaName, func(l *line) { l.printed("n_seq_max") }},
	{" n_ubatch ", llamaName, func(l *line) { l.printed("n_ubatch") }},
	{" n_swa ", llamaName, func(l *line) { l.printed("n_swa") }},
	{"KV self size  = ", llamaName, func(l *line) { llamaPool(l, "") }},
	{"llama_kv_cache: size = ", llamaName, func(l *line) { llamaPool(l, "") }},
	{"llama_kv_cache_unified: size = ", llamaName, func(l *line) { llamaPool(l, "") }},
	{"creating non-SWA KV cache, size = ", llamaName, func(l *line) { l.option("caches", "split") }},
	{"llama_memory_recurrent: size = ", llamaName, llamaStates},
}

// printed keeps a setting of the form "llama_context: n_ctx = 4096".
func (l *line) printed(name string) {
	if !strings.Contains(l.before, "llama") && !strings.Contains(l.before, "llm_load") && !strings.Contains(l.before, "print_info") {
		return
	}
	value, ok := strings.CutPrefix(strings.TrimLeft(l.after, " "), "=")
	if !ok {
		return
	}
	value = strings.TrimSpace(value)
	if v := scalar(value); v != nil {
		l.option(name, v)
	} else if strings.HasPrefix(value, "[") {
		l.option(name, value)
	}
}

// metadata keeps a value of the file's own: "- kv 2: general.name str = Qwen3 8B".
func (l *line) metadata(name string) {
	if _, value, ok := strings.Cut(l.after, "str "); ok {
		l.after = value
		l.printed(name)
	}
}

// llamaPool reads the line of one cache. A model with windows has two: the first holds every
// token.
//
//	llama_kv_cache: size = 4352.00 MiB (262144 cells, 8 layers, 1/1 seqs), K (q8_0): 2176.00 MiB, V (q8_0): 2176.00 MiB
//	llama_new_context_with_model: KV self size  = 1536.00 MiB, K (f16): 768.00 MiB, V (f16): 768.00 MiB
func llamaPool(l *line, prefix string) {
	o := l.start()
	if o.said("k_bytes", "") {
		prefix = "swa_"
	}
	if _, rest, ok := strings.Cut(l.after, "("); ok {
		if n, after, ok := wholeNumber(rest); ok && strings.HasPrefix(after, " cells") {
			l.option(prefix+"cells", n)
			if n, _, ok := wholeNumber(after); ok {
				l.option(prefix+"layers", n)
			}
		}
	}
	for _, part := range [...]string{"K", "V"} {
		if _, rest, ok := strings.Cut(l.after, " "+part+" ("); ok {
			kind, size, _ := strings.Cut(rest, ")")
			l.option(prefix+strings.ToLower(part)+"_type", kind)
			l.mebibytes(prefix+strings.ToLower(part)+"_bytes", size)
		}
	}
	o.Started = true
}

// llamaStates reads the line of the recurrent states:
//
//	llama_memory_recurrent: size = 72.98 MiB (1 cells, 24 layers, 1 seqs), R (f32): 0.98 MiB, S (f32): 72.00 MiB
func llamaStates(l *line) {
	if _, rest, ok := strings.Cut(l.after, "("); ok {
		if n, after, ok := wholeNumber(rest); ok {
			l.option("state_cells", n)
			if n, _, ok := wholeNumber(after); ok {
				l.option("state_layers", n)
			}
		}
	}
	for _, part := range [...]string{"R", "S"} {
		if _, rest, ok := strings.Cut(l.after, " "+part+" ("); ok {
			_, size, _ := strings.Cut(rest, ")")
			l.mebibytes("state_"+strings.ToLower(part)+"_bytes", size)
		}
	}
	l.start().Started = true
}

// mebibytes keeps the first number of text, of MiB.
func (l *line) mebibytes(name, text string) {
	if digits, _, ok := numeral(text); ok {
		if s, ok := sized(digits, 1<<20); ok {
			l.option(name, s)
		}
	}
}
