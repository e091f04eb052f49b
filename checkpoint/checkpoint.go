// Package checkpoint reads what a checkpoint says of itself: config.json and its side
// files, and the headers of its safetensors files, from bytes or from an [fs.FS]. It does
// not know what a field means.
//
// A checkpoint comes from a stranger. Everything is capped: the size of a file, the depth
// and number of its values, the tensors of a folder. What is not usable is a
// [*problem.Error] of one line that names the file and, where there is one, the line and
// column or the tensor and its field. No tensor data is read.
package checkpoint

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"headcount/problem"
)

// Names of a checkpoint's files.
const (
	ConfigFile  = "config.json"
	HFQuantFile = "hf_quant_config.json" // ModelOpt up to 0.29 keeps its quantisation here
	ParamsFile  = "params.json"          // Mistral's own format
)

// A Source is one checkpoint as far as it was read. Config is never nil.
type Source struct {
	Name       string   // as the caller named it
	Config     *Object  // config.json; params.json in config.json's keys where there is no other
	HFQuant    *Object  // hf_quant_config.json, or nil
	Params     *Object  // params.json as it is, or nil
	Duplicates []string // paths of keys that were given more than once; the last one counts
	Tensors    []Tensor // from safetensors headers, once ReadTensors was called
	TotalBytes int64    // of all tensors, by the index of files that have no headers; 0: not known

	headers *headers // nil for a Source of bytes
}

// Headers are what a folder's headers say, read once for all copies of a Source.
type headers struct {
	folder  fs.FS
	once    sync.Once
	tensors []Tensor
	total   int64
	err     error
}

// Files are the contents of a checkpoint's JSON files. Config or Params must be there.
type Files struct {
	Config  []byte // config.json
	HFQuant []byte // hf_quant_config.json, or empty
	Params  []byte // params.json, or empty
}

// FromBytes reads a checkpoint from its files' contents. A Config in the form of Mistral's
// params.json is taken as that. Errors locate the config by name and side files by theirs.
func FromBytes(name string, files Files) (*Source, error) {
	src := &Source{Name: name}
	for _, file := range []struct {
		where string
		data  []byte
		to    **Object
	}{
		{name, files.Config, &src.Config}, {HFQuantFile, files.HFQuant, &src.HFQuant}, {ParamsFile, files.Params, &src.Params},
	} {
		if len(file.data) == 0 {
			continue
		}
		object, duplicates, err := Parse(file.data)
		if err != nil {
			return nil, problem.Within(file.where, err)
		}
		*file.to = object
		src.Duplicates = append(src.Duplicates, duplicates...)
	}
	if src.Params == nil && isParams(src.Config) {
		src.Config, src.Params = nil, src.Config
	}
	switch {
	case src.Config != nil:
		return src, nil
	case src.Params == nil:
		return nil, problem.Within(name, problem.New(problem.Unreadable, "", nil, "no %s", ConfigFile))
	}
	var err error
	if src.Config, err = FromParams(src.Params); err != nil {
		return nil, problem.Within(ParamsFile, err)
	}
	return src, nil
}

// FromFS reads the JSON files of a checkpoint's folder. Where config.json and params.json
// are both there, Config is the former. (vLLM prefers the latter if the weights are in
// consolidated*.safetensors; the two describe one model.)
func FromFS(folder fs.FS, name string) (*Source, error) {
	var files Files
	var err error
	for _, file := range []struct {
		name string
		to   *[]byte
	}{
		{ConfigFile, &files.Config}, {HFQuantFile, &files.HFQuant}, {ParamsFile, &files.Params},
	} {
		*file.to, err = readFile(folder, file.name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, problem.Within(name, err)
		}
		if err == nil && len(*file.to) == 0 {
			*file.to = []byte("\n") // there, and empty: an error of Parse
		}
	}
	if files.Config == nil && files.Params == nil {
		return nil, problem.Within(name, noConfig(folder))
	}
	src, err := FromBytes(ConfigFile, files)
	if err != nil {
		return nil, problem.Within(name, err)
	}
	src.Name, src.headers = name, &headers{folder: folder}
	return src, nil
}

// Local reports whether the checkpoint is a folder whose headers cost little to read; one
// that is watched while they are read is far away.
func (s *Source) Local() bool {
	if s.headers == nil {
		return false
	}
	_, far := s.headers.folder.(Watcher)
	return !far
}

// ReadTensors reads the headers of the checkpoint's safetensors files into Tensors, for a
// Source from FromFS; another has none. See the function of that name. Of PyTorch's own
// files only an index says something, how many bytes they hold.
func (s *Source) ReadTensors() error {
	h := s.headers
	if h == nil || s.Tensors != nil {
		return nil
	}
	h.once.Do(func() {
		if h.tensors, h.err = ReadTensors(h.folder); h.err == nil && h.tensors == nil {
			h.total, h.err = pickleTotal(h.folder)
		}
	})
	s.Tensors, s.TotalBytes = h.tensors, h.total
	return problem.Within(s.Name, h.err)
}

// readFile reads a regular file, of a large one just enough for Parse to say so.
func readFile(folder fs.FS, name string) ([]byte, error) {
	f, _, err := OpenFile(folder, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, unreadable(name, err)
	}
	return data, nil
}

// open opens a regular file, asking first: to open a pipe would wait for its writer. The
// error is fs.ErrNotExist where there is no such file.
func OpenFile(folder fs.FS, name string) (f fs.File, size int64, err error) {
	info, err := fs.Stat(folder, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	if err != nil {
		return nil, 0, unreadable(name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, problem.New(problem.Unreadable, "", nil, "%s: not a regular file", name)
	}
	if f, err = folder.Open(name); err != nil {
		return nil, 0, unreadable(name, err)
	}
	return f, info.Size(), nil
}

// unreadable is the system's refusal to read a file, without its path of the file.
func unreadable(name string, err error) error {
	if p, ok := errors.AsType[*problem.Error](err); ok { // a folder of ours says more than the system
		return problem.Within(pathElement(name), p)
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return problem.New(problem.Unreadable, "", nil, "%s: %v", pathElement(name), err)
}

// noConfig says what the folder holds in place of a config.json.
func noConfig(folder fs.FS) error {
	p := problem.New(problem.Unreadable, "", nil, "no %s", ConfigFile)
	names := list(folder)
	has := func(match func(string) bool) bool { return slices.ContainsFunc(names, match) }
	switch {
	case len(names) == 0:
		return p.WithHint("the folder is empty")
	case has(func(s string) bool { return s == "adapter_config.json" }):
		return p.WithHint("this is an adapter: name the model that it adapts")
	case has(func(s string) bool { return strings.HasSuffix(strings.ToLower(s), ".gguf") }):
		return p.WithHint("name one of the GGUF files")
	}
	const shown = 6
	more := ""
	if len(names) > shown {
		names, more = names[:shown], ", …"
	}
	return p.WithHint("the folder holds %s%s", strings.Join(names, ", "), more)
}

// list returns the first names of a folder, sorted, folders with a slash.
func list(folder fs.FS) (names []string) {
	f, err := folder.Open(".")
	if err != nil {
		return nil
	}
	defer f.Close()
	dir, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil
	}
	const enough = 256
	entries, _ := dir.ReadDir(enough) // what it could read will do
	for _, entry := range entries {
		name := pathElement(entry.Name())
		if entry.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
