package convert

import (
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"headcount/checkpoint"
	"headcount/internal/dummy"
)

// folder makes a checkpoint.
func folder(t testing.TB, c dummy.Checkpoint) fstest.MapFS {
	t.Helper()
	out, err := c.Folder()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A tensor is one as it is stored, and its values.
type tensor struct {
	checkpoint.Tensor
	raw []byte
	x   []float32
}

// load reads every tensor of a folder.
func load(t testing.TB, folder fs.FS) map[string]tensor {
	t.Helper()
	shards, err := checkpoint.ReadShards(folder)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]tensor{}
	for _, s := range shards {
		data, err := fs.ReadFile(folder, s.File)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range s.Tensors {
			one := tensor{Tensor: entry, raw: data[entry.Begin : entry.Begin+entry.Bytes], x: make([]float32, elements(entry.Shape))}
			formatOf(entry.DType).Decode(one.x, one.raw)
			out[entry.Name] = one
		}
	}
	return out
}

// rows are n rows of a tensor from begin on, as float64s.
func (t tensor) rows(begin, n int) [][]float64 {
	width := 1
	if len(t.Shape) == 2 {
		width = int(t.Shape[1])
	}
	out := make([][]float64, n)
	for i := range out {
		for _, v := range t.x[(begin+i)*width : (begin+i+1)*width] {
			out[i] = append(out[i], float64(v))
		}
	}
	return out
}

// pairUp makes equal the heads that are pooled into one: of each run of group heads, all
// but the first become it. rows of a head are width, and the first of them is at start.
func pairUp(x []float32, start, heads, group, stride, width int) {
	for h := range heads {
		first := h / group * group
		copy(x[start+h*stride:start+h*stride+width], slices.Clone(x[start+first*stride:start+first*stride+width]))
	}
}
