package verify

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

const pool = "(EngineCore pid=4) INFO 11-29 22:13:28 [kv_cache_utils.py:2327] GPU KV cache size: 1,337,216 tokens, Maximum concurrency for 8,192 tokens per request: 163.23x\n"

// TestHostile reads what no engine writes: the lines are skipped and counted, and those
// between them are read.
func TestHostile(t *testing.T) {
	random := make([]byte, 3<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	for _, tt := range []struct {
		name    string
		log     []byte
		skipped int64 // −1: any number
	}{
		{"empty", nil, 0},
		{"no newline", bytes.Repeat([]byte{'x'}, 10<<20), 1},
		{"a line of 10 MB", slicesOf(pool, strings.Repeat("GPU KV cache size: ", 1<<19)+"\n", pool), 1},
		{"as long as is read", slicesOf(strings.Repeat("x", maxLine-1)+"\n", pool), 0},
		{"one byte longer", slicesOf(strings.Repeat("x", maxLine)+"\n", pool), 1},
		{"zeros", slicesOf("a\x00b\n", pool, "\x00\x00\n"), 2},
		{"random", random, -1},
		{"endless numbers", slicesOf("GPU KV cache size: "+strings.Repeat("9,", 1000)+"9 tokens, Maximum concurrency for 1 tokens per request: 1e999x\n", pool), 0},
		{"open brackets", slicesOf("non-default args: {'model': "+strings.Repeat("[", 1<<16)+"\n", pool), 0},
		{"nested JSON", slicesOf(strings.Repeat(`{"log":`, 1<<12)+"GPU KV cache size: 5 tokens\n", pool), 0},
	} {
		p, err := Read(bytes.NewReader(tt.log), "log")
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if tt.skipped >= 0 && p.Skipped() != tt.skipped {
			t.Errorf("%s: %d lines skipped, want %d", tt.name, p.Skipped(), tt.skipped)
		}
		if bytes.HasSuffix(tt.log, []byte(pool)) {
			if n, _ := p.Starts()[len(p.Starts())-1].Int("tokens"); n != 1337216 {
				t.Errorf("%s: the line after it says %d tokens", tt.name, n)
			}
		}
	}
}

func slicesOf(parts ...string) []byte { return []byte(strings.Join(parts, "")) }

// TestFlat reads a log of 128 MB in which every tenth line is another process' fact and
// every hundredth another start, and wants the memory of a few.
func TestFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 128 MB")
	}
	p := &Parser{}
	before := heap()
	var block bytes.Buffer
	written := 0
	for n := 0; written < 128<<20; n++ {
		block.Reset()
		for i := range 1000 {
			switch {
			case i%100 == 0:
				block.WriteString("(APIServer pid=1) INFO x vLLM API server version 0.11.0\n")
			case i%10 == 0:
				block.WriteString("(Worker_TP")
				block.WriteString(strings.Repeat("7", 1+(n+i)%9))
				block.WriteString(" pid=1) INFO x Available KV cache memory: 5.0 GiB\n")
			default:
				block.WriteString("INFO:     127.0.0.1:58596 - \"POST /v1/completions HTTP/1.1\" 200 OK, and more text that nobody reads\n")
			}
		}
		p.Write(block.Bytes())
		written += block.Len()
	}
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("the heap grew by %d bytes over %d of log", grown, written)
	}
	if len(p.Starts()) != maxStarts {
		t.Errorf("%d starts are kept, want %d", len(p.Starts()), maxStarts)
	}
	runtime.KeepAlive(p)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// FuzzParser reads anything, whole and in pieces: it never fails, and pieces change nothing.
func FuzzParser(f *testing.F) {
	f.Add([]byte(pool), 3)
	f.Add([]byte("non-default args: {'model': 'a', 'x': {'y': [1]}}\n# GPU blocks: 5, # CPU blocks: 6\n"), 1)
	f.Add([]byte("{\"log\":\"server_args=ServerArgs(model_path='a', tp_size=2)\"}\nmax_total_num_tokens=5, context_len=6\n"), 7)
	f.Add([]byte("llama_model_loader: loaded meta data with 1\nllama_kv_cache: size = 1.00 MiB (2 cells, 3 layers, 1/1 seqs), K (f16): 0.5 MiB, V (f16): 0.5 MiB\n"), 11)
	f.Add([]byte("To serve at least one request with the model's max seq len (5), (0.06 GiB KV cache is needed, which is larger than the available KV cache memory (0.03 GiB)."), 2)
	f.Fuzz(func(t *testing.T, log []byte, cut int) {
		whole, err := Read(bytes.NewReader(log), "log")
		if err != nil {
			t.Fatal(err)
		}
		pieces := &Parser{Source: "log"}
		for rest := log; len(rest) > 0; {
			n := min(len(rest), 1+max(cut, -cut)%64)
			if n < 1 {
				n = 1
			}
			pieces.Write(rest[:n])
			rest = rest[n:]
		}
		pieces.Close()
		if whole.Lines() != pieces.Lines() || whole.Skipped() != pieces.Skipped() || len(whole.Starts()) != len(pieces.Starts()) {
			t.Fatalf("whole: %d lines, %d starts; in pieces: %d, %d", whole.Lines(), len(whole.Starts()), pieces.Lines(), len(pieces.Starts()))
		}
		for i, o := range whole.Starts() {
			if _, err := o.MarshalJSON(); err != nil {
				t.Fatal(err)
			}
			if len(o.Facts) != len(pieces.Starts()[i].Facts) {
				t.Fatal("other facts in pieces")
			}
		}
	})
}

// FuzzSamples reads anything as a page of metrics.
func FuzzSamples(f *testing.F) {
	f.Add([]byte("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"5\"} 1.0\nvllm:num_requests_running{engine=\"0\"} 5.0\n"))
	f.Add([]byte("a{b=\"\\\"\\\\\\n\"} NaN 123\nc +Inf\n"))
	f.Fuzz(func(t *testing.T, page []byte) {
		for s := range Samples(page) {
			if s.Name == "" {
				t.Fatal("a sample without a name")
			}
		}
		for _, path := range []string{"/metrics", "/v1/models", "/version", "/server_info", "/props"} {
			if o, err := FromServer("x", []Page{{path, page}}); err == nil {
				if _, err := o.MarshalJSON(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkParse reads the log of a server that has run for long: a start, and then requests.
func BenchmarkParse(b *testing.B) {
	var log bytes.Buffer
	log.WriteString(pool)
	for log.Len() < 64<<20 {
		log.WriteString("INFO:     127.0.0.1:58596 - \"POST /v1/completions HTTP/1.1\" 200 OK\n")
		if log.Len()%97 == 0 {
			log.WriteString("(APIServer pid=1) INFO 11-29 22:14:00 [loggers.py:335] Engine 000: Avg prompt throughput: 122.5 tokens/s, Avg generation throughput: 134.7 tokens/s, Running: 5 reqs, Waiting: 0 reqs, GPU KV cache usage: 2.2%, Prefix cache hit rate: 78.9%\n")
		}
	}
	b.SetBytes(int64(log.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(bytes.NewReader(log.Bytes()), "log"); err != nil {
			b.Fatal(err)
		}
	}
}
