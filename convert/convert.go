// Package convert makes a checkpoint with fewer KV heads out of one with more: MHA to GQA,
// GQA to MQA. Adjacent KV heads form groups, and each group's key and value projections are
// pooled into one head, by their mean as in the GQA paper (Ainslie et al. 2023, section
// 2.1). The result serves at once and needs some more training to be good again.
//
// [New] reads headers and refuses what it is not sure of, before anything is written.
// [Conversion.Write] streams: it holds a few MiB, whatever the size of the checkpoint.
package convert

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/model"
	"headcount/problem"
)

// A Method says how the heads of a group become one.
type Method string

const (
	Mean     Method = "mean"     // the mean, in float32, rounded once
	First    Method = "first"    // the first head, as it is
	Weighted Method = "weighted" // the mean, weighted by what attention's output takes from each head
)

// Methods are all of them, the usual one first.
var Methods = []Method{Mean, First, Weighted}

// Options say what to make.
type Options struct {
	KVHeads int    // of each layer; divides the number that the checkpoint has
	Method  Method // "" is Mean
}

// A Conversion is one that can be made: everything about it was checked, and nothing is
// written yet.
type Conversion struct {
	Name     string
	Method   Method
	From, To *model.Model
	OldHeads int          // KV heads of each layer that keeps any
	NewHeads int          // the same afterwards
	Edits    []model.Edit // of config.json
	Config   []byte       // config.json with them
	Changes  []Change     // in the order of layers
	Copied   []string     // files that stay as they are, shards among them
	LeftOut  []string     // files that hold the old weights in another format, and hidden folders

	Bytes  int64 // of all files to write
	Saved  int64 // of tensors
	folder fs.FS
	shards []checkpoint.Shard
	files  []output
	texts  map[string][]byte // files that are written from memory

	layers   []layer                     // those with changes
	byTensor map[string]*Change          // by name
	planned  map[string]bool             // tensors of heads that have their place
	shapes   map[string]model.Projection // the same by their names inside layers
	create   func(name string) (io.WriteCloser, error)
}

// A Change is one tensor that is pooled.
type Change struct {
	Tensor checkpoint.Tensor // as it is
	Inside string            // its name inside the layer
	Shape  []int64           // as it will be
	Bytes  int64             // as it will be

	layer  int
	width  int64 // elements of one row
	blocks []block
}

// A block is rows of the new tensor: those of one KV head, pooled from the rows of several,
// or rows that are taken as they are.
type block struct {
	role model.Role
	head int     // the new KV head
	rows int64   // as many from each
	from []int64 // first rows in the old tensor
}

// New plans the conversion of the checkpoint in folder; name is what errors call it. The
// error is a [*problem.Error]: a checkpoint that is not whole or disagrees with its config,
// one whose keys and values are not per head or not known, or a number of heads that does
// not divide.
func New(folder fs.FS, name string, opts Options) (*Conversion, error) {
	c := &Conversion{Name: name, Method: opts.Method, NewHeads: opts.KVHeads, folder: folder, texts: map[string][]byte{},
		byTensor: map[string]*Change{}, planned: map[string]bool{}, shapes: map[string]model.Projection{}}
	c.create = func(name string) (io.WriteCloser, error) { return os.Create(name) }
	if c.Method == "" {
		c.Method = Mean
	}
	if !slices.Contains(Methods, c.Method) {
		return nil, problem.New(problem.BadValue, "method", c.Method, "not one of mean, first and weighted")
	}
	for _, step := range []func() error{c.readModel, c.newConfig, c.readShards, c.planLayers, c.planFiles} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Group is how many KV heads become one.
func (c *Conversion) Group() int { return c.OldHeads / c.NewHeads }

// readModel resolves the checkpoint as it is, and holds the new number to its heads.
func (c *Conversion) readModel() error {
	src, err := checkpoint.FromFS(c.folder, c.Name)
	if err != nil {
		return err
	}
	if _, err := fs.Stat(c.folder, checkpoint.ConfigFile); err != nil {
		return problem.New(problem.Unsupported, "", nil, "%s: only %s, whose tensors have Mistral's own names", c.Name, checkpoint.ParamsFile).
			WithHint("convert the same checkpoint in the form of Transformers, with a %s", checkpoint.ConfigFile)
	}
	if c.From, err = model.Resolve(src); err != nil {
		return err
	}
	if c.OldHeads, err = headsOf(c.From); err != nil {
		return err
	}
	if n := c.NewHeads; n < 1 || c.OldHeads%n != 0 {
		return problem.New(problem.NotDivisible, "kv_heads", n, "does not divide the %d KV heads of %s", c.OldHeads, c.Name).
			WithHint("%s", legal(c.OldHeads))
	}
	return nil
}

// legal lists the numbers of KV heads that n can become.
func legal(n int) string {
	var divisors []string
	for d := n; d >= 1; d-- {
		if n%d == 0 {
			divisors = append(divisors, fmt.Sprint(d))
		}
	}
	return "legal are " + strings.Join(divisors, ", ")
}

// headsOf is how many KV heads each layer that caches keys and values has; they must agree.
func headsOf(m *model.Model) (heads int, err error) {
	for i, l := range m.Layers {
		for _, cache := range l.Caches {
			switch cache.Kind {
			case model.Latent, model.SlidingLatent:
				return 0, problem.New(problem.Unsupported, "", nil, "%s: its layers cache one latent, not KV heads", m.Name).
					WithHint("MLA keeps less than GQA would: see headcount compare")
			case model.Cross, model.EncoderOnly:
				return 0, problem.New(problem.Unsupported, "", nil, "%s: an encoder, not a decoder that keeps KV heads", m.Name)
			case model.Full, model.Sliding, model.Chunked:
				if heads > 0 && heads != cache.Attn.KVHeads {
					return 0, problem.New(problem.Unsupported, "", nil, "%s: layer %d has %d KV heads, those before it %d", m.Name, i, cache.Attn.KVHeads, heads).
						WithHint("only a checkpoint whose layers have one number of KV heads can be converted")
				}
				heads = cache.Attn.KVHeads
			}
		}
	}
	if heads == 0 {
		return 0, problem.New(problem.Unsupported, "", nil, "%s: no layer keeps KV heads", m.Name)
	}
	return heads, nil
}

// newConfig edits config.json and resolves it again: what comes of it must be the same
// model with the new number of KV heads.
func (c *Conversion) newConfig() (err error) {
	n := c.NewHeads
	if c.Config, err = fs.ReadFile(c.folder, checkpoint.ConfigFile); err != nil {
		return unreadable(checkpoint.ConfigFile, err)
	}
	if n == c.OldHeads {
		c.To = c.From
		return nil
	}
	if c.Edits, err = c.From.KVHeadEdits(n); err != nil {
		return err
	}
	for _, edit := range c.Edits {
		if c.Config, err = checkpoint.Edit(c.Config, edit.Path, edit.Value); err != nil {
			return err
		}
	}
	c.texts[checkpoint.ConfigFile] = c.Config
	src, err := checkpoint.FromBytes(checkpoint.ConfigFile, checkpoint.Files{Config: c.Config})
	if err != nil {
		return err
	}
	if c.To, err = model.Resolve(src); err != nil {
		return err
	}
	if heads, err := headsOf(c.To); err != nil || heads != n {
		field := strings.Join(c.Edits[0].Path, ".")
		return problem.New(problem.Unsupported, field, n, "does not give %s %d KV heads", c.From.Architecture, n)
	}
	return c.editParams(n)
}

// editParams keeps a params.json beside config.json in step with it.
func (c *Conversion) editParams(n int) error {
	data, err := fs.ReadFile(c.folder, checkpoint.ParamsFile)
	if err != nil {
		return nil // there is none
	}
	const heads = "n_kv_heads"
	if params, _, err := checkpoint.Parse(data); err == nil {
		if _, ok := params.Get(heads); ok {
			c.texts[checkpoint.ParamsFile], err = checkpoint.Edit(data, []string{heads}, checkpoint.NewInt(int64(n)))
			return err
		}
	}
	return nil
}

// readShards reads the headers of every safetensors file.
func (c *Conversion) readShards() (err error) {
	if c.shards, err = checkpoint.ReadShards(c.folder); err != nil {
		return err
	}
	if len(c.shards) == 0 {
		return problem.New(problem.Unreadable, "", nil, "%s: no safetensors files", c.Name).
			WithHint("load the checkpoint with Transformers and save it again: save_pretrained writes safetensors")
	}
	return nil
}

// unreadable is the system's refusal to read a file of the checkpoint.
func unreadable(name string, err error) error {
	return problem.New(problem.Unreadable, "", nil, "%s: %v", name, cause(err))
}

// cause is the system's word on a file without its path, which the message has already.
func cause(err error) error {
	if p, ok := err.(*fs.PathError); ok {
		return p.Err
	}
	return err
}
