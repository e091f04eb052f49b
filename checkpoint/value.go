package checkpoint

import (
	"fmt"
	"math"
	"strconv"
)

// Kind is the kind of a JSON value.
type Kind uint8

// The kinds. JSON has one kind of number; Python, and so every engine, has two.
const (
	Null   Kind = iota
	Bool        // true, false
	Int         // a number without fraction or exponent that fits int64
	Float       // any other number, and Python's NaN, Infinity and -Infinity
	String      // text
	List        // an array
	Dict        // an object
)

// A Value is one JSON value. The zero Value is null.
type Value struct {
	kind Kind
	bits uint64  // Int: as int64; Float: IEEE 754 bits; Bool: 0 or 1
	text string  // String; Float: the digits of an integer beyond int64, as written
	node *Object // Dict: the object; List: its elements, as an object without keys
}

// NewBool returns true or false.
func NewBool(b bool) Value {
	if b {
		return Value{kind: Bool, bits: 1}
	}
	return Value{kind: Bool}
}

// NewInt returns an integer.
func NewInt(n int64) Value { return Value{kind: Int, bits: uint64(n)} }

// NewFloat returns a number that Python holds as a float, also when it is whole.
func NewFloat(x float64) Value { return Value{kind: Float, bits: math.Float64bits(x)} }

// NewText returns a string.
func NewText(s string) Value { return Value{kind: String, text: s} }

// NewList returns an array. It keeps the elements, which must not change afterwards.
func NewList(elements ...Value) Value {
	return Value{kind: List, node: &Object{values: elements}}
}

// NewDict returns an object as a value; null for nil.
func NewDict(o *Object) Value {
	if o == nil {
		return Value{}
	}
	return Value{kind: Dict, node: o}
}

// Kind tells what the value is.
func (v Value) Kind() Kind { return v.kind }

// Int returns an integer, also one written as a whole float such as 8.0, below 2^53 where
// a float still holds every integer.
func (v Value) Int() (int64, bool) {
	switch v.kind {
	case Int:
		return int64(v.bits), true
	case Float:
		if x := math.Float64frombits(v.bits); x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			return int64(x), true
		}
	}
	return 0, false
}

// Float returns any number.
func (v Value) Float() (float64, bool) {
	switch v.kind {
	case Int:
		return float64(int64(v.bits)), true
	case Float:
		return math.Float64frombits(v.bits), true
	}
	return 0, false
}

// Bool returns true or false as such.
func (v Value) Bool() (b, ok bool) { return v.kind == Bool && v.bits != 0, v.kind == Bool }

// Text returns a string.
func (v Value) Text() (string, bool) {
	if v.kind != String {
		return "", false
	}
	return v.text, true
}

// List returns the elements of an array, nil for anything else. They must not be changed.
func (v Value) List() []Value {
	if v.kind != List {
		return nil
	}
	return v.node.values
}

// Dict returns an object, nil for anything else. A nil *Object reads as empty.
func (v Value) Dict() *Object {
	if v.kind != Dict {
		return nil
	}
	return v.node
}

// Any returns the value for an error message: a number, quoted string, bool, "null", or a
// short description of a container. Numbers that JSON cannot hold come as text.
func (v Value) Any() any {
	switch v.kind {
	case Bool:
		return v.bits != 0
	case Int:
		return int64(v.bits)
	case Float:
		if x := math.Float64frombits(v.bits); v.text == "" && !math.IsNaN(x) && !math.IsInf(x, 0) {
			return x
		}
		return string(v.AppendJSON(nil))
	case String:
		return strconv.Quote(v.text)
	case List:
		return fmt.Sprintf("list of %d", len(v.node.values))
	case Dict:
		return fmt.Sprintf("object of %d keys", v.node.Len())
	}
	return "null"
}

// An Object is a JSON object: keys in the order of their first appearance, of equal keys
// the last value, as in Python. The zero Object is empty. Reading is safe for concurrent
// use, Set is not.
type Object struct {
	keys   []string
	values []Value          // one for each key; a List has these alone
	index  map[string]int32 // position of each key, once there are more than scanned
	read   []bool           // whether each key was looked up; nil unless recorded
}

// scanned is how many keys are looked up by comparing each; a map is slower below it.
const scanned = 16

// NewObject returns an empty object.
func NewObject() *Object { return &Object{} }

// find returns the position of key among keys, -1 if it is not there.
func find(keys []string, index map[string]int32, key string) int {
	if index != nil {
		if i, ok := index[key]; ok {
			return int(i)
		}
		return -1
	}
	for i, k := range keys {
		if k == key {
			return i
		}
	}
	return -1
}

// grow returns the index of keys after the last of them was added.
func grow(keys []string, index map[string]int32) map[string]int32 {
	switch n := len(keys); {
	case index != nil:
		index[keys[n-1]] = int32(n - 1)
	case n > scanned:
		index = make(map[string]int32, 2*n)
		for i, key := range keys {
			index[key] = int32(i)
		}
	}
	return index
}

// Get returns the value at key. Null is a value: ok is true for it.
func (o *Object) Get(key string) (v Value, ok bool) {
	if o == nil {
		return Value{}, false
	}
	i := find(o.keys, o.index, key)
	if i < 0 {
		return Value{}, false
	}
	if o.read != nil {
		o.read[i] = true
	}
	return o.values[i], true
}

// Text is the string at key, "" when there is none.
func (o *Object) Text(key string) string {
	v, _ := o.Get(key)
	s, _ := v.Text()
	return s
}

// Dict is the object at key, nil when there is none.
func (o *Object) Dict(key string) *Object {
	v, _ := o.Get(key)
	return v.Dict()
}

// FirstInt is the value of the first of the keys that holds a whole number, 0 when none does.
func (o *Object) FirstInt(keys ...string) int64 {
	for _, key := range keys {
		v, _ := o.Get(key)
		if n, ok := v.Int(); ok {
			return n
		}
	}
	return 0
}

// Pair reads a list of two positive whole numbers.
func (o *Object) Pair(key string) (a, b int64, ok bool) {
	v, _ := o.Get(key)
	list := v.List()
	if len(list) != 2 {
		return 0, 0, false
	}
	a, _ = list[0].Int()
	b, _ = list[1].Int()
	return a, b, a > 0 && b > 0
}

// Len is the number of distinct keys.
func (o *Object) Len() int {
	if o == nil {
		return 0
	}
	return len(o.keys)
}

// Keys are the distinct keys in the order of their first appearance. They must not be
// changed.
func (o *Object) Keys() []string {
	if o == nil {
		return nil
	}
	return o.keys
}

// Set stores v at key, in place of what is there.
func (o *Object) Set(key string, v Value) {
	if i := find(o.keys, o.index, key); i >= 0 {
		o.values[i] = v
		return
	}
	o.keys = append(o.keys, key)
	o.values = append(o.values, v)
	o.index = grow(o.keys, o.index)
}
