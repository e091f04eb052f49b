// Package gguf reads GGUF files: their metadata, as the config.json that it stands for, and
// what their tensors take. It reads no tensor data.
package gguf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"headcount/checkpoint"
	"headcount/problem"
)

// Method is the quantisation method by which engines know a GGUF checkpoint, whatever the
// types of its tensors.
const Method = "gguf"

// split is the name of one file of several: name-00001-of-00003.gguf.
var split = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})(\.gguf)$`)

// maxSplits bounds the files of one checkpoint.
const maxSplits = 4096

// Checkpoint reads the checkpoint of a GGUF file in a folder: the file, or all of its
// siblings where it is one of several. A config.json beside it counts instead of the
// metadata, as it does for engines. The error is a [*problem.Error].
func Checkpoint(folder fs.FS, name string) (*checkpoint.Source, error) {
	files, err := readAll(folder, name)
	if err != nil {
		return nil, err
	}
	src, err := checkpoint.FromFS(folder, name)
	if err != nil {
		if _, missing := fs.Stat(folder, checkpoint.ConfigFile); !errors.Is(missing, fs.ErrNotExist) {
			return nil, err
		}
		config, err := Config(files)
		if err != nil {
			return nil, problem.Within(files[0].Name, err)
		}
		src = &checkpoint.Source{Config: config}
	}
	method := checkpoint.NewObject()
	method.Set("quant_method", checkpoint.NewText(Method))
	src.Config.Set("quantization_config", checkpoint.NewDict(method))
	src.Name = baseName(name)
	src.Tensors = []checkpoint.Tensor{}
	for _, f := range files {
		src.Tensors = append(src.Tensors, f.Tensors...)
	}
	return src, nil
}

// Pick finds the GGUF checkpoint of a folder, of several the one whose name ends in variant,
// "Q4_K_M": its file, or the first of its files; "" where there is none and none was asked for.
func Pick(folder fs.FS, variant string) (name string, err error) {
	var all, picked []string
	entries, _ := fs.ReadDir(folder, ".") // what it could read will do
	for _, entry := range entries {
		name := entry.Name()
		part := split.FindStringSubmatch(name)
		if !strings.EqualFold(path.Ext(name), ".gguf") || part != nil && part[2] != "00001" {
			continue
		}
		all = append(all, name)
		if ending := strings.ToLower(variant); ending == "" || strings.HasSuffix(strings.ToLower(baseName(name)), ending) {
			picked = append(picked, name)
		}
	}
	switch {
	case len(picked) == 1:
		return picked[0], nil
	case len(all) == 0 && variant == "":
		return "", nil
	case len(all) == 0:
		return "", problem.New(problem.BadValue, "", nil, "no GGUF files")
	case len(picked) == 0:
		return "", problem.New(problem.BadValue, "", nil, "no GGUF file whose name ends in %.40q", variant).WithHint("there are %s", some(all))
	}
	return "", problem.New(problem.BadValue, "", nil, "%d GGUF checkpoints", len(picked)).WithHint("name one of them: %s", some(picked))
}

// some are the first of names, for a hint.
func some(names []string) string {
	const shown = 6
	more := ""
	if len(names) > shown {
		names, more = names[:shown], ", …"
	}
	return strings.Join(names, ", ") + more
}

// baseName is a file's name without its number and extension.
func baseName(name string) string {
	name = path.Base(name)
	if part := split.FindStringSubmatch(name); part != nil {
		return part[1]
	}
	return strings.TrimSuffix(name, path.Ext(name))
}

// readAll reads the file and its siblings, in order.
func readAll(folder fs.FS, name string) ([]*File, error) {
	part := split.FindStringSubmatch(name)
	if part == nil {
		f, err := readFile(folder, name)
		if err != nil {
			return nil, err
		}
		if n, ok := integer(f.Metadata, "split.count"); ok && n > 1 {
			return nil, problem.Within(name, problem.New(problem.BadValue, "split.count", n, "one of several files, under a name that does not say which").
				WithHint("give it the name that it was made with, as in name-00001-of-%05d.gguf", n))
		}
		return []*File{f}, nil
	}
	count, _ := strconv.Atoi(part[3])
	if count < 1 || count > maxSplits {
		return nil, problem.New(problem.BadValue, "", nil, "%s: not one of 1 to %d files", name, maxSplits)
	}
	files := make([]*File, count)
	for i := range files {
		sibling := fmt.Sprintf("%s-%05d-of-%s%s", part[1], i+1, part[3], part[4])
		f, err := readFile(folder, sibling)
		if err != nil {
			return nil, err
		}
		files[i] = f
	}
	return files, agree(files)
}

// agree holds that the files of a checkpoint are of one another.
func agree(files []*File) error {
	seen, n := map[string]bool{}, 0
	for i, f := range files {
		for _, said := range []struct {
			key  string
			want int64
		}{{"split.no", int64(i)}, {"split.count", int64(len(files))}} {
			if got, ok := integer(f.Metadata, said.key); !ok || got != said.want {
				v, _ := f.Metadata.Get(said.key)
				return problem.Within(f.Name, problem.New(problem.BadValue, said.key, v.Any(), "not %d, as the file's name says", said.want))
			}
		}
		for j := range f.Tensors {
			name := f.Tensors[j].Name
			if seen[name] {
				return problem.Within(f.Name, problem.New(problem.BadValue, name, nil, "given twice"))
			}
			seen[name] = true
		}
		n += len(f.Tensors)
	}
	if n > maxTensors {
		return problem.Within(files[0].Name, problem.New(problem.BadValue, "", nil, "more than %d tensors", maxTensors))
	}
	if want, ok := integer(files[0].Metadata, "split.tensors.count"); ok && want != int64(n) {
		return problem.Within(files[0].Name, problem.New(problem.BadValue, "split.tensors.count", want, "the files hold %d", n))
	}
	return nil
}

func readFile(folder fs.FS, name string) (*File, error) {
	f, size, err := checkpoint.OpenFile(folder, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, problem.New(problem.Unreadable, "", nil, "%s: not there", name).
			WithHint("a checkpoint of several GGUF files is read from all of them, in one folder")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	at, ok := f.(io.ReaderAt)
	if !ok {
		return nil, problem.New(problem.Unreadable, "", nil, "%s: cannot be read from any place", name)
	}
	return Read(at, size, name)
}
