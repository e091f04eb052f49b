package convert

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"headcount/checkpoint"
	"headcount/internal/dummy"
	"headcount/internal/modeltest"
	"headcount/model"
)

// A form is how one family keeps attention's tensors. Where rows of heads lie is written
// here anew, from the families' classes, and not taken from package model.
type form struct {
	name   string
	config string
	prefix string
	kv, n  int    // KV heads before and after
	q, k   string // tensors inside a layer; the value's is k with key's letter changed
	v, o   string
	order  order // of the rows of a fused tensor, before
	then   order // and after
	qn, kn string
	whole  bool   // the norm goes over all heads
	shift  bool   // and subtracts the mean
	rank2  bool   // and is stored as [heads, width]
	want   string // what the new config says
}

// An order is one of the rows of queries, keys and values.
type order string

const (
	apart   order = ""        // a tensor each
	inTurn  order = "in turn" // all queries, all keys, all values
	byGroup order = "by group"
)

const (
	queryHeads = 8
	headDim    = 8
	hidden     = 64
)

func forms() []form {
	const sizes = `"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 64, "intermediate_size": 96`
	llama := `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", ` + sizes + `, "num_key_value_heads": %d}`
	self := form{q: "self_attn.q_proj", k: "self_attn.k_proj", v: "self_attn.v_proj", o: "self_attn.o_proj"}
	make := func(name, config string, kv, n int, base form, change func(*form)) form {
		base.name, base.config, base.kv, base.n = name, config, kv, n
		if strings.Contains(config, "%d") {
			base.config = fmt.Sprintf(config, kv)
			base.want = fmt.Sprintf(config, n)
		}
		if change != nil {
			change(&base)
		}
		return base
	}
	fused := func(tensor, out string, before, after order) func(*form) {
		return func(f *form) { f.q, f.k, f.v, f.o, f.order, f.then = tensor, tensor, tensor, out, before, after }
	}
	falcon := `{"architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8,
		"vocab_size": 64, "bias": true, `
	bigcode := `{"architectures": ["GPTBigCodeForCausalLM"], "model_type": "gpt_bigcode", "n_embd": 64, "n_layer": 2, "n_head": 8, "vocab_size": 64, "n_positions": 32, "multi_query": `
	chatglm := `{"architectures": ["ChatGLMModel"], "model_type": "chatglm", "hidden_size": 64, "num_layers": 2, "num_attention_heads": 8, "padded_vocab_size": 64,
		"ffn_hidden_size": 96, "kv_channels": 8, "add_qkv_bias": true, `
	return []form{
		make("llama, MHA to GQA", llama, 8, 4, self, nil),
		make("llama, MHA to MQA", llama, 8, 1, self, nil),
		make("llama, GQA to MQA", llama, 2, 1, self, nil),
		make("llama, without the field", `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", `+sizes+`}`, 8, 2, self, func(f *form) {
			f.want = `{"num_key_value_heads": 2,"architectures": ["LlamaForCausalLM"], "model_type": "llama", ` + sizes + `}`
		}),
		make("qwen2, biases", `{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", `+sizes+`, "num_key_value_heads": %d}`, 8, 2, self, nil),
		make("qwen3, norms that heads share", `{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", `+sizes+`, "head_dim": 8, "num_key_value_heads": %d}`, 4, 2, self,
			func(f *form) { f.qn, f.kn = "self_attn.q_norm", "self_attn.k_norm" }),
		make("olmo2, a norm over all heads", `{"architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2", `+sizes+`, "num_key_value_heads": %d}`, 8, 2, self,
			func(f *form) { f.qn, f.kn, f.whole = "self_attn.q_norm", "self_attn.k_norm", true }),
		make("cohere, a norm of each head", `{"architectures": ["CohereForCausalLM"], "model_type": "cohere", "use_qk_norm": true, `+sizes+`, "num_key_value_heads": %d}`, 8, 2, self,
			func(f *form) {
				f.qn, f.kn, f.shift, f.rank2 = "self_attn.q_norm", "self_attn.k_norm", true, true
			}),
		make("phi3, qkv_proj", `{"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", `+sizes+`, "num_key_value_heads": %d}`, 8, 2, self,
			fused("self_attn.qkv_proj", "self_attn.o_proj", inTurn, inTurn)),
		make("internlm2, wqkv", `{"architectures": ["InternLM2ForCausalLM"], "model_type": "internlm2", `+sizes+`, "num_key_value_heads": %d}`, 4, 2, self,
			fused("attention.wqkv", "attention.wo", byGroup, byGroup)),
		make("bailing, query_key_value in turn", `{"architectures": ["BailingMoeForCausalLM"], "model_type": "bailing_moe", "first_k_dense_replace": 2, "num_experts": 2,
			"num_experts_per_tok": 1, "moe_intermediate_size": 8, "num_shared_experts": 0, "use_qkv_bias": true, "head_dim": 8, `+sizes+`, "num_key_value_heads": %d}`, 8, 2, self,
			fused("attention.query_key_value", "attention.dense", inTurn, inTurn)),
		make("falcon, the second generation", falcon+`"new_decoder_architecture": true, "num_kv_heads": %d}`, 8, 2, self,
			fused("self_attention.query_key_value", "self_attention.dense", byGroup, byGroup)),
		make("falcon, from head by head to groups", falcon+`"multi_query": false}`, 8, 2, self, func(f *form) {
			fused("self_attention.query_key_value", "self_attention.dense", byGroup, byGroup)(f)
			f.want = `{"num_ln_in_parallel_attn": 1,"new_decoder_architecture": true,"num_kv_heads": 2,` + (falcon + `"multi_query": false}`)[1:]
		}),
		make("falcon, from head by head to one", falcon+`"multi_query": false, "parallel_attn": false}`, 8, 1, self, func(f *form) {
			fused("self_attention.query_key_value", "self_attention.dense", byGroup, inTurn)(f)
			f.want = falcon + `"multi_query": true, "parallel_attn": false}`
		}),
		make("gpt_bigcode, c_attn", bigcode+`false}`, 8, 1, self, func(f *form) {
			fused("attn.c_attn", "attn.c_proj", byGroup, inTurn)(f)
			f.want, f.prefix = bigcode+`true}`, "transformer.h."
		}),
		make("chatglm, groups", chatglm+`"multi_query_attention": true, "multi_query_group_num": %d}`, 4, 2, self,
			fused("self_attention.query_key_value", "self_attention.dense", inTurn, inTurn)),
		make("chatglm, from head by head to groups", chatglm+`"multi_query_attention": false, "multi_query_group_num": 1}`, 8, 2, self, func(f *form) {
			fused("self_attention.query_key_value", "self_attention.dense", byGroup, inTurn)(f)
			f.want = chatglm + `"multi_query_attention": true, "multi_query_group_num": 2}`
		}),
		make("dbrx, Wqkv", `{"architectures": ["DbrxForCausalLM"], "model_type": "dbrx", "d_model": 64, "n_layers": 2, "n_heads": 8, "vocab_size": 64,
			"attn_config": {"clip_qkv": 8, "kv_n_heads": %d}, "ffn_config": {"ffn_hidden_size": 8}}`, 8, 2, self,
			fused("norm_attn_norm.attn.Wqkv", "norm_attn_norm.attn.out_proj", inTurn, inTurn)),
		make("mpt, Wqkv", `{"architectures": ["MPTForCausalLM"], "model_type": "mpt", "d_model": 64, "n_layers": 2, "n_heads": 8, "vocab_size": 64,
			"attn_config": {"attn_type": "grouped_query_attention", "kv_n_heads": %d}}`, 8, 2, self,
			fused("attn.Wqkv", "attn.out_proj", inTurn, inTurn)),
		make("a text config inside", `{"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "text_config": {"model_type": "llama", `+sizes+`, "num_key_value_heads": %d},
			"vision_config": {"model_type": "clip_vision_model", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 28, "patch_size": 14}}`,
			8, 2, self, func(f *form) { f.prefix = "model.language_model.layers." }),
	}
}

// start is the first row of a KV head's keys or values (part 1 or 2), or of a query head.
func (o order) start(kv, part, head int) int {
	group := queryHeads / kv
	switch {
	case o == apart:
		return head * headDim
	case o == inTurn && part == 0:
		return head * headDim
	case o == inTurn:
		return (queryHeads + (part-1)*kv + head) * headDim
	case part == 0:
		return (head/group*(group+2) + head%group) * headDim
	default:
		return (head*(group+2) + group + part - 1) * headDim
	}
}

// reference reads one layer.
func (f form) reference(tensors map[string]tensor, layer, kv int, o order) reference {
	prefix := f.prefix
	if prefix == "" {
		prefix = "model.layers."
	}
	prefix += fmt.Sprint(layer) + "."
	r := reference{normWhole: f.whole, shift: f.shift}
	heads := func(name string, part, n int) (w [][][]float64, b [][]float64) {
		weight, bias := tensors[prefix+name+".weight"], tensors[prefix+name+".bias"]
		for h := range n {
			w = append(w, weight.rows(o.start(kv, part, h), headDim))
			if bias.x != nil {
				b = append(b, flat(bias.rows(o.start(kv, part, h), headDim)))
			}
		}
		return w, b
	}
	r.q, r.qb = heads(f.q, 0, queryHeads)
	r.k, r.kb = heads(f.k, 1, kv)
	r.v, r.vb = heads(f.v, 2, kv)
	r.o = tensors[prefix+f.o+".weight"].rows(0, hidden)
	norms := func(name string, n int) (out [][]float64) {
		w := tensors[prefix+name+".weight"].x
		for h := range n {
			at := h * headDim % len(w) // one for all heads, or one for each
			var one []float64
			for _, v := range w[at : at+headDim] {
				one = append(one, float64(v))
			}
			out = append(out, one)
		}
		return out
	}
	if f.qn != "" {
		r.qn, r.kn = norms(f.qn, queryHeads), norms(f.kn, kv)
	}
	return r
}

func flat(rows [][]float64) (out []float64) {
	for _, r := range rows {
		out = append(out, r...)
	}
	return out
}

// alike makes the heads of each group equal, weights, biases and norms.
func (f form) alike(name string, shape []int64, x []float32) {
	width := 1
	if len(shape) == 2 {
		width = int(shape[1])
	}
	inside := name[strings.LastIndex(name, "layers.")+1:]
	group := f.kv / f.n
	for part, tensor := range []string{1: f.k, 2: f.v} {
		if part == 0 || !strings.Contains(inside, tensor+".") {
			continue
		}
		start := f.order.start(f.kv, part, 0) * width
		stride := headDim * width
		if f.kv > 1 {
			stride = f.order.start(f.kv, part, 1)*width - start
		}
		pairUp(x, start, f.kv, group, stride, headDim*width)
	}
	if f.kn != "" && strings.Contains(inside, f.kn) && len(x) > headDim {
		pairUp(x, 0, f.kv, group, headDim, headDim)
	}
}

func (f form) make(dtype string, seed uint64, alike bool) dummy.Checkpoint {
	m := dummy.Checkpoint{Config: f.config, DType: dtype, Prefix: f.prefix, Shards: 2, Seed: seed, ByHeads: f.rank2}
	if alike {
		m.Fill = f.alike
	}
	return m
}

func randomTokens(n int) [][]float64 {
	r := rand.New(rand.NewPCG(7, 7))
	out := make([][]float64, n)
	for i := range out {
		for range hidden {
			out[i] = append(out[i], r.NormFloat64())
		}
	}
	return out
}

func converted(t testing.TB, folder fs.FS, opts Options) (*Conversion, fs.FS) {
	t.Helper()
	c, err := New(folder, "IN", opts)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "OUT")
	if err := c.Write(t.Context(), out, nil); err != nil {
		t.Fatal(err)
	}
	return c, os.DirFS(out)
}

// Heads that are equal within a group pool to themselves, and a layer's output stays what it
// was, whatever way its tensors are fused, in every format and by every method.
func TestEqualHeadsKeepTheOutput(t *testing.T) {
	x := randomTokens(5)
	for _, f := range forms() {
		for _, dtype := range []string{"F32", "BF16", "F16"} {
			for _, method := range Methods {
				t.Run(fmt.Sprintf("%s/%s/%s", f.name, dtype, method), func(t *testing.T) {
					in := folder(t, f.make(dtype, 3, true))
					_, out := converted(t, in, Options{KVHeads: f.n, Method: method})
					for layer := range 2 {
						want := f.reference(load(t, in), layer, f.kv, f.order).run(x)
						got := f.reference(load(t, out), layer, f.n, f.then).run(x)
						compareOutputs(t, got, want, 1e-5) // float32's rounding of a mean of equal numbers, summed over 64 products
					}
				})
			}
		}
	}
}

// compareOutputs wants each element within a share of the greatest.
func compareOutputs(t *testing.T, got, want [][]float64, share float64) {
	t.Helper()
	most, worst := 0.0, 0.0
	for i := range want {
		for j := range want[i] {
			most, worst = math.Max(most, math.Abs(want[i][j])), math.Max(worst, math.Abs(want[i][j]-got[i][j]))
		}
	}
	if !(worst <= share*most) || most == 0 {
		t.Errorf("output differs by %g of at most %g", worst, most)
	}
}

// Random heads are pooled to the mean of their group, computed here from the heads as the
// reference reads them; queries, and the output, stay.
func TestMeanOfHeads(t *testing.T) {
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			in := folder(t, f.make("F32", 5, false))
			_, out := converted(t, in, Options{KVHeads: f.n})
			for layer := range 2 {
				old := f.reference(load(t, in), layer, f.kv, f.order)
				now := f.reference(load(t, out), layer, f.n, f.then)
				group := f.kv / f.n
				for h := range f.n {
					sameMean(t, "k", now.k[h], old.k[h*group:(h+1)*group])
					sameMean(t, "v", now.v[h], old.v[h*group:(h+1)*group])
					if old.kb != nil {
						sameMean(t, "k bias", now.kb[h:h+1], wrap(old.kb[h*group:(h+1)*group]))
						sameMean(t, "v bias", now.vb[h:h+1], wrap(old.vb[h*group:(h+1)*group]))
					}
					if old.kn != nil {
						sameMean(t, "k norm", now.kn[h:h+1], wrap(old.kn[h*group:(h+1)*group]))
					}
				}
				for h := range old.q {
					sameMean(t, "q", now.q[h], old.q[h:h+1])
				}
			}
		})
	}
}

func wrap(vectors [][]float64) (out [][][]float64) {
	for _, v := range vectors {
		out = append(out, [][]float64{v})
	}
	return out
}

func sameMean(t *testing.T, what string, got [][]float64, heads [][][]float64) {
	t.Helper()
	for i := range got {
		for j := range got[i] {
			sum := 0.0
			for _, h := range heads {
				sum += h[i][j]
			}
			want := sum / float64(len(heads))
			if !(math.Abs(got[i][j]-want) <= 0x1p-22*float64(len(heads))) { // |x| < 2: a few float32 steps
				t.Fatalf("%s[%d][%d] = %g, want %g", what, i, j, got[i][j], want)
			}
		}
	}
}

// The config names the heads in the field of its class, and nothing else of it changes.
func TestConfig(t *testing.T) {
	for _, f := range forms() {
		c, out := converted(t, folder(t, f.make("BF16", 1, false)), Options{KVHeads: f.n})
		got, err := fs.ReadFile(out, "config.json")
		if err != nil || string(got) != f.want {
			t.Errorf("%s: %v\n got %s\nwant %s", f.name, err, got, f.want)
		}
		if c.NewHeads != f.n || c.OldHeads != f.kv || c.Group() != f.kv/f.n {
			t.Errorf("%s: %d to %d heads", f.name, c.OldHeads, c.NewHeads)
		}
	}
}

// As many heads as there are is a copy, byte for byte.
func TestSameNumberIsACopy(t *testing.T) {
	for _, f := range forms() {
		in := folder(t, f.make("BF16", 2, false))
		for _, method := range Methods {
			c, out := converted(t, in, Options{KVHeads: f.kv, Method: method})
			if len(c.Changes) != 0 || c.Saved != 0 {
				t.Errorf("%s: %d changes", f.name, len(c.Changes))
			}
			for name := range in {
				if got, err := fs.ReadFile(out, name); err != nil || !bytes.Equal(got, in[name].Data) {
					t.Errorf("%s: %s differs, %v", f.name, name, err)
				}
			}
		}
	}
}

// Twice by two is once by four, but for one more rounding.
func TestPoolingTwice(t *testing.T) {
	steps := map[string]float64{"F32": 0x1p-23, "BF16": 0x1p-8, "F16": 0x1p-11} // half a step, of the format, relative
	for dtype, step := range steps {
		f := forms()[0]
		in := folder(t, f.make(dtype, 9, false))
		_, half := converted(t, in, Options{KVHeads: 4})
		_, twice := converted(t, half, Options{KVHeads: 2})
		_, once := converted(t, in, Options{KVHeads: 2})
		a, b, halves := load(t, twice), load(t, once), load(t, half)
		for name := range b {
			if !strings.Contains(name, "k_proj") && !strings.Contains(name, "v_proj") {
				continue
			}
			n := len(b[name].x)
			for i := range n {
				head, at := i/(n/2), i%(n/2)
				bound := step * (math.Abs(float64(halves[name].x[head*n+at])) + math.Abs(float64(halves[name].x[head*n+n/2+at])) + 2*math.Abs(float64(b[name].x[i])))
				if x, y := float64(a[name].x[i]), float64(b[name].x[i]); !(math.Abs(x-y) <= bound+0x1p-24) {
					t.Fatalf("%s %s[%d]: %g, then %g: more than %g apart", dtype, name, i, x, y, bound)
				}
			}
		}
	}
}

// What has no KV head in it is the same, by its hash: tensors, metadata and other files.
func TestRestIsUnchanged(t *testing.T) {
	for _, f := range forms() {
		in := folder(t, f.make("F16", 4, false))
		c, out := converted(t, in, Options{KVHeads: f.n})
		before, after := load(t, in), load(t, out)
		if len(before) != len(after) {
			t.Errorf("%s: %d tensors, then %d", f.name, len(before), len(after))
		}
		for name, old := range before {
			now := after[name]
			if c.byTensor[name] != nil {
				if len(now.raw) >= len(old.raw) {
					t.Errorf("%s: %s did not shrink", f.name, name)
				}
				continue
			}
			if sha256.Sum256(old.raw) != sha256.Sum256(now.raw) || fmt.Sprint(old.Shape) != fmt.Sprint(now.Shape) || old.File != now.File {
				t.Errorf("%s: %s differs", f.name, name)
			}
		}
		for _, name := range []string{"tokenizer.json", "generation_config.json", "docs/README.md"} {
			if got, err := fs.ReadFile(out, name); err != nil || !bytes.Equal(got, in[name].Data) {
				t.Errorf("%s: %s differs, %v", f.name, name, err)
			}
		}
		shards, err := checkpoint.ReadShards(out)
		if err != nil || len(shards) != 2 || string(shards[0].Metadata.AppendJSON(nil)) != `{"format":"pt"}` {
			t.Errorf("%s: %d shards, %v", f.name, len(shards), err)
		}
		index, err := checkpoint.ReadIndex(out)
		if err != nil || index.TotalSize != sum(after) {
			t.Errorf("%s: the index says %d bytes, want %d", f.name, index.TotalSize, sum(after))
		}
	}
}

// Transformers 5 counts parameters in the index too; one without sums stays without.
func TestIndexSums(t *testing.T) {
	in := folder(t, forms()[0].make("BF16", 4, false))
	const name = "model.safetensors.index.json"
	text := string(in[name].Data)
	in[name] = &fstest.MapFile{Data: []byte(strings.Replace(text, `"total_size"`, `"total_parameters": 1, "total_size"`, 1))}
	_, out := converted(t, in, Options{KVHeads: 2})
	index, err := checkpoint.ReadIndex(out)
	if want := sum(load(t, out)); err != nil || index.TotalSize != want || index.TotalParameters != want/2 { // two bytes each
		t.Errorf("%d bytes, %d parameters, %v, want %d bytes", index.TotalSize, index.TotalParameters, err, want)
	}
	in[name] = &fstest.MapFile{Data: []byte("{" + text[strings.Index(text, `"weight_map"`):])}
	_, out = converted(t, in, Options{KVHeads: 2})
	if got, err := fs.ReadFile(out, name); err != nil || !bytes.Equal(got, in[name].Data) {
		t.Errorf("%s, %v", got, err)
	}
}

func sum(tensors map[string]tensor) (bytes int64) {
	for _, t := range tensors {
		bytes += int64(len(t.raw))
	}
	return bytes
}

// First takes the first head's bytes.
func TestFirst(t *testing.T) {
	in := folder(t, forms()[0].make("BF16", 6, false))
	_, out := converted(t, in, Options{KVHeads: 2, Method: First})
	old, now := load(t, in)["model.layers.1.self_attn.k_proj.weight"], load(t, out)["model.layers.1.self_attn.k_proj.weight"]
	head := len(old.raw) / 8
	if !bytes.Equal(now.raw[:head], old.raw[:head]) || !bytes.Equal(now.raw[head:], old.raw[4*head:5*head]) {
		t.Error("not the heads 0 and 4")
	}
}

// Weights are ‖W_V,i‖ · √(Σ ‖W_O,q‖²): head 1 has values twice as large as head 0 and
// outputs thrice, so that its part in the mean is 6 of 7.
func TestWeighted(t *testing.T) {
	m := forms()[0].make("F32", 6, false)
	m.Fill = func(name string, shape []int64, x []float32) {
		row := int(shape[len(shape)-1])
		for i := range x {
			switch {
			case strings.Contains(name, "v_proj"):
				x[i] = 1
				if i/(row*headDim)%2 == 1 {
					x[i] = 2
				}
			case strings.Contains(name, "o_proj"):
				x[i] = 1
				if i%row/headDim%2 == 1 {
					x[i] = 3
				}
			case strings.Contains(name, "k_proj"):
				x[i] = float32(7 * (i / (row * headDim) % 2)) // 0, 7, 0, 7, …
			}
		}
	}
	_, out := converted(t, folder(t, m), Options{KVHeads: 4, Method: Weighted})
	tensors := load(t, out)
	for name, want := range map[string]float64{"k_proj": 6. / 7 * 7, "v_proj": 1./7*1 + 6./7*2} {
		for _, got := range tensors["model.layers.0.self_attn."+name+".weight"].x {
			if math.Abs(float64(got)-want) > 1e-6 {
				t.Fatalf("%s: %g, want %g", name, got, want)
			}
		}
	}
	m.Fill = func(_ string, _ []int64, x []float32) { clear(x) } // nothing to weigh by: heads count alike
	if _, out := converted(t, folder(t, m), Options{KVHeads: 4, Method: Weighted}); load(t, out)["model.layers.0.self_attn.k_proj.weight"].x[0] != 0 {
		t.Error("zeros do not stay zeros")
	}
}

// Layers of the checkpoint's own MTP head are pooled with the decoder's, after which they
// are counted on or under a name of their own.
func TestDraft(t *testing.T) {
	config := `{"architectures": ["Glm4ForCausalLM"], "model_type": "glm4", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 8, "head_dim": 8,
		"vocab_size": 64, "intermediate_size": 96, "num_key_value_heads": 8, "num_nextn_predict_layers": 1}`
	m := dummy.Checkpoint{Config: config, DType: "BF16"}
	resolved := modeltest.Resolve(t, config)
	if len(resolved.Draft) != 1 {
		t.Fatalf("%d MTP layers", len(resolved.Draft))
	}
	for _, second := range []string{"model.layers.1.", "mtp.layers.0."} {
		var tensors []checkpoint.Tensor
		for prefix, l := range map[string]*model.Layer{"model.layers.0.": resolved.Layers[0], second: resolved.Draft[0]} {
			for _, p := range l.Params {
				if p.Role == model.NoRole {
					continue
				}
				shape := []int64{int64(p.Rows.Size), int64(p.Cols.Size)}
				if p.Cols.Size == 0 {
					shape = shape[:1]
				}
				tensors = append(tensors, checkpoint.Tensor{Name: prefix + p.Name, Shape: shape})
			}
		}
		_, out := converted(t, m.With(tensors), Options{KVHeads: 2})
		for _, prefix := range []string{"model.layers.0.", second} {
			if got := load(t, out)[prefix+"self_attn.k_proj.weight"].Shape; got[0] != 2*headDim {
				t.Errorf("%s: %v", prefix, got)
			}
		}
	}
}

// A tower that names its tensors as the decoder does stays as it is.
func TestTower(t *testing.T) {
	var llava form
	for _, f := range forms() {
		if strings.Contains(f.config, "vision_config") {
			llava = f
		}
	}
	m := llava.make("BF16", 1, false)
	folder := folder(t, m)
	tower := m.With([]checkpoint.Tensor{
		{Name: "vision_tower.encoder.layers.0.self_attn.k_proj.weight", DType: "BF16", Shape: []int64{32, 32}},
		{Name: "vision_tower.encoder.layers.1.self_attn.k_proj.weight", DType: "BF16", Shape: []int64{32, 32}},
	})
	delete(folder, "model.safetensors.index.json")
	folder["model-00003-of-00003.safetensors"] = tower["model-00001-of-00002.safetensors"]
	folder["model-00004-of-00004.safetensors"] = tower["model-00002-of-00002.safetensors"]
	c, out := converted(t, folder, Options{KVHeads: 2})
	if len(c.Changes) != 4 || load(t, out)["vision_tower.encoder.layers.0.self_attn.k_proj.weight"].Shape[0] != 32 {
		t.Errorf("%d changes", len(c.Changes))
	}
}

// Similarity is 1 for equal heads, about 0 for random ones, and by the formula between.
func TestSimilarities(t *testing.T) {
	f := forms()[0]
	for _, tt := range []struct {
		name string
		fill func(string, []int64, []float32)
		want func(Similarity) bool
	}{
		{"equal", f.alike, func(s Similarity) bool { return math.Abs(s.Keys-1) < 1e-6 && math.Abs(s.LeastValues-1) < 1e-6 }},
		{"random", nil, func(s Similarity) bool { return math.Abs(s.Keys) < 0.15 && s.Keys != 0 }},
		{"zeros", func(_ string, _ []int64, x []float32) { clear(x) }, func(s Similarity) bool { return s.Keys == 0 && s.Values == 0 }},
		{"opposite", func(_ string, shape []int64, x []float32) {
			for i := range x {
				x[i] = float32(1 - 2*(i/(int(shape[len(shape)-1])*headDim)%2)) // 1, −1, 1, …
			}
		}, func(s Similarity) bool { return math.Abs(s.Keys+1) < 1e-6 }},
	} {
		m := f.make("F32", 8, false)
		m.Fill = tt.fill
		c, err := New(folder(t, m), "IN", Options{KVHeads: 4})
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Similarities(t.Context())
		if err != nil || len(got) != 2 || !tt.want(got[1]) || got[1].Layer != "model.layers.1" {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
}
