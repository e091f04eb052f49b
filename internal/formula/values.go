package formula

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"headcount/checkpoint"
)

func boolean(b bool) result     { return result{v: checkpoint.NewBool(b)} }
func integer(n int64) result    { return result{v: checkpoint.NewInt(n)} }
func float(x float64) result    { return result{v: checkpoint.NewFloat(x)} }
func text(s string) result      { return result{v: checkpoint.NewText(s)} }
func (r *run) overflow() result { return r.fail("%w", errOverflow) }
func keyText(v checkpoint.Value) string {
	if n, ok := whole(v); ok {
		return strconv.FormatInt(n, 10)
	}
	s, _ := v.Text()
	return s
}

func list(r *run, out []checkpoint.Value) result {
	if len(out) > maxElements {
		return r.fail("list of more than %d elements", maxElements)
	}
	if r.steps += len(out); !r.step() {
		return null
	}
	return result{v: checkpoint.NewList(out...)}
}

// whole returns what Python holds as an int: an integer or a truth value.
func whole(v checkpoint.Value) (int64, bool) {
	switch v.Kind() {
	case checkpoint.Int:
		return v.Int()
	case checkpoint.Bool:
		b, _ := v.Bool()
		if b {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

func number(v checkpoint.Value) (float64, bool) {
	if n, ok := whole(v); ok {
		return float64(n), true
	}
	return v.Float()
}

// arithmetic applies one of two functions: on integers if both are, else on floats.
func arithmetic(r *run, a, b checkpoint.Value, ints func(x, y int64) (int64, bool), floats func(x, y float64) float64) result {
	if x, ok := whole(a); ok {
		if y, ok := whole(b); ok {
			n, ok := ints(x, y)
			if !ok {
				return r.overflow()
			}
			return integer(n)
		}
	}
	x, ok := number(a)
	y, ok2 := number(b)
	if !ok || !ok2 {
		return r.fail("%v and %v are not both numbers", a.Any(), b.Any())
	}
	return float(floats(x, y))
}

func add(r *run, a, b checkpoint.Value) result {
	if a.Kind() == checkpoint.List && b.Kind() == checkpoint.List {
		out := make([]checkpoint.Value, 0, len(a.List())+len(b.List()))
		return list(r, append(append(out, a.List()...), b.List()...))
	}
	if s, ok := a.Text(); ok {
		if t, ok := b.Text(); ok {
			return text(s + t)
		}
	}
	return arithmetic(r, a, b, func(x, y int64) (int64, bool) {
		sum := x + y
		return sum, (sum > x) == (y > 0)
	}, func(x, y float64) float64 { return x + y })
}

func subtract(r *run, a, b checkpoint.Value) result {
	return arithmetic(r, a, b, func(x, y int64) (int64, bool) {
		diff := x - y
		return diff, (diff < x) == (y > 0)
	}, func(x, y float64) float64 { return x - y })
}

func multiply(r *run, a, b checkpoint.Value) result {
	if a.Kind() == checkpoint.List {
		return repeat(r, a, b)
	}
	if b.Kind() == checkpoint.List {
		return repeat(r, b, a)
	}
	return arithmetic(r, a, b, product, func(x, y float64) float64 { return x * y })
}

func product(x, y int64) (int64, bool) {
	high, low := bits.Mul64(magnitude(x), magnitude(y))
	if high != 0 || low > math.MaxInt64 {
		return 0, false
	}
	return x * y, true
}

func magnitude(x int64) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

func repeat(r *run, l, times checkpoint.Value) result {
	n, ok := whole(times)
	if !ok {
		return r.fail("%v is not a count", times.Any())
	}
	n = max(n, 0)
	if n > maxElements || n*int64(len(l.List())) > maxElements {
		return r.fail("list of more than %d elements", maxElements)
	}
	out := make([]checkpoint.Value, 0, int(n)*len(l.List()))
	for range n {
		out = append(out, l.List()...)
	}
	return list(r, out)
}

// floorDivide rounds towards minus infinity, as Python does.
func floorDivide(r *run, a, b checkpoint.Value) result {
	if y, ok := number(b); ok && y == 0 {
		return r.fail("division by zero")
	}
	return arithmetic(r, a, b, func(x, y int64) (int64, bool) {
		q := x / y
		if x%y != 0 && (x < 0) != (y < 0) {
			q--
		}
		return q, !(x == math.MinInt64 && y == -1)
	}, func(x, y float64) float64 { return math.Floor(x / y) })
}

// modulo has the sign of the divisor, as in Python.
func modulo(r *run, a, b checkpoint.Value) result {
	if y, ok := number(b); ok && y == 0 {
		return r.fail("division by zero")
	}
	return arithmetic(r, a, b, func(x, y int64) (int64, bool) {
		if y == -1 {
			return 0, true
		}
		m := x % y
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return m, true
	}, func(x, y float64) float64 { return x - y*math.Floor(x/y) })
}

func divide(r *run, a, b checkpoint.Value) result {
	x, ok := number(a)
	y, ok2 := number(b)
	switch {
	case !ok || !ok2:
		return r.fail("%v and %v are not both numbers", a.Any(), b.Any())
	case y == 0:
		return r.fail("division by zero")
	}
	return float(x / y)
}

func power(r *run, a, b checkpoint.Value) result {
	x, isInt := whole(a)
	n, natural := whole(b)
	if isInt && natural && n >= 0 {
		out := int64(1)
		for range min(n, 64) {
			var ok bool
			if out, ok = product(out, x); !ok {
				return r.overflow()
			}
		}
		if n > 64 && magnitude(x) > 1 {
			return r.overflow()
		}
		return integer(out)
	}
	base, ok := number(a)
	exponent, ok2 := number(b)
	if !ok || !ok2 {
		return r.fail("%v and %v are not both numbers", a.Any(), b.Any())
	}
	return float(math.Pow(base, exponent))
}

// equal is Python's ==: numbers by value, containers by their elements.
func (r *run) equal(a, b checkpoint.Value) bool {
	if !r.step() {
		return false
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case checkpoint.String:
		s, _ := a.Text()
		t, _ := b.Text()
		return s == t
	case checkpoint.List:
		x, y := a.List(), b.List()
		if len(x) != len(y) {
			return false
		}
		for i := range x {
			if !r.equal(x[i], y[i]) {
				return false
			}
		}
	case checkpoint.Dict:
		x, y := a.Dict(), b.Dict()
		if x.Len() != y.Len() {
			return false
		}
		for _, k := range x.Keys() {
			v, _ := x.Get(k)
			if w, ok := y.Get(k); !ok || !r.equal(v, w) {
				return false
			}
		}
	}
	return true
}

func compare(r *run, a, b checkpoint.Value) int {
	x, ok := number(a)
	y, ok2 := number(b)
	switch {
	case !ok || !ok2:
		r.fail("%v and %v cannot be compared", a.Any(), b.Any())
		return 0
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func contains(r *run, in, v checkpoint.Value) bool {
	switch in.Kind() {
	case checkpoint.List:
		for _, e := range in.List() {
			if r.equal(e, v) {
				return true
			}
		}
	case checkpoint.Dict:
		_, ok := in.Dict().Get(keyText(v))
		return ok
	case checkpoint.String:
		s, _ := in.Text()
		part, _ := v.Text()
		return strings.Contains(s, part)
	default:
		r.fail("%v holds nothing", in.Any())
	}
	return false
}

// elements are what Python iterates over: of a string its characters, of an object its keys.
func elements(r *run, v checkpoint.Value) []checkpoint.Value {
	switch v.Kind() {
	case checkpoint.List:
		return v.List()
	case checkpoint.String:
		s, _ := v.Text()
		var out []checkpoint.Value
		for _, c := range s {
			out = append(out, checkpoint.NewText(string(c)))
		}
		return out
	case checkpoint.Dict:
		var out []checkpoint.Value
		for _, k := range v.Dict().Keys() {
			out = append(out, checkpoint.NewText(k))
		}
		return out
	}
	r.fail("%v is not a list", v.Any())
	return nil
}

func index(r *run, of, at checkpoint.Value) result {
	if of.Kind() == checkpoint.Dict {
		v, ok := of.Dict().Get(keyText(at))
		if !ok {
			return r.fail("no key %v", at.Any())
		}
		return result{v: v}
	}
	i, ok := whole(at)
	items := elements(r, of)
	if i < 0 {
		i += int64(len(items))
	}
	if !ok || i < 0 || i >= int64(len(items)) {
		return r.fail("no element %v in %v", at.Any(), of.Any())
	}
	return result{v: items[i]}
}

func slice(r *run, of checkpoint.Value, low, high node) result {
	items := elements(r, of)
	bound := func(n node, missing int) int {
		if n == nil {
			return missing
		}
		i, ok := whole(n(r).v)
		if !ok {
			r.fail("a bound of a slice is not a whole number")
		}
		if i < 0 {
			i += int64(len(items))
		}
		return int(min(max(i, 0), int64(len(items))))
	}
	from, to := bound(low, 0), bound(high, len(items))
	if from > to {
		to = from
	}
	return list(r, items[from:to:to])
}
