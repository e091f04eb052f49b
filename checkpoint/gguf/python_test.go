package gguf_test

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"headcount/checkpoint/gguf"
	"headcount/internal/shared"
)

//go:embed testdata/write.py
var writePy string

// TestPythonWriter reads what the format's own writer wrote: a file of every tensor type
// that its package knows, and a checkpoint in three files. HEADCOUNT_PYTHON_GGUF is a Python
// that has the package gguf; python3 else.
func TestPythonWriter(t *testing.T) {
	python := cmp.Or(os.Getenv("HEADCOUNT_PYTHON_GGUF"), "python3")
	if err := exec.Command(python, "-c", "import gguf, numpy").Run(); err != nil {
		shared.Skip(t, "gguf", python+" has no package gguf")
	}
	dir := t.TempDir()
	out, err := exec.Command(python, "-c", writePy, dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var wrote []struct { // by the writer's own tables
		File    string
		Tensors map[string]struct {
			DType string
			Shape []int64
			Bytes int64
		}
	}
	if err := json.Unmarshal(out, &wrote); err != nil {
		t.Fatal(err)
	}
	types := map[string]bool{}
	for _, w := range wrote {
		data, err := os.ReadFile(filepath.Join(dir, w.File))
		if err != nil {
			t.Fatal(err)
		}
		f, err := read(data)
		if err != nil {
			t.Errorf("%s: %v", w.File, err)
			continue
		}
		if len(f.Tensors) != len(w.Tensors) {
			t.Errorf("%s: %d tensors, wrote %d", w.File, len(f.Tensors), len(w.Tensors))
		}
		for _, got := range f.Tensors {
			types[got.DType] = true
			if want := w.Tensors[got.Name]; got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) || got.Bytes != want.Bytes {
				t.Errorf("%s: %+v, wrote %+v", w.File, got, want)
			}
		}
		if f.Bytes() != int64(len(data))-f.Header-f.Padding {
			t.Errorf("%s: %d bytes of tensors in %d, header %d, padding %d", w.File, f.Bytes(), len(data), f.Header, f.Padding)
		}
	}
	if len(types) < 30 {
		t.Errorf("only %d types were written", len(types))
	}
	src, err := gguf.Checkpoint(os.DirFS(dir), "split-00001-of-00003.gguf")
	if err != nil {
		t.Fatal(err)
	}
	v, _ := src.Config.Get("num_key_value_heads")
	if heads, _ := v.Int(); heads != 2 || len(src.Tensors) != 3 {
		t.Errorf("split: %d KV heads, %d tensors", heads, len(src.Tensors))
	}
}
