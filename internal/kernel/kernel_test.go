package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"headcount/dtype"
)

// each runs a test on every implementation that this processor has, the reference last.
func each(t *testing.T, f func(t *testing.T)) {
	before := Path()
	defer func() { _ = Use(before) }()
	for _, path := range Paths() {
		if err := Use(path); err != nil {
			t.Fatal(err)
		}
		t.Run(path, f)
	}
}

func TestUse(t *testing.T) {
	if err := Use("sse"); err == nil {
		t.Error("a path that is none is taken")
	}
	if paths := Paths(); paths[len(paths)-1] != "go" {
		t.Errorf("paths %q do not end with the reference", paths)
	}
}

const u = 0x1p-24 // unit roundoff of float32

// random is n float32s, of which some are 0, denormal or large.
func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
		switch r.IntN(40) {
		case 0:
			x[i] = 0
		case 1:
			x[i] *= 0x1p-130
		case 2:
			x[i] *= 0x1p20
		}
	}
	return x
}

// lines stores values(lane, depth) as lines, in the format, and reads them back as stored.
func lines(f Format, depth int, value func(lane, depth int) float32) ([]byte, func(lane, depth int) float64) {
	b := make([]byte, Lanes*depth*f.Size())
	for lane := range Lanes {
		for d := range depth {
			f.encode(b[Place(f.Size(), lane, d)*f.Size():], []float32{value(lane, d)})
		}
	}
	return b, func(lane, depth int) float64 {
		var x [1]float32
		f.decode(x[:], b[Place(f.Size(), lane, depth)*f.Size():])
		return float64(x[0])
	}
}

// run is n tiles at odd places of memory, NaN on both sides of each, with what they hold.
func newRun(r *rand.Rand, f Format, tiles, width int, values bool) (Tiles, func(token, dim int) float64) {
	t := Tiles{Format: f}
	var read []func(lane, depth int) float64
	guard := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	for range tiles {
		t.Data = append(t.Data, guard...)
		t.At = append(t.At, len(t.Data))
		for d := 0; d < width; d += Lanes {
			x := random(r, Lanes*Lanes)
			b, get := lines(f, Lanes, func(lane, depth int) float32 { return x[lane*Lanes+depth] })
			t.Data = append(t.Data, b...)
			read = append(read, get)
		}
	}
	t.Data = append(t.Data, guard...)
	t.Ahead = append([]int(nil), t.At...)
	return t, func(token, dim int) float64 {
		get := read[token/Lanes*(width/Lanes)+dim/Lanes]
		if values {
			return get(dim%Lanes, token%Lanes)
		}
		return get(token%Lanes, dim%Lanes)
	}
}

func products() []Format {
	if Bytes() {
		return []Format{BF16, F32, E4M3, E5M2}
	}
	return []Format{BF16, F32}
}

// Scores are within (n+1)·u·Σ|q·k| of exact, for any rows, tiles and widths.
func TestScores(t *testing.T) {
	each(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, f := range products() {
			for _, width := range []int{16, 48, 80, 128, 192} {
				for _, rows := range []int{1, 2, 3, 4, 5, 7, 8, 9, 16, 23} {
					tiles := TileStep * (1 + r.IntN(2))
					q := random(r, rows*width)
					k, key := newRun(r, f, tiles, width, false)
					dst := make([]float32, rows*Run)
					Scores(dst, q, k, width)
					for i := range rows {
						for token := range tiles * Lanes {
							var want, abs float64
							for d := range width {
								x := float64(q[i*width+d]) * key(token, d)
								want, abs = want+x, abs+math.Abs(x)
							}
							within(t, fmt.Sprintf("format %d width %d rows %d tiles %d: score %d of row %d", f, width, rows, tiles, token, i),
								dst[i*Run+token], want, float64(width+1)*u*abs+float64(width)*0x1p-149)
						}
					}
				}
			}
		}
	})
}

// within fails unless got is finite and near.
func within(t *testing.T, what string, got float32, want, bound float64) {
	t.Helper()
	if diff := math.Abs(float64(got) - want); !(diff <= bound) {
		t.Fatalf("%s is %v, want %v within %v", what, got, want, bound)
	}
}

// bfloat16s rounds, and says what to.
func bfloat16s(x []float32) []uint16 {
	b := make([]uint16, len(x))
	for i := range x {
		b[i] = dtype.RoundBFloat16(x[i])
		x[i] = bfloat16(b[i])
	}
	return b
}

func TestScoresPairs(t *testing.T) {
	each(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, width := range []int{16, 48, 80, 128} {
			for _, rows := range []int{8, 16, 24} {
				tiles := TileStep * (1 + r.IntN(2))
				x := random(r, rows*width)
				q := bfloat16s(x)
				k, key := newRun(r, BF16, tiles, width, false)
				dst := make([]float32, rows*Run)
				ScoresPairs(dst, q, k, width)
				for i := range rows {
					for token := range tiles * Lanes {
						var want, abs, sizes float64
						for d := range width {
							a, b := float64(x[i*width+d]), key(token, d)
							want, abs, sizes = want+a*b, abs+math.Abs(a*b), sizes+math.Abs(a)+math.Abs(b)+1
						}
						// An element below 2⁻¹²⁶ counts as 0.
						within(t, fmt.Sprintf("width %d: score %d of row %d of %d", width, token, i, rows),
							dst[i*Run+token], want, float64(width+1)*u*abs+sizes*0x1p-126)
					}
				}
			}
		}
	})
}

// Values are within (n+2)·u·(|acc·alpha| + Σ|p·v|) of exact.
func TestValues(t *testing.T) {
	each(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for _, f := range products() {
			for _, width := range []int{16, 48, 80, 128, 192} {
				for _, rows := range []int{1, 2, 3, 4, 5, 7, 8, 9, 16, 23} {
					testValues(t, r, f, width, rows, false)
				}
			}
		}
	})
}

func TestValuesPairs(t *testing.T) {
	each(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, width := range []int{16, 32, 48, 80, 128} {
			for _, rows := range []int{8, 16} {
				testValues(t, r, BF16, width, rows, true)
			}
		}
	})
}

func testValues(t *testing.T, r *rand.Rand, f Format, width, rows int, pairs bool) {
	t.Helper()
	tiles := TileStep * (1 + r.IntN(2))
	acc, alpha, p := random(r, rows*width), random(r, rows), random(r, rows*Run)
	p16 := bfloat16s(append([]float32(nil), p...))
	if pairs {
		bfloat16s(p)
	}
	v, value := newRun(r, f, tiles, width, true)
	before := append([]float32(nil), acc...)
	if pairs {
		ValuesPairs(acc, alpha, p16, v, width)
	} else {
		Values(acc, alpha, p, v, width)
	}
	for i := range rows {
		for d := range width {
			want := float64(before[i*width+d]) * float64(alpha[i])
			abs, sizes := math.Abs(want), 1.0
			for token := range tiles * Lanes {
				a, b := float64(p[i*Run+token]), value(token, d)
				want, abs, sizes = want+a*b, abs+math.Abs(a*b), sizes+math.Abs(a)+math.Abs(b)+1
			}
			bound := float64(tiles*Lanes+2)*u*abs + float64(tiles*Lanes+2)*0x1p-149
			if pairs {
				bound += sizes * 0x1p-126
			}
			within(t, fmt.Sprintf("format %d width %d rows %d tiles %d: dim %d of row %d", f, width, rows, tiles, d, i), acc[i*width+d], want, bound)
		}
	}
}

// A softmax over several runs is that over all their columns, whatever rows see.
func TestSoftmax(t *testing.T) {
	inf := float32(math.Inf(-1))
	each(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		const rows = 9
		st := State{make([]float32, rows), make([]float32, rows), make([]float32, rows)}
		for i := range st.Max {
			st.Max[i] = inf
		}
		var seen [rows][]float64   // logits
		var weighs [rows][]float32 // weights, rescaled as runs pass
		scale := float32(0.75)
		for range 4 {
			s, see := make([]float32, rows*Run), make([]Span, rows)
			for i := range s {
				s[i] = float32(r.NormFloat64() * 30)
				if r.IntN(9) == 0 {
					s[i] = inf
				}
			}
			for i := range see {
				see[i] = Span{int32(r.IntN(Run)), int32(r.IntN(Run + 1))}
			}
			see[0], see[1], see[2] = Span{0, Run}, Span{0, 0}, Span{17, 18}
			logits := append([]float32(nil), s...)
			Softmax(s, st, see, scale)
			for i, span := range see {
				for j := range weighs[i] {
					weighs[i][j] *= st.Alpha[i]
				}
				for c := range int32(Run) {
					w := s[i*Run+int(c)]
					if c < span.Lo || c >= span.Hi {
						if w != 0 {
							t.Fatalf("row %d column %d outside [%d, %d) weighs %v", i, c, span.Lo, span.Hi, w)
						}
						continue
					}
					seen[i] = append(seen[i], float64(logits[i*Run+int(c)])*float64(scale))
					weighs[i] = append(weighs[i], w)
				}
			}
		}
		for i := range rows {
			top, sum := math.Inf(-1), 0.0
			for _, x := range seen[i] {
				top = max(top, x)
			}
			if math.IsInf(top, -1) {
				if st.Sum[i] != 0 || !math.IsInf(float64(st.Max[i]), -1) {
					t.Fatalf("row %d saw nothing: max %v, sum %v", i, st.Max[i], st.Sum[i])
				}
				continue
			}
			within(t, fmt.Sprintf("max of row %d", i), st.Max[i], top, 2*u*math.Abs(top))
			for j, x := range seen[i] {
				want := math.Exp2(x - top)
				sum += want
				// The logits' rounding, 2^x's, and a product for every later run.
				bound := 0x1p-120
				if want > 0 {
					bound += want * (4*u*(math.Abs(x)+math.Abs(top)) + 12*u)
				}
				within(t, fmt.Sprintf("weight %d of row %d", j, i), weighs[i][j], want, bound)
			}
			within(t, fmt.Sprintf("sum of row %d", i), st.Sum[i], sum, sum*(4*u*2*200+300*u))
		}
	})
}

// What is not a number is never hidden.
func TestSoftmaxNaN(t *testing.T) {
	nan := float32(math.NaN())
	each(t, func(t *testing.T) {
		for name, fill := range map[string]float32{"among logits": 1, "among -Inf": float32(math.Inf(-1))} {
			for _, at := range []int{0, 5, 16, 127} {
				s := make([]float32, Run)
				for i := range s {
					s[i] = fill
				}
				s[at] = nan
				st := State{[]float32{float32(math.Inf(-1))}, []float32{0}, []float32{0}}
				Softmax(s, st, []Span{{0, Run}}, 1)
				if st.Sum[0] == st.Sum[0] {
					t.Errorf("%s: NaN in column %d gives the sum %v", name, at, st.Sum[0])
				}
			}
		}
	})
}

func TestSoftmaxPairs(t *testing.T) {
	each(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 12))
		s := make([]float32, 8*Run)
		for i := range s {
			s[i] = float32(r.NormFloat64() * 5)
		}
		same := append([]float32(nil), s...)
		see := make([]Span, 8)
		for i := range see {
			see[i] = Span{int32(i), int32(Run - 3*i)}
		}
		state := func() State { return State{make([]float32, 8), make([]float32, 8), make([]float32, 8)} }
		st, want := state(), state()
		p := make([]uint16, len(s))
		SoftmaxPairs(p, s, st, see, 1)
		Softmax(same, want, see, 1)
		for i, x := range same {
			within(t, fmt.Sprintf("weight %d", i), bfloat16(p[i]), float64(x), float64(x)*0x1p-8)
		}
		for i := range st.Sum {
			within(t, "sum", st.Sum[i], float64(want.Sum[i]), 200*u*float64(want.Sum[i]))
			within(t, "alpha", st.Alpha[i], float64(want.Alpha[i]), 200*u*float64(want.Alpha[i]))
			within(t, "max", st.Max[i], float64(want.Max[i]), 0)
		}
	})
}

// Every code of every format is converted to itself.
func TestUnpack(t *testing.T) {
	each(t, func(t *testing.T) {
		for _, from := range []Format{E4M3, E5M2, F16, BF16, F32} {
			for _, to := range []Format{BF16, F32} {
				if to == BF16 && from.Size() != 1 {
					continue
				}
				elements := max(512, 1<<(8*min(from.Size(), 2)))
				src := make([]byte, elements*from.Size())
				for i := range elements {
					code := make([]byte, 4)
					binary.LittleEndian.PutUint32(code, uint32(i))
					if from == F32 {
						binary.LittleEndian.PutUint32(code, math.Float32bits(float32(i)-100))
					}
					copy(src[i*from.Size():(i+1)*from.Size()], code)
				}
				dst := make([]byte, elements*to.Size())
				Unpack(dst, to, src, nil, from)
				for i := range elements {
					group, lane, depth := i/256*256, i%16, i%256/16
					var want, got [1]float32
					from.decode(want[:], src[(group+Place(from.Size(), lane, depth))*from.Size():])
					to.decode(got[:], dst[(group+Place(to.Size(), lane, depth))*to.Size():])
					if math.Float32bits(got[0]) != math.Float32bits(want[0]) && (got[0] == got[0] || want[0] == want[0]) {
						t.Fatalf("format %d to %d: element %d is %v, want %v", from, to, i, got[0], want[0])
					}
				}
			}
		}
	})
}

// Every float16 is itself as a float32, and rounding it back, or what is a little beside it,
// gives it again. Lengths that are no whole number of turns are converted to their end.
func TestHalves(t *testing.T) {
	each(t, func(t *testing.T) {
		const n = 1<<16 - 5
		src := make([]byte, 2*n)
		for i := range n {
			binary.LittleEndian.PutUint16(src[2*i:], uint16(i))
		}
		got, want := make([]float32, n), make([]float32, n)
		FromHalves(got, src)
		dtype.Float16.Decode(want, src)
		for i := range got {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
				t.Fatalf("%#04x is %v, want %v", i, got[i], want[i])
			}
		}
		for _, beside := range []float32{1, 1 + 0x1p-12, 1 - 0x1p-12, 1 + 0x1p-11, 1 - 0x1p-11} {
			floats, rounded := make([]float32, n), make([]byte, 2*n)
			for i, x := range want {
				floats[i] = x * beside
			}
			ToHalves(rounded, floats)
			dtype.Float16.Encode(src, floats)
			for i, x := range floats {
				if a, b := binary.LittleEndian.Uint16(rounded[2*i:]), binary.LittleEndian.Uint16(src[2*i:]); a != b && x == x {
					t.Fatalf("%v becomes %#04x, want %#04x", x, a, b)
				}
			}
		}
	})
}

func TestTranspose(t *testing.T) {
	each(t, func(t *testing.T) {
		for _, f := range []Format{BF16, F32} {
			const width = 48
			r := rand.New(rand.NewPCG(13, 14))
			k, key := newRun(r, f, TileStep, width, false)
			dst := make([]byte, Lanes*width*f.Size())
			Transpose(dst, k.Data[k.At[1]:], width, f)
			for token := range Lanes {
				for d := range width {
					var got [1]float32
					f.decode(got[:], dst[(d/Lanes*256+Place(f.Size(), d%Lanes, token))*f.Size():])
					if float64(got[0]) != key(Lanes+token, d) {
						t.Fatalf("format %d token %d dim %d: %v, want %v", f, token, d, got[0], key(Lanes+token, d))
					}
				}
			}
		}
	})
}

func TestCombine(t *testing.T) {
	each(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(15, 16))
		const rows, width = 3, 48
		dst, src, w := random(r, rows*width), random(r, rows*width), random(r, rows)
		before := append([]float32(nil), dst...)
		Combine(dst, src, w, width)
		for i := range dst {
			a, b := float64(before[i]), float64(src[i])*float64(w[i/width])
			within(t, fmt.Sprintf("sum %d", i), dst[i], a+b, 2*u*(math.Abs(a)+math.Abs(b))+0x1p-148)
		}
	})
}

func TestRead(t *testing.T) {
	each(t, func(t *testing.T) {
		b := make([]byte, 4*256*3+13)
		b[0], b[1500], b[len(b)-1] = 1, 1, 1
		if Read(b) == 0 || Read(nil) != 0 {
			t.Error("the fold is not of the bytes")
		}
		if DotPeak(10) <= 0 || FMAPeak(10) <= 0 || DotPeak(0) != 0 {
			t.Error("the yardstick counts nothing")
		}
	})
}

// Whatever is wrong with a call is found before there is assembly.
func TestChecks(t *testing.T) {
	data := make([]byte, 16*64*2*4)
	tiles := Tiles{Data: data, At: []int{0, 0, 0, 0}}
	f := func(n int) []float32 { return make([]float32, n) }
	bad := func(change func(*Tiles)) Tiles { c := tiles; change(&c); return c }
	for name, call := range map[string]func(){
		"a tile beyond the data":   func() { Scores(f(Run), f(64), bad(func(t *Tiles) { t.At = []int{0, 0, 0, len(data) - 64} }), 64) },
		"a tile before it":         func() { Scores(f(Run), f(64), bad(func(t *Tiles) { t.At = []int{0, -1, 0, 0} }), 64) },
		"an odd number of tiles":   func() { Scores(f(Run), f(64), bad(func(t *Tiles) { t.At = []int{0, 0, 0} }), 64) },
		"twelve tiles":             func() { Scores(f(Run), f(64), bad(func(t *Tiles) { t.At = make([]int, 12) }), 64) },
		"ahead of another length":  func() { Scores(f(Run), f(64), bad(func(t *Tiles) { t.Ahead = []int{0} }), 64) },
		"ahead beyond the data":    func() { Scores(f(Run), f(64), bad(func(t *Tiles) { t.Ahead = []int{0, 0, 0, 1 << 40} }), 64) },
		"a width of no lines":      func() { Scores(f(Run), f(65), tiles, 65) },
		"a format of no product":   func() { Scores(f(Run), f(64), bad(func(t *Tiles) { t.Format = F16 }), 64) },
		"scores of another shape":  func() { Scores(f(Run-1), f(64), tiles, 64) },
		"rows of pairs":            func() { ScoresPairs(f(Run), make([]uint16, 64), tiles, 64) },
		"values of another shape":  func() { Values(f(63), f(1), f(Run), tiles, 64) },
		"weights of another shape": func() { Values(f(64), f(1), f(Run-1), tiles, 64) },
		"value rows of pairs":      func() { ValuesPairs(f(64), f(1), make([]uint16, Run), tiles, 64) },
		"state of another shape":   func() { Softmax(f(Run), State{f(2), f(1), f(1)}, make([]Span, 1), 1) },
		"a span beyond the run":    func() { Softmax(f(Run), State{f(1), f(1), f(1)}, []Span{{0, Run + 1}}, 1) },
		"weights of another run":   func() { SoftmaxPairs(nil, f(Run), State{f(1), f(1), f(1)}, make([]Span, 1), 1) },
		"half a line":              func() { Unpack(make([]byte, 200), F32, make([]byte, 100), nil, F16) },
		"a lossy conversion":       func() { Unpack(make([]byte, 512), BF16, make([]byte, 512), nil, F16) },
		"a short source":           func() { Transpose(make([]byte, 512), make([]byte, 511), 16, BF16) },
		"half a float16":           func() { FromHalves(f(2), make([]byte, 3)) },
		"room for fewer float16s":  func() { ToHalves(make([]byte, 2), f(2)) },
		"sums of another width":    func() { Combine(f(10), f(10), f(2), 4) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
}

// FuzzScores holds the implementation in use to the reference on any shapes.
func FuzzScores(f *testing.F) {
	f.Add(uint64(1), uint8(1), uint8(8), uint8(0))
	f.Add(uint64(2), uint8(8), uint8(4), uint8(1))
	f.Fuzz(func(t *testing.T, seed uint64, rows, chunks, format uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		n, width := int(rows%40)+1, (int(chunks%16)+1)*Lanes
		formats := products()
		form := formats[int(format)%len(formats)]
		testValues(t, r, form, width, n, false)
		q := random(r, n*width)
		k, key := newRun(r, form, TileStep, width, false)
		dst := make([]float32, n*Run)
		Scores(dst, q, k, width)
		for i := range n {
			token := r.IntN(TileStep * Lanes)
			var want, abs float64
			for d := range width {
				x := float64(q[i*width+d]) * key(token, d)
				want, abs = want+x, abs+math.Abs(x)
			}
			within(t, "score", dst[i*Run+token], want, float64(width+1)*u*abs+float64(width)*0x1p-149)
		}
	})
}
