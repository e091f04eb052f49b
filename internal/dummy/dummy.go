// Package dummy makes checkpoints of random numbers: whole ones, that every reader takes, of
// any architecture whose parameters are known. Tests convert them, and documentation shows
// what becomes of them.
package dummy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing/fstest"

	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/model"
)

// A Checkpoint says what to make.
type Checkpoint struct {
	Config  string // config.json
	DType   string // safetensors' name
	Prefix  string // of layers; "" is model.layers.
	Shards  int    // 0 is one, without an index
	Seed    uint64
	ByHeads bool                                          // norms over heads are stored as [heads, width]
	Fill    func(name string, shape []int64, x []float32) // changes what random numbers made; may be nil
}

// Folder makes the checkpoint that the config describes, without routed experts and towers.
func (c Checkpoint) Folder() (fstest.MapFS, error) {
	src, err := checkpoint.FromBytes(checkpoint.ConfigFile, checkpoint.Files{Config: []byte(c.Config)})
	if err != nil {
		return nil, err
	}
	m, err := model.Resolve(src)
	if err != nil {
		return nil, err
	}
	if c.Prefix == "" {
		c.Prefix = "model.layers."
	}
	var tensors []checkpoint.Tensor
	for i, l := range m.Layers {
		tensors = append(tensors, c.tensors(fmt.Sprintf("%s%d.", c.Prefix, i), l.Params)...)
	}
	return c.With(append(tensors, c.tensors("", m.Outer)...)), nil
}

// tensors are those in which parameters lie.
func (c Checkpoint) tensors(prefix string, params []model.Param) []checkpoint.Tensor {
	var out []checkpoint.Tensor
	at := map[string]int{}
	for _, p := range params {
		if p.Experts > 0 || p.Part == model.Tower {
			continue
		}
		shape := []int64{int64(p.Rows.Size)}
		switch {
		case p.Cols.Size > 0:
			shape = append(shape, int64(p.Cols.Size))
		case c.ByHeads && p.Part == model.Norm && p.Rows.Unit > 0:
			shape = []int64{int64(p.Rows.Size / p.Rows.Unit), int64(p.Rows.Unit)}
		}
		if i, ok := at[p.Name]; ok { // parts of one tensor
			out[i].Shape[0] += shape[0]
			continue
		}
		at[p.Name] = len(out)
		out = append(out, checkpoint.Tensor{Name: prefix + p.Name, Shape: shape})
	}
	return out
}

// With lays tensors of the names and shapes given into as many files as the checkpoint has.
func (c Checkpoint) With(tensors []checkpoint.Tensor) fstest.MapFS {
	out := fstest.MapFS{
		checkpoint.ConfigFile:    {Data: []byte(c.Config)},
		"tokenizer.json":         {Data: []byte(`{"model": {}}`)},
		"generation_config.json": {Data: []byte("{}\n")},
		"docs/README.md":         {Data: []byte("# model\n")},
	}
	metadata := checkpoint.NewObject()
	metadata.Set("format", checkpoint.NewText("pt"))
	r := rand.New(rand.NewPCG(c.Seed, 1))
	var index strings.Builder
	total, shards := 0, max(c.Shards, 1)
	for shard := range shards {
		name := "model.safetensors"
		if shards > 1 {
			name = fmt.Sprintf("model-%05d-of-%05d.safetensors", shard+1, shards)
		}
		part := tensors[shard*len(tensors)/shards : (shard+1)*len(tensors)/shards]
		var data []byte
		for i := range part {
			stored := c.numbers(r, part[i].Name, part[i].Shape)
			part[i].DType, part[i].Bytes = c.DType, int64(len(stored))
			data = append(data, stored...)
			fmt.Fprintf(&index, "    %q: %q,\n", part[i].Name, name)
		}
		total += len(data)
		out[name] = &fstest.MapFile{Data: append(checkpoint.AppendHeader(nil, metadata, part), data...)}
	}
	if shards > 1 {
		out["model.safetensors.index.json"] = &fstest.MapFile{Data: fmt.Appendf(nil,
			"{\n  \"metadata\": {\n    \"total_size\": %d\n  },\n  \"weight_map\": {\n%s\n  }\n}\n", total, strings.TrimSuffix(index.String(), ",\n"))}
	}
	return out
}

// numbers are a tensor's elements as they are stored.
func (c Checkpoint) numbers(r *rand.Rand, name string, shape []int64) []byte {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64()) * 0.2
	}
	if c.Fill != nil {
		c.Fill(name, shape, x)
	}
	format, _ := dtype.Parse(c.DType)
	out := make([]byte, n*format.Bytes())
	format.Encode(out, x)
	return out
}

// Write makes the checkpoint of the config in a file, in a folder that is not there yet.
func Write(dir, config, format string, shards int) error {
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	folder, err := Checkpoint{Config: string(text), DType: format, Shards: shards}.Folder()
	if err != nil {
		return err
	}
	return os.CopyFS(dir, folder)
}
