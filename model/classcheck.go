package model

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"headcount/checkpoint"
	"headcount/internal/tsv"
	"headcount/problem"
)

// A refusal by a configuration class is an exception while the file is read, so whatever
// engine reads it refuses. Three things are checked, in this order, for the config and for
// those nested in it: the type of each field that the file gives
// (huggingface_hub/dataclasses.py, type_validator), the class's own conditions
// (validate_architecture), and the layer types (transformers/configuration_utils.py,
// validate_layer_type).

// classTypesTable has a line for each class that checks types, sorted: model_type, a tab,
// and "code=field,field" for each type, or "=bert" for what another line says.
// tools/facts/classes.py writes it.
//
//go:embed classtypes.tsv
var classTypesTable string

// A fieldType is a type and the fields that have it. It is a string of alternatives: i int,
// f float, s string, b bool, n null, d object, l list, l(…) list of these, c(x|y) one of
// these strings. An int is no float, a float no int.
type fieldType struct {
	code   string
	fields []string
}

// typesOf reads the types of a class; ok is false when it checks none.
func typesOf(modelType string) (types []fieldType, ok bool) {
	line, ok := tsv.Rest(classTypesTable, modelType)
	if other, same := strings.CutPrefix(line, "="); same {
		line, _ = tsv.Rest(classTypesTable, other)
	}
	return parseTypes(line), ok
}

// DeclaresNull reports whether the class of a model_type holds a field to a type and lets it
// be null all the same; false also of a class that checks no types.
func DeclaresNull(modelType, field string) bool {
	types, _ := typesOf(modelType)
	code, ok := codeOf(types, field)
	return ok && accepts(code, checkpoint.Value{})
}

// codeOf is the type to which a class holds a field; ok is false where it holds it to none.
func codeOf(types []fieldType, field string) (code string, ok bool) {
	for _, t := range types {
		if slices.Contains(t.fields, field) {
			return t.code, true
		}
	}
	return "", false
}

// parseTypes reads a line of types.
func parseTypes(line string) (types []fieldType) {
	for group := range strings.FieldsSeq(line) {
		code, fields, _ := strings.Cut(group, "=")
		types = append(types, fieldType{code, strings.Split(fields, ",")})
	}
	return types
}

// checkTypes holds the file's fields against the types that the class declares.
func (a *attributes) checkTypes() {
	a.err = a.mistyped(a.class.types)
}

// mistyped is the file's first field that is not of its type.
func (a *attributes) mistyped(types []fieldType) *problem.Error {
	for _, t := range types {
		for _, field := range t.fields {
			if v, ok := a.file.Get(field); ok && !accepts(t.code, v) {
				return problem.New(problem.BadValue, field, v.Any(), "not of the type that %s declares: %s", a.kind, describeType(t.code))
			}
		}
	}
	return nil
}

// refuse keeps the first refusal.
func (a *attributes) refuse(field string, v checkpoint.Value, format string, args ...any) {
	if a.err == nil {
		a.err = problem.New(problem.BadValue, field, v.Any(), format, args...)
	}
}

// accepts reports whether one of the alternatives of code takes v.
func accepts(code string, v checkpoint.Value) bool {
	for code != "" {
		letter := code[0]
		inner := ""
		code = code[1:]
		if strings.HasPrefix(code, "(") {
			end := closing(code)
			inner, code = code[1:end], code[end+1:]
		}
		if acceptsOne(letter, inner, v) {
			return true
		}
	}
	return false
}

// closing is the place of the parenthesis that closes the first one.
func closing(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(s) - 1
}

func acceptsOne(letter byte, inner string, v checkpoint.Value) bool {
	switch letter {
	case 'i':
		return v.Kind() == checkpoint.Int || bigInteger(v)
	case 'f':
		return v.Kind() == checkpoint.Float && !bigInteger(v)
	case 's':
		return v.Kind() == checkpoint.String
	case 'b':
		return v.Kind() == checkpoint.Bool
	case 'n':
		return v.Kind() == checkpoint.Null
	case 'd':
		return v.Kind() == checkpoint.Dict
	case 'l':
		if v.Kind() != checkpoint.List {
			return false
		}
		return inner == "" || !slices.ContainsFunc(v.List(), func(e checkpoint.Value) bool { return !accepts(inner, e) })
	case 'c':
		s, ok := v.Text()
		return ok && slices.Contains(strings.Split(inner, "|"), s)
	}
	return false
}

// bigInteger: Python's int has no bound; past int64 the file's reader keeps a float.
func bigInteger(v checkpoint.Value) bool {
	_, ok := v.Any().(string)
	return v.Kind() == checkpoint.Float && ok && !strings.ContainsAny(v.Any().(string), "NI")
}

var typeNames = map[byte]string{'i': "int", 'f': "float", 's': "str", 'b': "bool", 'n': "null", 'd': "object", 'l': "list", 'c': "one of"}

// describeType spells a code out: "int or null", "list of int".
func describeType(code string) string {
	var parts []string
	for code != "" {
		name := typeNames[code[0]]
		code = code[1:]
		if strings.HasPrefix(code, "(") {
			end := closing(code)
			inner := code[1:end]
			if name == "list" {
				inner = describeType(inner)
				name += " of"
			}
			name += " " + inner
			code = code[end+1:]
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, " or ")
}

// checkConditions evaluates the class's own conditions and the layer types.
func (a *attributes) checkConditions() {
	for _, check := range a.class.checks {
		v, ok, err := check.Eval(a)
		if b, isBool := v.Bool(); err == nil && ok && isBool && b {
			field := a.firstField(check.String())
			value, _ := a.Get(field)
			a.refuse(field, value, "%s takes no file where %s", a.kind, check)
		}
	}
	if a.class.layers {
		a.checkLayers("layer_types", layerTypes[:len(layerTypes)-2])
		a.checkOwnLayers()
	}
	if a.class.strict {
		a.checkRotaryWidth()
	}
}

// checkOwnLayers refuses fields of layers that there are not
// (transformers/integrations/heterogeneity, _validate_layer_indices).
func (a *attributes) checkOwnLayers() {
	own, _ := a.Get("per_layer_config")
	v, _ := a.Get("num_hidden_layers")
	layers, ok := v.Int()
	for _, key := range own.Dict().Keys() {
		if n, err := strconv.ParseInt(key, 10, 64); ok && err == nil && (n < 0 || n >= layers) {
			a.refuse("per_layer_config", checkpoint.Value{}, "fields of layer %d, and there are %d layers", n, layers)
		}
	}
}

// checkRotaryWidth refuses a head of odd width that is rotated whole
// (transformers/modeling_rope_utils.py, validate_rope). Heads of up to 4 are let pass, as
// are configs whose layers differ.
func (a *attributes) checkRotaryWidth() {
	params, _ := a.Get("rope_parameters")
	v, _ := a.Get("head_dim")
	width, ok := v.Int()
	if _, differs := a.Get("per_layer_config"); differs || !ok || width <= 4 || width%2 == 0 {
		return
	}
	dict := params.Dict()
	sets := []*checkpoint.Object{dict}
	if nested := a.ropeLayers(dict); len(nested) > 0 {
		sets = nil
		for _, key := range nested {
			sets = append(sets, dict.Dict(key))
		}
	}
	for _, set := range sets {
		if set.Len() == 0 {
			continue
		}
		factor := 1.0
		if v, ok := set.Get("partial_rotary_factor"); ok {
			factor, _ = v.Float()
		}
		if int64(float64(width)*factor) == width {
			a.refuse("head_dim", v, "rotary embedding needs an even width")
		}
	}
}

// firstField is the first name in a condition that is a field of the class.
func (a *attributes) firstField(condition string) string {
	for _, word := range strings.FieldsFunc(condition, func(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) }) {
		if a.class.isField(word) {
			return word
		}
	}
	return ""
}

// checkLayers holds a list of layer types against the number of layers.
func (a *attributes) checkLayers(key string, allowed []string) {
	types, ok := a.Get(key)
	layers, has := a.Get("num_hidden_layers")
	if !ok || !has || types.Kind() != checkpoint.List {
		return
	}
	for _, v := range types.List() {
		if s, _ := v.Text(); !slices.Contains(allowed, s) {
			a.refuse(key, v, "not a layer type that Transformers allows")
			return
		}
	}
	if n, isInt := layers.Int(); isInt && n != int64(len(types.List())) {
		a.refuse("num_hidden_layers", layers, "%d entries of %s", len(types.List()), key)
		return
	}
	if key == "layer_types" {
		a.checkLayers("mlp_layer_types", layerTypes[len(layerTypes)-2:])
	}
}
