package model

import (
	"cmp"
	"maps"
	"slices"

	"headcount/checkpoint"
	"headcount/problem"
)

// Bounds on what a config may claim. They are far above any model, and low enough that no
// product of a few of them overflows.
const (
	maxSize   = 1 << 31
	maxLayers = 10_000
)

// A reader takes fields from a Config for a family and keeps the first error, so that a
// family reads as a list of its fields. It also notes where each field came from.
type reader struct {
	*Config
	arch       string // the architecture that chose the family, "" if the text config's type did
	err        *problem.Error
	most       int64 // that a size may be; 0: maxSize
	provenance map[string]string
	oddities   []Oddity
}

func newReader(c *Config) *reader { return &reader{Config: c, provenance: map[string]string{}} }

// fail keeps the first error.
func (r *reader) fail(code problem.Code, key string, format string, args ...any) {
	if r.err != nil {
		return
	}
	var value any
	if v, _, ok := r.text.get(key); ok {
		value = v.Any()
	} else if v, ok := r.Raw().Get(key); ok { // a key that the class replaces by others
		value = v.Any()
	}
	if r.path != "" && key != "" {
		key = r.path + "." + key
	}
	r.err = problem.New(code, key, value, format, args...)
	switch {
	case key == "":
	case code == problem.MissingField:
		r.err.Hint = "add it to the config; a request may give it in hf_overrides"
	case code == problem.BadValue, code == problem.NotDivisible:
		r.err.Hint = "correct it in the config; a request may give another in hf_overrides"
	}
}

// whole reads an integer between low and maxSize. Absent and null are ok = false.
func (r *reader) whole(key string, low int64) (int, bool) {
	v, ok := r.Value(key)
	if !ok {
		return 0, false
	}
	n, isInt := v.Int()
	most := cmp.Or(r.most, maxSize)
	switch {
	case !isInt && beyond(v):
		r.fail(problem.BadValue, key, "greater than %d", most)
	case !isInt:
		r.fail(problem.BadValue, key, "not a whole number")
	case n < low:
		r.fail(problem.BadValue, key, "less than %d", low)
	case n > most:
		r.fail(problem.BadValue, key, "greater than %d", most)
	default:
		return int(n), true
	}
	return 0, false
}

// beyond reports a number that no integer of ours holds.
func beyond(v checkpoint.Value) bool {
	x, isNumber := v.Float()
	return isNumber && x >= 1<<53
}

// otherNames are what classes in a checkpoint's own repository call a field. Those that
// Transformers knows have their names in the table of classes.
var otherNames = map[string][]string{
	"num_hidden_layers":   {"num_layers", "n_layer", "n_layers"},
	"num_attention_heads": {"n_head", "n_heads"},
	"hidden_size":         {"n_embd", "d_model"},
	"intermediate_size":   {"ffn_hidden_size", "ff_intermediate_size"},
}

// size reads a positive integer that neither file nor class may leave out.
func (r *reader) size(key string) int {
	n, ok := r.whole(key, 1)
	if !ok && r.err == nil && !r.Known() {
		n, _ = r.first(otherNames[key]...)
		ok = n > 0
	}
	switch _, _, given := r.text.get(key); {
	case ok || r.err != nil:
	case given:
		r.fail(problem.MissingField, key, "%s needs a number here", r.className())
	default:
		r.fail(problem.MissingField, key, "missing, and %s has no default for it", r.className())
	}
	return n
}

// opt reads a non-negative integer, or def when it is absent or null.
func (r *reader) opt(key string, def int) int {
	if n, ok := r.whole(key, 0); ok {
		return n
	}
	return def
}

// flag reads a truth value, or def when it is absent. Null is as good as false in Python.
func (r *reader) flag(key string, def bool) bool {
	v, ok := r.Value(key)
	if !ok {
		return def && !r.IsNull(key)
	}
	if b, isBool := r.Bool(key); isBool {
		return b
	}
	r.fail(problem.BadValue, key, "%v is not true or false", v.Any())
	return def
}

// tied reads tie_word_embeddings, which a wrapper around the text config says for both: its
// own class may have another default (vllm config/vllm.py, with_hf_config).
func (r *reader) tied() bool {
	if r.arch == "ColPaliForRetrieval" { // as the PaliGemma in it says
		v, _ := r.Top().Object("vlm_config").Get("tie_word_embeddings")
		b, ok := v.Bool()
		return b || !ok
	}
	if r.text.attributes != r.top.attributes && !slices.Contains(tiedByText, r.arch) {
		if b, ok := r.Top().Bool("tie_word_embeddings"); ok {
			return b
		}
	}
	return r.flag("tie_word_embeddings", false)
}

// tiedByText are the wrappers whose text model is built from the text config alone, and ties
// as that says (vllm qwen3_5.py, minicpmv4_6.py, interns1_pro.py, interns2_mobius.py).
var tiedByText = []string{"Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration", "ColQwen3_5",
	"MiniCPMV4_6ForConditionalGeneration", "InternS1ProForConditionalGeneration", "InternS2MobiusForConditionalGeneration",
	"D3ForSequenceClassification", "ClefFlashForJointSchema"}

// first reads the first of keys that has a value, as a positive integer.
func (r *reader) first(keys ...string) (n int, key string) {
	for _, key = range keys {
		if n, ok := r.whole(key, 1); ok || r.err != nil {
			return n, key
		}
	}
	return 0, ""
}

// given is key where the file has it, null or not, or else the class's own name of the field.
func (r *reader) given(key, own string) string {
	if _, ok := r.Raw().Get(key); ok {
		return key
	}
	return own
}

func (r *reader) className() string {
	if r.text.kind == "" {
		return "a config without model_type"
	}
	return r.text.kind
}

// from notes that the report's field came from where.
func (r *reader) from(field, where string) { r.provenance[field] = where }

// strings reads a list of strings of a wanted length.
func (r *reader) strings(key string, want int) []string {
	list, ok := r.List(key)
	if !ok {
		return nil
	}
	if len(list) != want {
		r.fail(problem.BadValue, key, "%d entries for %d layers", len(list), want)
		return nil
	}
	out := make([]string, len(list))
	for i, v := range list {
		s, isText := v.Text()
		if !isText {
			r.fail(problem.BadValue, key, "entry %d is not a string", i)
			return nil
		}
		out[i] = s
	}
	return out
}

// architecture is the first of architectures, "" when there is none.
func architecture(o *checkpoint.Object) string {
	v, _ := o.Get("architectures")
	if list := v.List(); len(list) > 0 {
		name, _ := list[0].Text()
		return name
	}
	name, _ := v.Text()
	return name
}

// model starts a Model with what every family reads alike.
func (r *reader) model() *Model {
	m := &Model{
		Architecture: architecture(r.top.object),
		ModelType:    r.top.kind,
		TextType:     r.text.kind,
		Config:       r.Config,
		Provenance:   maps.Clone(r.provenance),
	}
	return m
}
