package source

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"headcount/checkpoint"
)

// A HubCache is a folder in which huggingface_hub keeps what it downloaded:
//
//	models--org--name/refs/main                       the commit that main was
//	models--org--name/snapshots/<commit>/config.json  a link to the file
type HubCache struct {
	Dir string
}

// HubCacheDir is where huggingface_hub keeps its cache by the environment
// (huggingface_hub/constants.py), "" if that does not say where home is.
func HubCacheDir(getenv func(string) string) string {
	for _, key := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"} {
		if dir := getenv(key); dir != "" {
			return expandHome(dir, getenv)
		}
	}
	if home := getenv("HF_HOME"); home != "" {
		return filepath.Join(expandHome(home, getenv), "hub")
	}
	if cache := getenv("XDG_CACHE_HOME"); cache != "" {
		return filepath.Join(expandHome(cache, getenv), "huggingface", "hub")
	}
	if home := homeDir(getenv); home != "" {
		return filepath.Join(home, ".cache", "huggingface", "hub")
	}
	return ""
}

func homeDir(getenv func(string) string) string {
	if home := getenv("HOME"); home != "" {
		return home
	}
	return getenv("USERPROFILE")
}

func expandHome(dir string, getenv func(string) string) string {
	if rest, ok := strings.CutPrefix(dir, "~"); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
		return filepath.Join(homeDir(getenv), rest)
	}
	return dir
}

// isHubID tells whether the hub would take name as a model's id, "org/name" or "name"
// (huggingface_hub/utils/_validators.py, validate_repo_id).
func isHubID(name string) bool {
	other := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) == 0 || len(part) > 96 || strings.ContainsFunc(part, other) || strings.ContainsAny(part[:1]+part[len(part)-1:], "-.") {
			return false
		}
	}
	return strings.Count(name, "/") <= 1 && !strings.Contains(name, "--") && !strings.Contains(name, "..")
}

// Source reads the snapshot of a hub id that was downloaded. It is not found when the cache
// does not hold a config of it.
func (c HubCache) Source(ctx context.Context, name string) (src *checkpoint.Source, found bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if c.Dir == "" || !isHubID(name) {
		return nil, false, nil
	}
	snapshot, _, ok := ofHubCache(filepath.Join(c.Dir, "models--"+strings.ReplaceAll(name, "/", "--")))
	if !ok {
		return nil, false, nil
	}
	src, err = checkpoint.FromFS(os.DirFS(snapshot), name)
	return src, true, err
}

// ofHubCache takes a model's folder in a hub cache to the snapshot that main was when it
// was downloaded, or to the only one there, if that has a config; and to the model's id.
func ofHubCache(dir string) (snapshot, id string, ok bool) {
	id, ok = strings.CutPrefix(filepath.Base(dir), "models--")
	if !ok {
		return "", "", false
	}
	snapshots := filepath.Join(dir, "snapshots")
	commit := mainCommit(dir)
	if commit == "" {
		entries, err := os.ReadDir(snapshots)
		if err != nil || len(entries) != 1 {
			return "", "", false
		}
		commit = entries[0].Name()
	}
	snapshot = filepath.Join(snapshots, commit)
	for _, name := range []string{checkpoint.ConfigFile, checkpoint.ParamsFile} {
		if _, err := os.Stat(filepath.Join(snapshot, name)); err == nil {
			return snapshot, strings.Replace(id, "--", "/", 1), true
		}
	}
	return "", "", false
}

// mainCommit is what refs/main names, "" if that is not a plain name.
func mainCommit(dir string) string {
	f, err := os.Open(filepath.Join(dir, "refs", "main"))
	if err != nil {
		return ""
	}
	defer f.Close()
	data := make([]byte, 128)
	n, _ := f.Read(data)
	commit := strings.TrimSpace(string(data[:n]))
	if commit == "." || commit == ".." || strings.ContainsAny(commit, `/\:`) {
		return ""
	}
	return commit
}
