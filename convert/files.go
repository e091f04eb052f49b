package convert

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/problem"
)

// An output is one file to write. It is copied unless it has a text or a shard.
type output struct {
	name  string
	size  int64
	text  []byte
	shard *checkpoint.Shard // with tensors that change
	head  []byte            // the shard's new header
}

// otherFormats are files in which a checkpoint's weights may lie a second time. With the
// old heads in them they must not stand beside the new.
var otherFormats = []string{"pytorch_model*", "consolidated*.safetensors*", "*.pth", "*.pt", "*.ckpt", "*.gguf", "*.onnx",
	"*.onnx_data", "tf_model*.h5", "flax_model*.msgpack"}

// planFiles lists what goes into the new folder. A safetensors file that no header was
// read of is one too many.
func (c *Conversion) planFiles() error {
	if err := c.newIndex(); err != nil {
		return err
	}
	err := fs.WalkDir(c.folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return unreadable(name, err)
		}
		if entry.IsDir() {
			if strings.HasPrefix(entry.Name(), ".") && name != "." {
				c.LeftOut = append(c.LeftOut, name+"/")
				return fs.SkipDir
			}
			return nil
		}
		info, err := fs.Stat(c.folder, name) // of what a link leads to
		switch {
		case err != nil:
			return unreadable(name, err)
		case !info.Mode().IsRegular():
			return problem.New(problem.Unreadable, "", nil, "%s: not a regular file", name).
				WithHint("a link to a folder, a pipe or a device cannot be copied: take it out")
		}
		return c.planFile(name, info.Size())
	})
	if err != nil {
		return err
	}
	for _, f := range c.files {
		c.Bytes += f.size
	}
	return nil
}

func (c *Conversion) planFile(name string, size int64) error {
	i := slices.IndexFunc(c.shards, func(s checkpoint.Shard) bool { return s.File == name })
	isOther := slices.ContainsFunc(otherFormats, func(pattern string) bool {
		match, _ := path.Match(pattern, path.Base(name))
		return match
	})
	switch text, ours := c.texts[name]; {
	case ours:
		c.files = append(c.files, output{name: name, size: int64(len(text)), text: text})
	case i >= 0 && c.changes(c.shards[i]):
		c.files = append(c.files, c.rewritten(&c.shards[i]))
	case i < 0 && isOther && len(c.Changes) > 0:
		c.LeftOut = append(c.LeftOut, name)
	case i < 0 && !isOther && path.Dir(name) == "." && strings.HasSuffix(name, ".safetensors"):
		return problem.New(problem.Unreadable, "", nil, "%s: a safetensors file more than the checkpoint's own", name).
			WithHint("the index, or model.safetensors, does not name it: take it out of the folder")
	default:
		c.Copied = append(c.Copied, name)
		c.files = append(c.files, output{name: name, size: size})
	}
	return nil
}

// changes reports whether a file holds tensors that are pooled.
func (c *Conversion) changes(s checkpoint.Shard) bool {
	return slices.ContainsFunc(s.Tensors, func(t checkpoint.Tensor) bool { return c.byTensor[t.Name] != nil })
}

// rewritten is a shard with the same tensors in the same order and the same metadata.
func (c *Conversion) rewritten(s *checkpoint.Shard) output {
	tensors := slices.Clone(s.Tensors)
	out := output{name: s.File, shard: s}
	for i, t := range tensors {
		if change := c.byTensor[t.Name]; change != nil {
			tensors[i].Shape, tensors[i].Bytes = change.Shape, change.Bytes
		}
		out.size += tensors[i].Bytes
	}
	out.head = checkpoint.PadHeader(checkpoint.AppendHeader(nil, s.Metadata, tensors), s.Tensors[0].Begin)
	out.size += int64(len(out.head))
	return out
}

// newIndex gives the index the sums of the new tensors, where it has such. Tensors stay in
// their files.
func (c *Conversion) newIndex() error {
	index, err := checkpoint.ReadIndex(c.folder)
	if err != nil || index == nil || index.TotalSize == 0 || len(c.Changes) == 0 {
		return err
	}
	text, err := fs.ReadFile(c.folder, index.File)
	if err != nil {
		return unreadable(index.File, err)
	}
	bytes, parameters := int64(0), int64(0)
	for _, s := range c.shards {
		for _, t := range s.Tensors {
			bytes, parameters = bytes+t.Bytes, parameters+elements(t.Shape)
			if change := c.byTensor[t.Name]; change != nil {
				bytes, parameters = bytes+change.Bytes-t.Bytes, parameters+elements(change.Shape)-elements(t.Shape)
			}
		}
	}
	if text, err = checkpoint.Edit(text, []string{"metadata", "total_size"}, checkpoint.NewInt(bytes)); err != nil {
		return err
	}
	if index.TotalParameters > 0 {
		text, err = checkpoint.Edit(text, []string{"metadata", "total_parameters"}, checkpoint.NewInt(parameters))
	}
	c.texts[index.File] = text
	return err
}
