package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"

	"headcount/checkpoint"
	"headcount/internal/dummy"
	"headcount/problem"
)

// edited is a folder with one change.
func edited(folder fstest.MapFS, change func(fstest.MapFS)) fstest.MapFS {
	out := maps.Clone(folder)
	change(out)
	return out
}

// without leaves a tensor out of the first shard, or gives it another shape or dtype.
func retouched(name string, change func(*checkpoint.Tensor) bool) func(fstest.MapFS) {
	return func(folder fstest.MapFS) {
		shards, err := checkpoint.ReadShards(folder)
		if err != nil {
			panic(err)
		}
		for _, s := range shards {
			old, tensors, data := folder[s.File].Data, []checkpoint.Tensor{}, []byte{}
			for _, t := range s.Tensors {
				raw := old[t.Begin : t.Begin+t.Bytes]
				if t.Name == name && !change(&t) {
					continue
				}
				tensors = append(tensors, t)
				data = append(data, append(raw, make([]byte, max(0, t.Bytes-int64(len(raw))))...)[:t.Bytes]...)
			}
			folder[s.File] = &fstest.MapFile{Data: append(checkpoint.AppendHeader(nil, s.Metadata, tensors), data...)}
		}
		delete(folder, "model.safetensors.index.json")
	}
}

// What is wrong is named, with its shape and the shape wanted, before anything is written.
func TestRefusals(t *testing.T) {
	const kProj = "model.layers.1.self_attn.k_proj.weight"
	llama := forms()[0].make("BF16", 1, false)
	in := folder(t, llama)
	config := func(text string) func(fstest.MapFS) {
		return func(f fstest.MapFS) { f["config.json"] = &fstest.MapFile{Data: []byte(text)} }
	}
	replaced := func(old, new string) func(fstest.MapFS) {
		if !strings.Contains(llama.Config, old) {
			t.Fatal(old)
		}
		return config(strings.Replace(llama.Config, old, new, 1))
	}
	shape := func(s ...int64) func(*checkpoint.Tensor) bool {
		return func(t *checkpoint.Tensor) bool {
			t.Shape, t.Bytes = s, 2*elements(s)
			return true
		}
	}
	for _, tt := range []struct {
		name   string
		change func(fstest.MapFS)
		n      int
		want   string
	}{
		{"not a divisor", func(fstest.MapFS) {}, 3, "kv_heads = 3: does not divide the 8 KV heads of IN | legal are 8, 4, 2, 1"},
		{"none", func(fstest.MapFS) {}, 0, "kv_heads = 0: does not divide the 8 KV heads of IN | legal are 8, 4, 2, 1"},
		{"negative", func(fstest.MapFS) {}, -2, "kv_heads = -2: does not divide the 8 KV heads of IN | legal are 8, 4, 2, 1"},
		{"more than there are", func(fstest.MapFS) {}, 16, "kv_heads = 16: does not divide the 8 KV heads of IN | legal are 8, 4, 2, 1"},
		{"no config", func(f fstest.MapFS) { delete(f, "config.json") }, 2, "IN: no config.json"},
		{"only params.json", func(f fstest.MapFS) {
			delete(f, "config.json")
			f["params.json"] = &fstest.MapFile{Data: []byte(`{"dim": 64, "n_layers": 2, "n_heads": 8}`)}
		}, 2, "IN: only params.json, whose tensors have Mistral's own names"},
		{"no weights", func(f fstest.MapFS) {
			maps.DeleteFunc(f, func(name string, _ *fstest.MapFile) bool { return strings.Contains(name, "safetensors") })
		}, 2,
			"IN: no safetensors files"},
		{"a missing shard", func(f fstest.MapFS) { delete(f, "model-00002-of-00002.safetensors") }, 2,
			"model-00002-of-00002.safetensors: the index names this file, and it is not there"},
		{"an extra shard", func(f fstest.MapFS) { f["model-00003-of-00002.safetensors"] = f["model-00001-of-00002.safetensors"] }, 2,
			"model-00003-of-00002.safetensors: a safetensors file more than the checkpoint's own"},
		{"a name given twice", func(f fstest.MapFS) {
			f["model-00003-of-00002.safetensors"] = f["model-00001-of-00002.safetensors"]
			delete(f, "model.safetensors.index.json")
		}, 2, "model-00003-of-00002.safetensors: model.layers.0.self_attn.q_proj.weight: given twice, also in model-00001-of-00002.safetensors"},
		{"a cut shard", func(f fstest.MapFS) {
			f["model-00001-of-00002.safetensors"] = &fstest.MapFile{Data: in["model-00001-of-00002.safetensors"].Data[:5000]}
		}, 2, "past the end of the file"},
		{"a missing tensor", retouched(kProj, func(*checkpoint.Tensor) bool { return false }), 2, kProj + ": not in the checkpoint; the config wants [64 64]"},
		{"a wrong shape", retouched(kProj, shape(32, 64)), 2, kProj + " = [32 64]: the config wants [64 64]"},
		{"a rank too many", retouched(kProj, shape(8, 8, 64)), 2, kProj + " = [8 8 64]: the config wants [64 64]"},
		{"a wrong shape of queries", retouched("model.layers.0.self_attn.q_proj.weight", shape(32, 64)), 2, "model.layers.0.self_attn.q_proj.weight = [32 64]: the config wants [64 64]"},
		{"a wrong shape of the output", retouched("model.layers.0.self_attn.o_proj.weight", shape(64, 32)), 2, "model.layers.0.self_attn.o_proj.weight = [64 32]: the config wants [64 64]"},
		{"a config of other heads", replaced(`"num_key_value_heads": 8`, `"num_key_value_heads": 4`), 2, "model.layers.0.self_attn.k_proj.weight = [64 64]: the config wants [32 64]"},
		{"a config of more layers", replaced(`"num_hidden_layers": 2`, `"num_hidden_layers": 3`), 2, "model.layers.2.self_attn.k_proj.weight: not in the checkpoint; the config wants [64 64]"},
		{"a config of fewer layers", replaced(`"num_hidden_layers": 2`, `"num_hidden_layers": 1`), 2, "model.layers.1.self_attn.k_proj.weight = [64 64]: KV heads in a layer that the config does not have"},
		{"a tensor that is not known", retouched(kProj, func(t *checkpoint.Tensor) bool { t.Name = "model.layers.1.self_attn.k_proj.lora_a"; return true }), 2,
			kProj + ": not in the checkpoint; the config wants [64 64]"},
		{"a bias that the config does not have", func(f fstest.MapFS) {
			retouched("model.layers.1.input_layernorm.weight", func(t *checkpoint.Tensor) bool { t.Name = "model.layers.1.self_attn.k_proj.bias"; return true })(f)
		}, 2, "model.layers.1.self_attn.k_proj.bias: of shape [64], and the config has no such tensor"},
		{"fp8", retouched(kProj, func(t *checkpoint.Tensor) bool { t.DType, t.Bytes = "F8_E4M3", t.Bytes/2; return true }), 2,
			kProj + " is stored as F8_E4M3: heads with scales of their own have no mean"},
		{"int4", func(f fstest.MapFS) {
			retouched(kProj, func(t *checkpoint.Tensor) bool {
				t.Name = strings.Replace(kProj, "weight", "qweight", 1)
				return true
			})(f)
			replaced(`"vocab_size": 64`, `"vocab_size": 64, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}`)(f)
		}, 2, kProj + " is stored as awq: heads with scales of their own have no mean"},
		{"no field", config(`{"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "num_attention_heads": 8, "hidden_size": 64, "num_hidden_layers": 2}`), 2,
			"architectures = GPTNeoXForCausalLM: has no field that gives it 2 KV heads, so no engine would read them"},
		{"a latent", config(`{"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3"}`), 2, "IN: its layers cache one latent, not KV heads"},
		{"an encoder", config(`{"architectures": ["BertModel"], "model_type": "bert"}`), 2, "IN: an encoder, not a decoder that keeps KV heads"},
		{"no attention", config(`{"architectures": ["MambaForCausalLM"], "model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8}`), 2, "IN: no layer keeps KV heads"},
		{"layers that differ", config(`{"architectures": ["MiMoV2FlashForCausalLM"], "model_type": "mimo_v2_flash", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8,
			"num_key_value_heads": 4, "swa_num_key_value_heads": 8, "swa_num_attention_heads": 8, "head_dim": 8, "v_head_dim": 8, "swa_head_dim": 8, "swa_v_head_dim": 8,
			"hybrid_layer_pattern": [0, 1], "sliding_window": 8, "vocab_size": 64, "intermediate_size": 8, "moe_layer_freq": [0, 0], "n_routed_experts": 1, "num_experts_per_tok": 1, "moe_intermediate_size": 8}`), 4,
			"IN: layer 1 has 8 KV heads, those before it 4"},
		{"tensors that are not known", config(`{"architectures": ["EmuForCausalLM"], "model_type": "emu3_text_model", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 64}`), 2,
			"architectures = EmuForCausalLM: where its tensors keep KV heads is not known"},
		{"a pipe", func(f fstest.MapFS) { f["pipe"] = &fstest.MapFile{Mode: fs.ModeNamedPipe} }, 2, "pipe: not a regular file"},
	} {
		c, err := New(edited(in, tt.change), "IN", Options{KVHeads: tt.n})
		p, ok := errors.AsType[*problem.Error](err)
		if c != nil || !ok {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
			continue
		}
		got := p.Error()
		if want, hint, hasHint := strings.Cut(tt.want, " | "); !strings.Contains(got, want) || hasHint && p.Hint != hint {
			t.Errorf("%s:\n got %s | %s\nwant %s", tt.name, got, p.Hint, tt.want)
		}
	}
	if _, err := New(in, "IN", Options{KVHeads: 2, Method: "median"}); err == nil || err.Error() != "method = median: not one of mean, first and weighted" {
		t.Errorf("a method: %v", err)
	}
}

// Weights in another format would be of the old heads: they are left out, as are hidden
// folders, and said to be.
func TestLeftOut(t *testing.T) {
	in := edited(folder(t, forms()[0].make("BF16", 1, false)), func(f fstest.MapFS) {
		for _, name := range []string{"pytorch_model.bin", "consolidated.safetensors", "original/consolidated.00.pth", ".git/HEAD", ".gitattributes", "onnx/model.onnx"} {
			f[name] = &fstest.MapFile{Data: []byte("x")}
		}
	})
	c, out := converted(t, in, Options{KVHeads: 2})
	if want := []string{".git/", "consolidated.safetensors", "onnx/model.onnx", "original/consolidated.00.pth", "pytorch_model.bin"}; !slices.Equal(c.LeftOut, want) {
		t.Errorf("left out %q, want %q", c.LeftOut, want)
	}
	for _, name := range c.LeftOut {
		if _, err := fs.Stat(out, strings.TrimSuffix(name, "/")); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	if _, err := fs.Stat(out, ".gitattributes"); err != nil {
		t.Error(err)
	}
}

// params.json beside config.json says the same.
func TestParamsBeside(t *testing.T) {
	in := edited(folder(t, forms()[0].make("BF16", 1, false)), func(f fstest.MapFS) {
		f["params.json"] = &fstest.MapFile{Data: []byte(`{"dim": 64, "n_kv_heads": 8, "n_layers": 2}`)}
	})
	_, out := converted(t, in, Options{KVHeads: 2})
	if got, err := fs.ReadFile(out, "params.json"); err != nil || string(got) != `{"dim": 64, "n_kv_heads": 2, "n_layers": 2}` {
		t.Errorf("%s, %v", got, err)
	}
}

// only wants a folder to hold nothing but the names given.
func only(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the folder holds %q, want %q", got, want)
	}
}

// What exists is not touched, be it a file, a folder or a link to nowhere.
func TestRefusesToOverwrite(t *testing.T) {
	c, err := New(folder(t, forms()[0].make("BF16", 1, false)), "IN", Options{KVHeads: 2})
	if err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(string) error{
		"file": func(path string) error { return os.WriteFile(path, []byte("mine"), 0o644) },
		"dir":  func(path string) error { return os.Mkdir(path, 0o755) },
		"link": func(path string) error { return os.Symlink("nowhere", path) },
	} {
		dir := t.TempDir()
		out := filepath.Join(dir, name)
		if err := make(out); err != nil {
			continue // no links on this system
		}
		if err := c.Write(t.Context(), out, nil); err == nil || !strings.Contains(err.Error(), "exists, and nothing is overwritten") {
			t.Errorf("%s: %v", name, err)
		}
		only(t, dir, name)
	}
	if err := c.Write(t.Context(), filepath.Join(t.TempDir(), "no", "such"), nil); err == nil || !strings.Contains(err.Error(), "OUT = ") {
		t.Errorf("no parent: %v", err)
	}
}

// A full file is one on a disk with room for no more than left bytes.
type fullFile struct {
	io.WriteCloser
	left *atomic.Int64
}

func (f fullFile) Write(data []byte) (int, error) {
	if f.left.Add(-int64(len(data))) < 0 {
		return 0, &fs.PathError{Op: "write", Path: "/disk/file", Err: syscall.ENOSPC}
	}
	return f.WriteCloser.Write(data)
}

// lateFile says only when it is closed that the disk was full.
type lateFile struct{ io.WriteCloser }

func (f lateFile) Close() error {
	f.WriteCloser.Close()
	return &fs.PathError{Op: "close", Path: "/disk/file", Err: syscall.ENOSPC}
}

// A disk that is full at any byte is one clean error, and leaves nothing behind.
func TestFullDisk(t *testing.T) {
	in := folder(t, forms()[0].make("BF16", 1, false))
	plan, err := New(in, "IN", Options{KVHeads: 2})
	if err != nil {
		t.Fatal(err)
	}
	check := func(c *Conversion, what string) {
		t.Helper()
		dir := t.TempDir()
		err := c.Write(t.Context(), filepath.Join(dir, "OUT"), nil)
		p, ok := errors.AsType[*problem.Error](err)
		if !ok || !strings.HasSuffix(p.Error(), "OUT: no space left on device") && !strings.HasSuffix(p.Error(), ": no space left on device") || !strings.Contains(p.Hint, "removed") {
			t.Errorf("%s: %v", what, err)
		}
		only(t, dir)
	}
	for left := int64(0); left < plan.Bytes; left += plan.Bytes/17 + 1 {
		c, room := *plan, new(atomic.Int64)
		room.Store(left)
		c.create = func(name string) (io.WriteCloser, error) {
			f, err := os.Create(name)
			return fullFile{f, room}, err
		}
		check(&c, fmt.Sprint(left, " bytes"))
	}
	c := *plan
	c.create = func(name string) (io.WriteCloser, error) {
		f, err := os.Create(name)
		return lateFile{f}, err
	}
	check(&c, "at the end")
	c.create = func(string) (io.WriteCloser, error) {
		return nil, &fs.PathError{Op: "open", Path: "/disk/file", Err: syscall.ENOSPC}
	}
	check(&c, "no inode")
}

// A context that ends stops the work, and nothing is left.
func TestCancelled(t *testing.T) {
	c, err := New(folder(t, forms()[0].make("BF16", 1, false)), "IN", Options{KVHeads: 2})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	err = c.Write(ctx, filepath.Join(dir, "OUT"), func(done int64) {
		if done > c.Bytes/2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	only(t, dir)
}

// killedIn is where the process that TestKilled starts writes to.
const killedIn = "HEADCOUNT_TEST_KILLED_IN"

// A process that is killed half-way, which no handler of its own can see, leaves no OUT,
// and what it leaves says by its name what it is. The next run succeeds.
func TestKilled(t *testing.T) {
	in := folder(t, forms()[0].make("BF16", 1, false))
	if dir := os.Getenv(killedIn); dir != "" {
		c, err := New(in, "IN", Options{KVHeads: 2})
		if err != nil {
			t.Fatal(err)
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		err = c.Write(t.Context(), filepath.Join(dir, "OUT"), func(done int64) {
			if done > c.Bytes/2 {
				self.Kill()
				select {}
			}
		})
		t.Fatalf("still alive: %v", err)
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), killedIn+"="+dir)
	if out, err := cmd.CombinedOutput(); err == nil || strings.Contains(string(out), "still alive") {
		t.Fatalf("not killed: %v\n%s", err, out)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || !strings.HasPrefix(entries[0].Name(), "OUT.partial-") {
		t.Fatalf("left behind: %v, %v", entries, err)
	}
	if c, err := New(os.DirFS(filepath.Join(dir, entries[0].Name())), "IN", Options{KVHeads: 2}); err == nil {
		t.Errorf("what is left looks complete: %+v", c)
	}
	c, err := New(in, "IN", Options{KVHeads: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), filepath.Join(dir, "OUT"), nil); err != nil {
		t.Error(err)
	}
}

// A source that changes under the conversion is an error, not a wrong result.
func TestSourceShrinks(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "IN")
	if err := os.CopyFS(in, folder(t, forms()[0].make("BF16", 1, false))); err != nil {
		t.Fatal(err)
	}
	c, err := New(os.DirFS(in), "IN", Options{KVHeads: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(in, "model-00002-of-00002.safetensors"), 4096); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), filepath.Join(dir, "OUT"), nil); err == nil || !strings.Contains(err.Error(), "model-00002-of-00002.safetensors") {
		t.Errorf("%v", err)
	}
	only(t, dir, "IN")
}

// A value that is not finite has no mean.
func TestNotFinite(t *testing.T) {
	m := forms()[0].make("F32", 1, false)
	for _, value := range []float32{float32(inf), -float32(inf), float32(inf - inf), 3e38} {
		m.Fill = func(name string, _ []int64, x []float32) {
			if strings.Contains(name, "k_proj") {
				for i := range x {
					x[i] = value
				}
			}
		}
		c, err := New(folder(t, m), "IN", Options{KVHeads: 1})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Write(t.Context(), filepath.Join(t.TempDir(), "OUT"), nil)
		if err == nil || !strings.Contains(err.Error(), ".self_attn.k_proj.weight") || !strings.Contains(err.Error(), "not a finite number") {
			t.Errorf("%g: %v", value, err)
		}
	}
}

var inf = func() float64 { x := 1e308; return x * 10 }()

// Memory does not grow with the checkpoint: of one sixteen times as large it takes the same.
// What Write allocates in all bounds what it holds at any time.
func TestMemory(t *testing.T) {
	const sizes = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": %d, "num_hidden_layers": 2, "num_attention_heads": 8,
		"vocab_size": 64, "intermediate_size": 64, "num_key_value_heads": 8}`
	var used [2]uint64
	for i, hidden := range []int{256, 1024} {
		in := filepath.Join(t.TempDir(), "IN")
		if err := os.CopyFS(in, folder(t, dummy.Checkpoint{Config: fmt.Sprintf(sizes, hidden), DType: "BF16", Shards: 2})); err != nil {
			t.Fatal(err)
		}
		c, err := New(os.DirFS(in), "IN", Options{KVHeads: 2, Method: Weighted})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := c.Write(t.Context(), filepath.Join(t.TempDir(), "OUT"), nil); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		used[i] = after.TotalAlloc - before.TotalAlloc
	}
	// Both allocate a chunk's buffers for each tensor; 4 MiB is 1/5 of the large one's files.
	if used[1] > used[0]+4<<20 {
		t.Errorf("%d bytes for the small one, %d for the large one", used[0], used[1])
	}
}
