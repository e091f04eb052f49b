package model

import (
	_ "embed"
	"strings"
	"sync"

	"headcount/checkpoint"
)

// classesTable has a line for each model_type that Transformers or vLLM has a
// configuration class for, sorted: model_type, a tab, a JSON object. tools/facts/classes.py
// writes it from the installed packages (vLLM 0.33.0, Transformers 5.20).
//
//go:embed classes.tsv
var classesTable string

// A class is what Transformers' configuration class of one model_type adds to a file.
type class struct {
	alias      map[string]string  // attribute → the name under which the class keeps it
	defaults   *checkpoint.Object // of the class's own fields, null included
	subConfigs map[string]string  // attribute → model_type of the nested config, "" if only the file says
	textAttr   string             // the nested config that holds the text model, "" if none

	// nullKVIsHeads: a num_key_value_heads that is null or absent becomes num_attention_heads.
	nullKVIsHeads bool
}

var classes sync.Map // model_type → class

// lookupClass returns the class of modelType, decoding only its line of the table. The
// engines refuse a model_type without one: "does not recognize this architecture".
func lookupClass(modelType string) (class, bool) {
	if c, ok := classes.Load(modelType); ok {
		return c.(class), true
	}
	line, ok := tableLine(classesTable, modelType)
	if !ok {
		return class{}, false
	}
	o, _, err := checkpoint.Parse([]byte(line))
	if err != nil {
		panic("model: classes.tsv: " + modelType + ": " + err.Error())
	}
	c := newClass(o)
	classes.Store(modelType, c)
	return c, true
}

func newClass(o *checkpoint.Object) class {
	c := class{alias: texts(o, "alias"), subConfigs: texts(o, "sub_configs"), textAttr: textOf(o, "text_attr")}
	for attr, kind := range c.subConfigs {
		kind = strings.TrimPrefix(kind, "optional:")
		c.subConfigs[attr] = strings.TrimPrefix(kind, "auto:")
	}
	v, _ := o.Get("default")
	c.defaults = v.Dict()
	v, _ = o.Get("null_kv_is_heads")
	c.nullKVIsHeads, _ = v.Bool()
	return c
}

// texts returns the object at key as a map of strings.
func texts(o *checkpoint.Object, key string) map[string]string {
	v, _ := o.Get(key)
	dict := v.Dict()
	if dict.Len() == 0 {
		return nil
	}
	out := make(map[string]string, dict.Len())
	for _, k := range dict.Keys() {
		out[k] = textOf(dict, k)
	}
	return out
}

// tableLine finds the rest of the line that starts with key and a tab in a sorted table.
func tableLine(table, key string) (string, bool) {
	low, high := 0, len(table) // offsets of line starts; the line is in [low, high)
	for low < high {
		mid := low + (high-low)/2
		start := strings.LastIndexByte(table[:mid], '\n') + 1
		end := len(table)
		if n := strings.IndexByte(table[start:], '\n'); n >= 0 {
			end = start + n
		}
		name, rest, _ := strings.Cut(table[start:end], "\t")
		switch {
		case name == key:
			return rest, true
		case name < key:
			low = end + 1
		default:
			high = start
		}
	}
	return "", false
}
