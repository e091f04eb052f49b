package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"headcount/problem"
)

// shard is a safetensors file with the given header and as much data.
func shard(header string, data int) *fstest.MapFile {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	out = append(out, header...)
	return &fstest.MapFile{Data: append(out, make([]byte, data)...)}
}

func text(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

// headerOnly fails a read past the first limit bytes of each file.
type headerOnly struct {
	fs.FS
	limit int
}

func (f headerOnly) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	if name == "." || err != nil {
		return file, err
	}
	return &limitedFile{file, f.limit}, nil
}

type limitedFile struct {
	fs.File
	left int
}

func (f *limitedFile) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, errors.New("read into the data")
	}
	n, err := f.File.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, err
}

func TestReadTensors(t *testing.T) {
	const header = `{"__metadata__": {"format": "pt"},
		"b": {"dtype": "F32", "shape": [], "data_offsets": [64, 68]},
		"a.weight": {"dtype": "BF16", "shape": [8, 4], "data_offsets": [0, 64]}}   `
	const cHeader = `{"c": {"data_offsets": [0, 3], "dtype": "F4", "shape": [2, 3], "note": {"x": [1]}}}`
	const empty = `{"a": {"dtype": "I8", "shape": [3, 0], "data_offsets": [0, 0]}}`
	a := Tensor{Name: "a.weight", DType: "BF16", Shape: []int64{8, 4}, Bytes: 8 * 4 * 2}
	b := Tensor{Name: "b", DType: "F32", Bytes: 4}
	c := Tensor{Name: "c", DType: "F4", Shape: []int64{2, 3}, Bytes: 2 * 3 * 4 / 8}
	a.Begin, b.Begin, c.Begin = 8+int64(len(header)), 8+int64(len(header))+64, 8+int64(len(cHeader))
	in := func(file string, tensors ...Tensor) []Tensor {
		for i := range tensors {
			tensors[i].File = file
		}
		return tensors
	}
	index := `{"metadata": {"total_size": 71.0}, "weight_map": {"a.weight": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors"}}`
	for _, tt := range []struct {
		name   string
		folder fstest.MapFS
		want   []Tensor
	}{
		{"no weights", fstest.MapFS{"config.json": text("{}"), "pytorch_model.bin": text("PK")}, nil},
		{"one file", fstest.MapFS{"model.safetensors": shard(header, 68), "consolidated.safetensors": shard(cHeader, 3)},
			in("model.safetensors", a, b)},
		{"Mistral's", fstest.MapFS{"consolidated.safetensors": shard(cHeader, 3), "other.safetensors": shard(header, 68)},
			in("consolidated.safetensors", c)},
		{"shards without an index", fstest.MapFS{"model-2.safetensors": shard(cHeader, 3), "model-1.safetensors": shard(header, 68)},
			append(in("model-1.safetensors", a, b), in("model-2.safetensors", c)...)},
		{"an index", fstest.MapFS{"model.safetensors.index.json": text(index), "1.safetensors": shard(header, 68),
			"2.safetensors": shard(cHeader, 3), "3.safetensors": text("not asked for")},
			append(in("1.safetensors", a, b), in("2.safetensors", c)...)},
		{"no tensors", fstest.MapFS{"model.safetensors": shard(`{}`, 0)}, nil},
		{"an empty tensor", fstest.MapFS{"model.safetensors": shard(empty, 0)},
			[]Tensor{{Name: "a", DType: "I8", Shape: []int64{3, 0}, File: "model.safetensors", Begin: 8 + int64(len(empty))}}},
	} {
		got, err := ReadTensors(headerOnly{tt.folder, len(index) + 8 + len(header)})
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
}

func TestReadIndex(t *testing.T) {
	folder := fstest.MapFS{"consolidated.safetensors.index.json": text(
		`{"weight_map": {"x": "b.safetensors", "y": "a.safetensors", "z": "b.safetensors"}, "metadata": {"total_size": 16384, "other": [1]}, "more": 1}`)}
	index, err := ReadIndex(folder)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a.safetensors", "b.safetensors"}; index.TotalSize != 16384 || len(index.WeightMap) != 3 || !slices.Equal(index.Files(), want) {
		t.Errorf("%+v, files %q", index, index.Files())
	}
	if index, err := ReadIndex(fstest.MapFS{}); index != nil || err != nil {
		t.Errorf("without an index: %v, %v", index, err)
	}
}

func TestReadTensorsErrors(t *testing.T) {
	tensor := func(fields string) string { return `{"w": {` + fields + `}}` }
	long := func(n int) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }
	one := func(file *fstest.MapFile) fstest.MapFS { return fstest.MapFS{"model.safetensors": file} }
	index := func(weightMap string, rest fstest.MapFS) fstest.MapFS {
		folder := fstest.MapFS{"model.safetensors.index.json": text(`{"weight_map": {` + weightMap + `}}`)}
		maps.Copy(folder, rest)
		return folder
	}
	w := shard(tensor(`"dtype": "U8", "shape": [4], "data_offsets": [0, 4]`), 4)
	for _, tt := range []struct {
		name   string
		folder fstest.MapFS
		want   string
	}{
		{"empty file", one(text("")), "model.safetensors: 0 bytes are no safetensors file"},
		{"LFS pointer", one(text("version https://git-lfs.github.com/spec/v1\n")), "model.safetensors: a Git LFS pointer, not safetensors"},
		{"a folder", fstest.MapFS{"model.safetensors/x": text("")}, "model.safetensors: not a regular file"},
		{"header past the end", one(&fstest.MapFile{Data: long(1)}), "model.safetensors: header_size = 1: past the end of the file at 8"},
		{"header over the cap", one(&fstest.MapFile{Data: long(maxHeader + 1)}), "model.safetensors: header_size = 100000001: exceeds the cap of 100000000"},
		{"header of -1", one(&fstest.MapFile{Data: long(-1)}), "model.safetensors: header_size = 18446744073709551615: exceeds the cap of 100000000"},
		{"not JSON", one(shard("x", 0)), "model.safetensors: header: line 1, column 1: 'x' where an object should be"},
		{"not UTF-8", one(shard("{\"\xff\": 1}", 0)), "model.safetensors: header: line 1, column 3: not UTF-8"},
		{"a list", one(shard("[]", 0)), "model.safetensors: header: line 1, column 1: '[' where an object should be"},
		{"cut header", one(shard(`{"w": {"dtype": "U8"`, 0)), "model.safetensors: w: dtype: line 1, column 21: ends where a comma or '}' should be"},
		{"text after", one(shard(`{} {}`, 0)), "model.safetensors: header: line 1, column 4: text after the end"},
		{"tensor is no object", one(shard(`{"w": 1}`, 0)), "model.safetensors: w: line 1, column 7: '1' where an object should be"},
		{"no dtype", one(shard(tensor(`"shape": [4], "data_offsets": [0, 4]`), 4)), `model.safetensors: w: dtype = "": not a safetensors dtype`},
		{"unknown dtype", one(shard(tensor(`"dtype": "F7", "shape": [4], "data_offsets": [0, 4]`), 4)), `model.safetensors: w: dtype = "F7": not a safetensors dtype`},
		{"dtype is a number", one(shard(tensor(`"dtype": 8`), 0)), "model.safetensors: w: dtype: line 1, column 17: '8' where a string should be"},
		{"no shape", one(shard(tensor(`"dtype": "U8", "data_offsets": [0, 4]`), 4)), "model.safetensors: w: shape: not given"},
		{"negative shape", one(shard(tensor(`"shape": [-4]`), 4)), "model.safetensors: w: shape: line 1, column 18: '-' where a whole number that is not negative should be"},
		{"fractional shape", one(shard(tensor(`"shape": [4.0]`), 4)), "model.safetensors: w: shape: line 1, column 18: a number that is not whole or exceeds 63 bits"},
		{"shape of 2^63", one(shard(tensor(`"shape": [9223372036854775808]`), 4)), "model.safetensors: w: shape: line 1, column 18: a number that is not whole or exceeds 63 bits"},
		{"many dimensions", one(shard(tensor(`"shape": [`+strings.Repeat("1,", maxRank)+`1]`), 4)), "model.safetensors: w: shape: line 1, column 146: more than 64 numbers"},
		{"overflow", one(shard(tensor(`"dtype": "U8", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]`), 0)),
			"model.safetensors: w: shape = [4294967296 4294967296]: not a number of bytes of U8 that fits 63 bits"},
		{"overflow in bits", one(shard(tensor(`"dtype": "F64", "shape": [1152921504606846976], "data_offsets": [0, 0]`), 0)),
			"model.safetensors: w: shape = [1152921504606846976]: not a number of bytes of F64 that fits 63 bits"},
		{"half a byte", one(shard(tensor(`"dtype": "F4", "shape": [3], "data_offsets": [0, 2]`), 2)),
			"model.safetensors: w: shape = [3]: not a number of bytes of F4 that fits 63 bits"},
		{"no offsets", one(shard(tensor(`"dtype": "U8", "shape": [4]`), 4)), "model.safetensors: w: data_offsets = []: not a begin and an end"},
		{"three offsets", one(shard(tensor(`"data_offsets": [0, 4, 8]`), 4)), "model.safetensors: w: data_offsets: line 1, column 31: more than 2 numbers"},
		{"offsets reversed", one(shard(tensor(`"dtype": "U8", "shape": [4], "data_offsets": [4, 0]`), 4)), "model.safetensors: w: data_offsets = [4 0]: not the 4 bytes of [4] U8"},
		{"offsets too wide", one(shard(tensor(`"dtype": "U8", "shape": [4], "data_offsets": [0, 8]`), 8)), "model.safetensors: w: data_offsets = [0 8]: not the 4 bytes of [4] U8"},
		{"past the end", one(shard(tensor(`"dtype": "U8", "shape": [4], "data_offsets": [0, 4]`), 3)), "model.safetensors: w: data_offsets = [0 4]: past the end of the file's 3 bytes of data"},
		{"a gap", one(shard(tensor(`"dtype": "U8", "shape": [4], "data_offsets": [2, 6]`), 6)), "model.safetensors: w: data_offsets = [2 6]: a gap before it: data so far ends at 0"},
		{"overlap", one(shard(`{"v": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "w": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]}}`, 6)),
			"model.safetensors: w: data_offsets = [2 6]: overlaps v, which ends at 4"},
		{"data left over", one(shard(tensor(`"dtype": "U8", "shape": [4], "data_offsets": [0, 4]`), 5)), "model.safetensors: holds 5 bytes of data, its tensors only 4"},
		{"twice in one file", one(shard(`{"w": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}, "w": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}}`, 0)), "model.safetensors: w: given twice, also in model.safetensors"},
		{"twice in two files", fstest.MapFS{"a.safetensors": w, "b.safetensors": w}, "b.safetensors: w: given twice, also in a.safetensors"},
		{"a name of control characters", one(shard(`{"\n\u001b": {}}`, 0)), "model.safetensors: ��: dtype = \"\": not a safetensors dtype"},

		{"missing shard", index(`"w": "a.safetensors"`, nil), "a.safetensors: the index names this file, and it is not there"},
		{"tensor not in its shard", index(`"w": "a.safetensors", "v": "a.safetensors"`, fstest.MapFS{"a.safetensors": w}),
			"model.safetensors.index.json: weight_map.v = a.safetensors: the file does not hold this tensor"},
		{"parent folder", index(`"w": "../a.safetensors"`, nil), "model.safetensors.index.json: weight_map.w = ../a.safetensors: not a plain file name"},
		{"absolute path", index(`"w": "/etc/passwd"`, nil), "model.safetensors.index.json: weight_map.w = /etc/passwd: not a plain file name"},
		{"backslash", index(`"w": "..\\a.safetensors"`, nil), `model.safetensors.index.json: weight_map.w = ..\a.safetensors: not a plain file name`},
		{"drive", index(`"w": "C:a.safetensors"`, nil), "model.safetensors.index.json: weight_map.w = C:a.safetensors: not a plain file name"},
		{"empty name", index(`"w": ""`, nil), "model.safetensors.index.json: weight_map.w = : not a plain file name"},
		{"the folder itself", index(`"w": "."`, nil), "model.safetensors.index.json: weight_map.w = .: not a plain file name"},
		{"name is a number", index(`"w": 1`, nil), "model.safetensors.index.json: line 1, column 22: '1' where a string should be"},
		{"empty index", index(``, nil), "model.safetensors.index.json: weight_map: no tensors"},
		{"index is HTML", fstest.MapFS{"model.safetensors.index.json": text("<html>")}, "model.safetensors.index.json: line 1, column 1: '<' where an object should be"},
		{"weight_map is a list", fstest.MapFS{"model.safetensors.index.json": text(`{"weight_map": []}`)}, "model.safetensors.index.json: line 1, column 16: '[' where an object should be"},
	} {
		tensors, err := ReadTensors(tt.folder)
		p, ok := errors.AsType[*problem.Error](err)
		if !ok || tensors != nil {
			t.Errorf("%s: %v, %v", tt.name, tensors, err)
			continue
		}
		if p.Error() != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, p.Error(), tt.want)
		}
	}
}

// A file that says it holds more than it can give is an error, not a wait or a panic.
func TestReadTensorsShortRead(t *testing.T) {
	whole := shard(`{"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}`, 4)
	for n := range len(whole.Data) {
		if _, err := ReadTensors(fstest.MapFS{"model.safetensors": {Data: whole.Data[:n]}}); err == nil {
			t.Errorf("accepted the first %d bytes", n)
		}
	}
	if _, err := ReadTensors(headerOnly{fstest.MapFS{"model.safetensors": whole}, 20}); err == nil || !strings.Contains(err.Error(), "read into the data") {
		t.Errorf("a failing read: %v", err)
	}
}

func FuzzReadTensors(f *testing.F) {
	f.Add(shard(`{"a": {"dtype": "U8", "shape": [2, 2], "data_offsets": [0, 4]}}`, 4).Data, `{"weight_map": {"a": "model.safetensors"}}`)
	f.Add(shard(`{"__metadata__": {"a": "b"}}`, 0).Data, `{"metadata": {"total_size": 1e400}}`)
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\x7f"), `{"weight_map": {"a": "../b"}}`)
	f.Fuzz(func(t *testing.T, data []byte, index string) {
		alone := fstest.MapFS{"model.safetensors": {Data: data}}
		indexed := fstest.MapFS{"model.safetensors": {Data: data}, "model.safetensors.index.json": text(index)}
		for _, folder := range []fs.FS{alone, indexed} {
			tensors, err := ReadTensors(folder)
			if _, ok := errors.AsType[*problem.Error](err); err != nil && !ok {
				t.Fatalf("not a problem: %v", err)
			}
			total := int64(0)
			for _, tensor := range tensors {
				total += tensor.Bytes
			}
			if total > int64(len(data)) {
				t.Fatalf("%d bytes of tensors in a file of %d", total, len(data))
			}
		}
	})
}

func BenchmarkReadTensors(b *testing.B) {
	const tensors = 10_000
	header := NewObject()
	for i := range tensors {
		entry := NewObject()
		entry.Set("dtype", NewText("F8_E4M3"))
		entry.Set("shape", NewList(NewInt(4), NewInt(2)))
		entry.Set("data_offsets", NewList(NewInt(int64(8*i)), NewInt(int64(8*i+8))))
		header.Set(fmt.Sprintf("model.layers.%d.mlp.experts.%d.down_proj.weight", i/256, i%256), NewDict(entry))
	}
	text := string(header.AppendJSON(nil))
	folder := fstest.MapFS{"model.safetensors": shard(text, 8*tensors)}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if got, err := ReadTensors(folder); err != nil || len(got) != tensors {
			b.Fatal(len(got), err)
		}
	}
}
