package convert

import (
	"io"
	"io/fs"
	"math"
	"slices"

	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/internal/kernel"
	"headcount/model"
	"headcount/problem"
)

// chunk is how many elements are pooled at once: a part of a head that stays in a cache.
const chunk = 1 << 15

// formatOf is the format of safetensors' name, dtype.Unknown for what heads are not pooled in.
func formatOf(name string) dtype.Type {
	switch t, _ := dtype.Parse(name); t {
	case dtype.BFloat16, dtype.Float16, dtype.Float32:
		return t
	}
	return dtype.Unknown
}

// decode is what [dtype.Type.Decode] does; float16 is converted by the processor.
func decode(f dtype.Type, dst []float32, src []byte) {
	if f == dtype.Float16 {
		kernel.FromHalves(dst, src)
		return
	}
	f.Decode(dst, src)
}

// encode is [dtype.Type.Encode] likewise.
func encode(f dtype.Type, dst []byte, src []float32) {
	if f == dtype.Float16 {
		kernel.ToHalves(dst, src)
		return
	}
	f.Encode(dst, src)
}

// A reader reads parts of a checkpoint's tensors, and keeps one file open.
type reader struct {
	folder fs.FS
	name   string
	file   randomFile
	data   []byte
	floats []float32
}

// A randomFile is what files of os.DirFS and most other folders are.
type randomFile interface {
	fs.File
	io.ReaderAt
	io.Seeker
}

func (r *reader) Close() {
	if r.file != nil {
		r.file.Close()
	}
	r.file = nil
}

// open makes a file of the checkpoint the one to read from.
func (r *reader) open(name string) error {
	if r.file != nil && r.name == name {
		return nil
	}
	r.Close()
	f, err := r.folder.Open(name)
	if err != nil {
		return unreadable(name, err)
	}
	file, ok := f.(randomFile)
	if !ok {
		f.Close()
		return problem.New(problem.Unreadable, "", nil, "%s: cannot be read from the middle", name)
	}
	r.name, r.file = name, file
	return nil
}

// elements reads n elements of a tensor from the element begin on. They are valid until the
// next call.
func (r *reader) elements(t checkpoint.Tensor, begin, n int64) ([]byte, error) {
	if err := r.open(t.File); err != nil {
		return nil, err
	}
	size := formatOf(t.DType).Bytes()
	if int64(cap(r.data)) < n*size {
		r.data = make([]byte, n*size)
	}
	data := r.data[:n*size]
	if _, err := r.file.ReadAt(data, t.Begin+begin*size); err != nil {
		return nil, unreadable(t.File, err)
	}
	return data, nil
}

// decoded is elements as float32s, valid until the next call.
func (r *reader) decoded(t checkpoint.Tensor, begin, n int64) ([]float32, error) {
	data, err := r.elements(t, begin, n)
	if err != nil {
		return nil, err
	}
	if int64(cap(r.floats)) < n {
		r.floats = make([]float32, n)
	}
	x := r.floats[:n]
	decode(formatOf(t.DType), x, data)
	return x, nil
}

// each calls use with n elements of a tensor from begin on, chunk by chunk.
func (r *reader) each(t checkpoint.Tensor, begin, n int64, use func(at int64, x []float32)) error {
	for at := int64(0); at < n; at += chunk {
		x, err := r.decoded(t, begin+at, min(chunk, n-at))
		if err != nil {
			return err
		}
		use(at, x)
	}
	return nil
}

// weights are what the old heads count for in each new KV head; on average they count 1.
func (c *Conversion) weights(r *reader, l layer) ([][]float32, error) {
	group := c.Group()
	out := make([][]float32, c.NewHeads)
	for i := range out {
		out[i] = slices.Repeat([]float32{1}, group)
	}
	if c.Method != Weighted {
		return out, nil
	}
	norms, err := c.outputNorms(r, l)
	if err != nil {
		return nil, err
	}
	for i := range out {
		sum := 0.0
		for _, x := range norms[i*group : (i+1)*group] {
			sum += x
		}
		for j, x := range norms[i*group : (i+1)*group] {
			if sum > 0 {
				out[i][j] = float32(x / sum * float64(group))
			}
		}
	}
	return out, nil
}

// outputNorms say how much a layer's output can depend on each KV head i: by
//
//	‖W_V,i‖ · √(Σ ‖W_O,q‖² over its query heads q)
//
// in Frobenius norms, which bounds what the head adds to the output for an input of norm 1.
func (c *Conversion) outputNorms(r *reader, l layer) ([]float64, error) {
	values := make([]float64, c.OldHeads)
	for _, p := range l.from.Projections() {
		row := int64(0)
		for _, b := range p.Blocks {
			if b.Role == model.Values && p.Cols > 0 {
				n := int64(b.Rows * p.Cols)
				if err := r.each(l.tensors[p.Name], row*int64(p.Cols), n, func(_ int64, x []float32) { values[b.Head] += squares(x) }); err != nil {
					return nil, err
				}
			}
			row += int64(b.Rows)
		}
	}
	outputs, err := c.outputSquares(r, l)
	if err != nil {
		return nil, err
	}
	for i := range values {
		values[i] = math.Sqrt(values[i] * outputs[i])
		if math.IsNaN(values[i]) || math.IsInf(values[i], 0) {
			return nil, problem.New(problem.BadValue, "", nil, "%s: the norm of KV head %d is not finite", l.name, i)
		}
	}
	return values, nil
}

// outputSquares sums the squares of the output projection's columns over the query heads of
// each KV head.
func (c *Conversion) outputSquares(r *reader, l layer) ([]float64, error) {
	sums := make([]float64, c.OldHeads)
	for _, p := range l.from.Params {
		if p.Role != model.Output || p.Cols.Size == 0 {
			continue
		}
		t, cols := l.tensors[p.Name], int64(p.Cols.Size)
		if formatOf(t.DType) == dtype.Unknown {
			return nil, c.quantised(t.Name, t.DType)
		}
		perHead := cols / int64(c.OldHeads)
		err := r.each(t, 0, elements(t.Shape), func(at int64, x []float32) {
			for len(x) > 0 { // as far as one KV head's columns go
				column := at % cols
				n := min(int64(len(x)), perHead-column%perHead)
				sums[column/perHead] += squares(x[:n])
				x, at = x[n:], at+n
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// add is sum += weight · x.
func add(sum, x []float32, weight float32) {
	x = x[:len(sum)]
	for i := range sum {
		sum[i] += weight * x[i]
	}
}

// scale is sum = weight · x.
func scale(sum, x []float32, weight float32) {
	if weight == 1 {
		copy(sum, x)
		return
	}
	clear(sum)
	add(sum, x, weight)
}

// squares adds in four sums, none of which waits for another.
func squares(x []float32) float64 {
	var sum [4]float64
	for ; len(x) >= len(sum); x = x[len(sum):] {
		for i := range sum {
			sum[i] += float64(x[i]) * float64(x[i])
		}
	}
	for i, v := range x {
		sum[i] += float64(v) * float64(v)
	}
	return sum[0] + sum[1] + sum[2] + sum[3]
}

// pool passes one tensor with its heads pooled to write, part by part.
func (c *Conversion) pool(r *reader, change *Change, weights [][]float32, write func([]byte) error) error {
	t := change.Tensor
	f := formatOf(t.DType)
	sum, out := make([]float32, chunk), make([]byte, chunk*f.Bytes())
	for _, b := range change.blocks {
		n := b.rows * change.width
		for at := int64(0); at < n; at += chunk {
			part := sum[:min(chunk, n-at)]
			data := out[:int64(len(part))*f.Bytes()]
			if len(b.from) == 1 || c.Method == First {
				taken, err := r.elements(t, b.from[0]*change.width+at, int64(len(part)))
				if err != nil {
					return err
				}
				data = taken
			} else if err := mean(r, change, b, at, part, weights[b.head]); err != nil {
				return err
			} else {
				encode(f, data, part)
			}
			if err := write(data); err != nil {
				return err
			}
		}
	}
	return nil
}

// mean sets sum to a part of a block's weighted mean, from the element at of each head on.
// Equal weights are all 1.
func mean(r *reader, change *Change, b block, at int64, sum []float32, weights []float32) error {
	for i, from := range b.from {
		x, err := r.decoded(change.Tensor, from*change.width+at, int64(len(sum)))
		if err != nil {
			return err
		}
		if i == 0 {
			scale(sum, x, weights[i])
		} else {
			add(sum, x, weights[i])
		}
	}
	heads := float32(len(b.from))
	for i := range sum {
		if sum[i] /= heads; sum[i]-sum[i] != 0 {
			return problem.New(problem.BadValue, change.Tensor.Name, sum[i], "a mean of heads that is not a finite number").
				WithHint("the checkpoint has values that are not finite, or too large to add")
		}
	}
	return nil
}
