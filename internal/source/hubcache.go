package source

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"headcount/checkpoint"
	"headcount/checkpoint/gguf"
	"headcount/checkpoint/hub"
	"headcount/problem"
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
	if home := hubHome(getenv); home != "" {
		return filepath.Join(home, "hub")
	}
	return ""
}

// hubHome is where huggingface_hub keeps what is the user's.
func hubHome(getenv func(string) string) string {
	if home := getenv("HF_HOME"); home != "" {
		return expandHome(home, getenv)
	}
	if cache := getenv("XDG_CACHE_HOME"); cache != "" {
		return filepath.Join(expandHome(cache, getenv), "huggingface")
	}
	if home := homeDir(getenv); home != "" {
		return filepath.Join(home, ".cache", "huggingface")
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

// HubClient reads the hub itself, as the environment says where it is and by which token
// (huggingface_hub/constants.py, utils/_auth.py). The error says that it forbids the network.
func HubClient(getenv func(string) string) (*hub.Client, error) {
	for _, key := range []string{"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"} {
		if isTrue(getenv(key)) {
			return nil, problem.New(problem.BadValue, key, getenv(key), "forbids the network").WithHint("unset it, or leave out --allow-network")
		}
	}
	return &hub.Client{Endpoint: getenv("HF_ENDPOINT"), Token: token(getenv)}, nil
}

// token is the user's token of the hub, "" for none.
func token(getenv func(string) string) string {
	if isTrue(getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		return ""
	}
	for _, key := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if t := getenv(key); t != "" {
			return clean(t)
		}
	}
	path := getenv("HF_TOKEN_PATH")
	if home := hubHome(getenv); path == "" && home != "" {
		path = filepath.Join(home, "token")
	}
	if path == "" {
		return ""
	}
	f, err := os.Open(expandHome(path, getenv))
	if err != nil {
		return ""
	}
	defer f.Close()
	const longest = 4096
	data, _ := io.ReadAll(io.LimitReader(f, longest))
	return clean(string(data))
}

// clean is a token without what surrounds it; "" for what cannot go into a header.
func clean(t string) string {
	t = strings.TrimSpace(t)
	if strings.ContainsFunc(t, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }) {
		return ""
	}
	return t
}

func isTrue(s string) bool {
	switch strings.ToUpper(s) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// Source reads the snapshot of a hub id that was downloaded, or one of its GGUF files,
// "org/name:Q4_K_M". It is not found when the cache holds neither.
func (c HubCache) Source(ctx context.Context, name string) (src *checkpoint.Source, found bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	id, variant, _ := strings.Cut(name, ":")
	if c.Dir == "" || !hub.IsID(id) {
		return nil, false, nil
	}
	snapshot, _, ok := ofHubCache(filepath.Join(c.Dir, "models--"+strings.ReplaceAll(id, "/", "--")))
	if !ok {
		return nil, false, nil
	}
	src, err = checkpointIn(snapshot, name, variant)
	return src, true, err
}

// ofHubCache takes a model's folder in a hub cache to the snapshot that main was when it
// was downloaded, or to the only one there, if that has a config or is GGUF; and to the model's id.
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
	if name, _ := gguf.Pick(os.DirFS(snapshot), ""); name != "" {
		return snapshot, strings.Replace(id, "--", "/", 1), true
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
