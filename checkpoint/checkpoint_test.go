package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"headcount/problem"
)

func TestFromBytes(t *testing.T) {
	const config = `{"architectures": ["X"], "a": 1, "a": 2}`
	src, err := FromBytes("inline config", Files{
		Config: []byte(config), HFQuant: []byte(`{"q": 1}`), Params: []byte(`{"dim": 1, "dim": 2}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	got := [...]string{src.Name, string(src.Config.AppendJSON(nil)), string(src.HFQuant.AppendJSON(nil)), string(src.Params.AppendJSON(nil))}
	if want := [...]string{"inline config", `{"architectures":["X"],"a":2}`, `{"q":1}`, `{"dim":2}`}; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if want := []string{"a", "dim"}; !reflect.DeepEqual(src.Duplicates, want) {
		t.Errorf("duplicates %q, want %q", src.Duplicates, want)
	}
	if err := src.ReadTensors(); err != nil || src.Tensors != nil {
		t.Errorf("tensors of bytes: %v, %v", src.Tensors, err)
	}
}

// A params.json is one under whatever name it comes, unless a config.json is there too.
func TestFromBytesParams(t *testing.T) {
	const params = `{"dim": 4096, "n_layers": 32}`
	for name, files := range map[string]Files{
		"alone":       {Params: []byte(params)},
		"as a config": {Config: []byte(params)},
	} {
		src, err := FromBytes(name, files)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v, _ := src.Config.Get("hidden_size"); v != NewInt(4096) || src.Params.Len() != 2 {
			t.Errorf("%s: %s", name, src.Config.AppendJSON(nil))
		}
	}
	src, err := FromBytes("both", Files{Config: []byte(`{"hidden_size": 1}`), Params: []byte(params)})
	if v, _ := src.Config.Get("hidden_size"); err != nil || v != NewInt(1) || src.Params.Len() != 2 {
		t.Errorf("both: %s, %v", src.Config.AppendJSON(nil), err)
	}
	// DistilBERT's config.json has two of the names, and is none.
	src, err = FromBytes("distilbert", Files{Config: []byte(`{"architectures": ["DistilBertModel"], "dim": 768, "n_layers": 6}`)})
	if err != nil || src.Params != nil {
		t.Errorf("distilbert: taken as params.json, %v", err)
	}
}

func TestFromBytesErrors(t *testing.T) {
	for _, tt := range []struct {
		files Files
		want  string
	}{
		{Files{}, "x.json: no config.json"},
		{Files{Config: []byte("{")}, "x.json: line 1, column 2: ends where a key in double quotes should be"},
		{Files{Config: []byte("{}"), HFQuant: []byte("[]")}, "hf_quant_config.json: line 1, column 1: a list is not an object"},
		{Files{Config: []byte("{}"), Params: []byte("<p>")}, "params.json: an HTML or XML page, not JSON"},
		{Files{Params: []byte(`{"dim": 1, "n_layers": 1, "quantization": 8}`)}, "params.json: quantization = 8: neither fp8_e4m3 weights nor compressed-tensors"},
	} {
		src, err := FromBytes("x.json", tt.files)
		if src != nil || err == nil || err.Error() != tt.want {
			t.Errorf("%v, %v, want %s", src, err, tt.want)
		}
	}
}

func TestFromFS(t *testing.T) {
	folder := fstest.MapFS{
		"config.json":          text(`{"architectures": ["X"]}`),
		"hf_quant_config.json": text(`{"producer": {"name": "modelopt"}}`),
		"params.json":          text(`{"dim": 1}`),
		"model.safetensors":    shard(`{"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}`, 4),
	}
	src, err := FromFS(folder, "here")
	if err != nil {
		t.Fatal(err)
	}
	if src.Name != "here" || src.Config.Len() != 1 || src.HFQuant.Len() != 1 || src.Params.Len() != 1 || src.Tensors != nil {
		t.Errorf("%+v", src)
	}
	if err := src.ReadTensors(); err != nil || len(src.Tensors) != 1 {
		t.Errorf("tensors: %v, %v", src.Tensors, err)
	}
	delete(folder, "config.json")
	folder["params.json"] = text(`{"dim": 4096, "n_layers": 32}`)
	src, err = FromFS(folder, "here")
	if err != nil {
		t.Fatal(err)
	}
	if got := src.Config.Text("model_type"); got != "transformer" || src.Params == nil {
		t.Errorf("params.json alone: %s", src.Config.AppendJSON(nil))
	}
	folder["model.safetensors"] = shard(`{}`, 1)
	if err := src.ReadTensors(); err == nil || err.Error() != "here: model.safetensors: holds 1 bytes of data, its tensors only 0" {
		t.Errorf("bad tensors: %v", err)
	}
}

func TestFromFSErrors(t *testing.T) {
	many := fstest.MapFS{"tokenizer/vocab.txt": text("")}
	for _, name := range []string{"README.md", "b.bin", "a.bin", "c.bin", "d.bin", "e.bin"} {
		many[name] = text("")
	}
	for _, tt := range []struct {
		name       string
		folder     fs.FS
		want, hint string
	}{
		{"empty", fstest.MapFS{}, "no config.json", "the folder is empty"},
		{"other files", many, "no config.json", "the folder holds README.md, a.bin, b.bin, c.bin, d.bin, e.bin, …"},
		{"a folder inside", fstest.MapFS{"tokenizer/vocab.txt": text("")}, "no config.json", "the folder holds tokenizer/"},
		{"an adapter", fstest.MapFS{"adapter_config.json": text("{}")}, "no config.json", "this is an adapter: name the model that it adapts"},
		{"GGUF", fstest.MapFS{"model-Q4_K_M.GGUF": text("GGUF")}, "no config.json", "name one of the GGUF files"},
		{"names of control characters", fstest.MapFS{"a\nb": text("")}, "no config.json", "the folder holds a\ufffdb"},
		{"empty config", fstest.MapFS{"config.json": text("")}, "config.json: empty, not JSON", "the file may not have been downloaded in full"},
		{"LFS pointer", fstest.MapFS{"config.json": text("version https://git-lfs.github.com/spec/v1\n")}, "config.json: a Git LFS pointer, not JSON", "fetch the file itself with git lfs pull"},
		{"bad side file", fstest.MapFS{"config.json": text("{}"), "hf_quant_config.json": text("x")}, "hf_quant_config.json: line 1, column 1: 'x' where a value should be", ""},
		{"large config", fstest.MapFS{"config.json": text("{" + strings.Repeat(" ", MaxBytes))}, "config.json: larger than 1048576 bytes", ""},
		{"config is a folder", fstest.MapFS{"config.json/x": text("")}, "config.json: not a regular file", ""},
		{"config is a pipe", fstest.MapFS{"config.json": {Mode: fs.ModeNamedPipe}}, "config.json: not a regular file", ""},
		{"no permission", denied{}, "config.json: permission denied", ""},
	} {
		src, err := FromFS(tt.folder, "here")
		p, ok := errors.AsType[*problem.Error](err)
		if !ok || src != nil {
			t.Errorf("%s: %v, %v", tt.name, src, err)
			continue
		}
		if p.Code != problem.Unreadable || p.Error() != "here: "+tt.want || p.Hint != tt.hint {
			t.Errorf("%s:\n got %s: %s, hint %q\nwant here: %s, hint %q", tt.name, p.Code, p.Error(), p.Hint, tt.want, tt.hint)
		}
	}
}

// denied is a folder that may not be read.
type denied struct{}

func (denied) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: "/home/someone/" + name, Err: fs.ErrPermission}
}

func ExampleParse() {
	config, duplicates, err := Parse([]byte(`{"num_key_value_heads": 32, "num_key_value_heads": 8, "time_step_limit": [0.0, Infinity]}`))
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(config.AppendJSON(nil), '\n'))
	fmt.Println("given twice:", duplicates)
	// Output:
	// {"num_key_value_heads":8,"time_step_limit":[0.0,Infinity]}
	// given twice: [num_key_value_heads]
}

func ExampleFromFS() {
	folder := fstest.MapFS{"params.json": {Data: []byte(`{"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8}`)}}
	src, err := FromFS(folder, "Mistral-7B")
	if err != nil {
		panic(err)
	}
	heads, _ := src.Config.Get("num_key_value_heads")
	fmt.Println(src.Name, heads.Any())
	// Output: Mistral-7B 8
}
