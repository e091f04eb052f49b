package model

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"headcount/checkpoint"
	"headcount/internal/formula"
	"headcount/internal/tsv"
)

// classesTable has a line for each model_type that Transformers or vLLM has a
// configuration class for, sorted: model_type, a tab, a JSON object with
//
//	model_type   of a class that is under its Python name
//	alias        other names of a field: attribute → the name under which the class keeps it
//	default      fields and their defaults, null included
//	sub_configs  nested configs: attribute → model_type of its class; "auto:" before it when
//	             the nested model_type of the file decides and this is the default,
//	             "optional:" before that when there may be none
//	sub_init     what a nested config has when the file has none
//	sub_merged   nested configs of which the file's keys are laid over sub_init's
//	text_attr    the nested config that holds the text model
//	derived      what the constructor computes, in order; package formula reads it. "super"
//	             is where the file's other keys become attributes
//	property     attributes computed when they are read
//	checks       conditions under which the class refuses a file; see classcheck.go
//	layers       the class checks layer_types as the base class does
//	rope         how rotary parameters are brought into one form, where that is special
//	tp_plan      base_model_tp_plan, the layers that the Transformers backend can split;
//	             "=llama" is the plan of another line
//
// A class that vLLM registers itself stands before Transformers' of the same model_type.
// Classes without a model_type of their own, which only other classes nest, are under
// their Python name. tools/facts/classes.py writes the table from the installed packages
// (vLLM 0.33.0, Transformers 5.20).
//
//go:embed classes.tsv
var classesTable string

// codeClassesTable has lines of the same form for classes that checkpoints bring in code of
// their own, by what the engines read of them. It is written by hand. Their names begin with
// codePrefix where a line of either table refers to them.
//
//go:embed codeclasses.tsv
var codeClassesTable string

const codePrefix = "code:"

// A class is what Transformers' configuration class of one model_type adds to a file.
type class struct {
	modelType   string            // where it is not the name of the line
	alias       map[string]string // attribute → the name under which the class keeps it
	defaults    *checkpoint.Object
	subConfigs  map[string]string // attribute → model_type of the nested config, "" if only the file says
	auto        map[string]bool   // nested configs whose own model_type in the file decides
	optional    map[string]bool   // nested configs that may be absent
	subDefaults map[string]*checkpoint.Object
	subMerged   []string
	textAttr    string // the nested config that holds the text model, "" if none

	derived  []*formula.Formula // nil where the file's other keys become attributes
	property map[string]*formula.Formula
	rope     ropeRule
	tpPlan   tpPlan

	strict bool // the class holds a file to the types of its fields, and to these
	types  []fieldType
	checks []*formula.Formula // true: the class refuses the file
	layers bool               // and to the number and the names of layer types

	// fieldFor are fields that set an attribute of another name: attribute → field. Of two
	// that set one attribute, the later in the constructor's order counts.
	fieldFor map[string]string
}

// noClass presents a file as it is.
var noClass = &class{}

var classes sync.Map // model_type → *class

// lookupClass returns the class of modelType, decoding only its line of the table. Without
// one, ok is false and the class adds nothing.
//
// What an engine does with a model_type decides which files it reads at all
// (transformers/models/auto/configuration_auto.py, AutoConfig.from_pretrained;
// vllm/transformers_utils/config.py, HFConfigParser.parse), first hit wins:
//
//	vLLM's own registry has the model_type          read, auto_map is not looked at
//	auto_map names an AutoConfig, --trust-remote-code   the repository's own code reads it
//	auto_map names an AutoConfig, model_type unknown    refused: "contains custom code which
//	                                                must be executed"
//	no model_type                                   refused: "Unrecognized model in ..."; but
//	                                                LongcatFlash(Ngram)ForCausalLM is longcat_flash,
//	                                                and speculators_config makes it speculators
//	model_type mistral with layer_types             read as ministral
//	model_type unknown                              refused: "does not recognize this architecture"
func lookupClass(modelType string) (*class, bool) {
	if c, ok := classes.Load(modelType); ok {
		return c.(*class), true
	}
	line, ok := tsv.Rest(classesTable, modelType)
	if code, own := strings.CutPrefix(modelType, codePrefix); own {
		line, ok = tsv.Rest(codeClassesTable, code)
	}
	if !ok {
		return noClass, false
	}
	o, _, err := checkpoint.Parse([]byte(line))
	if err != nil {
		panic("model: classes.tsv: " + modelType + ": " + err.Error())
	}
	c, err := newClass(o)
	if err != nil {
		panic("model: classes.tsv: " + modelType + ": " + err.Error())
	}
	c.types, c.strict = typesOf(modelType)
	classes.Store(modelType, c)
	return c, true
}

func newClass(o *checkpoint.Object) (*class, error) {
	c := &class{
		modelType: o.Text("model_type"),
		alias:     texts(o, "alias"), subConfigs: texts(o, "sub_configs"), textAttr: o.Text("text_attr"),
		defaults: o.Dict("default"), rope: newRopeRule(o),
	}
	for attr, kind := range c.subConfigs {
		kind, optional := strings.CutPrefix(kind, "optional:")
		kind, auto := strings.CutPrefix(kind, "auto:")
		c.subConfigs[attr] = kind
		if optional {
			put(&c.optional, attr, true)
		}
		if auto {
			put(&c.auto, attr, true)
		}
	}
	// The base class's old name, which every class has.
	put(&c.alias, "rope_scaling", "rope_parameters")
	for _, field := range c.defaults.Keys() {
		if own, ok := c.alias[field]; ok {
			put(&c.fieldFor, own, field)
		} else {
			delete(c.fieldFor, field)
		}
	}
	merged, _ := o.Get("sub_merged")
	for _, attr := range merged.List() {
		name, _ := attr.Text()
		c.subMerged = append(c.subMerged, name)
	}
	init := o.Dict("sub_init")
	for _, attr := range init.Keys() {
		put(&c.subDefaults, attr, init.Dict(attr))
	}
	c.tpPlan = newTPPlan(planOf(o))
	v, _ := o.Get("derived")
	for _, line := range v.List() {
		text, _ := line.Text()
		if text == "super" {
			c.derived = append(c.derived, nil)
			continue
		}
		f, err := formula.Parse(text)
		if err != nil {
			return nil, err
		}
		c.derived = append(c.derived, f)
	}
	v, _ = o.Get("layers")
	c.layers, _ = v.Bool()
	v, _ = o.Get("checks")
	for _, line := range v.List() {
		text, _ := line.Text()
		f, err := formula.ParseExpr(text)
		if err != nil {
			return nil, err
		}
		c.checks = append(c.checks, f)
	}
	for attr, text := range texts(o, "property") {
		f, err := formula.ParseExpr(text)
		if err != nil {
			return nil, err
		}
		put(&c.property, attr, f)
	}
	return c, nil
}

// planOf returns the line's plan, or that of the line it names.
func planOf(o *checkpoint.Object) *checkpoint.Object {
	if other, ok := strings.CutPrefix(o.Text("tp_plan"), "="); ok {
		line, _ := tsv.Rest(classesTable, other)
		named, _, err := checkpoint.Parse([]byte(line))
		if err != nil {
			return nil
		}
		return named.Dict("tp_plan")
	}
	return o.Dict("tp_plan")
}

// isField reports whether the constructor has a parameter of that name.
func (c *class) isField(name string) bool {
	_, ok := c.defaults.Get(name)
	return ok
}

// takes reports whether an outer class hands a key of its own file on to the constructor:
// that of a field, or of what all constructors read.
func (c *class) takes(key string) bool {
	switch key {
	case "rope_parameters", "rope_scaling", "rope_theta", "dtype", "torch_dtype":
		return true
	}
	return c.isField(key) || slices.ContainsFunc(c.types, func(t fieldType) bool { return slices.Contains(t.fields, key) })
}

// texts returns the object at key as a map of strings.
func texts(o *checkpoint.Object, key string) map[string]string {
	dict := o.Dict(key)
	if dict.Len() == 0 {
		return nil
	}
	out := make(map[string]string, dict.Len())
	for _, k := range dict.Keys() {
		out[k] = dict.Text(k)
	}
	return out
}
