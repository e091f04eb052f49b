// Package source finds checkpoints on this machine by the names that people type: a
// folder, a file, "-" for standard input, a hub id that huggingface_hub has downloaded.
// It reads configs and headers, never weights, and never the network.
package source

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"headcount/checkpoint"
	"headcount/checkpoint/gguf"
	"headcount/internal/recent"
	"headcount/problem"
)

// Files takes names that are paths. The zero Files has no standard input.
type Files struct {
	stdin func() ([]byte, error)
	kept  *recent.List[identity, *checkpoint.Source]
}

// New is Files that reads stdin at the first "-". A command plans a model more than once, so
// what was read is kept, and so are the last config files for as long as they stay as they are.
func New(stdin io.Reader) Files {
	return Files{
		stdin: sync.OnceValues(func() ([]byte, error) { return readSome(stdin) }),
		kept:  new(recent.List[identity, *checkpoint.Source]),
	}
}

// Source reads the checkpoint at a path. It is not found when there is nothing at name and
// name does not look like a path either: it may then be a model's name. The error is a
// [*problem.Error] that begins with name.
func (f Files) Source(ctx context.Context, name string) (src *checkpoint.Source, found bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if name == "-" && f.stdin != nil {
		src, err = standardInput(f.stdin)
		return src, true, err
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return nil, false, nil // would break the line of an error
	}
	info, err := os.Stat(name)
	switch {
	case err != nil && looksLikePath(name):
		return nil, true, unreadable(name, err)
	case err != nil:
		return nil, false, nil
	case info.IsDir():
		src, err = folder(name)
	case filepath.Base(name) == checkpoint.ConfigFile:
		src, err = folder(filepath.Dir(name))
	case f.kept != nil:
		src, err = f.again(name, info)
	default:
		src, err = single(name, info)
	}
	return src, true, err
}

// An identity is a config file, and the file beside it that counts, as they were.
type identity struct {
	path         string
	file, beside stamp
}

type stamp struct {
	bytes    int64
	modified int64 // nanoseconds of Unix time
}

func stampOf(info fs.FileInfo) stamp { return stamp{info.Size(), info.ModTime().UnixNano()} }

// settled tells whether a file changed so long ago that another change would show in its
// time, which systems keep in steps.
func (s stamp) settled() bool { return time.Now().UnixNano()-s.modified > int64(2*time.Second) }

// again is single for a file that may have been read before.
func (f Files) again(name string, info fs.FileInfo) (*checkpoint.Source, error) {
	is := identity{path: name, file: stampOf(info)}
	if beside, err := os.Stat(quantisationBeside(name)); err == nil {
		is.beside = stampOf(beside)
	}
	if src, ok := f.kept.Get(is); ok {
		return src, nil
	}
	src, err := single(name, info)
	if err == nil && info.Mode().IsRegular() && is.file.settled() && is.beside.settled() {
		f.kept.Put(is, src)
	}
	return src, err
}

// single reads one file.
func single(name string, info fs.FileInfo) (*checkpoint.Source, error) {
	if isGGUF(name, info) {
		return gguf.Checkpoint(os.DirFS(filepath.Dir(name)), filepath.Base(name))
	}
	return file(name)
}

// isGGUF reports whether a file is one, whatever its name.
func isGGUF(name string, info fs.FileInfo) bool {
	if strings.EqualFold(filepath.Ext(name), ".gguf") {
		return true
	}
	if !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == "GGUF"
}

// looksLikePath tells a path from a hub id, which has at most one slash and begins with
// neither a dot nor a slash, and from a short name.
func looksLikePath(name string) bool {
	slashes := strings.ReplaceAll(name, `\`, "/")
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json", ".gguf", ".safetensors":
		return true
	}
	return strings.HasPrefix(slashes, "/") || strings.HasPrefix(slashes, ".") || strings.HasPrefix(slashes, "~/") ||
		strings.HasSuffix(slashes, "/") || strings.Count(slashes, "/") > 1 || strings.Contains(name, `\`) || filepath.VolumeName(name) != ""
}

// unreadable is the system's word on a path.
func unreadable(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return problem.New(problem.Unreadable, "", nil, "%s: no such file or folder", name).
			WithHint("headcount models lists the models that are known without a file")
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return problem.New(problem.Unreadable, "", nil, "%s: %v", name, err)
}

// standardInput reads one config.json or params.json.
func standardInput(stdin func() ([]byte, error)) (*checkpoint.Source, error) {
	const name = "standard input"
	data, err := stdin()
	if err != nil {
		return nil, unreadable(name, err)
	}
	return checkpoint.FromBytes(name, checkpoint.Files{Config: data})
}

// readSome reads a file, of a large one just enough for the parser to say so.
func readSome(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, checkpoint.MaxBytes+1))
	if err == nil && len(data) == 0 {
		data = []byte("\n") // there, and empty
	}
	return data, err
}

// folder reads a checkpoint's folder, or a model's folder in a hub cache.
func folder(path string) (*checkpoint.Source, error) {
	if snapshot, id, ok := ofHubCache(path); ok {
		return checkpointIn(snapshot, id, "")
	}
	src, err := checkpointIn(path, path, "")
	if err != nil {
		return nil, err
	}
	if full, err := filepath.Abs(path); err == nil && src.Name == path {
		src.Name = filepath.Base(full)
	}
	return src, nil
}

// checkpointIn reads the checkpoint in a folder, that of a GGUF file where there is no config
// or a variant is named.
func checkpointIn(path, name, variant string) (*checkpoint.Source, error) {
	dir := os.DirFS(path)
	if _, err := os.Stat(filepath.Join(path, checkpoint.ConfigFile)); variant != "" || errors.Is(err, fs.ErrNotExist) {
		file, err := gguf.Pick(dir, variant)
		if err != nil {
			return nil, problem.Within(name, err)
		}
		if file != "" {
			src, err := gguf.Checkpoint(dir, file)
			return src, problem.Within(name, err)
		}
	}
	return checkpoint.FromFS(dir, name)
}

// file reads a config.json or params.json under any name. The hf_quant_config.json beside
// it counts, as it does for an engine that is given the folder.
func file(path string) (*checkpoint.Source, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	files := checkpoint.Files{Config: data}
	if filepath.Base(path) == checkpoint.ParamsFile {
		files = checkpoint.Files{Params: data}
	}
	beside := quantisationBeside(path)
	if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
		if files.HFQuant, err = readFile(beside); err != nil {
			return nil, unreadable(beside, err)
		}
	}
	src, err := checkpoint.FromBytes(path, files)
	if err != nil {
		return nil, err
	}
	src.Name = strings.TrimSuffix(filepath.Base(path), ".json")
	return src, nil
}

func quantisationBeside(path string) string {
	return filepath.Join(filepath.Dir(path), checkpoint.HFQuantFile)
}

// readFile does not wait for whoever should write into a named pipe.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readSome(f)
}
