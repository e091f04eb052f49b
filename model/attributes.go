package model

import (
	"maps"
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/internal/formula"
	"headcount/problem"
)

// attributes are a file's fields as its class holds them once constructed: the file's
// values, the class's defaults, and what the constructor computes from both. Constructed,
// they are never written again and may be read from several goroutines.
type attributes struct {
	file  *checkpoint.Object
	class *class
	kind  string // model_type

	set    map[string]checkpoint.Value // computed, by the class's own names
	from   map[string]string           // formula of each computed attribute
	given  map[string]checkpoint.Value // keys that the constructor adds to the file's
	taken  map[string]bool             // keys of the file that the constructor consumed
	joined bool                        // the file's other keys have become attributes
	nested map[string]*attributes      // nested configs; nil where there is none
	depth  int
	frozen bool // construction is over

	err *problem.Error // of the first formula that has no value, as the constructor would raise
}

// maxNesting bounds nested configs, and properties that read each other.
const maxNesting = 8

// construct runs the constructor of class, which is that of kind, on file.
func construct(file *checkpoint.Object, class *class, kind string) *attributes {
	return constructAt(file, class, kind, 0)
}

func constructAt(file *checkpoint.Object, class *class, kind string, depth int) *attributes {
	a := &attributes{file: file, class: class, kind: kind, depth: depth}
	a.checkTypes()
	for _, f := range class.derived {
		if f == nil {
			a.join()
			continue
		}
		a.apply(f)
	}
	if !a.joined {
		a.join()
	}
	a.freeze()
	return a
}

// freeze computes what is otherwise computed when it is first read.
func (a *attributes) freeze() {
	a.nameRope()
	for _, name := range slices.Sorted(maps.Keys(a.class.subConfigs)) {
		if sub := a.sub(name); sub != nil && sub.err != nil && a.err == nil {
			a.err = within(name, sub.err)
		}
	}
	for name, f := range a.class.property {
		if v, ok, err := f.Eval(a); ok && err == nil {
			put(&a.set, name, v)
			put(&a.from, name, f.String())
		}
	}
	a.frozen = true
	a.checkConditions()
}

// within places the problem of a nested config.
func within(name string, err *problem.Error) *problem.Error {
	out := *err
	if out.Field != "" {
		out.Message = name + "." + out.Message
		out.Field = name + "." + out.Field
	} else {
		out.Message = name + ": " + out.Message
	}
	return &out
}

// apply evaluates one formula and sets its target.
func (a *attributes) apply(f *formula.Formula) {
	if f.IfNull {
		if v, ok := a.target(f); ok && v.Kind() != checkpoint.Null {
			return
		}
	}
	v, ok, err := f.Eval(a)
	if err != nil {
		// A temporary may belong to a condition that the constructor would not have reached.
		if a.err == nil && a.class.strict && !strings.HasPrefix(f.Target, "_") {
			a.err = problem.New(problem.BadValue, f.Target, nil, "%s: %v", f, err)
		}
		return
	}
	if !ok {
		return
	}
	switch {
	case f.Given:
		put(&a.given, f.Target, v)
	case f.Sub != "":
		if sub := a.sub(f.Sub); sub != nil {
			sub.store(f.Target, v, f.String())
		}
	default:
		a.store(f.Target, v, f.String())
	}
}

func (a *attributes) target(f *formula.Formula) (checkpoint.Value, bool) {
	if f.Sub != "" {
		return a.Sub(f.Sub, f.Target)
	}
	return a.Get(f.Target)
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// own is the name under which the class keeps an attribute.
func (a *attributes) own(name string) string {
	if other, ok := a.class.alias[name]; ok {
		return other
	}
	return name
}

func (a *attributes) store(name string, v checkpoint.Value, formula string) {
	name = a.own(name)
	put(&a.set, name, v)
	put(&a.from, name, formula)
}

// Get returns an attribute; it implements [formula.Env].
func (a *attributes) Get(name string) (checkpoint.Value, bool) {
	v, _, ok := a.lookup(name)
	return v, ok
}

// defaultOrigin marks an attribute that is the class's default.
const defaultOrigin = "default"

// lookup returns an attribute and where it is from: "" for the file, a formula, or
// defaultOrigin. Null is a value.
func (a *attributes) lookup(name string) (v checkpoint.Value, from string, ok bool) {
	name = a.own(name)
	if v, ok = a.set[name]; ok {
		return v, a.from[name], true
	}
	if p, isProperty := a.class.property[name]; isProperty && !a.frozen && a.depth < maxNesting {
		a.depth++
		v, ok, err := p.Eval(a)
		a.depth--
		return v, p.String(), ok && err == nil
	}
	field := name
	if other, ok := a.class.fieldFor[name]; ok {
		field = other
	}
	if a.joined || a.class.isField(field) {
		if v, ok = a.file.Get(field); ok && !a.taken[field] {
			return v, "", true
		}
	}
	if v, ok = a.class.defaults.Get(field); !ok && name == "model_type" && a.kind != "" {
		return checkpoint.NewText(a.kind), defaultOrigin, true
	}
	return v, defaultOrigin, ok
}

// Sub returns an attribute of a nested config, or a key of an attribute that is an object.
func (a *attributes) Sub(name, attr string) (checkpoint.Value, bool) {
	if sub := a.sub(name); sub != nil {
		return sub.Get(attr)
	}
	v, _ := a.Get(name)
	return v.Dict().Get(attr)
}

// Given returns a key of the file that is no field of the class.
func (a *attributes) Given(key string) (checkpoint.Value, bool) {
	if v, ok := a.given[key]; ok {
		return v, true
	}
	if a.taken[key] || a.class.isField(key) {
		return checkpoint.Value{}, false
	}
	return a.file.Get(key)
}

// Take is Given for the last time.
func (a *attributes) Take(key string) (checkpoint.Value, bool) {
	v, ok := a.Given(key)
	if ok {
		delete(a.given, key)
		put(&a.taken, key, true)
	}
	return v, ok
}

// Rest returns the keys of the file that are no fields of the class, without those of the
// base class; with the name of a nested config, those that its constructor has a parameter
// for.
func (a *attributes) Rest(nested string) *checkpoint.Object {
	var out *checkpoint.Object
	inner, _ := lookupClass(a.class.subConfigs[nested])
	for _, key := range a.file.Keys() {
		if a.class.isField(key) || a.taken[key] || key == "model_type" || key == "architectures" || key == "transformers_version" {
			continue
		}
		if nested != "" && !inner.takes(key) {
			continue
		}
		if out == nil {
			out = checkpoint.NewObject()
		}
		v, _ := a.file.Get(key)
		out.Set(key, v)
	}
	return out
}

// join makes attributes of the file's keys that are no fields, as the base class does: they
// replace what was computed so far, and other names of a field replace the field.
func (a *attributes) join() {
	if a.joined {
		return
	}
	a.joinRope()
	a.joined = true
	for _, key := range a.file.Keys() {
		if !a.class.isField(key) && !a.taken[key] && a.overwrites(key) {
			v, _ := a.file.Get(key)
			a.store(key, v, "")
		}
	}
	for key, v := range a.given {
		if a.overwrites(key) {
			a.store(key, v, "")
		}
	}
	for _, key := range []string{"layer_types", "mtp_layer_types"} {
		if v, from, ok := a.lookup(key); ok && v.Kind() == checkpoint.List {
			if renamed := formula.Renamed(v); !sameList(renamed, v) {
				a.store(key, renamed, from)
			}
		}
	}
}

// overwrites reports whether a key that is no field becomes an attribute in place of what
// was computed. A property stays what it computes.
func (a *attributes) overwrites(key string) bool {
	name := a.own(key)
	if _, isProperty := a.class.property[name]; isProperty {
		return false
	}
	_, computed := a.set[name]
	_, field := a.class.fieldFor[name]
	_, added := a.given[key]
	return name != key || computed || field || added
}

func sameList(a, b checkpoint.Value) bool {
	x, y := a.List(), b.List()
	return len(x) == len(y) && (len(x) == 0 || &x[0] == &y[0])
}

// nestedFile is the file of a nested config: what the outer file has, laid over the class's
// own or in its place.
func (c *class) nestedFile(name string, given *checkpoint.Object) *checkpoint.Object {
	own := c.subDefaults[name]
	switch {
	case given != nil && !slices.Contains(c.subMerged, name):
		return given
	case given == nil && own != nil:
		return own
	}
	out := checkpoint.NewObject()
	for _, o := range []*checkpoint.Object{own, given} {
		for _, key := range o.Keys() {
			v, _ := o.Get(key)
			out.Set(key, v)
		}
	}
	return out
}

// sub returns the nested config at name, constructed as the class would; nil when the class
// knows of none there.
func (a *attributes) sub(name string) *attributes {
	if sub, ok := a.nested[name]; ok {
		return sub
	}
	if a.frozen {
		return nil
	}
	kind, known := a.class.subConfigs[name]
	v, _, ok := a.lookup(name)
	if absent := !ok || v.Kind() == checkpoint.Null; !known || absent && a.class.optional[name] || a.depth >= maxNesting {
		return nil
	}
	file := a.class.nestedFile(name, v.Dict())
	own := file.Text("model_type")
	if own != "" && a.class.auto[name] {
		kind = own
	}
	class, found := lookupClass(kind)
	if !found && own != "" && a.class.auto[name] {
		a.refuse(name+".model_type", checkpoint.NewText(own), "not a model type that Transformers has a class for")
	}
	switch {
	case own != "":
		kind = own
	case class.modelType != "":
		kind = class.modelType
	}
	sub := constructAt(file, class, kind, a.depth+1)
	put(&a.nested, name, sub)
	return sub
}
