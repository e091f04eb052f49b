package kernel

import (
	"encoding/binary"
	"math"

	"headcount/dtype"
)

// generic is the reference: what every other implementation is held to, and the only one
// where there is no assembly.
var generic = implementation{
	name:         "go",
	scores:       scoresGeneric,
	scoresPairs:  scoresPairsGeneric,
	values:       valuesGeneric,
	valuesPairs:  valuesPairsGeneric,
	softmax:      softmaxGeneric,
	softmaxPairs: softmaxPairsGeneric,
	unpack:       unpackGeneric,
	transpose:    transposeGeneric,
	combine:      combineGeneric,
	lanes:        1,
	fromHalves:   dtype.Float16.Decode,
	toHalves:     dtype.Float16.Encode,
	dots:         dotsGeneric,
	read:         readGeneric,
	dotPeak:      peakGeneric,
	fmaPeak:      peakGeneric,
}

// line reads one depth of lines: the 16 lanes of element depth.
func line(dst *[Lanes]float32, lines []byte, depth int, f Format) {
	if f == F32 {
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(lines[4*(depth*Lanes+i):]))
		}
		return
	}
	lines = lines[depth/2*64+depth%2*2:]
	for i := range dst {
		dst[i] = bfloat16(binary.LittleEndian.Uint16(lines[4*i:]))
	}
}

func bfloat16(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) }

// axpy is dst += a·x.
func axpy(dst []float32, a float32, x *[Lanes]float32) {
	dst = dst[:Lanes]
	for i, v := range x {
		dst[i] += a * v
	}
}

func scoresGeneric(dst, q []float32, t Tiles, width int) {
	scoreLines(dst, t, width, len(q)/width, func(row, d int) float32 { return q[row*width+d] })
}

func scoresPairsGeneric(dst []float32, q []uint16, t Tiles, width int) {
	scoreLines(dst, t, width, len(q)/width, func(row, d int) float32 { return bfloat16(q[row*width+d]) })
}

func scoreLines(dst []float32, t Tiles, width, rows int, q func(row, d int) float32) {
	for r := range rows {
		clear(dst[r*Run:][:len(t.At)*Lanes])
	}
	var keys [Lanes]float32
	for i, at := range t.At {
		for d := range width {
			line(&keys, t.Data[at:], d, t.Format)
			for r := range rows {
				axpy(dst[r*Run+i*Lanes:], q(r, d), &keys)
			}
		}
	}
}

func valuesGeneric(acc, alpha, p []float32, t Tiles, width int) {
	valueLines(acc, alpha, t, width, func(row, token int) float32 { return p[row*Run+token] })
}

func valuesPairsGeneric(acc, alpha []float32, p []uint16, t Tiles, width int) {
	valueLines(acc, alpha, t, width, func(row, token int) float32 { return bfloat16(p[row*Run+token]) })
}

func valueLines(acc, alpha []float32, t Tiles, width int, p func(row, token int) float32) {
	for r, a := range alpha {
		for i := range width {
			acc[r*width+i] *= a
		}
	}
	chunk := Lanes * Lanes * t.Format.Size()
	var values [Lanes]float32
	for i, at := range t.At {
		for d := 0; d < width; d += Lanes {
			for token := range Lanes {
				line(&values, t.Data[at+d/Lanes*chunk:], token, t.Format)
				for r := range alpha {
					axpy(acc[r*width+d:], p(r, i*Lanes+token), &values)
				}
			}
		}
	}
}

func softmaxGeneric(s []float32, st State, see []Span, scale float32) {
	for r, span := range see {
		softmaxRow(s[r*Run:][:Run], st, r, span, scale)
	}
}

func softmaxPairsGeneric(p []uint16, s []float32, st State, see []Span, scale float32) {
	softmaxGeneric(s, st, see, scale)
	for i, x := range s {
		p[i] = dtype.RoundBFloat16(x)
	}
}

func softmaxRow(s []float32, st State, r int, span Span, scale float32) {
	clear(s[:min(max(span.Lo, 0), Run)])
	if span.Lo >= span.Hi {
		clear(s)
		st.Alpha[r] = 1
		return
	}
	clear(s[span.Hi:])
	s = s[span.Lo:span.Hi]
	top := st.Max[r]
	for i, x := range s {
		s[i] = x * scale
		if s[i] > top {
			top = s[i]
		}
	}
	if math.IsInf(float64(top), -1) {
		// Every logit so far is -Inf, or not a number.
		for i, x := range s {
			s[i] = 0
			if x != x {
				s[i] = x
				st.Sum[r] = x
			}
		}
		st.Alpha[r] = 1
		return
	}
	var sum float32
	for i, x := range s {
		s[i] = exp2(x - top)
		sum += s[i]
	}
	st.Alpha[r] = exp2(st.Max[r] - top)
	st.Max[r] = top
	st.Sum[r] = st.Sum[r]*st.Alpha[r] + sum
}

// The polynomial of 2^f for f in [-1/2, 1/2]: exact at 0, and elsewhere within a part in
// 10⁸ were it not for rounding.
const (
	exp2c1 = 0.6931472
	exp2c2 = 0.2402265
	exp2c3 = 0.05550357
	exp2c4 = 0.009618057
	exp2c5 = 0.0013390867
	exp2c6 = 0.00015461448
)

// exp2 is 2^x, and 0 where that would be denormal.
func exp2(x float32) float32 {
	if x < minExponent {
		return 0
	}
	n := float32(math.RoundToEven(float64(x)))
	f := x - n
	y := float32(exp2c6)
	for _, c := range [...]float32{exp2c5, exp2c4, exp2c3, exp2c2, exp2c1, 1} {
		y = y*f + c
	}
	return y * math.Float32frombits(uint32(int32(n)+127)<<23)
}

func unpackGeneric(dst []byte, to Format, src, _ []byte, from Format) {
	if from.Size() == 1 {
		unpackCodes(dst, to, src, &codes[from])
		return
	}
	n := len(src) / from.Size()
	var x [1]float32
	for group := 0; group < n; group += 256 {
		for depth := range Lanes {
			for lane := range Lanes {
				from.decode(x[:], src[(group+Place(from.Size(), lane, depth))*from.Size():])
				to.encode(dst[(group+Place(to.Size(), lane, depth))*to.Size():], x[:])
			}
		}
	}
}

// unpackCodes looks 8-bit elements up. Four depths of a line are two pairs or four lines.
func unpackCodes(dst []byte, to Format, src []byte, value *[256]uint32) {
	for line := 0; line < len(src); line += 64 {
		for i, code := range src[line : line+64] {
			lane, depth := i/16*4+i%8/2, i%16/8*2+i%2
			bits := value[code]
			if to == F32 {
				binary.LittleEndian.PutUint32(dst[4*(line+depth*Lanes+lane):], bits)
			} else {
				binary.LittleEndian.PutUint16(dst[2*(line+depth/2*32+lane*2+depth%2):], uint16(bits>>16))
			}
		}
	}
}

// codes are the float32s of the codes of the 8-bit formats, which are bfloat16s too.
var codes = func() (t [F32 + 1][256]uint32) {
	for _, f := range []Format{E4M3, E5M2} {
		for code := range t[f] {
			var x [1]float32
			f.decode(x[:], []byte{byte(code)})
			t[f][code] = math.Float32bits(x[0])
		}
	}
	return t
}()

var dtypes = [...]dtype.Type{BF16: dtype.BFloat16, F16: dtype.Float16, E4M3: dtype.Float8E4M3, E5M2: dtype.Float8E5M2, F32: dtype.Float32}

func (f Format) decode(dst []float32, src []byte) { dtypes[f].Decode(dst, src) }
func (f Format) encode(dst []byte, src []float32) { dtypes[f].Encode(dst, src) }

func transposeGeneric(dst, src []byte, width int, format Format) {
	size := format.Size()
	for d := range width {
		for token := range Lanes {
			from := Place(size, token, d) * size
			to := (d/Lanes*Lanes*Lanes + Place(size, d%Lanes, token)) * size
			copy(dst[to:to+size], src[from:from+size])
		}
	}
}

func combineGeneric(dst, src, w []float32, width int) {
	for r, a := range w {
		for i := r * width; i < (r+1)*width; i++ {
			dst[i] += a * src[i]
		}
	}
}
