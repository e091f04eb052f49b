package formula

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"headcount/checkpoint"
)

// parser reads an expression by descent, one method a level of binding.
type parser struct {
	text string
	pos  int
	err  error
}

func parse(text string) (node, error) {
	p := &parser{text: text}
	n := p.ternary()
	p.space()
	if p.err == nil && p.pos < len(text) {
		p.fail("unexpected %q", text[p.pos:])
	}
	return n, p.err
}

func (p *parser) fail(format string, args ...any) node {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
		p.pos = len(p.text)
	}
	return func(*run) result { return null }
}

func (p *parser) space() {
	for p.pos < len(p.text) && p.text[p.pos] == ' ' {
		p.pos++
	}
}

// take consumes s if it is next.
func (p *parser) take(s string) bool {
	p.space()
	if strings.HasPrefix(p.text[p.pos:], s) {
		p.pos += len(s)
		return true
	}
	return false
}

// word consumes w if it is next as a whole word.
func (p *parser) word(w string) bool {
	p.space()
	rest := p.text[p.pos:]
	if !strings.HasPrefix(rest, w) || len(rest) > len(w) && isNameByte(rest[len(w)]) {
		return false
	}
	p.pos += len(w)
	return true
}

func (p *parser) want(s string) {
	if !p.take(s) {
		p.fail("no %q at %q", s, p.text[p.pos:])
	}
}

func isNameByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (p *parser) name() string {
	p.space()
	start := p.pos
	for p.pos < len(p.text) && isNameByte(p.text[p.pos]) {
		p.pos++
	}
	if start == p.pos {
		p.fail("no name at %q", p.text[start:])
	}
	return p.text[start:p.pos]
}

// ternary: value if condition else other
func (p *parser) ternary() node {
	yes := p.or()
	if !p.word("if") {
		return yes
	}
	cond := p.or()
	if !p.word("else") {
		return p.fail("if without else")
	}
	no := p.ternary()
	return func(r *run) result {
		if truth(cond(r).v) {
			return yes(r)
		}
		return no(r)
	}
}

func (p *parser) or() node {
	left := p.and()
	for p.word("or") {
		a, b := left, p.and()
		left = func(r *run) result {
			if x := a(r); truth(x.v) {
				return x
			}
			return b(r)
		}
	}
	return left
}

func (p *parser) and() node {
	left := p.not()
	for p.word("and") {
		a, b := left, p.not()
		left = func(r *run) result {
			if x := a(r); !truth(x.v) {
				return x
			}
			return b(r)
		}
	}
	return left
}

func (p *parser) not() node {
	if p.word("not") {
		x := p.not()
		return func(r *run) result { return boolean(!truth(x(r).v)) }
	}
	return p.comparison()
}

// comparison: one operator, not Python's chains.
func (p *parser) comparison() node {
	left := p.sum()
	var op func(*run, checkpoint.Value, checkpoint.Value) result
	switch {
	case p.take("!="), p.wordThen("is", "not"):
		op = func(r *run, a, b checkpoint.Value) result { return boolean(!r.equal(a, b)) }
	case p.take("=="), p.word("is"):
		op = func(r *run, a, b checkpoint.Value) result { return boolean(r.equal(a, b)) }
	case p.take("<="):
		op = func(r *run, a, b checkpoint.Value) result { return boolean(compare(r, a, b) <= 0) }
	case p.take(">="):
		op = func(r *run, a, b checkpoint.Value) result { return boolean(compare(r, a, b) >= 0) }
	case p.take("<"):
		op = func(r *run, a, b checkpoint.Value) result { return boolean(compare(r, a, b) < 0) }
	case p.take(">"):
		op = func(r *run, a, b checkpoint.Value) result { return boolean(compare(r, a, b) > 0) }
	case p.word("in"):
		op = func(r *run, a, b checkpoint.Value) result { return boolean(contains(r, b, a)) }
	case p.wordThen("not", "in"):
		op = func(r *run, a, b checkpoint.Value) result { return boolean(!contains(r, b, a)) }
	default:
		return left
	}
	right := p.sum()
	return func(r *run) result { return op(r, left(r).v, right(r).v) }
}

// wordThen consumes both words or neither.
func (p *parser) wordThen(first, second string) bool {
	mark := p.pos
	if p.word(first) && p.word(second) {
		return true
	}
	p.pos = mark
	return false
}

func (p *parser) sum() node {
	left := p.product()
	for {
		var op func(*run, checkpoint.Value, checkpoint.Value) result
		switch {
		case p.take("+"):
			op = add
		case p.take("-"):
			op = subtract
		default:
			return left
		}
		a, b := left, p.product()
		left = func(r *run) result { return op(r, a(r).v, b(r).v) }
	}
}

func (p *parser) product() node {
	left := p.unary()
	for {
		var op func(*run, checkpoint.Value, checkpoint.Value) result
		switch p.space(); {
		case strings.HasPrefix(p.text[p.pos:], "**"):
			return left
		case p.take("*"):
			op = multiply
		case p.take("//"):
			op = floorDivide
		case p.take("/"):
			op = divide
		case p.take("%"):
			op = modulo
		default:
			return left
		}
		a, b := left, p.unary()
		left = func(r *run) result { return op(r, a(r).v, b(r).v) }
	}
}

func (p *parser) unary() node {
	if p.take("-") {
		x := p.unary()
		return func(r *run) result { return subtract(r, checkpoint.NewInt(0), x(r).v) }
	}
	base := p.postfix()
	if p.take("**") {
		exponent := p.unary()
		return func(r *run) result { return power(r, base(r).v, exponent(r).v) }
	}
	return base
}

// postfix: name.attr, value[index], value[from:to]
func (p *parser) postfix() node {
	n := p.atom()
	for {
		switch {
		case p.take("["):
			n = p.subscript(n)
		case p.pos < len(p.text) && p.text[p.pos] == '.':
			p.pos++
			of, attr := n, p.name()
			n = func(r *run) result {
				v, ok := of(r).v.Dict().Get(attr)
				return result{v: v, missing: !ok}
			}
		default:
			return n
		}
	}
}

func (p *parser) subscript(of node) node {
	var low, high node
	if !p.take(":") {
		low = p.ternary()
		if p.take("]") {
			at := low
			return func(r *run) result { return index(r, of(r).v, at(r).v) }
		}
		p.want(":")
	}
	if !p.take("]") {
		high = p.ternary()
		p.want("]")
	}
	return func(r *run) result { return slice(r, of(r).v, low, high) }
}

func (p *parser) atom() node {
	p.space()
	if p.pos >= len(p.text) {
		return p.fail("ends early")
	}
	switch c := p.text[p.pos]; {
	case c == '(':
		p.pos++
		n := p.ternary()
		p.want(")")
		return n
	case c == '[':
		p.pos++
		return p.list()
	case c == '{':
		p.pos++
		return p.dict()
	case c == '\'' || c == '"':
		s := p.quoted(c)
		return constant(checkpoint.NewText(s))
	case c >= '0' && c <= '9':
		return p.number()
	case !isNameByte(c):
		return p.fail("unexpected %q", p.text[p.pos:])
	}
	name := p.name()
	switch name {
	case "None":
		return constant(checkpoint.Value{})
	case "True":
		return constant(checkpoint.NewBool(true))
	case "False":
		return constant(checkpoint.NewBool(false))
	}
	if p.pos < len(p.text) && p.text[p.pos] == '(' {
		p.pos++
		return p.call(name)
	}
	if p.pos < len(p.text) && p.text[p.pos] == '.' && isNestedConfig(name) {
		p.pos++
		attr := p.name()
		return func(r *run) result {
			v, ok := r.env.Sub(name, attr)
			return result{v: v, missing: !ok}
		}
	}
	return func(r *run) result {
		if !r.step() {
			return null
		}
		return r.lookup(name)
	}
}

// isNestedConfig: attributes of a nested config come from its own class, not from the file.
func isNestedConfig(name string) bool { return !strings.HasPrefix(name, "_") }

func (p *parser) quoted(quote byte) string {
	p.pos++
	var b strings.Builder
	for p.pos < len(p.text) && p.text[p.pos] != quote {
		if p.text[p.pos] == '\\' {
			p.fail("escape in a string")
			return ""
		}
		b.WriteByte(p.text[p.pos])
		p.pos++
	}
	if p.pos == len(p.text) {
		p.fail("a string has no end")
		return ""
	}
	p.pos++
	return b.String()
}

func (p *parser) number() node {
	start := p.pos
	for p.pos < len(p.text) && (isNameByte(p.text[p.pos]) || p.text[p.pos] == '.' ||
		(p.text[p.pos] == '-' || p.text[p.pos] == '+') && p.text[p.pos-1] == 'e') {
		p.pos++
	}
	s := p.text[start:p.pos]
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return constant(checkpoint.NewInt(n))
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return p.fail("%q is not a number", s)
	}
	return constant(checkpoint.NewFloat(x))
}

func constant(v checkpoint.Value) node { return func(*run) result { return result{v: v} } }

// list: elements, or a comprehension; the bracket is consumed.
func (p *parser) list() node {
	var elements []node
	var spread []bool
	for !p.take("]") {
		star := p.take("*")
		elements, spread = append(elements, p.ternary()), append(spread, star)
		if len(elements) == 1 && p.word("for") {
			return p.comprehension(elements[0])
		}
		if !p.take(",") {
			p.want("]")
			break
		}
		if p.err != nil {
			break
		}
	}
	return func(r *run) result {
		out := make([]checkpoint.Value, 0, len(elements))
		for i, e := range elements {
			v := e(r).v
			if spread[i] {
				out = append(out, v.List()...)
			} else {
				out = append(out, v)
			}
		}
		return list(r, out)
	}
}

// comprehension: [element for names in values if condition]
func (p *parser) comprehension(element node) node {
	names := []string{p.name()}
	for p.take(",") {
		names = append(names, p.name())
	}
	if !p.word("in") {
		return p.fail("for without in")
	}
	values := p.or()
	var cond node
	if p.word("if") {
		cond = p.or()
	}
	p.want("]")
	return func(r *run) result {
		items := elements(r, values(r).v)
		out := make([]checkpoint.Value, 0, len(items))
		for _, item := range items {
			if !r.step() {
				return null
			}
			if len(names) == 1 {
				r.bind(names[0], item)
			} else {
				parts := item.List()
				if len(parts) != len(names) {
					return r.fail("%d names for %d values", len(names), len(parts))
				}
				for i, name := range names {
					r.bind(name, parts[i])
				}
			}
			if cond == nil || truth(cond(r).v) {
				out = append(out, element(r).v)
			}
			r.unbind(len(names))
		}
		return list(r, out)
	}
}

// dict: {'key': value, **other}; the brace is consumed.
func (p *parser) dict() node {
	var keys, values []node // a nil key spreads its value
	for !p.take("}") {
		var key node
		if !p.take("**") {
			key = p.ternary()
			p.want(":")
		}
		keys, values = append(keys, key), append(values, p.ternary())
		if !p.take(",") {
			p.want("}")
			break
		}
		if p.err != nil {
			break
		}
	}
	return func(r *run) result {
		o := checkpoint.NewObject()
		for i, value := range values {
			v := value(r).v
			if keys[i] != nil {
				o.Set(keyText(keys[i](r).v), v)
				continue
			}
			for _, k := range v.Dict().Keys() {
				inner, _ := v.Dict().Get(k)
				o.Set(k, inner)
			}
		}
		return result{v: checkpoint.NewDict(o)}
	}
}

// call parses the arguments of a function; the parenthesis is consumed.
func (p *parser) call(name string) node {
	var args []node
	for !p.take(")") {
		args = append(args, p.ternary())
		if !p.take(",") {
			p.want(")")
			break
		}
		if p.err != nil {
			break
		}
	}
	f, ok := functions[name]
	if !ok {
		return p.fail("unknown function %q", name)
	}
	if len(args) < f.min || len(args) > f.max {
		return p.fail("%s takes %d to %d arguments, not %d", name, f.min, f.max, len(args))
	}
	return func(r *run) result {
		if !r.step() {
			return null
		}
		return f.eval(r, args)
	}
}

var errOverflow = errors.New("number too large")
