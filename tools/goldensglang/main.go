// Goldensglang writes the extract of SGLang's golden rows that the repository keeps: what
// tests read of each row, one JSON object a line, gzip.
//
//	go run ./tools/goldensglang ../shared/golden/sglang.jsonl engine/sglang/testdata/golden.jsonl.gz
package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"headcount/internal/golden"
)

// fields of a row that the extract keeps.
var fields = []string{"id", "model_id", "file", "gpu", "layout", "resolved", "pool", "summary_line",
	"log", "error", "pool_error", "config_class", "oracle_limit"}

// header is the extract's first line: the version and the command behind the rows.
type header struct {
	Engine  string `json:"engine"`
	Version string `json:"version"`
	Command string `json:"command"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: goldensglang ROWS.jsonl OUT.jsonl.gz")
		os.Exit(2)
	}
	if err := extract(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "goldensglang:", err)
		os.Exit(1)
	}
}

func extract(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(z)
	enc.SetEscapeHTML(false)
	head := header{Engine: "sglang", Version: "0.5.23", Command: "python sglang_oracle.py --gpu GPU --corpus configs --layouts all"}
	if err := enc.Encode(head); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<24)
	for n := 1; lines.Scan(); n++ {
		row, err := reduce(lines.Bytes())
		if err != nil {
			return fmt.Errorf("%s:%d: %w", from, n, err)
		}
		if err := enc.Encode(row); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return out.Close()
}

// reduce keeps the fields and log lines that tests read.
func reduce(line []byte) (map[string]json.RawMessage, error) {
	var row map[string]json.RawMessage
	if err := json.Unmarshal(line, &row); err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	for _, f := range fields {
		if v, ok := row[f]; ok {
			out[f] = v
		}
	}
	var log, kept []string
	if err := json.Unmarshal(row["log"], &log); err != nil {
		return nil, err
	}
	for _, l := range log {
		if slices.ContainsFunc(golden.SGLangKept, func(word string) bool { return strings.Contains(l, word) }) {
			kept = append(kept, l)
		}
	}
	if kept == nil {
		delete(out, "log")
		return out, nil
	}
	text, err := json.Marshal(kept)
	out["log"] = text
	return out, err
}
