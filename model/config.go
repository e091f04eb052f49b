package model

import (
	"headcount/checkpoint"
)

// A Config is a checkpoint's config.json as its Transformers class presents it: the text
// config of a nested one is chosen, other names of a field are followed, and a field that
// the file lacks has the class's default. Methods read the text config; those of Top()
// read the file's outer level.
type Config struct {
	top  view
	text view
	path string // of the text config inside the file: "", "text_config", "thinker_config.text_config"

	hfQuant *checkpoint.Object
}

// A view is one level of the file with its class.
type view struct {
	object *checkpoint.Object
	class  class
	known  bool // the class is Transformers' or an engine's own
	kind   string
}

// textPaths are where a text config may be nested, first hit wins
// (vllm/transformers_utils/config.py get_hf_text_config; sglang common.py the same).
var textPaths = [][]string{
	{"thinker_config", "text_config"}, {"llm_config"}, {"language_config"}, {"text_config"},
	{"decoder"}, {"generator"}, {"text_encoder"},
}

// NewConfig presents a source's config.json.
func NewConfig(src *checkpoint.Source) *Config {
	c := &Config{hfQuant: src.HFQuant}
	c.top = newView(src.Config, textOf(src.Config, "model_type"))
	c.text = c.top
	for _, path := range textPaths {
		object := src.Config
		for _, key := range path {
			v, _ := object.Get(key)
			object = v.Dict()
		}
		if object == nil || !looksLikeText(object, c.top, path) {
			continue
		}
		kind := textOf(object, "model_type")
		if kind == "" {
			kind = c.top.class.subConfigs[path[0]]
		}
		c.text = newView(object, kind)
		c.path = path[0]
		for _, key := range path[1:] {
			c.path += "." + key
		}
		break
	}
	return c
}

// looksLikeText keeps "decoder" and its like to the classes that name them so.
func looksLikeText(o *checkpoint.Object, top view, path []string) bool {
	switch path[0] {
	case "decoder", "generator", "text_encoder":
		return top.class.textAttr == path[0]
	}
	return o.Len() > 0 || top.class.subConfigs[path[0]] != ""
}

func newView(o *checkpoint.Object, kind string) view {
	v := view{object: o, kind: kind}
	v.class, v.known = lookupClass(kind)
	return v
}

func textOf(o *checkpoint.Object, key string) string {
	v, _ := o.Get(key)
	s, _ := v.Text()
	return s
}

// get follows the class's name for key, then the file, then the class's default. Null in
// the file is found as null; whether that means the default is the caller's to say.
func (v view) get(key string) (value checkpoint.Value, fromFile, ok bool) {
	if value, ok = v.object.Get(key); ok {
		return value, true, true
	}
	if other, renamed := v.class.alias[key]; renamed {
		if value, ok = v.object.Get(other); ok {
			return value, true, true
		}
		if value, ok = v.class.defaults.Get(other); ok {
			return value, false, true
		}
	}
	value, ok = v.class.defaults.Get(key)
	return value, false, ok
}

// Top returns the file's outer level.
func (c *Config) Top() *Config { return &Config{top: c.top, text: c.top, hfQuant: c.hfQuant} }

// Nested reports whether a text config was chosen below the outer level, and its path.
func (c *Config) Nested() (path string, ok bool) { return c.path, c.path != "" }

// ModelType is the text config's model_type.
func (c *Config) ModelType() string { return c.text.kind }

// Known reports whether Transformers or an engine has a class for the model_type.
func (c *Config) Known() bool { return c.text.known }

// HFQuant is hf_quant_config.json, nil when there is none.
func (c *Config) HFQuant() *checkpoint.Object { return c.hfQuant }

// Raw is the text config as the file has it, without defaults.
func (c *Config) Raw() *checkpoint.Object { return c.text.object }

// Value returns what the class would hold at key; null counts as absent.
func (c *Config) Value(key string) (checkpoint.Value, bool) {
	v, _, ok := c.text.get(key)
	return v, ok && v.Kind() != checkpoint.Null
}

// Has reports whether the file itself gives key a value that is not null.
func (c *Config) Has(key string) bool {
	v, fromFile, ok := c.text.get(key)
	return ok && fromFile && v.Kind() != checkpoint.Null
}

// Int returns a whole number.
func (c *Config) Int(key string) (int64, bool) {
	v, _ := c.Value(key)
	return v.Int()
}

// Float returns a number.
func (c *Config) Float(key string) (float64, bool) {
	v, _ := c.Value(key)
	return v.Float()
}

// Bool returns a truth value; a number counts as Python would take it.
func (c *Config) Bool(key string) (value, ok bool) {
	v, _ := c.Value(key)
	if n, isInt := v.Int(); isInt {
		return n != 0, true
	}
	return v.Bool()
}

// Text returns a string.
func (c *Config) Text(key string) (string, bool) {
	v, _ := c.Value(key)
	return v.Text()
}

// List returns an array's elements.
func (c *Config) List(key string) ([]checkpoint.Value, bool) {
	v, _ := c.Value(key)
	return v.List(), v.Kind() == checkpoint.List
}

// Object returns a nested object, nil when there is none.
func (c *Config) Object(key string) *checkpoint.Object {
	v, _ := c.Value(key)
	return v.Dict()
}

// Where says where key's value comes from: its path in the file, or the class whose
// default it is.
func (c *Config) Where(key string) string {
	_, fromFile, ok := c.text.get(key)
	name := key
	if other, renamed := c.text.class.alias[key]; renamed {
		if _, asIs := c.text.object.Get(key); !asIs {
			name = other
		}
	}
	switch {
	case !ok:
		return ""
	case !fromFile:
		return name + " (default of " + c.text.kind + ")"
	case c.path != "":
		return c.path + "." + name
	}
	return name
}
