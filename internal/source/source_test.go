package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"headcount/checkpoint"
	"headcount/internal/shared"
	"headcount/problem"
)

const config = `{"architectures": ["LlamaForCausalLM"], "num_key_value_heads": 8}`

// tree writes files, by their paths with slashes, and goes to their folder.
func tree(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for path, data := range files {
		path = filepath.FromSlash(path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func heads(src *checkpoint.Source) int64 {
	v, _ := src.Config.Get("num_key_value_heads")
	n, _ := v.Int()
	return n
}

func TestFiles(t *testing.T) {
	tree(t, map[string]string{
		"Llama-8B/config.json":                       config,
		"org/Llama-8B/config.json":                   config,
		"fp8/config.json":                            config,
		"fp8/hf_quant_config.json":                   `{"quantization": {}}`,
		"fp8/other.json":                             config,
		"mistral/params.json":                        `{"n_kv_heads": 8, "dim": 1, "n_layers": 1}`,
		"mistral/config.json":                        `{"num_key_value_heads": 4}`,
		"native/params.json":                         `{"n_kv_heads": 8}`,
		"flat.json":                                  config,
		"no-extension":                               config,
		"hub/models--o--m/refs/main":                 "abc\n",
		"hub/models--o--m/snapshots/abc/config.json": config,
		"empty/README.md":                            "",
	})
	for _, tt := range []struct {
		name, want    string // name of the Source
		quant, params bool
	}{
		{"Llama-8B", "Llama-8B", false, false},
		{"Llama-8B/", "Llama-8B", false, false},
		{"./Llama-8B", "Llama-8B", false, false},
		{"Llama-8B/config.json", "Llama-8B", false, false},
		{"org/Llama-8B", "Llama-8B", false, false}, // a folder of a hub id's name is the folder
		{"fp8", "fp8", true, false},
		{"fp8/config.json", "fp8", true, false},
		{"fp8/other.json", "other", true, false},
		{"mistral/params.json", "params", false, true}, // as named, config.json or not
		{"native", "native", false, true},
		{"flat.json", "flat", false, false},
		{"no-extension", "no-extension", false, false},
		{"hub/models--o--m", "o/m", false, false},
		{"-", "standard input", false, false},
	} {
		src, found, err := New(strings.NewReader(config)).Source(t.Context(), filepath.FromSlash(tt.name))
		if err != nil || !found {
			t.Errorf("%s: found %v, %v", tt.name, found, err)
			continue
		}
		if src.Name != tt.want || heads(src) != 8 || (src.HFQuant != nil) != tt.quant || (src.Params != nil) != tt.params {
			t.Errorf("%s: %q with %d heads, quant %v, params %v", tt.name, src.Name, heads(src), src.HFQuant, src.Params)
		}
	}
	t.Chdir("Llama-8B")
	for _, name := range []string{".", "config.json"} {
		src, _, err := Files{}.Source(t.Context(), name)
		if err != nil || src.Name != "Llama-8B" {
			t.Errorf("%s inside the folder: %v, %v", name, src, err)
		}
	}
}

// Names that are not here go on to the catalogue; paths that are not here are errors.
func TestFilesNotFound(t *testing.T) {
	tree(t, nil)
	for _, name := range []string{"llama-3-70b", "meta-llama/Llama-3.1-8B", "", "-", "a\nb.json", strings.Repeat("x", 5000), "a\x00b"} {
		if src, found, err := (Files{}).Source(t.Context(), name); src != nil || found || err != nil {
			t.Errorf("%.20q: %v, found %v, %v", name, src, found, err)
		}
	}
	for _, name := range []string{"./llama", "../llama", "/nowhere/llama", "a/b/c", "llama/", "config.json", "x.gguf", "~/llama", `.\llama`} {
		_, found, err := Files{}.Source(t.Context(), name)
		p, ok := errors.AsType[*problem.Error](err)
		if want := name + ": no such file or folder"; !found || !ok || p.Error() != want || p.Code != problem.Unreadable || p.Hint == "" {
			t.Errorf("%s: found %v, %v", name, found, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := (Files{}).Source(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestFilesErrors(t *testing.T) {
	tree(t, map[string]string{
		"bare/README.md":             "",
		"bare/tokenizer.json":        "{}",
		"gguf/model.gguf":            "GGUF",
		"x.gguf":                     "GGUF\x03\x00",
		"page.json":                  "<!doctype html>",
		"empty.json":                 "",
		"large.json":                 "{" + strings.Repeat(" ", checkpoint.MaxBytes),
		"text.json":                  "hello",
		"w.safetensors":              "\x02\x00\x00\x00\x00\x00\x00\x00{}",
		"pytorch_model.bin":          "PK\x03\x04",
		"quant/a.json":               config,
		"quant/hf_quant_config.json": "",
		"inside/config.json":         "[]",
		"models--o--m/refs/main":     "../../..",
	})
	for _, tt := range []struct{ name, want, hint string }{
		{"bare", "bare: no config.json", "the folder holds README.md, tokenizer.json"},
		{"gguf", "gguf: model.gguf: ends at 4 bytes, in the middle of the header", "the file may not have been downloaded in full"},
		{"x.gguf", "x.gguf: ends at 6 bytes, in the middle of the header", "the file may not have been downloaded in full"},
		{"page.json", "page.json: an HTML or XML page, not JSON", "download the file itself (on the hub: resolve, not blob), with a token if the model is gated"},
		{"empty.json", "empty.json: empty, not JSON", "the file may not have been downloaded in full"},
		{"large.json", "large.json: larger than 1048576 bytes", ""},
		{"text.json", "text.json: line 1, column 1: 'h' where a value should be", ""},
		{"w.safetensors", "w.safetensors: a safetensors file, not JSON", "name the folder that it is in"},
		{"pytorch_model.bin", "pytorch_model.bin: a PyTorch file or another archive, not JSON", "name the folder or the config.json"},
		{"quant/a.json", "hf_quant_config.json: empty, not JSON", "the file may not have been downloaded in full"},
		{"inside/config.json", "inside: config.json: line 1, column 1: a list is not an object", ""},
		{"models--o--m", "models--o--m: no config.json", "the folder holds refs/"},
		{"text.json/config.json", "text.json/config.json: not a directory", ""},
		{"-", "standard input: empty, not JSON", "the file may not have been downloaded in full"},
	} {
		if runtime.GOOS == "windows" && tt.name == "text.json/config.json" {
			continue // another wording
		}
		src, found, err := New(strings.NewReader("")).Source(t.Context(), tt.name)
		p, ok := errors.AsType[*problem.Error](err)
		if !ok || src != nil || !found {
			t.Errorf("%s: %v, found %v, %v", tt.name, src, found, err)
			continue
		}
		if p.Code != problem.Unreadable || p.Error() != tt.want || p.Hint != tt.hint {
			t.Errorf("%s:\n got %s, hint %q\nwant %s, hint %q", tt.name, p.Error(), p.Hint, tt.want, tt.hint)
		}
	}
}

func TestHubCache(t *testing.T) {
	tree(t, map[string]string{
		"models--org--name/refs/main":                      "abc123\n",
		"models--org--name/snapshots/abc123/config.json":   config,
		"models--org--name/snapshots/def456/config.json":   "{}",
		"models--gpt2/refs/main":                           "abc123",
		"models--gpt2/snapshots/abc123/config.json":        config,
		"models--org--pinned/snapshots/abc123/config.json": config, // downloaded at a commit: no refs/main
		"models--org--two/snapshots/abc123/config.json":    config,
		"models--org--two/snapshots/def456/config.json":    config,
		"models--org--tokenizer/refs/main":                 "abc123",
		"models--org--tokenizer/snapshots/abc123/vocab":    "",
		"models--org--hostile/refs/main":                   "../../models--gpt2/snapshots/abc123",
		"models--org--hostile/snapshots/a/config.json":     config,
		"models--org--hostile/snapshots/b/config.json":     config,
		"models--org--bad/refs/main":                       "abc123",
		"models--org--bad/snapshots/abc123/config.json":    "[]",
	})
	for name, want := range map[string]bool{
		"org/name": true, "gpt2": true, "org/pinned": true,
		"org/two": false, "org/tokenizer": false, "org/hostile": false, "org/absent": false,
		"": false, "org/": false, "/gpt2": false, "a/b/c": false, "../gpt2": false, "org--name": false, "o rg/name": false, "-": false, ".": false,
	} {
		src, found, err := HubCache{Dir: "."}.Source(t.Context(), name)
		if found != want || err != nil {
			t.Errorf("%s: found %v, %v", name, found, err)
		} else if found && (src.Name != name || heads(src) != 8) {
			t.Errorf("%s: %q with %d heads", name, src.Name, heads(src))
		}
	}
	_, found, err := HubCache{Dir: "."}.Source(t.Context(), "org/bad")
	if want := "org/bad: config.json: line 1, column 1: a list is not an object"; !found || err == nil || err.Error() != want {
		t.Errorf("org/bad: found %v, %v, want %s", found, err, want)
	}
	if _, found, err := (HubCache{}).Source(t.Context(), "org/name"); found || err != nil {
		t.Errorf("without a folder: found %v, %v", found, err)
	}
}

func TestHubClient(t *testing.T) {
	tree(t, map[string]string{"hf/token": " from-file\n", "named": "named", "bad": "two\nlines"})
	for _, tt := range []struct {
		env             map[string]string
		endpoint, token string
	}{
		{map[string]string{}, "", ""},
		{map[string]string{"HF_TOKEN": "a", "HUGGING_FACE_HUB_TOKEN": "b", "HF_HOME": "hf"}, "", "a"},
		{map[string]string{"HUGGING_FACE_HUB_TOKEN": "b"}, "", "b"},
		{map[string]string{"HF_HOME": "hf", "HF_ENDPOINT": "https://hub.example"}, "https://hub.example", "from-file"},
		{map[string]string{"HF_HOME": "hf", "HF_TOKEN_PATH": "named"}, "", "named"},
		{map[string]string{"HF_TOKEN_PATH": "bad"}, "", ""},
		{map[string]string{"HF_TOKEN": "two\nlines"}, "", ""},
		{map[string]string{"HF_TOKEN": "a", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, "", ""},
	} {
		c, err := HubClient(func(key string) string { return tt.env[key] })
		if err != nil || c.Endpoint != tt.endpoint || c.Token != tt.token {
			t.Errorf("%v: %q, token %q, %v", tt.env, c.Endpoint, c.Token, err)
		}
	}
	_, err := HubClient(func(key string) string { return map[string]string{"HF_HUB_OFFLINE": "1"}[key] })
	if err == nil || err.Error() != "HF_HUB_OFFLINE = 1: forbids the network" {
		t.Errorf("offline: %v", err)
	}
}

func TestHubCacheDir(t *testing.T) {
	home := filepath.FromSlash("/home/u")
	for _, tt := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{}, home + "/.cache/huggingface/hub"},
		{map[string]string{"XDG_CACHE_HOME": "/cache"}, "/cache/huggingface/hub"},
		{map[string]string{"HF_HOME": "/hf", "XDG_CACHE_HOME": "/cache"}, "/hf/hub"},
		{map[string]string{"HF_HOME": "~/hf"}, home + "/hf/hub"},
		{map[string]string{"HUGGINGFACE_HUB_CACHE": "/old", "HF_HOME": "/hf"}, "/old"},
		{map[string]string{"HF_HUB_CACHE": "/new", "HUGGINGFACE_HUB_CACHE": "/old"}, "/new"},
		{map[string]string{"HF_HUB_CACHE": "~"}, home},
		{map[string]string{"HOME": ""}, ""},
	} {
		if _, set := tt.env["HOME"]; !set {
			tt.env["HOME"] = home
		}
		if got := HubCacheDir(func(key string) string { return tt.env[key] }); got != filepath.FromSlash(tt.want) {
			t.Errorf("%v: %s, want %s", tt.env, got, tt.want)
		}
	}
}

// Every file of the corpus reads as a path on the command line.
func TestFilesCorpus(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(shared.Dir(t), "configs", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no configs: %v", err)
	}
	for _, file := range files {
		src, found, err := Files{}.Source(t.Context(), file)
		if err != nil || !found || src.Config.Len() == 0 {
			t.Errorf("%s: found %v, %v", filepath.Base(file), found, err)
		}
	}
}

// A config file is read once while it and the file beside it stay as they are.
func TestAgain(t *testing.T) {
	dir := t.TempDir()
	path, beside := filepath.Join(dir, "some.json"), filepath.Join(dir, checkpoint.HFQuantFile)
	age := time.Hour // of the file that is written next
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		age -= time.Minute
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	files := New(nil)
	read := func() *checkpoint.Source {
		src, found, err := files.Source(t.Context(), path)
		if err != nil || !found {
			t.Fatal(found, err)
		}
		return src
	}
	write(path, config)
	first := read()
	if read() != first {
		t.Error("a file that did not change was read again")
	}
	write(path, strings.Replace(config, "8", "4", 1)) // of the same length
	second := read()
	if n := second.Config.FirstInt("num_key_value_heads"); n != 4 {
		t.Errorf("the file now says 4 KV heads, not %d", n)
	}
	write(beside, `{"quantization": {"quant_algo": "FP8"}}`)
	if read().HFQuant == nil {
		t.Error("the file that came beside it does not count")
	}
	age = time.Minute // the next one is new
	write(path, config)
	if third := read(); third == read() {
		t.Error("a file that changed just now was not read again")
	}
}

// Nobody writes into the pipe, and nothing waits for it.
func TestNamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := mkfifo(path); err != nil {
		t.Skip("no named pipes here: ", err)
	}
	if _, found, err := New(nil).Source(t.Context(), path); !found || err == nil {
		t.Errorf("an empty pipe is a checkpoint: %v, %v", found, err)
	}
}
