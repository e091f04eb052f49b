package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"headcount/internal/dummy"
)

// BenchmarkWrite converts a checkpoint whose layers have a 7B model's proportions, from
// files to files, and copies the same files before each run: of-copy-rate is the time of the
// best copy by that of the best conversion, of 100 MB and more, so that a machine with other
// work shows what it can do. Reads come from the system's cache in both.
func BenchmarkWrite(b *testing.B) {
	for _, bb := range []struct {
		format string
		shards int
	}{{"BF16", 2}, {"F16", 2}, {"F32", 2}, {"BF16", 1}} {
		in := filepath.Join(b.TempDir(), "IN")
		folder, err := dummy.Checkpoint{Config: `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 4,
			"num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 4096, "intermediate_size": 2752}`, DType: bb.format, Shards: bb.shards}.Folder()
		if err != nil {
			b.Fatal(err)
		}
		if err := os.CopyFS(in, folder); err != nil {
			b.Fatal(err)
		}
		size := int64(0)
		for _, file := range folder {
			size += int64(len(file.Data))
		}
		folder = nil // of 100 MB, which a collector would mark
		for _, method := range Methods {
			b.Run(fmt.Sprintf("%s/%s/shards=%d", method, bb.format, bb.shards), func(b *testing.B) {
				out := b.TempDir()
				copied, converted := time.Hour, time.Hour
				b.SetBytes(size)
				for n := 0; b.Loop(); n++ {
					start := time.Now()
					if err := os.CopyFS(filepath.Join(out, "copy"), os.DirFS(in)); err != nil {
						b.Fatal(err)
					}
					middle := time.Now()
					c, err := New(os.DirFS(in), "IN", Options{KVHeads: 4, Method: method})
					if err != nil {
						b.Fatal(err)
					}
					if err := c.Write(b.Context(), filepath.Join(out, "OUT"), nil); err != nil {
						b.Fatal(err)
					}
					copied, converted = min(copied, middle.Sub(start)), min(converted, time.Since(middle))
					if err := os.RemoveAll(out); err != nil {
						b.Fatal(err)
					}
					if err := os.Mkdir(out, 0o777); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(copied.Seconds()/converted.Seconds(), "of-copy-rate")
				b.ReportMetric(float64(size)/converted.Seconds()/1e9, "GB/s")
			})
		}
	}
}
