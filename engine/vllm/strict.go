package vllm

import (
	_ "embed"
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/model"
	"headcount/problem"
)

// strictTable has a line for each configuration class, sorted: the types that Transformers
// holds the fields of a file to (huggingface_hub/dataclasses.py). tools/facts/strict.py
// writes it and says what a line holds.
//
//go:embed strict.tsv
var strictTable string

// checkStrict refuses a file whose fields are not of the types that its classes declare.
// Python is exact here: 8.0 and true are no int, and 1 is no float.
func checkStrict(m *model.Model) *problem.Error {
	top := m.Config.Top()
	return strictConfig(top.ModelType(), top.Raw(), "")
}

// strictConfig checks one level of a file, where path leads to, and those that it nests.
func strictConfig(kind string, o *checkpoint.Object, path string) *problem.Error {
	facts, _ := tableLine(strictTable, kind)
	free := facts == ""
	for fact := range strings.FieldsSeq(facts) {
		key, value, _ := strings.Cut(fact, "=")
		var err *problem.Error
		switch {
		case fact == "free":
			free = true
		case fact == "whole":
			err = strictHeads(o, path)
		case key[0] == '>':
			err = strictNested(key[1:], value, o, path)
		default:
			err = strictFields(key, value, o, path)
		}
		if err != nil {
			return err
		}
	}
	if free {
		return nil
	}
	return strictLayers(kind, o, path)
}

// strictFields checks the fields of one type.
func strictFields(code, fields string, o *checkpoint.Object, path string) *problem.Error {
	for field := range strings.SplitSeq(fields, ",") {
		if v, ok := o.Get(field); ok && !admits(code, v) {
			return problem.New(problem.BadValue, path+field, v.Any(), "the model's class expects %s", typeName(code))
		}
	}
	return nil
}

// strictNested checks a nested config: of a class, or with "*" of whichever its own
// model_type names, the class if it names none.
func strictNested(field, class string, o *checkpoint.Object, path string) *problem.Error {
	value, _ := o.Get(field)
	sub := value.Dict()
	if sub == nil || len(path) > maxStrictPath {
		return nil
	}
	if def, auto := strings.CutPrefix(class, "*"); auto {
		if class = text(sub, "model_type"); class == "" {
			class = def
		}
		if _, known := tableLine(strictTable, class); !known {
			return problem.New(problem.Unsupported, path+field+".model_type", class, "Unrecognized model type for subconfig").
				WithHint("a model_type that Transformers 5.20 knows")
		}
	}
	return strictConfig(class, sub, path+field+".")
}

// maxStrictPath bounds how deep nested configs are followed, bytes of their path.
const maxStrictPath = 256

// strictHeads refuses a width that heads do not divide, of a class that insists on it even
// where head_dim is given.
func strictHeads(o *checkpoint.Object, path string) *problem.Error {
	width, _ := o.Get("hidden_size")
	count, _ := o.Get("num_attention_heads")
	hidden, ok1 := width.Int()
	heads, ok2 := count.Int()
	if !ok1 || !ok2 || heads != 0 && hidden%heads == 0 {
		return nil
	}
	return problem.New(problem.BadValue, path+"hidden_size", hidden, "not a multiple of the number of attention heads (%d)", heads)
}

// strictLayers refuses layer_types that are not as many as layers, or unknown words. One
// class first parts the MTP layers' types from the end of the list.
func strictLayers(kind string, o *checkpoint.Object, path string) *problem.Error {
	list, _ := o.Get("layer_types")
	count, _ := o.Get("num_hidden_layers")
	types := list.List()
	layers, ok := count.Int()
	if types == nil || !ok {
		return nil
	}
	words, _ := tableLine(strictTable, "~")
	for _, v := range types {
		word, isText := v.Text()
		if !isText || !slices.Contains(strings.Fields(words), word) {
			return problem.New(problem.BadValue, path+"layer_types", v.Any(), "not a kind of layer").WithHint("%s", strings.ReplaceAll(words, " ", ", "))
		}
	}
	if v, _ := o.Get("num_nextn_predict_layers"); kind == "step3p5" {
		if n, _ := v.Int(); n > 0 && int64(len(types)) == layers+n {
			layers += n
		}
	}
	if int64(len(types)) != layers {
		return problem.New(problem.BadValue, path+"num_hidden_layers", layers, "must be equal to the number of layer_types (%d)", len(types))
	}
	return nil
}

// admits tells whether a type takes a value. A code is a letter for each kind: i int, b
// bool, f float, s str, n None, d dict, l list, a anything, t a tuple, which JSON cannot
// write; "…" is that word, […] a list of the type within.
func admits(code string, v checkpoint.Value) bool {
	for len(code) > 0 {
		c := code[0]
		code = code[1:]
		switch c {
		case '"':
			word, rest, _ := strings.Cut(code, `"`)
			if s, ok := v.Text(); ok && s == word {
				return true
			}
			code = rest
		case '[':
			item, rest := list(code)
			if v.Kind() == checkpoint.List && !slices.ContainsFunc(v.List(), func(e checkpoint.Value) bool { return !admits(item, e) }) {
				return true
			}
			code = rest
		default:
			if c == 'a' || kindCodes[v.Kind()] == c {
				return true
			}
		}
	}
	return false
}

var kindCodes = map[checkpoint.Kind]byte{checkpoint.Null: 'n', checkpoint.Bool: 'b', checkpoint.Int: 'i', checkpoint.Float: 'f',
	checkpoint.String: 's', checkpoint.List: 'l', checkpoint.Dict: 'd'}

// list splits a code behind its "[": the type of the items, and what follows the "]".
func list(code string) (item, rest string) {
	depth := 1
	for i := range len(code) {
		switch code[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return code[:i], code[i+1:]
			}
		}
	}
	return code, ""
}

// typeName reads a code as a type.
func typeName(code string) string {
	names := map[byte]string{'n': "null", 'b': "true or false", 'i': "an int", 'f': "a float", 's': "a string", 'l': "a list", 'd': "an object", 't': "a tuple"}
	var out []string
	for len(code) > 0 {
		c := code[0]
		code = code[1:]
		switch c {
		case '"':
			word, rest, _ := strings.Cut(code, `"`)
			out, code = append(out, `"`+word+`"`), rest
		case '[':
			item, rest := list(code)
			out, code = append(out, "a list of "+typeName(item)), rest
		default:
			out = append(out, names[c])
		}
	}
	return strings.Join(out, " or ")
}

// tableLine finds the rest of the line that starts with key and a tab in a sorted table.
func tableLine(table, key string) (string, bool) {
	low, high := 0, len(table)
	for low < high {
		mid := low + (high-low)/2
		start := strings.LastIndexByte(table[:mid], '\n') + 1
		line, _, _ := strings.Cut(table[start:], "\n")
		name, rest, _ := strings.Cut(line, "\t")
		switch {
		case name == key:
			return rest, true
		case name < key:
			low = start + len(line) + 1
		default:
			high = start
		}
	}
	return "", false
}
