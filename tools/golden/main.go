// Command golden writes the compact extract of vLLM's golden rows that the repository
// commits: what the tests compare, without start-up logs and timings.
//
//	go run ./tools/golden [-in ../shared/golden/vllm.jsonl] [-out engine/vllm/testdata/golden.jsonl.gz]
package main

import (
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"headcount/internal/golden"
)

func main() {
	in := flag.String("in", "../shared/golden/vllm.jsonl", "rows as the oracle wrote them")
	out := flag.String("out", golden.VLLMFile, "extract to write")
	flag.Parse()
	if err := extract(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, "golden:", err)
		os.Exit(1)
	}
}

func extract(in, out string) error {
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := write(z, in); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}

func write(w io.Writer, in string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]string{
		"engine":  "vllm 0.33.0",
		"made_by": "vllm_oracle.py run --corpus configs --out vllm.jsonl",
		"extract": "go run ./tools/golden",
	}); err != nil {
		return err
	}
	for row, err := range golden.ReadVLLM(in) {
		if err != nil {
			return err
		}
		if row.Error != nil {
			row.Error.Message = golden.Shorten(row.Error.Message)
		}
		if err := enc.Encode(row); err != nil {
			return err
		}
	}
	return nil
}
