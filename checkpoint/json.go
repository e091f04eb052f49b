package checkpoint

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"headcount/problem"
)

// Kind is the kind of a JSON value.
type Kind uint8

const (
	Null Kind = iota
	Bool
	Int   // a number without fraction or exponent that fits int64
	Float // any other number, and Python's NaN, Infinity and -Infinity
	String
	List
	Dict
)

// A Value is one JSON value. The zero Value is null.
type Value struct {
	kind Kind
	num  int64 // Int; Bool as 0 or 1
	real float64
	text string
	list []Value
	dict *Object
}

// Kind tells what the value is.
func (v Value) Kind() Kind { return v.kind }

// Int returns an integer, also one written as a whole float such as 8.0.
func (v Value) Int() (int64, bool) {
	switch {
	case v.kind == Int:
		return v.num, true
	case v.kind == Float && v.real == math.Trunc(v.real) && math.Abs(v.real) < 1<<53:
		return int64(v.real), true
	}
	return 0, false
}

// Float returns any number.
func (v Value) Float() (float64, bool) {
	switch v.kind {
	case Int:
		return float64(v.num), true
	case Float:
		return v.real, true
	}
	return 0, false
}

// Bool returns true or false as such.
func (v Value) Bool() (b, ok bool) { return v.num != 0, v.kind == Bool }

// Text returns a string.
func (v Value) Text() (string, bool) { return v.text, v.kind == String }

// List returns the elements of an array, nil for anything else.
func (v Value) List() []Value { return v.list }

// Dict returns an object, nil for anything else. A nil *Object reads as empty.
func (v Value) Dict() *Object { return v.dict }

// Any returns the value for an error message: a number, string, bool, nil, or a short
// description of a container.
func (v Value) Any() any {
	switch v.kind {
	case Bool:
		return v.num != 0
	case Int:
		return v.num
	case Float:
		return v.real
	case String:
		return strconv.Quote(v.text)
	case List:
		return fmt.Sprintf("list of %d", len(v.list))
	case Dict:
		return fmt.Sprintf("object of %d keys", v.dict.Len())
	}
	return "null"
}

// An Object is a JSON object. Of equal keys the last counts, as in Python.
type Object struct {
	keys   []string
	values map[string]Value
}

// Get returns the value at key. Null is a value: ok is true for it.
func (o *Object) Get(key string) (v Value, ok bool) {
	if o == nil {
		return Value{}, false
	}
	v, ok = o.values[key]
	return v, ok
}

// Len is the number of distinct keys.
func (o *Object) Len() int {
	if o == nil {
		return 0
	}
	return len(o.keys)
}

// Keys are the distinct keys in the order of their first appearance.
func (o *Object) Keys() []string {
	if o == nil {
		return nil
	}
	return o.keys
}

// NewObject returns an object of keys and values given in turn; for wrapping and tests.
func NewObject() *Object { return &Object{values: map[string]Value{}} }

// Set stores v at key.
func (o *Object) Set(key string, v Value) {
	if _, seen := o.values[key]; !seen {
		o.keys = append(o.keys, key)
	}
	o.values[key] = v
}

// Limits on an untrusted file.
const (
	MaxBytes    = 1 << 20 // of a config.json
	maxDepth    = 64      // nested arrays and objects
	maxElements = 1 << 17 // values of one file
)

// Parse reads one JSON object as Python's json module does: NaN and Infinity are numbers,
// of equal keys the last counts. It returns the paths of keys that were given more than
// once. The error is a [*problem.Error] with code unreadable that says where.
func Parse(data []byte) (obj *Object, duplicates []string, err error) {
	if len(data) > MaxBytes {
		return nil, nil, problem.New(problem.Unreadable, "", nil, "config of %d bytes exceeds the cap of %d", len(data), MaxBytes)
	}
	p := parser{data: bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))}
	v := p.value(0)
	p.space()
	if p.err == nil && p.pos < len(p.data) {
		p.fail("text after the end of the object")
	}
	if p.err == nil && v.kind != Dict {
		p.pos = 0
		p.fail("not a JSON object")
	}
	if p.err != nil {
		return nil, nil, p.err
	}
	return v.dict, p.duplicates, nil
}

type parser struct {
	data       []byte
	pos        int
	elements   int
	path       []string
	duplicates []string
	err        error
}

// fail records the first error with its line and column; the parser then runs out.
func (p *parser) fail(format string, args ...any) Value {
	if p.err == nil {
		before := p.data[:min(p.pos, len(p.data))]
		line := 1 + bytes.Count(before, []byte{'\n'})
		column := len(before) - bytes.LastIndexByte(before, '\n')
		p.err = problem.New(problem.Unreadable, "", nil, "line %d, column %d: %s", line, column, fmt.Sprintf(format, args...))
	}
	return Value{}
}

func (p *parser) space() {
	for p.pos < len(p.data) {
		switch p.data[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

// next skips space and reports the byte there, 0 at the end.
func (p *parser) next() byte {
	p.space()
	if p.err != nil || p.pos >= len(p.data) {
		return 0
	}
	return p.data[p.pos]
}

func (p *parser) word(w string) bool {
	if bytes.HasPrefix(p.data[p.pos:], []byte(w)) {
		p.pos += len(w)
		return true
	}
	return false
}

func (p *parser) value(depth int) Value {
	c := p.next()
	if p.elements++; p.elements > maxElements {
		return p.fail("more than %d values", maxElements)
	}
	if depth > maxDepth {
		return p.fail("nested deeper than %d", maxDepth)
	}
	switch {
	case p.err != nil:
		return Value{}
	case c == 0:
		return p.fail("ends early")
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		return Value{kind: String, text: p.text()}
	case p.word("true"):
		return Value{kind: Bool, num: 1}
	case p.word("false"):
		return Value{kind: Bool}
	case p.word("null"):
		return Value{}
	case p.word("NaN"):
		return Value{kind: Float, real: math.NaN()}
	case p.word("Infinity"):
		return Value{kind: Float, real: math.Inf(1)}
	case p.word("-Infinity"):
		return Value{kind: Float, real: math.Inf(-1)}
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	return p.fail("unexpected %q", c)
}

func (p *parser) object(depth int) Value {
	p.pos++ // {
	obj := NewObject()
	if p.next() == '}' {
		p.pos++
		return Value{kind: Dict, dict: obj}
	}
	for p.err == nil {
		if p.next() != '"' {
			return p.fail("a key must be a string")
		}
		key := p.text()
		if p.next() != ':' {
			return p.fail("no colon after key %.40q", key)
		}
		p.pos++
		p.path = append(p.path, key)
		v := p.value(depth + 1)
		if _, seen := obj.values[key]; seen && len(p.duplicates) < 16 {
			p.duplicates = append(p.duplicates, joinPath(p.path))
		}
		p.path = p.path[:len(p.path)-1]
		obj.Set(key, v)
		switch p.next() {
		case ',':
			p.pos++
		case '}':
			p.pos++
			return Value{kind: Dict, dict: obj}
		default:
			return p.fail("no comma or brace after the value of %.40q", key)
		}
	}
	return Value{}
}

func joinPath(path []string) string {
	out := path[0]
	for _, key := range path[1:] {
		out += "." + key
	}
	return out
}

func (p *parser) array(depth int) Value {
	p.pos++ // [
	list := []Value{}
	if p.next() == ']' {
		p.pos++
		return Value{kind: List, list: list}
	}
	for p.err == nil {
		list = append(list, p.value(depth+1))
		switch p.next() {
		case ',':
			p.pos++
		case ']':
			p.pos++
			return Value{kind: List, list: list}
		default:
			return p.fail("no comma or bracket after an element")
		}
	}
	return Value{}
}

func (p *parser) number() Value {
	start := p.pos
	whole := true
	for p.pos < len(p.data) {
		c := p.data[p.pos]
		if c == '.' || c == 'e' || c == 'E' {
			whole = false
		} else if !(c >= '0' && c <= '9' || c == '-' || c == '+') {
			break
		}
		p.pos++
	}
	lit := string(p.data[start:p.pos])
	if !validNumber(lit) {
		p.pos = start
		return p.fail("%.40q is not a number", lit)
	}
	if whole {
		if n, err := strconv.ParseInt(lit, 10, 64); err == nil {
			return Value{kind: Int, num: n}
		}
	}
	x, err := strconv.ParseFloat(lit, 64)
	if err != nil && !math.IsInf(x, 0) {
		p.pos = start
		return p.fail("%.40q is not a number", lit)
	}
	return Value{kind: Float, real: x}
}

// validNumber holds JSON's grammar: no leading zero, no plus, digits around a point.
func validNumber(s string) bool {
	digits := func() bool {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		s = s[n:]
		return n > 0
	}
	if s != "" && s[0] == '-' {
		s = s[1:]
	}
	if len(s) > 1 && s[0] == '0' && s[1] >= '0' && s[1] <= '9' || !digits() {
		return false
	}
	if s != "" && s[0] == '.' {
		if s = s[1:]; !digits() {
			return false
		}
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		if s = s[1:]; s != "" && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		if !digits() {
			return false
		}
	}
	return s == ""
}

// text reads a string; p.pos is at its opening quote.
func (p *parser) text() string {
	p.pos++
	start := p.pos
	for p.pos < len(p.data) && p.data[p.pos] != '"' && p.data[p.pos] != '\\' && p.data[p.pos] >= ' ' {
		p.pos++
	}
	if p.pos < len(p.data) && p.data[p.pos] == '"' {
		s := string(p.data[start:p.pos])
		p.pos++
		if !utf8.ValidString(s) {
			p.fail("a string is not UTF-8")
		}
		return s
	}
	return p.escaped(start)
}

// escaped reads the rest of a string that holds escapes.
func (p *parser) escaped(start int) string {
	out := append([]byte(nil), p.data[start:p.pos]...)
	for p.pos < len(p.data) {
		c := p.data[p.pos]
		p.pos++
		switch {
		case c == '"':
			if !utf8.Valid(out) {
				p.fail("a string is not UTF-8")
			}
			return string(out)
		case c < ' ':
			p.fail("control character in a string")
			return ""
		case c != '\\':
			out = append(out, c)
		default:
			r, ok := p.escape()
			if !ok {
				p.fail("bad escape in a string")
				return ""
			}
			out = utf8.AppendRune(out, r)
		}
	}
	p.fail("a string has no end")
	return ""
}

// escape reads what follows a backslash.
func (p *parser) escape() (rune, bool) {
	if p.pos >= len(p.data) {
		return 0, false
	}
	c := p.data[p.pos]
	p.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'u':
		r, ok := p.hex4()
		if ok && utf16.IsSurrogate(r) && bytes.HasPrefix(p.data[p.pos:], []byte(`\u`)) {
			mark := p.pos
			p.pos += 2
			low, lowOK := p.hex4()
			if pair := utf16.DecodeRune(r, low); lowOK && pair != utf8.RuneError {
				return pair, true
			}
			p.pos = mark
		}
		return r, ok
	}
	return 0, false
}

func (p *parser) hex4() (rune, bool) {
	if p.pos+4 > len(p.data) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(p.data[p.pos:p.pos+4]), 16, 16)
	p.pos += 4
	return rune(n), err == nil
}
