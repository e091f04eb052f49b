// Package strict reads JSON that people write: a field that does not exist is an error which
// names the nearest one, and every error is a [*problem.Error] that names the field.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"

	"headcount/problem"
)

// Decode reads one JSON value of at most limit bytes into v, a pointer to a struct; what
// names it in messages: "request".
func Decode(data []byte, v any, what string, limit int) error {
	if len(data) > limit {
		return problem.New(problem.Unreadable, "", nil, "%s of %d bytes exceeds the cap of %d", what, len(data), limit)
	}
	dec := json.NewDecoder(bytes.NewReader(WithNumbers(data)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return decodeError(err, reflect.TypeOf(v).Elem(), what)
	}
	if _, err := dec.Token(); err != io.EOF {
		return problem.New(problem.Unreadable, "", nil, "text after the end of the %s", what)
	}
	return nil
}

// Python's Infinity, and a number of as many letters that is as large.
const infinity, number = "Infinity", "1e999999"

// WithNumbers is JSON in which Infinity, which Python writes into configs, is a number of as
// many letters that Python and package checkpoint read as the same.
func WithNumbers(data []byte) []byte {
	if !bytes.Contains(data, []byte(infinity)) {
		return data
	}
	out := bytes.Clone(data)
	quoted := false
	for i := 0; i < len(out); i++ {
		switch {
		case quoted && out[i] == '\\':
			i++
		case out[i] == '"':
			quoted = !quoted
		case !quoted && bytes.HasPrefix(out[i:], []byte(infinity)):
			copy(out[i:], number)
		}
	}
	return out
}

// decodeError puts the decoder's words into ours.
func decodeError(err error, typ reflect.Type, what string) *problem.Error {
	if e, ok := errors.AsType[*problem.Error](problem.Within("accelerator", err)); ok { // which reads itself
		return e
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		return problem.New(problem.BadValue, spelled(e.Field), nil, "a JSON %s, want %s", strings.Replace(e.Value, number, infinity, 1), jsonKind(e.Type.Kind().String()))
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return problem.New(problem.Unreadable, "", nil, "byte %d: %s", e.Offset, strings.TrimPrefix(e.Error(), "json: "))
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		name = strings.Trim(name, `"`)
		p := problem.New(problem.BadValue, name, nil, "not a field of a %s", what)
		if near := problem.Nearest(name, fields(typ, nil), 1); len(near) > 0 {
			p.Hint = "did you mean " + near[0] + "?"
		}
		return p
	}
	return problem.New(problem.Unreadable, "", nil, "not a JSON object")
}

// spelled is a decoder's path as JSON has it: a struct that Go embeds is no part of it. Our
// names in JSON begin with no capital.
func spelled(path string) string {
	parts := strings.Split(path, ".")
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part != "" && part[0] >= 'A' && part[0] <= 'Z' }), ".")
}

// jsonKind names a Go kind as JSON does.
func jsonKind(kind string) string {
	switch {
	case strings.HasPrefix(kind, "int"):
		return "a whole number"
	case strings.HasPrefix(kind, "float"):
		return "a number"
	case kind == "bool", kind == "ptr":
		return "true or false"
	case kind == "struct", kind == "map":
		return "an object"
	case kind == "slice":
		return "a list"
	}
	return "a string"
}

// fields are the JSON names of a struct and of those that it lists, for a hint.
func fields(typ reflect.Type, names []string) []string {
	for _, f := range reflect.VisibleFields(typ) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		names = append(names, name)
		if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct {
			names = fields(f.Type.Elem(), names)
		}
	}
	return names
}
