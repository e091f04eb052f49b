package verify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"headcount"
	"headcount/verify"
)

// FuzzVerify compares whatever a log says with plans of a few models: it ends, and what it
// says can be printed.
func FuzzVerify(f *testing.F) {
	logs, err := filepath.Glob("testdata/live/*.log")
	if err != nil {
		f.Fatal(err)
	}
	for i, file := range logs {
		var said strings.Builder // the lines that hold numbers
		for line := range strings.Lines(string(read(f, file))) {
			if strings.Contains(line, "non-default args") || strings.Contains(line, "KV cache") || strings.Contains(line, "Error") || strings.Contains(line, "LLM engine") {
				said.WriteString(line)
			}
		}
		f.Add([]byte(said.String()), uint8(i))
	}
	f.Add([]byte("server_args=ServerArgs(tp_size=2, mem_fraction_static=0.8)\n[2025-12-01 10:00:05 TP0] Load weight begin. avail mem=78.66 GB\n[2025-12-01 10:00:05 TP0] Load weight end. avail mem=41.37 GB, mem usage=37.29 GB.\n[2025-12-01 10:00:05 TP0] KV Cache is allocated. #tokens: 131072, K size: 8.58 GB, V size: 8.58 GB\nmax_total_num_tokens=131072, context_len=5\n"), uint8(0))
	f.Add([]byte("llama_model_loader: loaded meta data with 1\nllama_context: n_ctx = 99999999999\nllama_kv_cache: size = 1.00 MiB (99999999999 cells, 4 layers, 1/1 seqs), K (q8_0): 0.5 MiB, V (f16): 0.5 MiB\nllama_memory_recurrent: size = 1 MiB (9 cells, 9 layers, 1 seqs), R (f32): 0.98 MiB, S (f32): 72.00 MiB\n"), uint8(3))
	f.Add([]byte("Number of tokens per block: 64\nNumber of blocks in KV cache primary pool: 5\nAllocated 1 GiB for max tokens in paged KV cache (320)\n"), uint8(1))
	configs := [][]byte{}
	for _, name := range []string{"gqa8-tp2", "mla-v2-tp2", "gemma3-hybrid", "qwen3-next"} {
		configs = append(configs, read(f, "testdata/live/"+name+".json"))
	}
	v := verify.Verifier{Planner: &headcount.Planner{}}
	f.Fuzz(func(t *testing.T, log []byte, which uint8) {
		p, err := verify.Read(bytes.NewReader(log), "log")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range p.Starts() {
			r, err := v.Verify(context.Background(), o, headcount.Request{Config: configs[int(which)%len(configs)]})
			if err != nil {
				continue
			}
			if _, err := json.Marshal(r); err != nil {
				t.Fatal(err)
			}
		}
	})
}
