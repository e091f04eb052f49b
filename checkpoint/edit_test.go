package checkpoint

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

func TestEdit(t *testing.T) {
	for _, tt := range []struct {
		name, text, path, want string
	}{
		{"a value", `{"a": 32, "b": [1, 2]}`, "a", `{"a": 8, "b": [1, 2]}`},
		{"the space around it", "{\n  \"a\" :  32 ,\n  \"b\": 1.0e5\n}\n", "a", "{\n  \"a\" :  8 ,\n  \"b\": 1.0e5\n}\n"},
		{"nested", `{"a": 1, "t": {"u": {"a": 32}}}`, "t.u.a", `{"a": 1, "t": {"u": {"a": 8}}}`},
		{"a list in its place", `{"a": [32, 32]}`, "a", `{"a": 8}`},
		{"an object in its place", `{"a": {"a": 32}}`, "a", `{"a": 8}`},
		{"of equal keys the last", `{"a": 32, "a": 16}`, "a", `{"a": 32, "a": 8}`},
		{"an escaped key", `{"\u0061": 32}`, "a", `{"\u0061": 8}`},
		{"a new key", "{\n  \"b\": 1\n}", "a", "{\n  \"a\": 8,\n  \"b\": 1\n}"},
		{"a new key on one line", `{"b": 1}`, "a", `{"a": 8,"b": 1}`},
		{"a new key of nothing", `{ }`, "a", `{"a": 8 }`},
		{"a new nested key", `{"t": {"b": NaN}}`, "t.a", `{"t": {"a": 8,"b": NaN}}`},
		{"a byte order mark", "\ufeff{\"a\": 1}", "a", "\ufeff{\"a\": 8}"},
		{"beside another key's object", `{"t": {"a": 1}, "a": 32}`, "a", `{"t": {"a": 1}, "a": 8}`},
	} {
		got, err := Edit([]byte(tt.text), strings.Split(tt.path, "."), NewInt(8))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.name, got, err, tt.want)
		}
	}
	for _, tt := range []struct{ text, path, want string }{
		{`{"t": 1}`, "t.a", "t.a: not inside an object"},
		{`{}`, "t.a", "t.a: not inside an object"},
		{`[]`, "a", "line 1, column 1: '[' where an object should be"},
		{`{"a": 1`, "a", "line 1, column 8: ends where a comma or '}' should be"},
		{`{"a": 1} x`, "a", "line 1, column 10: text after the end"},
		{``, "a", "line 1, column 1: ends where an object should be"},
	} {
		if got, err := Edit([]byte(tt.text), strings.Split(tt.path, "."), NewInt(8)); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.text, got, err, tt.want)
		}
	}
}

// An edited file reads as the file whose key was set.
func FuzzEdit(f *testing.F) {
	for _, seed := range []string{sample, `{"a": 1}`, `{}`, `{"t": {"a": 1}}`, "{ \"t\" : {} , \"a\":[[]]}", `{"t":{"a":1},"t":2}`} {
		f.Add([]byte(seed), "a")
		f.Add([]byte(seed), "t.a")
	}
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		before, _, err := Parse(text)
		if err != nil || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == utf8.RuneError }) {
			return // paths are ours
		}
		keys := strings.Split(path, ".")
		edited, err := Edit(text, keys, NewInt(8))
		if err != nil {
			return
		}
		after, _, err := Parse(edited)
		if err != nil {
			t.Fatalf("%q does not read: %v", edited, err)
		}
		o := after
		for _, key := range keys[:len(keys)-1] {
			v, _ := o.Get(key)
			o = v.Dict()
		}
		if v, _ := o.Get(keys[len(keys)-1]); v != NewInt(8) {
			t.Fatalf("%q holds %v at %s", edited, v.Any(), path)
		}
		for _, key := range before.Keys() {
			if _, ok := after.Get(key); !ok {
				t.Fatalf("%q lost %q", edited, key)
			}
		}
	})
}

// What AppendHeader writes, ReadShards reads.
func TestAppendHeader(t *testing.T) {
	metadata := NewObject()
	metadata.Set("format", NewText("pt"))
	want := Shard{File: "model.safetensors", Metadata: metadata, Tensors: []Tensor{
		{Name: "a.weight", DType: "BF16", Shape: []int64{8, 4}, Bytes: 64},
		{Name: "scalar", DType: "F32", Bytes: 4},
		{Name: "none", DType: "F32", Shape: []int64{0, 3}},
		{Name: "é\"", DType: "F8_E4M3", Shape: []int64{5}, Bytes: 5},
	}}
	file := AppendHeader(nil, metadata, want.Tensors)
	if len(file)%8 != 0 {
		t.Errorf("the data begins at byte %d", len(file))
	}
	begin := int64(len(file))
	for i := range want.Tensors {
		want.Tensors[i].File, want.Tensors[i].Begin = want.File, begin
		begin += want.Tensors[i].Bytes
	}
	file = append(file, make([]byte, 64+4+5)...)
	want.Size = int64(len(file))
	got, err := ReadShards(fstest.MapFS{want.File: {Data: file}})
	if err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	if string(got[0].Metadata.AppendJSON(nil)) != `{"format":"pt"}` {
		t.Errorf("metadata %s", got[0].Metadata.AppendJSON(nil))
	}
	got[0].Metadata = metadata
	if !reflect.DeepEqual(got[0], want) {
		t.Errorf("%+v\nwant %+v", got[0], want)
	}
	if plain := AppendHeader([]byte("before"), nil, nil); string(plain) != "before\x08\x00\x00\x00\x00\x00\x00\x00{}      " {
		t.Errorf("without anything: %q", plain)
	}
}

// A padded header is read as before, and its data begins in step.
func TestPadHeader(t *testing.T) {
	tensors := []Tensor{{Name: "a", DType: "BF16", Shape: []int64{3}, Bytes: 6}}
	plain := AppendHeader(nil, nil, tensors)
	for _, at := range []int64{int64(len(plain)), 8, 4096, 4104, 1 << 40, 81} {
		file := PadHeader(bytes.Clone(plain), at)
		if at%8 != 0 {
			if !bytes.Equal(file, plain) {
				t.Errorf("at %d, which cannot be: %d bytes", at, len(file))
			}
			continue
		}
		if (int64(len(file))-at)%4096 != 0 || len(file) >= len(plain)+4096 {
			t.Errorf("at %d: %d bytes after %d", at, len(file), len(plain))
		}
		got, err := ReadShards(fstest.MapFS{"model.safetensors": {Data: append(file, make([]byte, 6)...)}})
		if err != nil || got[0].Tensors[0].Begin != int64(len(file)) {
			t.Errorf("at %d: %+v, %v", at, got, err)
		}
	}
}

func ExampleEdit() {
	config := []byte("{\n  \"num_attention_heads\": 32,\n  \"num_key_value_heads\": 32\n}\n")
	edited, err := Edit(config, []string{"num_key_value_heads"}, NewInt(8))
	fmt.Print(string(edited), err)
	// Output:
	// {
	//   "num_attention_heads": 32,
	//   "num_key_value_heads": 8
	// }
	// <nil>
}
