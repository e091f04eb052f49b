package weights

import (
	"fmt"
	"regexp"
	"strings"

	"headcount/checkpoint"
)

// wrappers are what a checkpoint, or a model that holds a text model, puts before the name
// of a text model's module.
var wrappers = []string{"model.", "language_model.", "text_model.", "backbone.", "transformer.", "decoder."}

// canonical is a name in a list, without what wrappers put before it: "layers.3.mlp.gate"
// of "model.language_model.layers.3.mlp.gate". Names of layers that are another model's,
// of a tower or a draft, are none.
func canonical(name string) (string, bool) {
	name = stripped(name)
	at := strings.Index(name, "layers.")
	return name, at <= 0 || strings.ContainsAny(name[:at], "*?[")
}

// stripped is a name without what wrappers put before it.
func stripped(name string) string {
	for again := true; again; {
		again = false
		for _, w := range wrappers {
			if rest, ok := strings.CutPrefix(name, w); ok && rest != "" {
				name, again = rest, true
			}
		}
	}
	return name
}

// list reads the names in a list of the config; those of other models are left out.
func list(o *checkpoint.Object, key string) []string {
	v, _ := o.Get(key)
	var out []string
	for _, entry := range v.List() {
		if s, ok := entry.Text(); ok && s != "" {
			if strings.HasPrefix(s, expression) {
				out = append(out, s)
			} else if name, ok := canonical(s); ok {
				out = append(out, name)
			}
		}
	}
	return out
}

// others reads the names in a list that are those of layers of other models: of a tower, and
// of drafts, which nothing here asks about.
func others(o *checkpoint.Object, key string) []string {
	v, _ := o.Get(key)
	var out []string
	for _, entry := range v.List() {
		if s, ok := entry.Text(); ok && s != "" && !strings.HasPrefix(s, expression) {
			if name, own := canonical(s); !own {
				out = append(out, name)
			}
		}
	}
	return out
}

// expression marks a regular expression in lists of compressed-tensors.
const expression = "re:"

// engineName is the module's whole path in vLLM, as patterns see it.
func engineName(path string) string {
	if strings.HasPrefix(path, "layers.") {
		return "model." + path
	}
	return path
}

// A matcher holds names and patterns, and says whether one is about a module.
type matcher struct {
	names    map[string]bool
	patterns []*regexp.Regexp // of the whole path in vLLM
}

// newMatcher reads names and expressions. The error says which one is not understood.
func newMatcher(entries []string, others ...string) (*matcher, error) {
	m := &matcher{names: map[string]bool{}}
	for _, name := range others {
		m.names[name] = true
	}
	for _, entry := range entries {
		expr, ok := strings.CutPrefix(entry, expression)
		if !ok {
			m.names[entry] = true
			continue
		}
		re, err := regexp.Compile("^(?:" + expr + ")")
		if err != nil {
			return nil, fmt.Errorf("pattern %.80q of a quantisation is not understood", expr)
		}
		m.patterns = append(m.patterns, re)
	}
	return m, nil
}

func (m *matcher) matches(path string) bool {
	if m.names[path] {
		return true
	}
	for _, re := range m.patterns {
		if re.MatchString(engineName(path)) {
			return true
		}
	}
	return false
}

// about tells whether matches holds of a module: of itself, or of all that it joins. The
// engine refuses a module that is left out in part.
func (t *target) about(matches func(string) bool) (bool, error) {
	if matches(t.path) {
		return true, nil
	}
	if t.kind == expertModule || len(t.pieces) == 0 {
		return false, nil
	}
	n := 0
	for _, piece := range t.pieces {
		if matches(piece) {
			n++
		}
	}
	if n > 0 && n < len(t.pieces) {
		return false, fmt.Errorf("only a part of %s is quantised", t.path)
	}
	return n > 0, nil
}

// glob is a pattern of the shell, as Python's fnmatch reads it.
func glob(pattern string) (*regexp.Regexp, error) {
	if strings.HasPrefix(pattern, "layers.") {
		pattern = "model." + pattern
	}
	quoted := regexp.QuoteMeta(pattern)
	quoted = strings.NewReplacer(`\*`, ".*", `\?`, ".", `\[!`, "[^", `\[`, "[", `\]`, "]").Replace(quoted)
	re, err := regexp.Compile("^(?s:" + quoted + ")$")
	if err != nil {
		return nil, fmt.Errorf("pattern %.80q of a quantisation is not understood", pattern)
	}
	return re, nil
}
