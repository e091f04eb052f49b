// Package corpus holds the configs that golden rows speak of, reduced to the keys that
// planning reads, so that a clone alone can plan each row.
package corpus

import (
	"bufio"
	"context"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"headcount/checkpoint"
	"headcount/problem"
)

// A Corpus is checkpoints by file name. It is a Resolver.
type Corpus map[string]checkpoint.Files

// Load reads testdata/corpus.tsv, which tools/catalog writes, and corpus_more.tsv: configs
// that rows name and the larger corpus does not have, written by hand.
func Load(t testing.TB) Corpus {
	t.Helper()
	c := Reduced(t)
	maps.Copy(c, read(t, "corpus_more.tsv"))
	return c
}

// Reduced reads testdata/corpus.tsv alone.
func Reduced(t testing.TB) Corpus {
	t.Helper()
	return read(t, "corpus.tsv")
}

func read(t testing.TB, name string) Corpus {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	f, err := os.Open(filepath.Join(root, "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := Corpus{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, checkpoint.MaxBytes)
	for lines.Scan() {
		name, files, _ := strings.Cut(lines.Text(), "\t")
		all, _, err := checkpoint.Parse([]byte(files))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		part := func(key string) []byte {
			v, ok := all.Get(key)
			if !ok {
				return nil
			}
			return v.AppendJSON(nil)
		}
		c[name] = checkpoint.Files{Config: part("config"), HFQuant: part("hf_quant_config"), Params: part("params")}
	}
	if len(c) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return c
}

// Source gives the checkpoint of a file.
func (c Corpus) Source(_ context.Context, name string) (*checkpoint.Source, bool, error) {
	files, ok := c[name]
	if !ok {
		return nil, true, problem.New(problem.BadValue, "model", name, "not in the corpus")
	}
	src, err := checkpoint.FromBytes(name, files)
	return src, true, err
}
