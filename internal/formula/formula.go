// Package formula evaluates what a configuration class computes from a file's fields when
// it is constructed, such as
//
//	head_dim ?= hidden_size // num_attention_heads
//	layer_types ?= ['sliding_attention' if (i + 1) % 6 else 'full_attention' for i in range(num_hidden_layers)]
//
// The expressions are a subset of Python's, with Python's meaning: what the classes compute
// is defined by that language's division, truth and slices, and the same text can be checked
// by Python itself. There are no side effects but Take of the environment.
package formula

import (
	"fmt"
	"strings"

	"headcount/checkpoint"
)

// An Env is the config under construction, as formulas read it.
type Env interface {
	// Get returns an attribute. A name that starts with _ is a temporary of earlier formulas.
	Get(name string) (checkpoint.Value, bool)
	// Sub returns an attribute of a nested config.
	Sub(name, attr string) (checkpoint.Value, bool)
	// Given returns a key of the file that is no field of the class; Take also consumes it.
	Given(key string) (checkpoint.Value, bool)
	Take(key string) (checkpoint.Value, bool)
	// Rest returns the keys of the file that are no fields of the class, nil if there are
	// none; with the name of a nested config those that are fields of its class.
	Rest(nested string) *checkpoint.Object
}

// A Formula sets one attribute.
type Formula struct {
	Target string // the attribute; "" for a bare expression
	Sub    string // the nested config whose attribute it is, "" for the config's own
	Given  bool   // the target is a key as if the file had it
	IfNull bool   // nothing happens when the target has a value that is not null

	text string
	expr node
}

// String is the formula's text.
func (f *Formula) String() string { return f.text }

// Parse reads "target = expression" or "target ?= expression".
func Parse(text string) (*Formula, error) {
	target, expr, ok := strings.Cut(text, " = ")
	f := &Formula{text: text}
	if left, right, orNull := strings.Cut(text, " ?= "); orNull && len(left) < len(target) {
		target, expr, ok, f.IfNull = left, right, true, true
	}
	if !ok {
		return nil, fmt.Errorf("formula %q: no target", text)
	}
	if scope, attr, nested := strings.Cut(target, "."); nested {
		target = attr
		if f.Given = scope == "given"; !f.Given {
			f.Sub = scope
		}
	}
	f.Target = target
	var err error
	f.expr, err = parse(expr)
	if err != nil {
		return nil, fmt.Errorf("formula %q: %w", text, err)
	}
	return f, nil
}

// ParseExpr reads an expression alone.
func ParseExpr(text string) (*Formula, error) {
	expr, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("formula %q: %w", text, err)
	}
	return &Formula{text: text, expr: expr}, nil
}

// Eval returns the expression's value; ok is false when it is an attribute that does not
// exist. The error says what Python would raise, or that the result has no bound.
func (f *Formula) Eval(env Env) (v checkpoint.Value, ok bool, err error) {
	r := run{env: env}
	res := f.expr(&r)
	if r.err != nil {
		return checkpoint.Value{}, false, r.err
	}
	return res.v, !res.missing, nil
}

// A run is one evaluation: the variables that comprehensions bind and the first error.
type run struct {
	env   Env
	names []string
	vars  []checkpoint.Value
	steps int
	err   error
}

// Limits on what a formula may make of an untrusted file.
const (
	maxElements = 1 << 16 // of one list
	maxSteps    = 1 << 20 // names read and elements made or compared by one formula
)

type result struct {
	v       checkpoint.Value
	missing bool // an attribute that does not exist; it reads as null
}

type node func(*run) result

var null = result{}

func (r *run) fail(format string, args ...any) result {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	return null
}

// step bounds the work; false stops the evaluation.
func (r *run) step() bool {
	if r.steps++; r.steps > maxSteps {
		r.fail("more than %d steps", maxSteps)
	}
	return r.err == nil
}

func (r *run) lookup(name string) result {
	for i := len(r.names) - 1; i >= 0; i-- {
		if r.names[i] == name {
			return result{v: r.vars[i]}
		}
	}
	v, ok := r.env.Get(name)
	return result{v: v, missing: !ok}
}

func (r *run) bind(name string, v checkpoint.Value) {
	r.names, r.vars = append(r.names, name), append(r.vars, v)
}

func (r *run) unbind(n int) {
	r.names, r.vars = r.names[:len(r.names)-n], r.vars[:len(r.vars)-n]
}

// truth is Python's: null, false, zero and what is empty are false.
func truth(v checkpoint.Value) bool {
	switch v.Kind() {
	case checkpoint.Bool:
		b, _ := v.Bool()
		return b
	case checkpoint.Int, checkpoint.Float:
		x, _ := v.Float()
		return x != 0
	case checkpoint.String:
		s, _ := v.Text()
		return s != ""
	case checkpoint.List:
		return len(v.List()) > 0
	case checkpoint.Dict:
		return v.Dict().Len() > 0
	}
	return false
}
