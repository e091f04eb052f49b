package difftest

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"os"
	"strings"

	"headcount/checkpoint"
	"headcount/internal/golden"
	"headcount/internal/reduce"
	"headcount/internal/scorecard"
	"headcount/internal/strict"
)

// Compact is a row as it is committed: what tests compare, and of the config the keys that
// planning reads. ok is false for a row that our plan does not agree with, or that says
// nothing.
func Compact(ctx context.Context, line []byte) (row []byte, ok bool, err error) {
	line = strict.WithNumbers(line)
	if says, err := agrees(line); err != nil || !says {
		return nil, false, err
	}
	var parts struct {
		ID      string
		File    string
		Config  json.RawMessage
		HFQuant json.RawMessage `json:"hf_quant_config"`
	}
	if err := json.Unmarshal(line, &parts); err != nil {
		return nil, false, err
	}
	config := parts.Config
	if src, err := checkpoint.FromBytes(parts.File, checkpoint.Files{Config: parts.Config, HFQuant: parts.HFQuant}); err == nil {
		if small := reduce.Source(ctx, src).Config; small != nil {
			config = strict.WithNumbers(checkpoint.NewDict(small).AppendJSON(nil))
		}
	}
	for _, c := range []json.RawMessage{config, parts.Config} {
		if row, err = trimmed(line, c); err != nil {
			return nil, false, err
		}
		if ok, err = agrees(row); ok || err != nil {
			break
		}
	}
	return row, ok, err
}

// agrees judges a row on its own.
func agrees(line []byte) (bool, error) {
	card := scorecard.New()
	misses, err := Judge(card, line)
	return len(misses) == 0 && card.Rows() == 1, err
}

// trimmed is a row with the fields that tests read and another config.
func trimmed(line []byte, config json.RawMessage) ([]byte, error) {
	var head struct{ ID string }
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, err
	}
	if strings.HasPrefix(head.ID, "sglang/") {
		row := new(golden.SGLangRow)
		if err := json.Unmarshal(line, row); err != nil {
			return nil, err
		}
		row.Config, row.Log = config, kept(row.Log)
		return json.Marshal(row)
	}
	row := new(golden.VLLMRow)
	if err := json.Unmarshal(line, row); err != nil {
		return nil, err
	}
	row.Config = config
	if row.Error != nil {
		row.Error.Message = golden.Shorten(row.Error.Message)
	}
	return json.Marshal(row)
}

// Rows calls visit with each row of a file of JSON lines, gzipped or not.
func Rows(name string, visit func(line []byte) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			return err
		}
		lines = bufio.NewScanner(z)
	}
	lines.Buffer(make([]byte, 1<<20), 64<<20)
	for lines.Scan() {
		if err := visit(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}
