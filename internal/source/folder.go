package source

import (
	"io/fs"
	"os"
	"path/filepath"

	"headcount/problem"
)

// Folder opens a checkpoint's folder on this machine, also a model's folder in a hub cache,
// whose name is then the model's. The error is a [*problem.Error] that begins with path.
func Folder(path string) (folder fs.FS, name string, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, "", unreadable(path, err)
	case !info.IsDir():
		return nil, "", problem.New(problem.Unreadable, "", nil, "%s: not a folder", path).
			WithHint("name the folder that holds config.json and the safetensors files")
	}
	if snapshot, id, ok := ofHubCache(path); ok {
		return os.DirFS(snapshot), id, nil
	}
	name = path
	if full, err := filepath.Abs(path); err == nil {
		name = filepath.Base(full)
	}
	return os.DirFS(path), name, nil
}
