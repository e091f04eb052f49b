package model

import (
	"strings"

	"headcount/checkpoint"
	"headcount/problem"
)

// A Config is a checkpoint's config.json as its Transformers class presents it: the text
// config of a nested one is chosen, other names of a field are followed, and a field that
// the file lacks has the class's default. Methods read the text config; those of Top()
// read the file's outer level.
type Config struct {
	top  view
	text view
	path string // of the text config inside the file: "", "text_config", "thinker_config.text_config"

	hfQuant, params *checkpoint.Object
}

// A view is one level of the file with its class.
type view struct {
	object     *checkpoint.Object
	class      *class
	known      bool // the class is Transformers' or an engine's own
	kind       string
	attributes *attributes
}

// textPaths are where a text config may be nested, first hit wins
// (vllm/transformers_utils/config.py get_hf_text_config; sglang common.py the same).
var textPaths = [][]string{
	{"thinker_config", "text_config"}, {"vlm_config", "text_config"}, {"llm_config"}, {"language_config"}, {"text_config"},
	{"decoder"}, {"generator"}, {"text_encoder"},
}

// NewConfig presents a source's config.json.
func NewConfig(src *checkpoint.Source) *Config {
	c := &Config{hfQuant: src.HFQuant, params: src.Params}
	c.top = newView(src.Config, topType(src.Config))
	c.text = c.top
	for _, path := range textPaths {
		text, ok := c.top.nested(path)
		if !ok || !looksLikeText(text, c.top, path) {
			continue
		}
		c.text = text
		if _, inFile := src.Config.Get(path[0]); inFile {
			c.path = strings.Join(path, ".")
		}
		break
	}
	return c
}

// topType is the model_type by which the file is read. Transformers takes a Mistral with
// layer_types for Ministral, which alternates windows (AutoConfig.from_pretrained), and vLLM a
// LongCat that brings a class of its own and no model_type for Transformers'.
func topType(o *checkpoint.Object) string {
	kind := o.Text("model_type")
	if kind == "" && strings.HasPrefix(architecture(o), "LongcatFlash") {
		return "longcat_flash"
	}
	if _, ok := o.Get("layer_types"); ok && kind == "mistral" {
		return "ministral"
	}
	return kind
}

// looksLikeText keeps "decoder" and its like to the classes that name them so.
func looksLikeText(text, top view, path []string) bool {
	switch path[0] {
	case "decoder", "generator", "text_encoder":
		return top.class.textAttr == path[0]
	}
	return text.object.Len() > 0 || top.class.subConfigs[path[0]] != ""
}

func newView(o *checkpoint.Object, kind string) view {
	class, ok := noClass, false
	if bringsCode(o) {
		class, ok = lookupClass(codePrefix + kind)
	}
	if !ok {
		class, _ = lookupClass(kind)
	}
	return construct(o, class, kind).view()
}

// bringsCode reports whether a checkpoint has a configuration class of its own.
func bringsCode(o *checkpoint.Object) bool {
	v, _ := o.Get("auto_map")
	return v.Dict().Text("AutoConfig") != ""
}

// ReadByCode reports whether the file is read by a class that is neither Transformers' nor an
// engine's, but of the checkpoint's own code.
func (c *Config) ReadByCode() bool {
	if !bringsCode(c.top.object) {
		return false
	}
	own, ok := lookupClass(codePrefix + c.top.kind)
	return ok && c.top.class == own
}

// nested presents the config at path, as the classes on the way to it construct it, or by
// its own model_type where no class knows of it.
func (v view) nested(path []string) (view, bool) {
	at := v.attributes
	for _, key := range path {
		sub := at.sub(key)
		if sub == nil {
			value, _ := at.Get(key)
			if value.Dict() == nil {
				return view{}, false
			}
			kind := value.Dict().Text("model_type")
			class, _ := lookupClass(kind)
			sub = construct(value.Dict(), class, kind)
		}
		at = sub
	}
	return at.view(), true
}

// view presents attributes.
func (a *attributes) view() view {
	return view{object: a.file, class: a.class, known: a.class != noClass, kind: a.kind, attributes: a}
}

// get returns what the class holds at key: the file's value, what its constructor computes,
// or its default. Null is found as null.
func (v view) get(key string) (value checkpoint.Value, fromFile, ok bool) {
	value, from, ok := v.attributes.lookup(key)
	return value, ok && from == "", ok
}

// Top returns the file's outer level.
func (c *Config) Top() *Config {
	return &Config{top: c.top, text: c.top, hfQuant: c.hfQuant, params: c.params}
}

// Nested reports whether a text config was chosen below the outer level, and its path.
func (c *Config) Nested() (path string, ok bool) { return c.path, c.path != "" }

// ModelType is the text config's model_type.
func (c *Config) ModelType() string { return c.text.kind }

// Known reports whether Transformers or an engine has a class for the model_type.
func (c *Config) Known() bool { return c.text.known }

// Refused is why the file's class, or that of a config nested in it, does not take the file;
// nil when it does. Any engine that reads it by that class refuses it.
func (c *Config) Refused() *problem.Error {
	err := c.top.attributes.err
	if err == nil && c.path != "" && c.text.attributes.err != nil { // beside a class that is no one's of Transformers
		err = within(c.path, c.text.attributes.err)
	}
	if err == nil {
		return nil
	}
	own := *err // the caller's, to say by whom
	return &own
}

// RefusedAs is Refused by a class of another release, which holds the text config to types
// as a line of classtypes.tsv has them. Where its own types refuse the file, what else that
// class would find is not known.
func (c *Config) RefusedAs(types string) *problem.Error {
	text := c.text.attributes
	if err := text.mistyped(parseTypes(types)); err != nil {
		return err
	}
	if text.mistyped(text.class.types) != nil {
		return nil
	}
	return c.Refused()
}

// TakesNull reports whether the text config's class lets a field be null: one that holds it
// to a type without null refuses it whenever it is set, also by an engine.
func (c *Config) TakesNull(field string) bool {
	code, ok := codeOf(c.text.class.types, field)
	return !ok || accepts(code, checkpoint.Value{})
}

// IsNull reports whether the class holds null at key.
func (c *Config) IsNull(key string) bool {
	v, _, ok := c.text.get(key)
	return ok && v.Kind() == checkpoint.Null
}

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

// IsDefault reports whether the class's own default is what Value returns.
func (c *Config) IsDefault(key string) bool {
	_, from, ok := c.text.attributes.lookup(key)
	return ok && from == defaultOrigin
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

// Sub returns the nested config at key as the class constructs it; ok is false when the
// class knows of none there, and the key is an object at most.
func (c *Config) Sub(key string) (sub *Config, ok bool) {
	at := c.text.attributes.sub(key)
	if at == nil {
		return nil, false
	}
	v := at.view()
	return &Config{top: v, text: v}, true
}

// Params is params.json, nil when there is none.
func (c *Config) Params() *checkpoint.Object { return c.params }

// Where says where key's value comes from: its path in the file, the formula by which its
// class computes it, or the class whose default it is.
func (c *Config) Where(key string) string {
	_, from, ok := c.text.attributes.lookup(key)
	name := c.text.attributes.own(key)
	switch {
	case !ok:
		return ""
	case from == defaultOrigin:
		return name + " (default of " + c.text.kind + ")"
	case from != "":
		return computed(name, from)
	case c.path != "":
		return c.path + "." + name
	}
	return name
}

// computed is where a value comes from that the class's constructor computes: the formula
// without its target where it is short enough to read.
func computed(name, formula string) string {
	_, expr, _ := strings.Cut(formula, "= ")
	expr = strings.TrimSuffix(strings.TrimPrefix(strings.ReplaceAll(expr, "//", "/"), "("), ")")
	if len(expr) > 60 || strings.ContainsAny(expr, "()[]") {
		return name + " (computed by its class)"
	}
	return expr
}
