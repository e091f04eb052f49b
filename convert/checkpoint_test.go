package convert

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/fstest"

	"headcount/checkpoint"
	"headcount/model"
)

// A made checkpoint has the tensors of its config, filled at random, in shards.
type made struct {
	config string
	dtype  string
	prefix string // of layers
	shards int
	seed   uint64
	fill   func(name string, shape []int64, x []float32) // changes what random numbers made
	norms  bool                                          // per-head norms as [heads, width]
}

// folder makes the checkpoint.
func (m made) folder(t testing.TB) fstest.MapFS {
	t.Helper()
	src, err := checkpoint.FromBytes(checkpoint.ConfigFile, checkpoint.Files{Config: []byte(m.config)})
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := model.Resolve(src)
	if err != nil {
		t.Fatal(err)
	}
	var tensors []checkpoint.Tensor
	add := func(prefix string, params []model.Param) {
		at := map[string]int{}
		for _, p := range params {
			if p.Experts > 0 {
				continue
			}
			shape := []int64{int64(p.Rows.Size)}
			switch {
			case p.Cols.Size > 0:
				shape = append(shape, int64(p.Cols.Size))
			case m.norms && p.Part == model.Norm && p.Rows.Unit > 0:
				shape = []int64{int64(p.Rows.Size / p.Rows.Unit), int64(p.Rows.Unit)}
			}
			if i, ok := at[p.Name]; ok { // parts of one tensor
				tensors[i].Shape[0] += shape[0]
				continue
			}
			at[p.Name] = len(tensors)
			tensors = append(tensors, checkpoint.Tensor{Name: prefix + p.Name, DType: m.dtype, Shape: shape})
		}
	}
	if m.prefix == "" {
		m.prefix = "model.layers."
	}
	for i, l := range resolved.Layers {
		add(fmt.Sprintf("%s%d.", m.prefix, i), l.Params)
	}
	add("", resolved.Outer)
	return m.write(tensors)
}

// write lays tensors into shards, with an index if they are several.
func (m made) write(tensors []checkpoint.Tensor) fstest.MapFS {
	out := fstest.MapFS{
		"config.json":            {Data: []byte(m.config)},
		"tokenizer.json":         {Data: []byte(`{"model": {}}`)},
		"generation_config.json": {Data: []byte("{}\n")},
		"docs/README.md":         {Data: []byte("# model\n")},
	}
	metadata := checkpoint.NewObject()
	metadata.Set("format", checkpoint.NewText("pt"))
	f, r := formatOf(m.dtype), rand.New(rand.NewPCG(m.seed, 1))
	index, total := checkpoint.NewObject(), int64(0)
	shards := max(m.shards, 1)
	for shard := range shards {
		name := "model.safetensors"
		if shards > 1 {
			name = fmt.Sprintf("model-%05d-of-%05d.safetensors", shard+1, shards)
		}
		part := tensors[shard*len(tensors)/shards : (shard+1)*len(tensors)/shards]
		var data []byte
		for i := range part {
			n := elements(part[i].Shape)
			x := make([]float32, n)
			for j := range x {
				x[j] = float32(r.NormFloat64()) * 0.2
			}
			if m.fill != nil {
				m.fill(part[i].Name, part[i].Shape, x)
			}
			stored := make([]byte, n*int64(f.bytes))
			f.put(stored, x)
			part[i].Bytes = int64(len(stored))
			data = append(data, stored...)
			index.Set(part[i].Name, checkpoint.NewText(name))
			total += part[i].Bytes
		}
		out[name] = &fstest.MapFile{Data: append(checkpoint.AppendHeader(nil, metadata, part), data...)}
	}
	if shards > 1 {
		out["model.safetensors.index.json"] = &fstest.MapFile{Data: fmt.Appendf(nil,
			"{\n  \"metadata\": {\n    \"total_size\": %d\n  },\n  \"weight_map\": %s\n}\n", total, index.AppendJSON(nil))}
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
			formatOf(entry.DType).add(one.x, one.raw, 1)
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
