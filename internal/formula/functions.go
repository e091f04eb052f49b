package formula

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"headcount/checkpoint"
)

// A function is one that formulas may call.
type function struct {
	min, max int // arguments
	eval     func(*run, []node) result
}

// functions is filled by init: the functions evaluate nodes, which parse looks up here.
var functions map[string]function

func init() {
	functions = map[string]function{
		// The file's own keys.
		"given":   {1, 2, func(r *run, a []node) result { return fromFile(r, a, r.env.Given) }},
		"take":    {1, 2, func(r *run, a []node) result { return fromFile(r, a, r.env.Take) }},
		"isgiven": {1, 1, func(r *run, a []node) result { _, ok := r.env.Given(keyText(a[0](r).v)); return boolean(ok) }},

		"rest": {0, 1, func(r *run, a []node) result {
			nested := ""
			if len(a) > 0 {
				nested = keyText(a[0](r).v)
			}
			o := r.env.Rest(nested)
			return result{v: checkpoint.NewDict(o), missing: o == nil}
		}},

		// Attributes that may not exist.
		"attr": {2, 2, func(r *run, a []node) result {
			if x := r.lookup(keyText(a[0](r).v)); !x.missing {
				return x
			}
			return a[1](r)
		}},
		"has": {1, 1, func(r *run, a []node) result { return boolean(!r.lookup(keyText(a[0](r).v)).missing) }},
		"nested": {3, 3, func(r *run, a []node) result {
			if v, ok := r.env.Sub(keyText(a[0](r).v), keyText(a[1](r).v)); ok {
				return result{v: v}
			}
			return a[2](r)
		}},
		"pick": {3, 3, func(r *run, a []node) result {
			if v, ok := a[0](r).v.Dict().Get(keyText(a[1](r).v)); ok {
				return result{v: v}
			}
			return a[2](r)
		}},
		"kind": {1, 1, func(r *run, a []node) result { return text(kinds[a[0](r).v.Kind()]) }},

		// Numbers.
		"int":   {1, 1, func(r *run, a []node) result { return rounded(r, a[0], math.Trunc) }},
		"floor": {1, 1, func(r *run, a []node) result { return rounded(r, a[0], math.Floor) }},
		"ceil":  {1, 1, func(r *run, a []node) result { return rounded(r, a[0], math.Ceil) }},
		"round": {1, 1, func(r *run, a []node) result { return rounded(r, a[0], math.RoundToEven) }},
		"float": {1, 1, func(r *run, a []node) result { return real(r, a[0], func(x float64) float64 { return x }) }},
		"sqrt":  {1, 1, func(r *run, a []node) result { return real(r, a[0], math.Sqrt) }},
		"log2":  {1, 1, func(r *run, a []node) result { return real(r, a[0], math.Log2) }},
		"bool":  {1, 1, func(r *run, a []node) result { return boolean(truth(a[0](r).v)) }},
		"min":   {1, 8, func(r *run, a []node) result { return extreme(r, a, -1) }},
		"max":   {1, 8, func(r *run, a []node) result { return extreme(r, a, 1) }},
		"sum":   {1, 1, func(r *run, a []node) result { return fold(r, a[0], 0, add) }},
		"prod":  {1, 1, func(r *run, a []node) result { return fold(r, a[0], 1, multiply) }},

		// Lists.
		"len":       {1, 1, length},
		"range":     {1, 3, numbers},
		"list":      {1, 1, func(r *run, a []node) result { return list(r, elements(r, a[0](r).v)) }},
		"set":       {1, 1, func(r *run, a []node) result { return list(r, distinct(r, elements(r, a[0](r).v))) }},
		"sorted":    {1, 1, sorted},
		"reversed":  {1, 1, reversed},
		"enumerate": {1, 1, func(r *run, a []node) result { return pairs(r, nil, elements(r, a[0](r).v)) }},
		"position": {2, 2, func(r *run, a []node) result {
			items, want := elements(r, a[0](r).v), a[1](r).v
			for i, v := range items {
				if r.equal(v, want) {
					return integer(int64(i))
				}
			}
			return r.fail("%v is not in the list", want.Any())
		}},
		"repeated": {1, 1, repeated},
		"zip": {2, 2, func(r *run, a []node) result {
			return pairs(r, elements(r, a[0](r).v), elements(r, a[1](r).v))
		}},
		"split": {2, 2, func(r *run, a []node) result {
			var out []checkpoint.Value
			s, _ := a[0](r).v.Text()
			for _, part := range strings.Split(s, keyText(a[1](r).v)) {
				out = append(out, checkpoint.NewText(part))
			}
			return list(r, out)
		}},

		// Objects.
		"dict": {1, 1, toDict},
		"items": {1, 1, func(r *run, a []node) result {
			o := a[0](r).v.Dict()
			var out []checkpoint.Value
			for _, k := range o.Keys() {
				v, _ := o.Get(k)
				out = append(out, checkpoint.NewList(checkpoint.NewText(k), v))
			}
			return list(r, out)
		}},
		"values": {1, 1, func(r *run, a []node) result {
			o := a[0](r).v.Dict()
			var out []checkpoint.Value
			for _, k := range o.Keys() {
				v, _ := o.Get(k)
				out = append(out, v)
			}
			return list(r, out)
		}},

		// Layer types.
		"renamed":      {1, 1, func(r *run, a []node) result { return result{v: Renamed(a[0](r).v)} }},
		"from_pattern": {1, 1, fromPattern},
		"to_pattern":   {1, 1, toPattern},
	}
}

var kinds = map[checkpoint.Kind]string{
	checkpoint.Null: "none", checkpoint.Bool: "bool", checkpoint.Int: "int", checkpoint.Float: "float",
	checkpoint.String: "str", checkpoint.List: "list", checkpoint.Dict: "dict",
}

func fromFile(r *run, args []node, get func(string) (checkpoint.Value, bool)) result {
	if v, ok := get(keyText(args[0](r).v)); ok {
		return result{v: v}
	}
	if len(args) == 2 {
		return args[1](r)
	}
	return result{missing: true}
}

// rounded returns a whole number.
func rounded(r *run, arg node, to func(float64) float64) result {
	v := arg(r).v
	if n, ok := whole(v); ok {
		return integer(n)
	}
	x, ok := v.Float()
	if s, isText := v.Text(); isText {
		n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
		if err == nil {
			return integer(n)
		}
	}
	x = to(x)
	if !ok || math.IsNaN(x) || math.Abs(x) >= 1<<62 {
		return r.fail("%v is not a number that can be made whole", v.Any())
	}
	return integer(int64(x))
}

func real(r *run, arg node, f func(float64) float64) result {
	v := arg(r).v
	x, ok := number(v)
	if !ok {
		return r.fail("%v is not a number", v.Any())
	}
	return float(f(x))
}

// extreme returns the largest (sign 1) or smallest (sign -1) of the arguments, or of one list.
func extreme(r *run, args []node, sign int) result {
	var all []checkpoint.Value
	for _, arg := range args {
		all = append(all, arg(r).v)
	}
	if len(all) == 1 {
		all = elements(r, all[0])
	}
	if len(all) == 0 {
		return r.fail("nothing to choose from")
	}
	best := all[0]
	for _, v := range all[1:] {
		if compare(r, v, best)*sign > 0 {
			best = v
		}
	}
	return result{v: best}
}

func fold(r *run, arg node, start int64, op func(*run, checkpoint.Value, checkpoint.Value) result) result {
	acc := integer(start)
	for _, v := range elements(r, arg(r).v) {
		acc = op(r, acc.v, v)
	}
	return acc
}

func length(r *run, args []node) result {
	v := args[0](r).v
	if v.Kind() == checkpoint.Dict {
		return integer(int64(v.Dict().Len()))
	}
	return integer(int64(len(elements(r, v))))
}

func numbers(r *run, args []node) result {
	bounds := []int64{0, 0, 1}
	for i, arg := range args {
		v := arg(r).v
		n, ok := whole(v)
		if !ok {
			return r.fail("%v is not a whole number", v.Any())
		}
		if len(args) == 1 {
			i = 1
		}
		bounds[i] = n
	}
	from, to, step := bounds[0], bounds[1], bounds[2]
	if step <= 0 {
		return r.fail("a step of %d", step)
	}
	if to > from && (from < -maxElements || to > maxElements) {
		return r.fail("list of more than %d elements", maxElements)
	}
	out := make([]checkpoint.Value, 0, max(0, (to-from+step-1)/step))
	for ; from < to; from += step {
		out = append(out, checkpoint.NewInt(from))
	}
	return list(r, out)
}

func distinct(r *run, items []checkpoint.Value) []checkpoint.Value {
	var out []checkpoint.Value
	for _, v := range items {
		if !slices.ContainsFunc(out, func(w checkpoint.Value) bool { return r.equal(v, w) }) {
			out = append(out, v)
		}
	}
	return out
}

func sorted(r *run, args []node) result {
	out := slices.Clone(elements(r, args[0](r).v))
	slices.SortStableFunc(out, func(a, b checkpoint.Value) int {
		if s, ok := a.Text(); ok {
			t, _ := b.Text()
			return cmp.Compare(s, t)
		}
		return compare(r, a, b)
	})
	return list(r, out)
}

func reversed(r *run, args []node) result {
	out := slices.Clone(elements(r, args[0](r).v))
	slices.Reverse(out)
	return list(r, out)
}

// pairs zips two lists; a nil first one counts from zero.
func pairs(r *run, first, second []checkpoint.Value) result {
	var out []checkpoint.Value
	for i, v := range second {
		key := checkpoint.NewInt(int64(i))
		if first != nil {
			if i >= len(first) {
				break
			}
			key = first[i]
		}
		out = append(out, checkpoint.NewList(key, v))
	}
	return list(r, out)
}

// repeated expands [[[a, b], 2], ...] to a, b, a, b, ... (GPT-Neo's attention_types).
func repeated(r *run, args []node) result {
	var out []checkpoint.Value
	for _, item := range elements(r, args[0](r).v) {
		pair := item.List()
		if len(pair) != 2 {
			return r.fail("not a list of lists and counts")
		}
		out = append(out, multiply(r, pair[0], pair[1]).v.List()...)
		if len(out) > maxElements {
			break
		}
	}
	return list(r, out)
}

// toDict makes an object of a list of pairs, or takes an object as it is.
func toDict(r *run, args []node) result {
	v := args[0](r).v
	if v.Kind() == checkpoint.Dict {
		return result{v: v}
	}
	o := checkpoint.NewObject()
	for _, pair := range elements(r, v) {
		kv := pair.List()
		if len(kv) != 2 {
			return r.fail("not a list of pairs")
		}
		o.Set(keyText(kv[0]), kv[1])
	}
	return result{v: checkpoint.NewDict(o)}
}

// layerNames are the names of layer types that were renamed
// (transformers/configuration_utils.py, _LEGACY_LAYER_TYPE_REMAP).
var layerNames = map[string]string{
	"mamba":                     "linear_attention",
	"attention":                 "full_attention",
	"deepseek_sparse_attention": "indexed_attention",
	"qwen_sparse_attention":     "indexed_attention",
}

// Renamed returns a list of layer types under their present names.
func Renamed(v checkpoint.Value) checkpoint.Value {
	stale := func(e checkpoint.Value) (string, bool) {
		s, _ := e.Text()
		name, ok := layerNames[s]
		return name, ok
	}
	list := v.List()
	if !slices.ContainsFunc(list, func(e checkpoint.Value) bool { _, ok := stale(e); return ok }) {
		return v
	}
	out := slices.Clone(list)
	for i, e := range out {
		if name, ok := stale(e); ok {
			out[i] = checkpoint.NewText(name)
		}
	}
	return checkpoint.NewList(out...)
}

// patternLetters are Nemotron-H's layer types and the letters of hybrid_override_pattern.
var patternLetters = []struct{ letter, layer string }{
	{"M", "linear_attention"}, {"E", "moe"}, {"*", "full_attention"}, {"-", "mlp"},
}

func fromPattern(r *run, args []node) result {
	v := args[0](r).v
	var out []checkpoint.Value
	for _, c := range elements(r, v) {
		s, _ := c.Text()
		i := slices.IndexFunc(patternLetters, func(p struct{ letter, layer string }) bool { return p.letter == s })
		if i < 0 {
			return r.fail("%q is no layer type of a pattern", s)
		}
		out = append(out, checkpoint.NewText(patternLetters[i].layer))
	}
	return list(r, out)
}

func toPattern(r *run, args []node) result {
	var b strings.Builder
	for _, layer := range elements(r, args[0](r).v) {
		s, _ := layer.Text()
		for _, p := range patternLetters {
			if p.layer == s {
				b.WriteString(p.letter)
			}
		}
	}
	return text(b.String())
}
