//go:build amd64 && !purego

package kernel

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate sh -c "cd _asm && go run . -out ../kernel_amd64.s -stubs ../stubs_amd64.go -pkg kernel"

// What one kernel is called with; see stubs_amd64.go.
type (
	scoreFloats func(dst, q *float32, base *byte, at, ahead *int, n, width int)
	valueFloats func(acc, alpha, p *float32, base *byte, at, ahead *int, n, width int)
)

// floatKernels are the products in float32 of one register width: by rows, 1, 2, 4 and 8,
// of which the last may be missing.
type floatKernels struct {
	scores map[Format][]scoreFloats
	values map[Format][]valueFloats
}

var floats512 = floatKernels{
	scores: map[Format][]scoreFloats{
		BF16: {scores1BF16AVX512, scores2BF16AVX512, scores4BF16AVX512, scores8BF16AVX512},
		F32:  {scores1F32AVX512, scores2F32AVX512, scores4F32AVX512, scores8F32AVX512},
	},
	values: map[Format][]valueFloats{
		BF16: {values1BF16AVX512, values2BF16AVX512, values4BF16AVX512, values8BF16AVX512},
		F32:  {values1F32AVX512, values2F32AVX512, values4F32AVX512, values8F32AVX512},
	},
}

var floats256 = floatKernels{
	scores: map[Format][]scoreFloats{
		BF16: {scores1BF16AVX2, scores2BF16AVX2, scores4BF16AVX2},
		F32:  {scores1F32AVX2, scores2F32AVX2, scores4F32AVX2},
	},
	values: map[Format][]valueFloats{
		BF16: {values1BF16AVX2, values2BF16AVX2, values4BF16AVX2},
		F32:  {values1F32AVX2, values2F32AVX2, values4F32AVX2},
	},
}

// assembly is the implementations that this processor can run, the best first. Each is the
// next lesser one with better parts.
func assembly() []*implementation {
	avx2 := generic
	avx2.name = "avx2"
	avx2.scores, avx2.values = floats256.score, floats256.value
	avx2.softmax, avx2.combine = softmax256, combine256
	avx2.read, avx2.fmaPeak = reader(readAVX2), peakOf(fmaPeakAVX2, 8)
	avx2.dotPeak = avx2.fmaPeak

	avx512 := avx2
	avx512.name = "avx512"
	avx512.scores, avx512.values = floats512.score, floats512.value
	avx512.softmax, avx512.combine = softmax512, combine512
	avx512.read, avx512.fmaPeak = reader(readAVX512), peakOf(fmaPeakAVX512, 16)
	avx512.dotPeak = avx512.fmaPeak

	bf16 := avx512
	bf16.name, bf16.pairs = "avx512bf16", true
	bf16.scoresPairs, bf16.valuesPairs, bf16.softmaxPairs = scorePairs512, valuePairs512, softmaxPairs512
	bf16.dotPeak = peakOf(dotPeakAVX512, 32)

	var have []*implementation
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL {
		if x.HasAVX512BF16 && x.HasAVX512VBMI {
			have = append(have, &bf16)
		}
		have = append(have, &avx512)
	}
	if x.HasAVX2 && x.HasFMA {
		have = append(have, &avx2)
	}
	return have
}

// block is the most rows that a kernel of the list takes at once, as an index into it.
func block(rows, kernels int) int { return min(bits.Len(uint(rows)), kernels) - 1 }

// first is the first element of a slice that is not empty.
func first[T any](s []T) *T { return unsafe.SliceData(s) }

// ahead is what a pass over the tiles fetches: what the caller wants in the first pass,
// and afterwards nothing that is not there.
func (t *Tiles) ahead(pass int) *int {
	if pass > 0 || len(t.Ahead) == 0 {
		return first(t.At)
	}
	return first(t.Ahead)
}

func (k *floatKernels) score(dst, q []float32, t Tiles, width int) {
	kernels := k.scores[t.Format]
	rows := len(q) / width
	for r := 0; r < rows; {
		b := block(rows-r, len(kernels))
		kernels[b](&dst[r*Run], &q[r*width], first(t.Data), first(t.At), t.ahead(r), len(t.At), width)
		r += 1 << b
	}
}

func (k *floatKernels) value(acc, alpha, p []float32, t Tiles, width int) {
	kernels := k.values[t.Format]
	chunk := Lanes * Lanes * t.Format.Size()
	for d := range width / Lanes {
		base := (*byte)(unsafe.Add(unsafe.Pointer(first(t.Data)), d*chunk))
		for r := 0; r < len(alpha); {
			b := block(len(alpha)-r, len(kernels))
			kernels[b](&acc[r*width+d*Lanes], &alpha[r], &p[r*Run], base, first(t.At), t.ahead(r), len(t.At), width)
			r += 1 << b
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
				valuePairs1AVX512(sum, &alpha[r], &p[r*Run], base, first(t.At), t.ahead(r), len(t.At), width)
			} else {
				valuePairs2AVX512(sum, &alpha[r], &p[r*Run], base, first(t.At), t.ahead(r), len(t.At), width)
			}
		}
	}
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
