// Package forge makes checkpoints for tests: GGUF files and safetensors shards whose headers
// are whole and whose data is zeros, or a hole in a sparse file.
package forge

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// A Tensor is one to be written, of so many bytes.
type Tensor struct {
	Name  string
	Type  uint32  // GGUF's number
	DType string  // safetensors' name
	Shape []int64 // outermost first
	Bytes int64
}

// A Key is a metadata key of GGUF and its value: bool, uint32, uint64, int32, float32,
// string, or a list of uint32, int32 or string.
type Key struct {
	Name  string
	Value any
}

const ggufAlignment = 32

// GGUF is a file of version 3 with these keys and tensors, in their order.
func GGUF(keys []Key, tensors []Tensor) []byte {
	out := append([]byte("GGUF"), 3, 0, 0, 0)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(tensors)))
	out = binary.LittleEndian.AppendUint64(out, uint64(len(keys)))
	for _, k := range keys {
		kind, value := encode(k.Value)
		out = append(text(out, k.Name), binary.LittleEndian.AppendUint32(nil, kind)...)
		out = append(out, value...)
	}
	offset := int64(0)
	for _, t := range tensors {
		out = binary.LittleEndian.AppendUint32(text(out, t.Name), uint32(len(t.Shape)))
		for i := len(t.Shape) - 1; i >= 0; i-- {
			out = binary.LittleEndian.AppendUint64(out, uint64(t.Shape[i]))
		}
		out = binary.LittleEndian.AppendUint32(out, t.Type)
		out = binary.LittleEndian.AppendUint64(out, uint64(offset))
		offset += align(t.Bytes)
	}
	return append(out, make([]byte, align(int64(len(out)))-int64(len(out))+offset)...)
}

func align(n int64) int64 { return (n + ggufAlignment - 1) / ggufAlignment * ggufAlignment }

func text(out []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(out, uint64(len(s))), s...)
}

// encode is a value and its kind.
func encode(v any) (kind uint32, out []byte) {
	switch v := v.(type) {
	case uint32:
		return 4, binary.LittleEndian.AppendUint32(nil, v)
	case int32:
		return 5, binary.LittleEndian.AppendUint32(nil, uint32(v))
	case float32:
		return 6, binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))
	case bool:
		if v {
			return 7, []byte{1}
		}
		return 7, []byte{0}
	case string:
		return 8, text(nil, v)
	case uint64:
		return 10, binary.LittleEndian.AppendUint64(nil, v)
	case []uint32:
		return list(v)
	case []int32:
		return list(v)
	case []string:
		return list(v)
	}
	panic(fmt.Sprintf("forge: no kind for %T", v))
}

func list[T any](values []T) (kind uint32, out []byte) {
	of, _ := encode(*new(T))
	out = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, of), uint64(len(values)))
	for _, v := range values {
		_, b := encode(v)
		out = append(out, b...)
	}
	return 9, out
}

// Header is a safetensors header of these tensors, with its length, and the bytes of data
// that must follow.
func Header(tensors []Tensor) (header []byte, data int64) {
	var b strings.Builder
	b.WriteString(`{"__metadata__":{"format":"pt"}`)
	for _, t := range tensors {
		shape := strings.ReplaceAll(fmt.Sprint(t.Shape), " ", ",")
		fmt.Fprintf(&b, `,%q:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, t.Name, t.DType, shape, data, data+t.Bytes)
		data += t.Bytes
	}
	b.WriteByte('}')
	return append(binary.LittleEndian.AppendUint64(nil, uint64(b.Len())), b.String()...), data
}

// Shards writes a checkpoint of safetensors shards and their index into a folder. The data
// of each shard is a hole: it takes no room on disk.
func Shards(folder string, shards [][]Tensor) error {
	var index strings.Builder
	total := int64(0)
	for i, tensors := range shards {
		name := fmt.Sprintf("model-%05d-of-%06d.safetensors", i+1, len(shards))
		header, data := Header(tensors)
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, header, 0o644); err != nil {
			return err
		}
		if err := os.Truncate(path, int64(len(header))+data); err != nil {
			return err
		}
		total += data
		for _, t := range tensors {
			if index.Len() > 0 {
				index.WriteByte(',')
			}
			fmt.Fprintf(&index, "%q:%q", t.Name, name)
		}
	}
	text := fmt.Sprintf(`{"metadata":{"total_size":%d},"weight_map":{%s}}`, total, index.String())
	return os.WriteFile(filepath.Join(folder, "model.safetensors.index.json"), []byte(text), 0o644)
}
