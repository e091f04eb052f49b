//go:build amd64 && !purego

package kernel

import (
	"math/bits"
	"slices"
	"unsafe"

	"golang.org/x/sys/cpu"

	"headcount/dtype"
)

//go:generate sh -c "cd _asm && go run . -out ../kernel_amd64.s -stubs ../stubs_amd64.go -pkg kernel"

// What one kernel is called with; see stubs_amd64.go.
type (
	scoreFloats  func(dst, q *float32, base *byte, at, ahead *int, width int, table *byte)
	streamFloats func(acc, alpha, p *float32, base *byte, at, ahead *int, width int, table *byte)
	chunkFloats  func(acc, alpha, p *float32, base *byte, at *int, n, width int)
)

// floatKernels are the products in float32 of one register width and format, by rows: 1,
// 2, 4 and, where there are registers, 8.
type floatKernels struct {
	tiles  []int          // of a call of scores
	scores []scoreFloats  // queries by some tiles
	stream []streamFloats // weights by 4 tiles, for values that come from memory
	chunks []chunkFloats  // 8 rows by 1 chunk and by 2 of all tiles, for values that are near
}

var floats512 = [...]floatKernels{
	BF16: {
		[]int{4, 4, 4, 2}, []scoreFloats{scores1x4BF16AVX512, scores2x4BF16AVX512, scores4x4BF16AVX512, scores8x2BF16AVX512},
		[]streamFloats{streamValues1x1BF16AVX512, streamValues2x1BF16AVX512, streamValues4x1BF16AVX512, streamValues8x1BF16AVX512},
		[]chunkFloats{values8x1BF16AVX512, values8x2BF16AVX512},
	},
	F32: {
		[]int{4, 4, 4, 2}, []scoreFloats{scores1x4F32AVX512, scores2x4F32AVX512, scores4x4F32AVX512, scores8x2F32AVX512},
		[]streamFloats{streamValues1x1F32AVX512, streamValues2x1F32AVX512, streamValues4x1F32AVX512, streamValues8x1F32AVX512},
		[]chunkFloats{values8x1F32AVX512, values8x2F32AVX512},
	},
}

// bytes512 is for 8-bit formats.
var bytes512 = floatKernels{
	[]int{4, 4, 4, 2}, []scoreFloats{scores1x4BytesAVX512, scores2x4BytesAVX512, scores4x4BytesAVX512, scores8x2BytesAVX512},
	[]streamFloats{streamValues1x1BytesAVX512, streamValues2x1BytesAVX512, streamValues4x1BytesAVX512, streamValues8x1BytesAVX512},
	nil,
}

var floats256 = [...]floatKernels{
	BF16: {
		[]int{4, 2, 1}, []scoreFloats{scores1x4BF16AVX2, scores2x2BF16AVX2, scores4x1BF16AVX2},
		[]streamFloats{streamValues1x1BF16AVX2, streamValues2x1BF16AVX2, streamValues4x1BF16AVX2}, nil,
	},
	F32: {
		[]int{4, 2, 1}, []scoreFloats{scores1x4F32AVX2, scores2x2F32AVX2, scores4x1F32AVX2},
		[]streamFloats{streamValues1x1F32AVX2, streamValues2x1F32AVX2, streamValues4x1F32AVX2}, nil,
	},
}

// kernels512 are the kernels for a format.
func kernels512(f Format) *floatKernels {
	if f.Size() == 1 {
		return &bytes512
	}
	return &floats512[f]
}

func scores512(dst, q []float32, t Tiles, width int) { kernels512(t.Format).score(dst, q, t, width) }
func scores256(dst, q []float32, t Tiles, width int) { floats256[t.Format].score(dst, q, t, width) }

func values512(acc, alpha, p []float32, t Tiles, width int) {
	kernels512(t.Format).value(acc, alpha, p, t, width)
}

func values256(acc, alpha, p []float32, t Tiles, width int) {
	floats256[t.Format].value(acc, alpha, p, t, width)
}

// fewRows is up to how many rows the time goes into reading tiles, and not arithmetic.
const fewRows = 8

// assembly is the implementations that this processor can run, the best first. Each is the
// next lesser one with better parts.
func assembly() []*implementation {
	avx2 := generic
	avx2.name = "avx2"
	avx2.scores, avx2.values = scores256, values256
	avx2.softmax, avx2.combine = softmax256, combine256
	avx2.read, avx2.fmaPeak = reader(readAVX2), peakOf(fmaPeakAVX2, 8)
	avx2.dotPeak = avx2.fmaPeak
	avx2.lanes, avx2.dots = 8, dotter(dotsAVX2)

	avx512 := avx2
	avx512.name = "avx512"
	avx512.scores, avx512.values = scores512, values512
	avx512.softmax, avx512.combine, avx512.transpose = softmax512, combine512, transpose512
	avx512.read, avx512.fmaPeak = reader(readAVX512), peakOf(fmaPeakAVX512, 16)
	avx512.dotPeak = avx512.fmaPeak
	avx512.lanes, avx512.dots = 16, dotter(dotsAVX512)

	bf16 := avx512
	bf16.name, bf16.pairs = "avx512bf16", true
	bf16.scoresPairs, bf16.valuesPairs, bf16.softmaxPairs = scorePairs512, valuePairs512, softmaxPairs512
	bf16.dotPeak = peakOf(dotPeakAVX512, 32)

	if convertsHalves() {
		avx2.fromHalves, avx2.toHalves = fromHalves(fromHalvesAVX2), toHalves(toHalvesAVX2)
	}
	for _, m := range []*implementation{&avx512, &bf16} {
		m.fromHalves, m.toHalves = fromHalves(fromHalvesAVX512), toHalves(toHalvesAVX512)
	}

	x := &cpu.X86
	if x.HasAVX512VBMI {
		avx512.unpack, bf16.unpack = unpack512, unpack512
		avx512.bytes, bf16.bytes = true, true
	}
	var have []*implementation
	if x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL {
		have = append(have, &avx512)
		if x.HasAVX512BF16 {
			have = append(have, &bf16)
		}
	}
	if len(have) == 2 && pairsAreFast() {
		slices.Reverse(have)
	}
	if x.HasAVX2 && x.HasFMA {
		have = append(have, &avx2)
	}
	return have
}

// pairsAreFast reports whether a product of pairs does more in a cycle than a multiply-add.
// AMD's processors do as many of one as of the other. Intel's, up to Granite Rapids, do a
// quarter as many: a product of pairs is two multiply-adds a lane every other cycle, where
// two multiply-adds start in every one.
func pairsAreFast() bool { return vendor() == 'A'|'u'<<8|'t'<<16|'h'<<24 }

// block is the most rows of those that a list of kernels has, as its place there.
func block(rows, kernels int) int { return min(bits.Len(uint(rows)), kernels) - 1 }

// first is the first element of a slice that is not empty.
func first[T any](s []T) *T { return unsafe.SliceData(s) }

// ahead is what the rows from row on fetch while they read the tiles from i on: what the
// caller wants, for the first rows, and afterwards nothing that is not there.
func (t *Tiles) ahead(i, row int) *int {
	if row > 0 || len(t.Ahead) == 0 {
		return &t.At[i]
	}
	return &t.Ahead[i]
}

// score goes over few tiles at a time, so that they are in the first-level cache for the
// rows after the first.
func (k *floatKernels) score(dst, q []float32, t Tiles, width int) {
	rows := len(q) / width
	for i := 0; i < len(t.At); i += TileStep {
		for r := 0; r < rows; {
			b := block(rows-r, len(k.scores))
			for j := i; j < i+TileStep; j += k.tiles[b] {
				k.scores[b](&dst[r*Run+j*Lanes], &q[r*width], first(t.Data), &t.At[j], t.ahead(j, r), width, &tables[t.Format][0])
			}
			r += 1 << b
		}
	}
}

// ones leaves sums as they are where an earlier call has scaled them.
var ones = [8]float32{1, 1, 1, 1, 1, 1, 1, 1}

func (k *floatKernels) value(acc, alpha, p []float32, t Tiles, width int) {
	rows, eights := len(alpha), 0
	if rows > fewRows && k.chunks != nil {
		eights = rows / 8 * 8
		k.valueEights(acc[:eights*width], alpha, p, t, width)
	}
	for i := 0; i < len(t.At); i += TileStep {
		for r := eights; r < rows; {
			b, scale := block(rows-r, len(k.stream)), &alpha[r]
			if i > 0 {
				scale = &ones[0]
			}
			k.stream[b](&acc[r*width], scale, &p[r*Run+i*Lanes], first(t.Data), &t.At[i], t.ahead(i, r), width, &tables[t.Format][0])
			r += 1 << b
		}
	}
}

// valueEights goes over two chunks of 16 dims at a time, for all rows.
func (k *floatKernels) valueEights(acc, alpha, p []float32, t Tiles, width int) {
	chunk := Lanes * Lanes * t.Format.Size()
	for d := 0; d < width/Lanes; d += 2 {
		base := (*byte)(unsafe.Add(unsafe.Pointer(first(t.Data)), d*chunk))
		kernel := k.chunks[min(width/Lanes-d, 2)-1]
		for r := 0; r < len(acc)/width; r += 8 {
			kernel(&acc[r*width+d*Lanes], &alpha[r], &p[r*Run], base, first(t.At), len(t.At), width)
		}
	}
}

// scorePairs512 goes over two tiles at a time, so that they stay in the first-level cache
// for all rows.
func scorePairs512(dst []float32, q []uint16, t Tiles, width int) {
	n := len(t.At)
	for i := 0; i < n; i += 2 {
		j := min(i+1, n-1)
		ahead0, ahead1 := t.At[i], t.At[j]
		if len(t.Ahead) > 0 {
			ahead0, ahead1 = t.Ahead[i], t.Ahead[j]
		}
		for r := 0; r < len(q)/width; r += PairRows {
			scorePairsAVX512(&dst[r*Run+i*Lanes], &q[r*width], &t.Data[t.At[i]], &t.Data[t.At[j]], &t.Data[ahead0], &t.Data[ahead1], width)
			ahead0, ahead1 = t.At[i], t.At[j]
		}
	}
}

// valuePairs512 goes over two chunks of 16 dims at a time.
func valuePairs512(acc, alpha []float32, p []uint16, t Tiles, width int) {
	const chunk = Lanes * Lanes * 2
	for d := 0; d < width/Lanes; d += 2 {
		base := (*byte)(unsafe.Add(unsafe.Pointer(first(t.Data)), d*chunk))
		for r := 0; r < len(alpha); r += PairRows {
			sum := &acc[r*width+d*Lanes]
			if d+1 == width/Lanes {
				valuePairs1AVX512(sum, &alpha[r], &p[r*Run], base, first(t.At), len(t.At), width)
			} else {
				valuePairs2AVX512(sum, &alpha[r], &p[r*Run], base, first(t.At), len(t.At), width)
			}
		}
	}
}

// unpack512 has instructions for 8-bit formats to bfloat16 and for float16.
func unpack512(dst []byte, to Format, src, ahead []byte, from Format) {
	next := &src[0]
	if len(ahead) > 0 {
		next = &ahead[0]
	}
	switch {
	case to == BF16:
		unpackBytesAVX512(&dst[0], &src[0], next, &tables[from][0], len(src)/64)
	case from == F16:
		unpackHalvesAVX512(&dst[0], &src[0], next, len(src)/64)
	default:
		unpackGeneric(dst, to, src, ahead, from)
	}
}

// tables are, for each 8-bit format, the lower and then the upper bytes in bfloat16 of the
// codes without a sign.
var tables = func() (t [F32 + 1][256]byte) {
	for f := range codes {
		for code := range 128 {
			t[f][code], t[f][128+code] = byte(codes[f][code]>>16), byte(codes[f][code]>>24)
		}
	}
	return t
}()

func transpose512(dst, src []byte, width int, format Format) {
	if format != BF16 {
		transposeGeneric(dst, src, width, format)
		return
	}
	transposePairsAVX512(&dst[0], &src[0], width/Lanes)
}

func softmax512(s []float32, st State, see []Span, scale float32) {
	softmaxAVX512(&s[0], &st.Max[0], &st.Sum[0], &st.Alpha[0], &see[0].Lo, len(see), scale)
}

func softmaxPairs512(p []uint16, s []float32, st State, see []Span, scale float32) {
	softmaxPairsAVX512(&p[0], &s[0], &st.Max[0], &st.Sum[0], &st.Alpha[0], &see[0].Lo, len(see), scale)
}

func softmax256(s []float32, st State, see []Span, scale float32) {
	softmaxAVX2(&s[0], &st.Max[0], &st.Sum[0], &st.Alpha[0], &see[0].Lo, len(see), scale)
}

func combine512(dst, src, w []float32, width int) {
	combineAVX512(&dst[0], &src[0], &w[0], len(w), width)
}

func combine256(dst, src, w []float32, width int) {
	combineAVX2(&dst[0], &src[0], &w[0], len(w), width)
}

// reader is a read of whole streams by assembly, and of the rest by Go.
func reader(read func(b *byte, stream int) uint64) func([]byte) uint64 {
	return func(b []byte) uint64 {
		const streams, turn = 4, 256
		stream := len(b) / (streams * turn) * turn
		if stream == 0 {
			return readGeneric(b)
		}
		return read(&b[0], stream) + readGeneric(b[streams*stream:])
	}
}

// peakOf counts the FLOP of register loops whose instruction has so many multiply-adds.
func peakOf(run func(turns int), multiplyAdds int) func(int) int64 {
	return func(turns int) int64 {
		if turns <= 0 {
			return 0
		}
		run(turns)
		return int64(turns) * 12 * 2 * int64(multiplyAdds)
	}
}

// dotter is a kernel of rows behind the checks of [Dots].
func dotter(run func(y *float32, w *byte, stride int, x *float32, turns int)) func(*[RowsAtOnce]float32, []byte, int, []float32) {
	return func(y *[RowsAtOnce]float32, w []byte, stride int, x []float32) {
		run(&y[0], &w[0], stride, &x[0], len(x)/RowColumns)
	}
}

// halvesAtOnce is what one turn converts.
const halvesAtOnce = 32

// fromHalves is a conversion of whole turns by assembly, and of the rest by Go.
func fromHalves(convert func(dst *float32, src *byte, turns int)) func([]float32, []byte) {
	return func(dst []float32, src []byte) {
		whole := len(dst) / halvesAtOnce * halvesAtOnce
		if whole > 0 {
			convert(&dst[0], &src[0], whole/halvesAtOnce)
		}
		dtype.Float16.Decode(dst[whole:], src[2*whole:])
	}
}

// toHalves is fromHalves the other way.
func toHalves(convert func(dst *byte, src *float32, turns int)) func([]byte, []float32) {
	return func(dst []byte, src []float32) {
		whole := len(src) / halvesAtOnce * halvesAtOnce
		if whole > 0 {
			convert(&dst[0], &src[0], whole/halvesAtOnce)
		}
		dtype.Float16.Encode(dst[2*whole:], src[whole:])
	}
}
