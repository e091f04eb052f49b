package checkpoint

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"headcount/problem"
)

// A Tensor is one entry of a checkpoint's safetensors or GGUF headers.
type Tensor struct {
	Name  string
	DType string  // the format's own name, "BF16", "Q4_K"
	Shape []int64 // elements, outermost first; empty for a scalar
	Bytes int64   // as stored
	Block int64   // elements of the innermost dimension that are packed together; 0 or 1: none
	File  string
	Begin int64 // where in the file its data begins, bytes
}

// A Shard is one safetensors file of a checkpoint.
type Shard struct {
	File     string
	Size     int64    // of the whole file, bytes
	Metadata *Object  // the header's __metadata__, nil where there is none
	Tensors  []Tensor // in the order of their data
}

// An Index is a checkpoint's model.safetensors.index.json, or another of its form.
type Index struct {
	File      string // its own name
	TotalSize int64  // bytes of all tensors by metadata.total_size, 0 where that is not given

	TotalParameters int64 // elements of them by metadata.total_parameters, 0 where that is not given

	WeightMap map[string]string // tensor → file in the same folder
}

// Limits on safetensors files from a stranger.
const (
	maxHeader   = 100_000_000 // bytes; the format's own limit (safetensors, MAX_HEADER_SIZE)
	maxHeaders  = 400_000_000 // bytes over all files of a checkpoint
	maxIndex    = 64 << 20    // bytes of an index
	maxTensors  = 1 << 20     // of a checkpoint
	maxRank     = 64          // dimensions of a tensor, PyTorch's own limit
	lengthBytes = 8           // of the header's length, at the start of a file
)

// dtypes are safetensors' formats and the bits of one element.
var dtypes = []struct {
	name string
	bits int64
}{
	{"BF16", 16}, {"F16", 16}, {"F32", 32}, {"F64", 64}, {"C64", 64},
	{"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
	{"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
	{"I8", 8}, {"U8", 8}, {"I16", 16}, {"U16", 16}, {"I32", 32}, {"U32", 32}, {"I64", 64}, {"U64", 64}, {"BOOL", 8},
}

// ReadTensors reads the headers of a folder's safetensors files, in the order of the files'
// names and of the data in each. The files are those of model.safetensors.index.json, else
// model.safetensors, else the same of Mistral's consolidated.safetensors, else every
// *.safetensors; none is no error. A file must be whole, as the format demands: tensors
// follow each other without gap or overlap to the file's end, no name comes twice, and
// the index and the headers agree.
func ReadTensors(folder fs.FS) ([]Tensor, error) {
	shards, err := ReadShards(folder)
	n := 0
	for _, s := range shards {
		n += len(s.Tensors)
	}
	tensors := slices.Grow([]Tensor(nil), n)
	for _, s := range shards {
		tensors = append(tensors, s.Tensors...)
	}
	return tensors, err
}

// ReadShards is [ReadTensors] by file.
func ReadShards(folder fs.FS) ([]Shard, error) {
	index, err := ReadIndex(folder)
	if err != nil {
		return nil, err
	}
	files, err := shards(folder, index)
	if err != nil {
		return nil, err
	}
	headers, err := readHeaders(folder, files, index)
	if err != nil {
		return nil, err
	}
	var out []Shard
	n, listed := 0, 0
	for i := range headers {
		h := &headers[i]
		out = append(out, Shard{File: h.file, Size: h.start + h.data, Metadata: h.metadata, Tensors: h.tensors})
		n += len(h.tensors)
		listed += h.listed
	}
	if n > maxTensors {
		return nil, problem.New(problem.BadValue, "", nil, "more than %d tensors", maxTensors)
	}
	if index != nil && listed == n && n == len(index.WeightMap) {
		return out, nil // each is where the index says, and no file has one twice
	}
	if err := checkNames(out, index); err != nil {
		return nil, err
	}
	return out, nil
}

// checkNames holds that no name comes twice, and that every tensor of the index is in its
// file.
func checkNames(shards []Shard, index *Index) error {
	seen := map[string]string{} // tensor → file
	for _, s := range shards {
		for i := range s.Tensors {
			name := s.Tensors[i].Name
			if other, twice := seen[name]; twice {
				return problem.Within(pathElement(s.File), problem.New(problem.BadValue, pathElement(name), nil, "given twice, also in %s", pathElement(other)))
			}
			seen[name] = s.File
		}
	}
	if index == nil {
		return nil
	}
	missing := ""
	for name, file := range index.WeightMap {
		if seen[name] != file && (missing == "" || name < missing) {
			missing = name
		}
	}
	if missing == "" {
		return nil
	}
	return index.bad(missing, index.WeightMap[missing], "the file does not hold this tensor")
}

// A Watcher is a folder that wants to know how far the reading of its headers is.
type Watcher interface {
	// HeadersRead is called when so many of the files have been read, by one caller at a time.
	HeadersRead(done, files int)
}

// atOnce is how many files are read at a time.
const atOnce = 16

// readHeaders reads the headers of files, several at a time. The error is that of the first
// file that has one.
func readHeaders(folder fs.FS, files []string, index *Index) ([]header, error) {
	headers := make([]header, len(files))
	errs := make([]error, len(files))
	var next, failed, budget atomic.Int64
	budget.Store(maxHeaders)
	var mu sync.Mutex
	done := 0
	watcher, watched := folder.(Watcher)
	var readers sync.WaitGroup
	for range min(atOnce, len(files)) {
		readers.Go(func() {
			for failed.Load() == 0 {
				i := int(next.Add(1)) - 1
				if i >= len(files) {
					return
				}
				headers[i] = header{file: files[i], index: index, budget: &budget}
				if errs[i] = headers[i].read(folder); errs[i] != nil {
					failed.Store(1)
				}
				mu.Lock()
				if done++; watched {
					watcher.HeadersRead(done, len(files))
				}
				mu.Unlock()
			}
		})
	}
	readers.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return headers, nil
}

// ReadIndex reads a folder's safetensors index, Mistral's where there is no other, nil if
// there is none. Its files may be missing. Every file is a plain name inside the folder.
func ReadIndex(folder fs.FS) (*Index, error) {
	return firstIndex(folder, "model.safetensors.index.json", "consolidated.safetensors.index.json")
}

// pickleTotal is the bytes of all tensors by the index of PyTorch's files, 0 where there is
// none, or none that says so.
func pickleTotal(folder fs.FS) (int64, error) {
	index, err := firstIndex(folder, "pytorch_model.bin.index.json")
	if index == nil || err != nil {
		return 0, err
	}
	return index.TotalSize, nil
}

// firstIndex reads the first index of these names that is there.
func firstIndex(folder fs.FS, names ...string) (*Index, error) {
	for _, name := range names {
		text, err := readIndex(folder, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		}
		index := &Index{File: name, WeightMap: make(map[string]string, min(strings.Count(text, ":"), maxTensors))}
		if err := index.parse(text); err != nil {
			return nil, err
		}
		return index, nil
	}
	return nil, nil
}

func readIndex(folder fs.FS, name string) (string, error) {
	f, size, err := OpenFile(folder, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if size > maxIndex {
		return "", problem.New(problem.Unreadable, "", nil, "%s: %d bytes exceed the cap of %d", name, size, maxIndex)
	}
	return readN(f, name, size)
}

// readN reads the next n bytes of a file.
func readN(f fs.File, name string, n int64) (string, error) {
	var b strings.Builder
	b.Grow(int(n))
	if _, err := io.CopyN(&b, f, n); err != nil {
		return "", unreadable(name, err)
	}
	return b.String(), nil
}

// Files are the names of the index's files, sorted.
func (x *Index) Files() []string {
	return slices.Compact(slices.Sorted(maps.Values(x.WeightMap)))
}

func (x *Index) parse(text string) error {
	p := parser{data: text}
	for more := p.begin(); more; more = p.more('}') {
		switch key := p.key(); key {
		case "metadata":
			metadata := p.value(1).Dict()
			for key, to := range map[string]*int64{"total_size": &x.TotalSize, "total_parameters": &x.TotalParameters} {
				total, _ := metadata.Get(key)
				n, _ := total.Int()
				*to = max(0, n)
			}
		case "weight_map":
			if err := x.parseWeightMap(&p); err != nil {
				return err
			}
		default:
			p.value(1)
		}
	}
	if p.end(); p.err != nil {
		return problem.Within(x.File, p.err)
	}
	if len(x.WeightMap) == 0 {
		return problem.Within(x.File, problem.New(problem.MissingField, "weight_map", nil, "no tensors"))
	}
	return nil
}

func (x *Index) parseWeightMap(p *parser) error {
	files := map[string]string{} // one string for each file, apart from the document
	for more := p.begin(); more; more = p.more('}') {
		tensor, name := p.key(), p.string()
		if p.err != nil {
			break
		}
		file, known := files[name]
		if !known {
			if name == "." || !fs.ValidPath(name) || strings.ContainsAny(name, `/\:`) {
				return x.bad(tensor, name, "not a plain file name")
			}
			file = strings.Clone(name)
			files[file] = file
		}
		if len(x.WeightMap) >= maxTensors {
			p.fail("more than %d tensors", maxTensors)
		}
		x.WeightMap[tensor] = file
	}
	return nil
}

// bad is a problem with one entry of the weight map.
func (x *Index) bad(tensor, file, what string) error {
	return problem.Within(x.File, problem.New(problem.BadValue, "weight_map."+pathElement(tensor), pathElement(file), "%s", what))
}

// shards are the files that hold the folder's tensors. A file of the index is not asked
// for here: opening it says so if it is missing.
func shards(folder fs.FS, index *Index) ([]string, error) {
	if index != nil {
		return index.Files(), nil
	}
	for _, name := range []string{"model.safetensors", "consolidated.safetensors"} {
		if _, err := fs.Stat(folder, name); err == nil {
			return []string{name}, nil
		}
	}
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, unreadable(".", err)
	}
	var names []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".safetensors") {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// A header is one safetensors file's: eight bytes of length, little endian, then JSON:
//
//	{"__metadata__": {…}, "lm_head.weight": {"dtype": "BF16", "shape": [8, 4], "data_offsets": [0, 64]}, …}
//
// Offsets count from the end of the header.
type header struct {
	file   string
	index  *Index        // nil: none
	listed int           // tensors that the index has in this file
	budget *atomic.Int64 // header bytes that may still be read
	start  int64         // where the tensor data begins in the file
	data   int64         // bytes of it

	metadata *Object
	tensors  []Tensor
	dims     []int64 // slab of shapes

	shape   [maxRank]int64 // of the tensor that is being read
	offsets [2]int64
}

// bad is a problem with the whole file.
func (h *header) bad(code problem.Code, field string, value any, format string, args ...any) error {
	return problem.Within(pathElement(h.file), problem.New(code, field, value, format, args...))
}

// badTensor is a problem with one field of one tensor.
func (h *header) badTensor(tensor, field string, value any, format string, args ...any) error {
	p := problem.New(problem.BadValue, field, value, format, args...)
	return problem.Within(pathElement(h.file)+": "+pathElement(tensor), p)
}

func (h *header) read(folder fs.FS) error {
	text, err := h.text(folder)
	if err != nil {
		return err
	}
	p := parser{data: text}
	if bad := firstInvalid(text); bad >= 0 {
		p.pos = bad
		p.fail("not UTF-8")
	}
	for more := p.begin(); more; more = p.more('}') {
		name := p.key()
		if name == "__metadata__" {
			h.metadata = p.value(1).Dict()
			continue
		}
		if err := h.tensor(&p, name); err != nil {
			return err
		}
	}
	if p.end(); p.err != nil {
		return problem.Within(pathElement(h.file)+": header", p.err)
	}
	if err := h.checkData(); err != nil {
		return err
	}
	return h.keepNames()
}

// keepNames puts the tensors' names, which are parts of the header so far, into a text of
// their own, and counts those that the index has here.
func (h *header) keepNames() error {
	size := 0
	for i := range h.tensors {
		size += len(h.tensors[i].Name)
	}
	var all strings.Builder
	all.Grow(size)
	seen := make(map[string]struct{}, len(h.tensors))
	for i := range h.tensors {
		t := &h.tensors[i]
		start := all.Len()
		all.WriteString(t.Name)
		t.Name = all.String()[start:]
		if h.index != nil && h.index.WeightMap[t.Name] == h.file {
			h.listed++
		}
		seen[t.Name] = struct{}{}
	}
	if len(seen) < len(h.tensors) {
		return checkNames([]Shard{{File: h.file, Tensors: h.tensors}}, nil)
	}
	return nil
}

// text reads the header's JSON, and notes how much data follows it.
func (h *header) text(folder fs.FS) (string, error) {
	f, size, err := OpenFile(folder, h.file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", h.bad(problem.Unreadable, "", nil, "the index names this file, and it is not there")
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	var prefix [lengthBytes]byte
	if _, err := io.ReadFull(f, prefix[:]); err != nil {
		return "", h.bad(problem.Unreadable, "", nil, "%d bytes are no safetensors file", size)
	}
	n := binary.LittleEndian.Uint64(prefix[:])
	switch {
	case strings.HasPrefix(string(prefix[:]), "version "):
		return "", h.bad(problem.Unreadable, "", nil, "a Git LFS pointer, not safetensors")
	case n > maxHeader:
		return "", h.bad(problem.BadValue, "header_size", n, "exceeds the cap of %d", maxHeader)
	case int64(n) > size-lengthBytes:
		return "", h.bad(problem.BadValue, "header_size", n, "past the end of the file at %d", size)
	case h.budget.Add(-int64(n)) < 0:
		return "", h.bad(problem.BadValue, "header_size", n, "all headers together exceed the cap of %d", maxHeaders)
	}
	h.start = lengthBytes + int64(n)
	h.data = size - h.start
	return readN(f, h.file, int64(n))
}

// tensor reads the description of one tensor.
func (h *header) tensor(p *parser, name string) error {
	if len(h.tensors) >= maxTensors {
		return h.bad(problem.BadValue, "", nil, "more than %d tensors", maxTensors)
	}
	var (
		t              = Tensor{File: h.file}
		field, dtype   string
		shape, offsets []int64
	)
	for more := p.begin(); more; more = p.more('}') {
		switch field = p.key(); field {
		case "dtype":
			dtype = p.string()
		case "shape":
			shape = p.sizes(h.shape[:0])
			t.Shape = take(&h.dims, shape)
		case "data_offsets":
			offsets = p.sizes(h.offsets[:0])
		default:
			p.value(2)
		}
	}
	if p.err != nil {
		return h.badTensor(name, pathElement(field), nil, "%s", p.err.Message)
	}
	var bits int64
	for _, d := range dtypes {
		if d.name == dtype {
			t.DType, bits = d.name, d.bits
		}
	}
	switch {
	case bits == 0:
		return h.badTensor(name, "dtype", fmt.Sprintf("%q", dtype), "not a safetensors dtype")
	case shape == nil:
		return h.badTensor(name, "shape", nil, "not given")
	case len(offsets) != 2:
		return h.badTensor(name, "data_offsets", fmt.Sprint(offsets), "not a begin and an end")
	}
	elements, ok := product(t.Shape)
	if !ok || elements > math.MaxInt64/bits || elements*bits%8 != 0 {
		return h.badTensor(name, "shape", fmt.Sprint(t.Shape), "not a number of bytes of %s that fits 63 bits", t.DType)
	}
	t.Bytes = elements * bits / 8
	switch begin, end := offsets[0], offsets[1]; {
	case end < begin || end-begin != t.Bytes:
		return h.badTensor(name, "data_offsets", fmt.Sprint(offsets), "not the %d bytes of %v %s", t.Bytes, t.Shape, t.DType)
	case end > h.data:
		return h.badTensor(name, "data_offsets", fmt.Sprint(offsets), "past the end of the file's %d bytes of data", h.data)
	}
	t.Name = name
	t.Begin = h.start + offsets[0]
	h.tensors = append(h.tensors, t)
	return nil
}

// checkData puts the tensors in the order of their data and holds that it has neither gap
// nor overlap and ends where the file ends.
func (h *header) checkData() error {
	slices.SortStableFunc(h.tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.Bytes, b.Bytes))
	})
	end := h.start
	for i, t := range h.tensors {
		if t.Begin != end {
			what := "a gap before it: data so far ends at %d"
			if t.Begin < end {
				what = "overlaps " + pathElement(h.tensors[i-1].Name) + ", which ends at %d"
			}
			begin := t.Begin - h.start
			return h.badTensor(t.Name, "data_offsets", fmt.Sprintf("[%d %d]", begin, begin+t.Bytes), what, end-h.start)
		}
		end += t.Bytes
	}
	if have := end - h.start; have != h.data {
		return h.bad(problem.Unreadable, "", nil, "holds %d bytes of data, its tensors only %d", h.data, have)
	}
	return nil
}

// product multiplies sizes; ok is false when it does not fit.
func product(sizes []int64) (n int64, ok bool) {
	n = 1
	for _, size := range sizes {
		if size != 0 && n > math.MaxInt64/size {
			return 0, false
		}
		n *= size
	}
	return n, true
}

// begin enters an object whose members the caller reads: begin, then key and a value in
// turn while more says so.
func (p *parser) begin() bool {
	if p.next() != '{' {
		p.unexpected("an object")
		return false
	}
	return p.open('}')
}

// string reads a string where nothing else will do.
func (p *parser) string() string {
	if p.next() != '"' {
		p.unexpected("a string")
		return ""
	}
	return p.text()
}

// sizes appends a list of whole numbers that are not negative, as many as dst has room for.
func (p *parser) sizes(dst []int64) []int64 {
	if p.next() != '[' {
		p.unexpected("a list")
		return dst
	}
	for more := p.open(']'); more; more = p.more(']') {
		if c := p.next(); c < '0' || c > '9' {
			p.unexpected("a whole number that is not negative")
			break
		}
		if len(dst) == cap(dst) {
			p.fail("more than %d numbers", cap(dst))
			break
		}
		start := p.pos
		v := p.number()
		if v.kind != Int {
			p.pos = start
			p.fail("a number that is not whole or exceeds 63 bits")
			break
		}
		dst = append(dst, int64(v.bits))
	}
	return dst
}
