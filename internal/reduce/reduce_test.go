package reduce_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headcount"
	"headcount/checkpoint"
	"headcount/internal/corpus"
	"headcount/internal/reduce"
	"headcount/internal/shared"
)

// A config that was reduced plans as the full file does: on both engines, with and without
// each kind of parallelism. When a rule reads a key that none read before, this fails until
// tools/catalog has written the entries again.
func TestReducedPlansAsFull(t *testing.T) {
	configs := filepath.Join(shared.Dir(t), "configs")
	reduced := corpus.Reduced(t)
	for file := range reduced {
		full, err := read(configs, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, req := range reduce.Requests() {
			if testing.Short() && req.GPU != "h100" {
				continue
			}
			req.Model = file
			if have, want := plan(reduced, req), plan(full, req); have != want {
				t.Errorf("%s: %s on %q, %+v:\nreduced %.600s\nfull    %.600s", file, req.Engine, req.GPU, req.Layout, have, want)
				break
			}
		}
	}
}

// read is the full checkpoint behind an entry, as a corpus of one.
func read(dir, file string) (corpus.Corpus, error) {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil, err
	}
	quant, err := os.ReadFile(filepath.Join(dir, strings.TrimSuffix(file, ".json")+".hf_quant.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return corpus.Corpus{file: checkpoint.Files{Config: data, HFQuant: quant}}, nil
}

// plan is a request's report, or what is wrong with it.
func plan(models headcount.Resolver, req headcount.Request) string {
	p := headcount.Planner{Resolver: models}
	report, err := p.Plan(context.Background(), req)
	data, _ := json.Marshal(report)
	if err != nil {
		return err.Error() + string(data)
	}
	return string(data)
}
