package gguf

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/problem"
)

// Limits on a file from a stranger.
const (
	maxHeader    = 100_000_000 // bytes before the tensor data
	maxTensors   = 1 << 20     // of a checkpoint
	maxKeys      = 1 << 16     // of a file's metadata
	maxName      = 1 << 12     // bytes of a key or a tensor's name
	maxKept      = 1 << 12     // elements of an array, bytes of a text, that are kept
	maxElements  = 1 << 17     // of all arrays together that are kept
	maxRank      = 4           // dimensions of a tensor, ggml's own limit
	maxNesting   = 4           // arrays in arrays
	maxAlign     = 1 << 20     // general.alignment
	maxVersion   = 3
	defaultAlign = 32 // bytes, where general.alignment is not given
)

// A File is what one GGUF file says of itself. Version 1, which had 32-bit sizes, and files
// of big-endian machines are read as well.
type File struct {
	Name     string
	Version  uint32
	Metadata *checkpoint.Object  // scalars and short arrays, by the file's own keys
	Lengths  map[string]int64    // of every array, also of one that was too long to keep
	Tensors  []checkpoint.Tensor // in the order of their data, shapes outermost first
	Header   int64               // bytes before the tensor data, padding included
	Padding  int64               // bytes of padding after tensors
}

// Bytes is what the file's tensors take: its size less its header and padding.
func (f *File) Bytes() (n int64) {
	for i := range f.Tensors {
		n += f.Tensors[i].Bytes
	}
	return n
}

// Read reads the header of a file of so many bytes; name is what errors call it. No tensor
// data is read. The error is a [*problem.Error] that names the file, and the key or the
// tensor and its field.
func Read(r io.ReaderAt, size int64, name string) (*File, error) {
	s := &scanner{
		file:  &File{Name: name, Metadata: checkpoint.NewObject(), Lengths: map[string]int64{}},
		in:    bufio.NewReaderSize(io.NewSectionReader(r, 0, min(size, maxHeader)), 1<<16),
		size:  size,
		order: binary.LittleEndian,
	}
	s.header()
	if s.err != nil {
		return nil, problem.Within(name, s.err)
	}
	return s.file, nil
}

// A scanner reads a header and keeps the first error.
type scanner struct {
	file  *File
	in    *bufio.Reader
	order binary.ByteOrder
	size  int64 // of the file
	at    int64
	where string // the key or tensor that is being read
	err   *problem.Error

	kept   uint64  // elements of arrays
	begins []int64 // offset of each tensor from the end of the header
	names  map[string]bool
}

func (s *scanner) fail(field string, value any, format string, args ...any) {
	if s.err == nil {
		s.err = problem.New(problem.BadValue, field, value, format, args...)
	}
}

func (s *scanner) header() {
	magic := string(s.bytes(4))
	switch {
	case s.err != nil || magic != "GGUF":
		s.err = problem.New(problem.Unreadable, "", nil, "not a GGUF file").
			WithHint("the file may not have been downloaded in full")
		return
	}
	version := s.uint(4)
	if version&0xffff == 0 { // the other byte order
		s.order = binary.BigEndian
		version >>= 24
	}
	if version < 1 || version > maxVersion {
		s.fail("version", version, "not between 1 and %d", maxVersion)
		return
	}
	s.file.Version = uint32(version)
	tensors, keys := s.length(), s.length()
	if tensors > maxTensors {
		s.fail("tensor_count", tensors, "more than %d tensors", maxTensors)
	}
	if keys > maxKeys {
		s.fail("metadata_kv_count", keys, "more than %d keys", maxKeys)
	}
	for range keys {
		if s.err != nil {
			return
		}
		s.key()
	}
	s.names = map[string]bool{}
	for range tensors {
		if s.err != nil {
			return
		}
		s.tensor()
	}
	s.data()
}

// bytes reads the next n bytes; they hold until the next read.
func (s *scanner) bytes(n int) []byte {
	var zeros [8]byte
	if s.err == nil {
		b, err := s.in.Peek(n)
		if err == nil {
			s.in.Discard(n)
			s.at += int64(n)
			return b
		}
		s.short(err)
	}
	return zeros[:min(n, 8)]
}

// short says that the header goes on past the end of the file, or past our cap.
func (s *scanner) short(err error) {
	switch {
	case s.err != nil:
	case err != io.EOF:
		if said, ok := errors.AsType[*problem.Error](err); ok {
			s.err = said
			return
		}
		s.err = problem.New(problem.Unreadable, "", nil, "%v", err)
	case s.size > maxHeader:
		s.fail(s.where, nil, "the header exceeds the cap of %d bytes", maxHeader)
	default:
		s.err = problem.New(problem.Unreadable, s.where, nil, "ends at %d bytes, in the middle of the header", s.size).
			WithHint("the file may not have been downloaded in full")
	}
}

// skip passes over n bytes.
func (s *scanner) skip(n uint64) {
	if s.err != nil {
		return
	}
	if left := uint64(min(s.size, maxHeader) - s.at); n > left {
		s.short(io.EOF)
		return
	}
	for n > 0 && s.err == nil {
		done, err := s.in.Discard(int(min(n, 1<<30)))
		s.at += int64(done)
		n -= uint64(done)
		if err != nil {
			s.short(err)
		}
	}
}

// uint reads an unsigned number of n bytes.
func (s *scanner) uint(n int) uint64 {
	b := s.bytes(n)
	if len(b) < n {
		return 0
	}
	switch n {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(s.order.Uint16(b))
	case 4:
		return uint64(s.order.Uint32(b))
	}
	return s.order.Uint64(b)
}

// length reads a count, of 32 bits in the first version.
func (s *scanner) length() uint64 {
	if s.file.Version == 1 {
		return s.uint(4)
	}
	return s.uint(8)
}

// text reads a string of at most so many bytes, which the buffer holds.
func (s *scanner) text(most uint64, what string) string {
	n := s.length()
	if n > most {
		s.fail(s.where, nil, "%s of %d bytes exceeds the cap of %d", what, n, most)
		return ""
	}
	return string(s.bytes(int(n)))
}

// Kinds of a metadata value.
const (
	kindBool   = 7
	kindText   = 8
	kindArray  = 9
	kindUint64 = 10
	lastKind   = 12
)

// widths are the bytes of the kinds of metadata values that have a width.
var widths = [lastKind + 1]int{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

// key reads one key and its value.
func (s *scanner) key() {
	s.where = ""
	key := s.text(maxName, "a key")
	s.where = key
	if _, twice := s.file.Metadata.Get(key); twice {
		s.fail(key, nil, "given twice")
	}
	kind := s.uint(4)
	if kind != kindArray {
		if v, kept := s.value(kind); kept && s.err == nil {
			s.file.Metadata.Set(key, v)
		}
		return
	}
	if list, n := s.array(maxNesting); s.err == nil {
		s.file.Lengths[key] = n
		if list != nil {
			s.file.Metadata.Set(key, checkpoint.NewList(list...))
		}
	}
}

// value reads a value that is no array. A long text is not kept.
func (s *scanner) value(kind uint64) (v checkpoint.Value, kept bool) {
	switch {
	case s.err != nil:
	case kind > lastKind || kind == kindArray:
		s.fail(s.where, nil, "%d is no kind of value", kind)
	case kind == kindText:
		n := s.length()
		if n > maxKept {
			s.skip(n)
			return v, false
		}
		return checkpoint.NewText(strings.ToValidUTF8(string(s.bytes(int(n))), "\ufffd")), true
	default:
		return number(kind, s.uint(widths[kind])), true
	}
	return v, false
}

// number is a number or a truth value of a kind.
func number(kind, x uint64) checkpoint.Value {
	switch kind {
	case 1:
		return checkpoint.NewInt(int64(int8(x)))
	case 3:
		return checkpoint.NewInt(int64(int16(x)))
	case 5:
		return checkpoint.NewInt(int64(int32(x)))
	case 6:
		return checkpoint.NewFloat(float64(math.Float32frombits(uint32(x))))
	case kindBool:
		return checkpoint.NewBool(x != 0)
	case kindUint64:
		if x > math.MaxInt64 {
			return checkpoint.NewFloat(float64(x))
		}
	case 12:
		return checkpoint.NewFloat(math.Float64frombits(x))
	}
	return checkpoint.NewInt(int64(x))
}

// array reads an array. A long one, as a tokenizer's words, is counted and not kept.
func (s *scanner) array(depth int) (list []checkpoint.Value, n int64) {
	kind, count := s.uint(4), s.length()
	if left := uint64(min(s.size, maxHeader) - s.at); s.err == nil && count > left {
		s.fail(s.where, nil, "an array of %d elements in a header of at most %d bytes", count, left)
	}
	switch {
	case s.err != nil:
		return nil, 0
	case kind == kindArray && depth == 0:
		s.fail(s.where, nil, "arrays nested too deeply")
		return nil, 0
	case kind < uint64(len(widths)) && widths[kind] > 0 && count > maxKept:
		s.skip(count * uint64(widths[kind]))
		return nil, int64(count)
	}
	keep := count <= maxKept && s.kept+count <= maxElements
	for i := uint64(0); i < count && s.err == nil; i++ {
		switch {
		case kind == kindArray:
			s.array(depth - 1)
		case kind == kindText && !keep:
			s.skip(s.length())
		default:
			if v, ok := s.value(kind); ok && keep {
				list = append(list, v)
				s.kept++
			}
		}
	}
	return list, int64(count)
}

// tensor reads the description of one tensor.
func (s *scanner) tensor() {
	s.where = ""
	name := s.text(maxName, "a tensor's name")
	s.where = name
	if s.names[name] {
		s.fail(name, nil, "given twice")
	}
	rank := s.uint(4)
	if rank > maxRank {
		s.fail(name+".n_dimensions", rank, "more than %d dimensions", maxRank)
		return
	}
	shape := make([]int64, rank)
	for i := range shape {
		n := s.length()
		if n > math.MaxInt64 {
			s.fail(name+".dimensions", n, "exceeds 63 bits")
			return
		}
		shape[i] = int64(n)
	}
	kind, begin := s.uint(4), s.uint(8)
	if s.err != nil {
		return
	}
	packed, known := types[uint32(kind)]
	if !known {
		s.fail(name+".type", kind, "not a tensor type that is known")
		return
	}
	size, err := packed.size(shape)
	switch {
	case err != "":
		s.fail(name+".dimensions", fmt.Sprint(shape), "%s", err)
	case begin > uint64(s.size):
		s.fail(name+".offset", begin, "past the end of the file at %d", s.size)
	}
	slices.Reverse(shape)
	s.names[name] = true
	s.begins = append(s.begins, int64(begin))
	s.file.Tensors = append(s.file.Tensors, checkpoint.Tensor{Name: name, DType: packed.name, Shape: shape, Bytes: size, Block: packed.elements, File: s.file.Name})
}

// size is the bytes of a tensor, its innermost dimension first; what is wrong with it, ""
// for nothing.
func (b block) size(shape []int64) (n int64, wrong string) {
	n = 1
	for i, d := range shape {
		if i == 0 {
			if d%b.elements != 0 {
				return 0, fmt.Sprintf("%d is not a multiple of the %d elements in a block of %s", d, b.elements, b.name)
			}
			d /= b.elements
		}
		if d != 0 && n > math.MaxInt64/d {
			return 0, "more than 2^63 - 1 elements"
		}
		n *= d
	}
	if len(shape) == 0 && b.elements > 1 {
		return 0, "a scalar of " + b.name
	}
	if n > math.MaxInt64/b.bytes {
		return 0, "more than 2^63 - 1 bytes"
	}
	return n * b.bytes, ""
}

// data puts the tensors in the order of their data and holds that each begins where the
// one before it ends, padded, and the last ends where the file ends.
func (s *scanner) data() {
	align := s.alignment()
	if s.err != nil {
		return
	}
	f := s.file
	f.Header = roundUp(s.at, align)
	order := make([]int, len(f.Tensors))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.begins[a], s.begins[b]), cmp.Compare(f.Tensors[a].Bytes, f.Tensors[b].Bytes))
	})
	sorted := make([]checkpoint.Tensor, 0, len(order))
	end, held := int64(0), s.size-f.Header
	for _, i := range order {
		t, begin := f.Tensors[i], s.begins[i]
		field := t.Name + ".offset"
		switch {
		case begin%align != 0:
			s.fail(field, begin, "not a multiple of the alignment %d", align)
		case begin < end:
			s.fail(field, begin, "overlaps the tensor before it, which ends at %d", end)
		case begin > roundUp(end, align):
			s.fail(field, begin, "a gap before it: data so far ends at %d", end)
		case t.Bytes > held || begin > held-t.Bytes:
			s.fail(field, begin, "%d bytes from there are past the end of the file's %d bytes of data", t.Bytes, max(held, 0))
			s.err.Hint = "the file may not have been downloaded in full"
		}
		if s.err != nil {
			return
		}
		f.Padding += begin - end
		end = begin + t.Bytes
		sorted = append(sorted, t)
	}
	if rest := held - end; len(sorted) > 0 && rest >= align {
		s.fail("", nil, "holds %d bytes of data, its tensors only %d", held, end)
	}
	f.Padding += max(held-end, 0)
	f.Tensors = sorted
}

// alignment is what tensor data is aligned to, bytes.
func (s *scanner) alignment() int64 {
	const key = "general.alignment"
	v, ok := s.file.Metadata.Get(key)
	if !ok {
		return defaultAlign
	}
	n, isInt := v.Int()
	if !isInt || n < 1 || n > maxAlign {
		s.fail(key, v.Any(), "not between 1 and %d", maxAlign)
	}
	return n
}

func roundUp(n, multiple int64) int64 { return (n + multiple - 1) / multiple * multiple }
