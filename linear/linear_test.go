package linear

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"headcount/dtype"
	"headcount/internal/kernel"
	"headcount/problem"
)

// each runs a test on each implementation that this processor has, the reference last.
func each(t *testing.T, test func(t *testing.T)) {
	before := kernel.Path()
	for _, path := range kernel.Paths() {
		if err := kernel.Use(path); err != nil {
			t.Fatal(err)
		}
		t.Run(path, test)
	}
	if err := kernel.Use(before); err != nil {
		t.Fatal(err)
	}
}

// random is a matrix that begins at an odd place, a vector, and both in float64.
func random(rows, cols int, draw func() float32) (w Matrix, x []float32, exact []float64) {
	w = Matrix{rows, cols, make([]byte, 2*rows*cols+2)[2:]}
	x = make([]float32, cols)
	for i := range x {
		x[i] = draw()
	}
	row := make([]float32, cols)
	for r := range rows {
		for i := range row {
			row[i] = draw()
		}
		at := w.Data[2*r*cols:][:2*cols]
		dtype.BFloat16.Encode(at, row)
		for i := range row {
			exact = append(exact, float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(at[2*i:]))<<16)))
		}
	}
	return w, x, exact
}

// Products are within the bound of a float64 sum, for shapes on both sides of every step of
// the loops.
func TestMul(t *testing.T) {
	each(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		m := New(2)
		defer m.Close()
		draws := map[string]func() float32{
			"normal":   func() float32 { return float32(r.NormFloat64()) },
			"large":    func() float32 { return float32(r.NormFloat64() * 1e15) },
			"denormal": func() float32 { return float32(r.NormFloat64() * 1e-39) },
			"sparse":   func() float32 { return float32(r.IntN(5)/4) * float32(r.NormFloat64()) },
		}
		for name, draw := range draws {
			for _, rows := range []int{0, 1, 3, 4, 5, 8, 67} {
				for _, cols := range []int{0, 1, 31, 32, 33, 64, 100, 1024 + 17} {
					w, x, exact := random(rows, cols, draw)
					y := make([]float32, rows)
					for i := range y {
						y[i] = float32(math.NaN())
					}
					if err := m.Mul(y, w, x); err != nil {
						t.Fatal(err)
					}
					for i, got := range y {
						var want, bound float64
						for c, v := range x {
							p := exact[i*cols+c] * float64(v)
							want, bound = want+p, bound+math.Abs(p)
						}
						bound = bound*float64(cols+1)*0x1p-24 + float64(cols)*0x1p-149
						if diff := math.Abs(float64(got) - want); !(diff <= bound) {
							t.Fatalf("%s [%d, %d]: row %d is %v, want %v within %v", name, rows, cols, i, got, want, bound)
						}
					}
				}
			}
		}
	})
}

// A NaN or an infinity is of its own row, or of all when it is in x.
func TestNotFinite(t *testing.T) {
	each(t, func(t *testing.T) {
		w, x, _ := random(9, 70, func() float32 { return 1 })
		m := New(1)
		defer m.Close()
		y := make([]float32, 9)
		nan := float32(math.NaN())
		dtype.BFloat16.Encode(w.Data[2*(5*70+69):][:2], []float32{nan})
		dtype.BFloat16.Encode(w.Data[2*(2*70+3):][:2], []float32{float32(math.Inf(1))})
		if err := m.Mul(y, w, x); err != nil {
			t.Fatal(err)
		}
		for row, v := range y {
			if isNaN := v != v; isNaN != (row == 5) || math.IsInf(float64(v), 1) != (row == 2) || row != 5 && row != 2 && v != 70 {
				t.Errorf("row %d is %v", row, v)
			}
		}
		x[0] = nan
		if err := m.Mul(y, w, x); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(y, func(v float32) bool { return v == v }) {
			t.Errorf("%v of a vector with a NaN", y)
		}
	})
}

// The same bits whatever the number of workers.
func TestWorkers(t *testing.T) {
	each(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 1))
		w, x, _ := random(3000, 331, func() float32 { return float32(r.NormFloat64()) })
		var want []float32
		for _, workers := range []int{1, 2, 5} {
			m := New(workers)
			y := make([]float32, w.Rows)
			if err := m.Mul(y, w, x); err != nil {
				t.Fatal(err)
			}
			m.Close()
			if want == nil {
				want = y
			} else if !slices.Equal(y, want) {
				t.Errorf("%d workers compute other bits than one", workers)
			}
		}
	})
}

func TestRefuses(t *testing.T) {
	m := New(1)
	defer m.Close()
	data := make([]byte, 2*3*40)
	for _, tt := range []struct {
		name  string
		y, x  int
		w     Matrix
		field string
	}{
		{"short data", 3, 40, Matrix{3, 40, data[1:]}, "w"},
		{"long data", 3, 40, Matrix{2, 40, data}, "w"},
		{"y", 4, 40, Matrix{3, 40, data}, "y"},
		{"x", 3, 39, Matrix{3, 40, data}, "x"},
		{"negative rows", 3, 40, Matrix{-3, 40, data}, "rows"},
		{"negative columns", 3, 40, Matrix{3, -40, data}, "cols"},
		{"a product that overflows", 0, 0, Matrix{math.MaxInt / 2, 4, nil}, "w"},
	} {
		err := m.Mul(make([]float32, tt.y), tt.w, make([]float32, tt.x))
		if p, ok := errors.AsType[*problem.Error](err); !ok || p.Field != tt.field {
			t.Errorf("%s: %v, want a problem of %s", tt.name, err, tt.field)
		}
	}
}

func TestAllocationFree(t *testing.T) {
	w, x, _ := random(64, 256, func() float32 { return 1 })
	m, y := New(2), make([]float32, 64)
	defer m.Close()
	if n := testing.AllocsPerRun(20, func() {
		if err := m.Mul(y, w, x); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMul(b *testing.B) {
	for _, shape := range [][2]int{{8192, 4096}, {8192, 8192}, {1024, 28672}} {
		b.Run(fmt.Sprintf("%dx%d", shape[0], shape[1]), func(b *testing.B) {
			size := 2 * shape[0] * shape[1]
			copies := (1 << 30) / size // more than a cache holds
			data, x, y := make([]byte, copies*size), make([]float32, shape[1]), make([]float32, shape[0])
			for i := range data {
				data[i] = 0x3f // memory that nobody has written to is one page of zeros
			}
			m := New(0)
			defer m.Close()
			i := 0
			for b.Loop() {
				if err := m.Mul(y, Matrix{shape[0], shape[1], data[i%copies*size:][:size]}, x); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
		})
	}
}
