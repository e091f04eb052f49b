package checkpoint

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"headcount/problem"
)

// Limits on an untrusted file.
const (
	MaxBytes      = 1 << 20 // of a config.json
	maxDepth      = 64      // nested arrays and objects
	maxElements   = 1 << 17 // values of one file
	maxDigits     = 4300    // of an integer, CPython's own limit (sys.get_int_max_str_digits)
	maxDuplicates = 16      // paths that are reported
)

// Parse reads one JSON object as Python's json module does: NaN and Infinity are numbers,
// of equal keys the last counts, a number too large for a float is infinite. A lone
// surrogate reads as U+FFFD, and a byte order mark is skipped. It returns the paths of
// keys that were given more than once, "text_config.head_dim". The error is a
// [*problem.Error] with code unreadable that says where.
func Parse(data []byte) (obj *Object, duplicates []string, err error) {
	if err := foreign(data); err != nil {
		return nil, nil, err
	}
	if len(data) > MaxBytes {
		return nil, nil, problem.New(problem.Unreadable, "", nil, "larger than %d bytes", MaxBytes)
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	p := parser{data: text, keys: make([]string, 0, 64), values: make([]Value, 0, 64)}
	v := p.document()
	if p.err == nil && v.kind != Dict {
		p.pos = 0
		p.fail("%s is not an object", kindNames[v.kind])
	}
	if p.err != nil {
		return nil, nil, p.err
	}
	return v.node, p.duplicates, nil
}

var kindNames = [...]string{Null: "null", Bool: "a bool", Int: "a number", Float: "a number", String: "a string", List: "a list", Dict: "an object"}

// foreign recognises what often lies where a JSON file should.
func foreign(data []byte) error {
	text := bytes.TrimLeft(data, " \t\r\n")
	begins := func(prefix string) bool { return bytes.HasPrefix(text, []byte(prefix)) }
	what, hint := "", ""
	switch {
	case len(text) == 0:
		what, hint = "empty", "the file may not have been downloaded in full"
	case begins("<"):
		what, hint = "an HTML or XML page", "download the file itself (on the hub: resolve, not blob), with a token if the model is gated"
	case begins("version https://git-lfs"):
		what, hint = "a Git LFS pointer", "fetch the file itself with git lfs pull"
	case begins("GGUF"):
		what, hint = "a GGUF file", "name the file by its path"
	case begins("PK\x03\x04"):
		what, hint = "a PyTorch file or another archive", "name the folder or the config.json"
	case len(data) > 8 && data[7] == 0 && data[8] == '{':
		what, hint = "a safetensors file", "name the folder that it is in"
	case begins("\xff\xfe") || begins("\xfe\xff"):
		what, hint = "UTF-16 text", "save the file as UTF-8"
	default:
		return nil
	}
	return problem.New(problem.Unreadable, "", nil, "%s, not JSON", what).WithHint("%s", hint)
}

// A parser reads one document. Strings are parts of data, not copies; values of open
// containers wait on a stack and move to a slab of the right size when theirs closes.
type parser struct {
	data       string
	pos        int
	elements   int
	duplicates []string
	err        *problem.Error

	keys   []string // of open objects
	values []Value  // of open objects and arrays

	keySlab   []string
	valueSlab []Value
	nodeSlab  []Object
}

// firstInvalid is the position of the first byte that is not UTF-8, -1 if there is none.
func firstInvalid(s string) int {
	if utf8.ValidString(s) {
		return -1
	}
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") {
			return i
		}
	}
	return -1
}

// fail records the first error with its line and column; the parser then runs out.
func (p *parser) fail(format string, args ...any) Value {
	if p.err == nil {
		before := p.data[:min(p.pos, len(p.data))]
		line := 1 + strings.Count(before, "\n")
		column := len(before) - strings.LastIndexByte(before, '\n')
		p.err = problem.New(problem.Unreadable, "", nil, "line %d, column %d: %s", line, column, fmt.Sprintf(format, args...))
	}
	return Value{}
}

// document reads the only value there is.
func (p *parser) document() Value {
	if bad := firstInvalid(p.data); bad >= 0 {
		p.pos = bad
		return p.fail("not UTF-8")
	}
	v := p.value(0)
	p.end()
	return v
}

// end holds that nothing but space follows.
func (p *parser) end() {
	if p.space(); p.err == nil && p.pos < len(p.data) {
		p.fail("text after the end")
	}
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

// next skips space and reports the byte there, 0 at the end or after an error.
func (p *parser) next() byte {
	p.space()
	if p.err != nil || p.pos >= len(p.data) {
		return 0
	}
	return p.data[p.pos]
}

// unexpected reports the character at p.pos where want should be.
func (p *parser) unexpected(want string) Value {
	if p.pos >= len(p.data) {
		return p.fail("ends where %s should be", want)
	}
	r, _ := utf8.DecodeRuneInString(p.data[p.pos:])
	return p.fail("%q where %s should be", r, want)
}

// word reads w, which stands for v.
func (p *parser) word(w string, v Value) Value {
	if !strings.HasPrefix(p.data[p.pos:], w) {
		return p.unexpected("a value")
	}
	p.pos += len(w)
	return v
}

func (p *parser) value(depth int) Value {
	c := p.next()
	if p.elements++; p.elements > maxElements {
		return p.fail("more than %d values", maxElements)
	}
	switch c {
	case '{':
		return p.object(depth + 1)
	case '[':
		return p.array(depth + 1)
	case '"':
		return Value{kind: String, text: p.text()}
	case 't':
		return p.word("true", NewBool(true))
	case 'f':
		return p.word("false", NewBool(false))
	case 'n':
		return p.word("null", Value{})
	case 'N':
		return p.word("NaN", NewFloat(math.NaN()))
	case 'I':
		return p.word("Infinity", NewFloat(math.Inf(1)))
	case '-':
		if strings.HasPrefix(p.data[p.pos:], "-I") {
			return p.word("-Infinity", NewFloat(math.Inf(-1)))
		}
		return p.number()
	case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return p.number()
	}
	return p.unexpected("a value")
}

// object reads an object; p.pos is at its brace.
func (p *parser) object(depth int) Value {
	if depth > maxDepth {
		return p.fail("nested deeper than %d", maxDepth)
	}
	firstKey, firstValue := len(p.keys), len(p.values)
	var index map[string]int32
	for more := p.open('}'); more; more = p.more('}') {
		key := p.key()
		known := len(p.duplicates)
		v := p.value(depth)
		p.prefix(known, key)
		if i := find(p.keys[firstKey:], index, key); i >= 0 {
			p.values[firstValue+i] = v
			p.duplicate(key)
			continue
		}
		p.keys = append(p.keys, key)
		p.values = append(p.values, v)
		index = grow(p.keys[firstKey:], index)
	}
	if p.err != nil {
		return Value{}
	}
	o := p.node()
	o.keys = take(&p.keySlab, p.keys[firstKey:])
	o.values = take(&p.valueSlab, p.values[firstValue:])
	o.index = index
	p.keys, p.values = p.keys[:firstKey], p.values[:firstValue]
	return Value{kind: Dict, node: o}
}

// key reads a key and its colon.
func (p *parser) key() string {
	if p.next() != '"' {
		p.unexpected("a key in double quotes")
		return ""
	}
	key := p.text()
	if p.next() != ':' {
		p.unexpected("a colon")
		return ""
	}
	p.pos++
	return key
}

// array reads an array; p.pos is at its bracket.
func (p *parser) array(depth int) Value {
	if depth > maxDepth {
		return p.fail("nested deeper than %d", maxDepth)
	}
	first := len(p.values)
	for more := p.open(']'); more; more = p.more(']') {
		known := len(p.duplicates)
		v := p.value(depth)
		if known < len(p.duplicates) {
			p.prefix(known, fmt.Sprintf("[%d]", len(p.values)-first))
		}
		p.values = append(p.values, v)
	}
	if p.err != nil {
		return Value{}
	}
	o := p.node()
	o.values = take(&p.valueSlab, p.values[first:])
	p.values = p.values[:first]
	return Value{kind: List, node: o}
}

// open passes the opening bracket and reports whether anything comes before the closing
// one, which it passes too.
func (p *parser) open(closing byte) bool {
	p.pos++
	if p.next() == closing {
		p.pos++
		return false
	}
	return p.err == nil
}

// more passes a comma, after which something must come, or the closing bracket.
func (p *parser) more(closing byte) bool {
	switch p.next() {
	case ',':
		p.pos++
		if p.next() == closing {
			p.fail("a comma before %q", closing)
		}
		return p.err == nil
	case closing:
		p.pos++
		return false
	}
	p.unexpected(fmt.Sprintf("a comma or %q", closing))
	return false
}

// duplicate notes a key that came before, within the innermost open container.
func (p *parser) duplicate(key string) {
	if len(p.duplicates) < maxDuplicates {
		p.duplicates = append(p.duplicates, pathElement(key))
	}
}

// prefix puts before the paths noted since known the key or "[index]" that holds them.
func (p *parser) prefix(known int, key string) {
	for i := known; i < len(p.duplicates); i++ {
		inner := p.duplicates[i]
		if !strings.HasPrefix(inner, "[") {
			inner = "." + inner
		}
		p.duplicates[i] = pathElement(key) + inner
	}
}

// pathElement is a key as it stands in a path: short and printable.
func pathElement(key string) string {
	if len(key) > 60 {
		key = strings.ToValidUTF8(key[:60], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '\ufffd'
		}
		return r
	}, key)
}

// take copies items to the end of a slab and returns that part of it, full.
func take[T any](slab *[]T, items []T) []T {
	n := len(items)
	if n == 0 {
		return nil
	}
	if cap(*slab)-len(*slab) < n {
		*slab = make([]T, 0, max(n, 32))
	}
	start := len(*slab)
	*slab = append(*slab, items...)
	return (*slab)[start : start+n : start+n]
}

// node returns a new Object.
func (p *parser) node() *Object {
	if len(p.nodeSlab) == 0 {
		p.nodeSlab = make([]Object, 8)
	}
	o := &p.nodeSlab[0]
	p.nodeSlab = p.nodeSlab[1:]
	return o
}

// digits passes a run of digits and returns how many there were.
func (p *parser) digits() int {
	start := p.pos
	for p.pos < len(p.data) && p.data[p.pos]-'0' <= 9 {
		p.pos++
	}
	return p.pos - start
}

// number reads a number in JSON's grammar: no leading zero or plus, digits on both sides
// of a point.
func (p *parser) number() Value {
	start := p.pos
	if p.data[p.pos] == '-' {
		p.pos++
	}
	leadingZero := strings.HasPrefix(p.data[p.pos:], "0")
	n := p.digits()
	if n == 0 {
		return p.unexpected("a digit")
	}
	if leadingZero && n > 1 {
		p.pos = start
		return p.fail("a number with a leading zero")
	}
	whole := true
	if strings.HasPrefix(p.data[p.pos:], ".") {
		whole = false
		p.pos++
		if p.digits() == 0 {
			return p.unexpected("a digit")
		}
	}
	if p.pos < len(p.data) && p.data[p.pos]|0x20 == 'e' {
		whole = false
		p.pos++
		if p.pos < len(p.data) && (p.data[p.pos] == '+' || p.data[p.pos] == '-') {
			p.pos++
		}
		if p.digits() == 0 {
			return p.unexpected("a digit")
		}
	}
	literal := p.data[start:p.pos]
	if !whole {
		x, _ := strconv.ParseFloat(literal, 64) // out of range is ±Inf, as in Python
		return NewFloat(x)
	}
	if i, err := strconv.ParseInt(literal, 10, 64); err == nil {
		return NewInt(i)
	}
	if n > maxDigits {
		p.pos = start
		return p.fail("an integer of more than %d digits", maxDigits)
	}
	x, _ := strconv.ParseFloat(literal, 64)
	v := NewFloat(x)
	v.text = literal
	return v
}

// text reads a string; p.pos is at its opening quote.
func (p *parser) text() string {
	p.pos++
	start := p.pos
	for p.pos < len(p.data) {
		switch c := p.data[p.pos]; {
		case c == '"':
			p.pos++
			return p.data[start : p.pos-1]
		case c == '\\':
			return p.escaped(start)
		case c < ' ':
			p.fail("a control character in a string")
			return ""
		}
		p.pos++
	}
	p.fail("a string has no end")
	return ""
}

// escaped reads the rest of a string that began at start; p.pos is at its first backslash.
func (p *parser) escaped(start int) string {
	out := []byte(p.data[start:p.pos])
	for p.pos < len(p.data) {
		switch c := p.data[p.pos]; {
		case c == '"':
			p.pos++
			return string(out)
		case c < ' ':
			p.fail("a control character in a string")
			return ""
		case c != '\\':
			out = append(out, c)
			p.pos++
		default:
			r, n := escape(p.data[p.pos:])
			if n == 0 {
				p.fail("a bad escape in a string")
				return ""
			}
			out = utf8.AppendRune(out, r)
			p.pos += n
		}
	}
	p.fail("a string has no end")
	return ""
}

// escape reads the escape that s begins with and its length, 0 if it is none.
func escape(s string) (r rune, n int) {
	if len(s) < 2 {
		return 0, 0
	}
	switch s[1] {
	case '"', '\\', '/':
		return rune(s[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r, n = hex4(s)
		if utf16.IsSurrogate(r) && n > 0 {
			low, m := hex4(s[n:])
			if pair := utf16.DecodeRune(r, low); m > 0 && pair != utf8.RuneError {
				return pair, n + m
			}
		}
		return r, n // utf8.AppendRune makes U+FFFD of a lone surrogate
	}
	return 0, 0
}

// hex4 reads \uXXXX at the start of s and its length, 0 if that is not there.
func hex4(s string) (r rune, n int) {
	const length = len(`\u0000`)
	if len(s) < length || s[:2] != `\u` {
		return 0, 0
	}
	for _, c := range []byte(s[2:length]) {
		switch {
		case c-'0' <= 9:
			r = r<<4 | rune(c-'0')
		case (c|0x20)-'a' <= 5:
			r = r<<4 | rune((c|0x20)-'a'+10)
		default:
			return 0, 0
		}
	}
	return r, length
}
