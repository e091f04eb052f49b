package gguf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"headcount/checkpoint"
	"headcount/checkpoint/gguf"
	"headcount/internal/forge"
	"headcount/problem"
)

func read(data []byte) (*gguf.File, error) {
	return gguf.Read(bytes.NewReader(data), int64(len(data)), "m.gguf")
}

// Every tensor type: the elements of a block, and its bytes as ggml's structures have them.
// The file's size is its header, its tensors and their padding.
func TestTypes(t *testing.T) {
	const k = 256
	for _, tt := range []struct {
		name            string
		number          uint32
		elements, bytes int64
	}{
		{"F32", 0, 1, 4}, {"F16", 1, 1, 2}, {"BF16", 30, 1, 2}, {"F64", 28, 1, 8},
		{"I8", 24, 1, 1}, {"I16", 25, 1, 2}, {"I32", 26, 1, 4}, {"I64", 27, 1, 8},
		{"Q4_0", 2, 32, 2 + 16},                // a half scale, 32 nibbles
		{"Q4_1", 3, 32, 2 + 2 + 16},            // and a half minimum
		{"Q5_0", 6, 32, 2 + 4 + 16},            // and a fifth bit each
		{"Q5_1", 7, 32, 2 + 2 + 4 + 16},        //
		{"Q8_0", 8, 32, 2 + 32},                //
		{"Q8_1", 9, 32, 4 + 4 + 32},            //
		{"Q2_K", 10, k, 16 + 64 + 2 + 2},       // 16 scales of 4 + 4 bits, 2 bits each, two halves
		{"Q3_K", 11, k, 32 + 64 + 12 + 2},      // a high bit each, 2 low bits each, 16 scales of 6 bits
		{"Q4_K", 12, k, 2 + 2 + 12 + 128},      //
		{"Q5_K", 13, k, 2 + 2 + 12 + 32 + 128}, //
		{"Q6_K", 14, k, 128 + 64 + 16 + 2},     //
		{"Q8_K", 15, k, 4 + 256 + 16*2},        //
		{"IQ2_XXS", 16, k, 2 + 32*2},           //
		{"IQ2_XS", 17, k, 2 + 32*2 + 8},        //
		{"IQ3_XXS", 18, k, 2 + 96},             //
		{"IQ1_S", 19, k, 2 + 32 + 16},          //
		{"IQ4_NL", 20, 32, 2 + 16},             //
		{"IQ3_S", 21, k, 2 + 64 + 8 + 32 + 4},  //
		{"IQ2_S", 22, k, 2 + 64 + 8 + 8},       //
		{"IQ4_XS", 23, k, 2 + 2 + 4 + 128},     //
		{"IQ1_M", 29, k, 32 + 16 + 8},          //
		{"TQ1_0", 34, k, 48 + 4 + 2},           // five values in a byte, four for the last sixteen
		{"TQ2_0", 35, k, 64 + 2},               //
		{"MXFP4", 39, 32, 1 + 16},              // an exponent, 32 nibbles
		{"NVFP4", 40, 64, 4 + 32},              // four scales, 64 nibbles
		{"Q1_0", 41, 128, 2 + 16},              //
	} {
		rows := []forge.Tensor{
			{Name: "a", Type: tt.number, Shape: []int64{3, 5 * tt.elements}, Bytes: 3 * 5 * tt.bytes},
			{Name: "b", Type: tt.number, Shape: []int64{tt.elements}, Bytes: tt.bytes},
		}
		data := forge.GGUF([]forge.Key{{Name: "general.name", Value: "x"}}, rows)
		f, err := read(data)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := f.Tensors[0]; got.DType != tt.name || got.Bytes != rows[0].Bytes || !slices.Equal(got.Shape, rows[0].Shape) || got.Block != tt.elements {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if f.Bytes() != int64(len(data))-f.Header-f.Padding || f.Bytes() != 16*tt.bytes {
			t.Errorf("%s: %d bytes of tensors in a file of %d, header %d, padding %d", tt.name, f.Bytes(), len(data), f.Header, f.Padding)
		}
	}
}

// llama are the keys of a small Llama.
func llama(more ...forge.Key) []forge.Key {
	return append([]forge.Key{
		{Name: "general.architecture", Value: "llama"}, {Name: "llama.block_count", Value: uint32(2)},
		{Name: "llama.context_length", Value: uint32(4096)}, {Name: "llama.embedding_length", Value: uint32(512)},
		{Name: "llama.feed_forward_length", Value: uint32(1024)}, {Name: "llama.attention.head_count", Value: uint32(8)},
		{Name: "llama.attention.head_count_kv", Value: []uint32{2, 2}}, {Name: "llama.rope.freq_base", Value: float32(500000)},
		{Name: "tokenizer.ggml.tokens", Value: slices.Repeat([]string{"token"}, 5000)},
	}, more...)
}

func TestConfig(t *testing.T) {
	yarn := []forge.Key{{Name: "llama.rope.scaling.type", Value: "yarn"}, {Name: "llama.rope.scaling.factor", Value: float32(4)},
		{Name: "llama.rope.scaling.original_context_length", Value: uint32(1024)}}
	for _, tt := range []struct {
		name    string
		keys    []forge.Key
		tensors []forge.Tensor
		want    map[string]string // as JSON
	}{
		{"llama", llama(), nil, map[string]string{
			"architectures": `["LlamaForCausalLM"]`, "model_type": `"llama"`, "num_hidden_layers": "2", "hidden_size": "512", "intermediate_size": "1024",
			"num_attention_heads": "8", "num_key_value_heads": "2", "rope_theta": "500000.0", "vocab_size": "5000", "tie_word_embeddings": "true",
			"max_position_embeddings": "4096", "attention_bias": "false"}},
		{"the tensors count", llama(yarn...), []forge.Tensor{
			{Name: "output.weight", Shape: []int64{8, 1}, Bytes: 32}, {Name: "blk.0.attn_q.bias", Shape: []int64{8}, Bytes: 32},
			{Name: "token_embd.weight", Shape: []int64{6000, 1}, Bytes: 24000}}, map[string]string{
			"tie_word_embeddings": "false", "attention_bias": "true", "vocab_size": "6000",
			"rope_scaling": `{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":1024}`}},
		{"mixtral", llama(forge.Key{Name: "llama.expert_count", Value: uint32(8)}, forge.Key{Name: "llama.expert_used_count", Value: uint32(2)}), nil,
			map[string]string{"architectures": `["MixtralForCausalLM"]`, "num_local_experts": "8", "num_experts_per_tok": "2"}},
		{"a latent", []forge.Key{
			{Name: "general.architecture", Value: "deepseek2"}, {Name: "deepseek2.block_count", Value: uint32(62)},
			{Name: "deepseek2.nextn_predict_layers", Value: uint32(1)}, {Name: "deepseek2.expert_gating_func", Value: uint32(2)},
			{Name: "deepseek2.attention.head_count", Value: uint32(128)}, {Name: "deepseek2.attention.head_count_kv", Value: uint32(1)},
			{Name: "deepseek2.attention.kv_lora_rank", Value: uint32(512)}, {Name: "deepseek2.attention.key_length", Value: uint32(576)},
			{Name: "deepseek2.attention.key_length_mla", Value: uint32(192)}, {Name: "deepseek2.attention.value_length_mla", Value: uint32(128)},
			{Name: "deepseek2.rope.dimension_count", Value: uint32(64)}, {Name: "deepseek2.vocab_size", Value: uint32(129280)}}, nil,
			map[string]string{"architectures": `["DeepseekV3ForCausalLM"]`, "num_hidden_layers": "61", "num_key_value_heads": "128",
				"qk_nope_head_dim": "128", "qk_rope_head_dim": "64", "v_head_dim": "128", "vocab_size": "129280"}},
	} {
		f, err := read(forge.GGUF(tt.keys, tt.tensors))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		config, err := gguf.Config([]*gguf.File{f})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		for key, want := range tt.want {
			if v, _ := config.Get(key); string(v.AppendJSON(nil)) != want {
				t.Errorf("%s: %s = %s, want %s", tt.name, key, v.AppendJSON(nil), want)
			}
		}
	}
}

func files(parts ...[]byte) fstest.MapFS {
	out := fstest.MapFS{}
	for i, part := range parts {
		out[fmt.Sprintf("big-%05d-of-%05d.gguf", i+1, len(parts))] = &fstest.MapFile{Data: part}
	}
	return out
}

// parts is a Llama in two files: metadata in the first, a tensor in each.
func parts(no uint32, total int32) (first, second []byte) {
	keys := func(n uint32) []forge.Key {
		return []forge.Key{{Name: "split.no", Value: n}, {Name: "split.count", Value: uint32(2)}, {Name: "split.tensors.count", Value: total}}
	}
	embed := forge.Tensor{Name: "token_embd.weight", Type: 12, Shape: []int64{5000, 512}, Bytes: 5000 * 2 * 144}
	norm := forge.Tensor{Name: "output_norm.weight", Shape: []int64{512}, Bytes: 512 * 4}
	return forge.GGUF(llama(keys(0)...), []forge.Tensor{embed}), forge.GGUF(keys(no), []forge.Tensor{norm})
}

func TestCheckpoint(t *testing.T) {
	folder := files(parts(1, 2))
	for name := range folder { // any of them will do
		src, err := gguf.Checkpoint(folder, name)
		if err != nil {
			t.Fatal(err)
		}
		if src.Name != "big" || len(src.Tensors) != 2 || src.Tensors[0].Bytes != 5000*2*144 || src.Tensors[1].File != "big-00002-of-00002.gguf" {
			t.Errorf("%s: %q, %+v", name, src.Name, src.Tensors)
		}
		method, _ := src.Config.Get("quantization_config")
		if got := string(method.AppendJSON(nil)); got != `{"quant_method":"gguf"}` {
			t.Errorf("quantization_config %s", got)
		}
	}
	folder["config.json"] = &fstest.MapFile{Data: []byte(`{"model_type": "mistral", "num_hidden_layers": 2}`)}
	src, err := gguf.Checkpoint(folder, "big-00001-of-00002.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := src.Config.Get("model_type"); v != checkpoint.NewText("mistral") || len(src.Tensors) != 2 {
		t.Errorf("a config.json beside it: %s", src.Config.AppendJSON(nil))
	}
}

func TestCheckpointErrors(t *testing.T) {
	first, second := parts(1, 2)
	_, renumbered := parts(0, 2)
	short, _ := parts(1, 3)
	missing := files(first, second)
	delete(missing, "big-00002-of-00002.gguf")
	for _, tt := range []struct {
		name   string
		folder fs.FS
		file   string
		want   string
	}{
		{"a missing part", missing, "big-00001-of-00002.gguf", "big-00002-of-00002.gguf: not there"},
		{"a part under another's number", files(first, renumbered), "big-00001-of-00002.gguf", "big-00002-of-00002.gguf: split.no = 0: not 1, as the file's name says"},
		{"one part twice", files(first, first), "big-00001-of-00002.gguf", "big-00002-of-00002.gguf: split.no = 0: not 1, as the file's name says"},
		{"fewer tensors than it says", files(short, second), "big-00001-of-00002.gguf", "big-00001-of-00002.gguf: split.tensors.count = 3: the files hold 2"},
		{"a part under a plain name", fstest.MapFS{"x.gguf": {Data: first}}, "x.gguf", "x.gguf: split.count = 2: one of several files, under a name that does not say which"},
		{"absurdly many parts", files(), "big-00001-of-99999.gguf", "big-00001-of-99999.gguf: not one of 1 to 4096 files"},
		{"no part", files(), "big-00001-of-00000.gguf", "big-00001-of-00000.gguf: not one of 1 to 4096 files"},
		{"an architecture that is not known", fstest.MapFS{"x.gguf": {Data: forge.GGUF([]forge.Key{{Name: "general.architecture", Value: "rwkv7"}}, nil)}}, "x.gguf",
			"x.gguf: general.architecture = rwkv7: not one whose config headcount reads from GGUF"},
		{"no architecture", fstest.MapFS{"x.gguf": {Data: forge.GGUF(nil, nil)}}, "x.gguf", "x.gguf: general.architecture: missing"},
		{"a bad config beside it", fstest.MapFS{"x.gguf": {Data: forge.GGUF(llama(), nil)}, "config.json": {Data: []byte("[]")}}, "x.gguf",
			"x.gguf: config.json: line 1, column 1: a list is not an object"},
		{"a pipe", fstest.MapFS{"x.gguf": {Mode: fs.ModeNamedPipe}}, "x.gguf", "x.gguf: not a regular file"},
	} {
		src, err := gguf.Checkpoint(tt.folder, tt.file)
		if p, ok := errors.AsType[*problem.Error](err); !ok || src != nil || p.Error() != tt.want {
			t.Errorf("%s: %v, %v, want %s", tt.name, src, err, tt.want)
		}
	}
}

// hostile is a header with something else at a place, by what comes before it.
func hostile(data []byte, after string, put ...byte) []byte {
	out := slices.Clone(data)
	at := strings.Index(string(out), after) + len(after)
	copy(out[at:], put)
	return out
}

func u64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

func TestReadErrors(t *testing.T) {
	tensors := []forge.Tensor{{Name: "aa", Type: 8, Shape: []int64{2, 64}, Bytes: 2 * 2 * 34}, {Name: "bb", Shape: []int64{8}, Bytes: 32}}
	good := forge.GGUF([]forge.Key{{Name: "list", Value: []uint32{1, 2}}, {Name: "text", Value: "long"}}, tensors)
	const huge = math.MaxUint64
	dims := "aa" + string([]byte{2, 0, 0, 0})
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "not a GGUF file"},
		{"not GGUF", []byte("safetensors"), "not a GGUF file"},
		{"cut in the header", good[:40], "list: ends at 40 bytes, in the middle of the header"},
		{"cut in the data", good[:len(good)-32], "bb.offset = 160: 32 bytes from there are past the end of the file's 160 bytes of data"},
		{"too much data", append(slices.Clone(good), make([]byte, 64)...), "holds 256 bytes of data, its tensors only 192"},
		{"a version to come", hostile(good, "GGUF", 4), "version = 4: not between 1 and 3"},
		{"2^64 - 1 tensors", hostile(good, "GGUF\x03\x00\x00\x00", u64(huge)...), "tensor_count = 18446744073709551615: more than 1048576 tensors"},
		{"2^64 - 1 keys", hostile(good, "GGUF\x03\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00", u64(huge)...), "metadata_kv_count = 18446744073709551615: more than 65536 keys"},
		{"a list of 2^64 - 1", hostile(good, "list\x09\x00\x00\x00\x04\x00\x00\x00", u64(huge)...), "list: an array of 18446744073709551615 elements in a header of at most 332 bytes"},
		{"a text of 2^63", hostile(good, "text\x08\x00\x00\x00", u64(1<<63)...), "text: ends at 384 bytes, in the middle of the header"},
		{"no kind", hostile(good, "text", 99), "text: 99 is no kind of value"},
		{"a kind of no width in a list", hostile(good, "list\x09\x00\x00\x00", 77), "list: 77 is no kind of value"},
		{"a key twice", hostile(good, "\x02\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00", []byte("list")...), "list: given twice"},
		{"five dimensions", hostile(good, "aa", 5), "aa.n_dimensions = 5: more than 4 dimensions"},
		{"2^63 elements", hostile(good, dims, u64(1<<63)...), "aa.dimensions = 9223372036854775808: exceeds 63 bits"},
		{"2^62 · 2 blocks", hostile(good, dims, u64(1<<62)...), "aa.dimensions = [4611686018427387904 2]: more than 2^63 - 1 bytes"},
		{"no whole blocks", hostile(good, dims, u64(63)...), "aa.dimensions = [63 2]: 63 is not a multiple of the 32 elements in a block of Q8_0"},
		{"a type that was taken back", hostile(good, dims+string(u64(64))+string(u64(2)), 31), "aa.type = 31: not a tensor type that is known"},
		{"an offset past the file", hostile(good, dims+string(u64(64))+string(u64(2))+"\x08\x00\x00\x00", u64(huge)...), "aa.offset = 18446744073709551615: past the end of the file at 384"},
		{"overlapping tensors", hostile(good, "bb\x01\x00\x00\x00"+string(u64(8))+"\x00\x00\x00\x00", u64(128)...), "bb.offset = 128: overlaps the tensor before it, which ends at 136"},
		{"a gap", hostile(good, "bb\x01\x00\x00\x00"+string(u64(8))+"\x00\x00\x00\x00", u64(192)...), "bb.offset = 192: a gap before it: data so far ends at 136"},
		{"an odd offset", hostile(good, "bb\x01\x00\x00\x00"+string(u64(8))+"\x00\x00\x00\x00", u64(161)...), "bb.offset = 161: not a multiple of the alignment 32"},
		{"no alignment", forge.GGUF([]forge.Key{{Name: "general.alignment", Value: uint32(0)}}, tensors), "general.alignment = 0: not between 1 and 1048576"},
		{"a name of control characters", forge.GGUF(nil, []forge.Tensor{{Name: "a\nb\x1b", Type: 31, Shape: []int64{1}, Bytes: 1}}), "a.b..type = 31: not a tensor type that is known"},
		{"a name too long", forge.GGUF([]forge.Key{{Name: strings.Repeat("x", 1<<13), Value: true}}, nil), "a key of 8192 bytes exceeds the cap of 4096"},
	} {
		f, err := read(tt.data)
		if p, ok := errors.AsType[*problem.Error](err); !ok || f != nil || p.Error() != "m.gguf: "+tt.want {
			t.Errorf("%s:\n got %v\nwant m.gguf: %s", tt.name, err, tt.want)
		}
	}
	twice := []forge.Tensor{{Name: "a", Shape: []int64{1}, Bytes: 4}, {Name: "a", Shape: []int64{1}, Bytes: 4}}
	if _, err := read(forge.GGUF(nil, twice)); err == nil || err.Error() != "m.gguf: a: given twice" {
		t.Errorf("a tensor twice: %v", err)
	}
}

// Older versions and the other byte order have the same content.
func TestVersions(t *testing.T) {
	big := append([]byte("GGUF"), 0, 0, 0, 3)
	big = binary.BigEndian.AppendUint64(big, 1)
	big = binary.BigEndian.AppendUint64(big, 0)
	big = append(binary.BigEndian.AppendUint64(big, 1), 'w')
	big = binary.BigEndian.AppendUint32(big, 1)
	big = binary.BigEndian.AppendUint64(big, 8)
	big = binary.BigEndian.AppendUint32(big, 0)
	big = binary.BigEndian.AppendUint64(big, 0)
	old := append([]byte("GGUF"), 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 'w', 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	for name, data := range map[string][]byte{"big-endian": big, "version 1": old} {
		data = append(data, make([]byte, (32-len(data)%32)%32+32)...)
		f, err := read(data)
		if err != nil || len(f.Tensors) != 1 || f.Tensors[0].Bytes != 8*4 {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

// FuzzRead wants a file or an error of any bytes, and never more than the file holds.
func FuzzRead(f *testing.F) {
	f.Add(forge.GGUF(llama(), []forge.Tensor{{Name: "token_embd.weight", Type: 12, Shape: []int64{2, 256}, Bytes: 288}}))
	f.Add(forge.GGUF([]forge.Key{{Name: "x", Value: []int32{-1}}, {Name: "y", Value: uint64(1 << 63)}}, nil))
	f.Add([]byte("GGUF\x00\x00\x00\x03"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := read(data)
		if err != nil {
			if _, ok := errors.AsType[*problem.Error](err); !ok {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		if n := file.Bytes(); n < 0 || len(file.Tensors) > 0 && n+file.Header+file.Padding != int64(len(data)) {
			t.Fatalf("%d bytes of tensors, header %d and padding %d in a file of %d", n, file.Header, file.Padding, len(data))
		}
		gguf.Config([]*gguf.File{file})
	})
}

func TestPick(t *testing.T) {
	folder := fstest.MapFS{"README.md": {}, "m-Q4_K_M-00001-of-00002.gguf": {}, "m-Q4_K_M-00002-of-00002.gguf": {}, "m-Q8_0.gguf": {}, "sub/x.gguf": {}}
	for _, tt := range []struct{ variant, want, err, hint string }{
		{"Q8_0", "m-Q8_0.gguf", "", ""},
		{"q4_k_m", "m-Q4_K_M-00001-of-00002.gguf", "", ""},
		{"Q2_K", "", `no GGUF file whose name ends in "Q2_K"`, "there are m-Q4_K_M-00001-of-00002.gguf, m-Q8_0.gguf"},
		{"", "", "2 GGUF checkpoints", "name one of them: m-Q4_K_M-00001-of-00002.gguf, m-Q8_0.gguf"},
	} {
		got, err := gguf.Pick(folder, tt.variant)
		p, _ := errors.AsType[*problem.Error](err)
		if got != tt.want || (p == nil) != (tt.err == "") || p != nil && (p.Error() != tt.err || p.Hint != tt.hint) {
			t.Errorf("%q: %q, %v", tt.variant, got, err)
		}
	}
	if got, err := gguf.Pick(fstest.MapFS{"a.bin": {}}, ""); got != "" || err != nil {
		t.Errorf("no GGUF: %q, %v", got, err)
	}
}
