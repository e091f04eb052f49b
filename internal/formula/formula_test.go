package formula

import (
	"strings"
	"testing"

	"headcount/checkpoint"
)

// config is an Env over one object: all its keys are attributes, those of more are the file's own.
type config struct {
	fields, more *checkpoint.Object
	taken        map[string]bool
}

func (c config) Get(name string) (checkpoint.Value, bool) { return c.fields.Get(name) }
func (c config) Sub(name, attr string) (checkpoint.Value, bool) {
	v, _ := c.fields.Get(name)
	return v.Dict().Get(attr)
}
func (c config) Given(key string) (checkpoint.Value, bool) {
	if c.taken[key] {
		return checkpoint.Value{}, false
	}
	return c.more.Get(key)
}
func (c config) Take(key string) (checkpoint.Value, bool) {
	v, ok := c.Given(key)
	c.taken[key] = true
	return v, ok
}
func (c config) Rest(string) *checkpoint.Object { return c.more }

func newConfig(t testing.TB, fields, more string) config {
	t.Helper()
	c := config{taken: map[string]bool{}}
	for _, side := range []struct {
		text string
		to   **checkpoint.Object
	}{{fields, &c.fields}, {more, &c.more}} {
		o, _, err := checkpoint.Parse([]byte(side.text))
		if err != nil {
			t.Fatal(err)
		}
		*side.to = o
	}
	return c
}

const (
	testFields = `{"hidden": 4096, "heads": 32, "kv": null, "layers": 6, "window": 4096, "rate": 0.5, "on": true,
		"kinds": ["mamba", "attention"], "rope": {"rope_type": "yarn", "factor": 4}, "zero": 0, "minus": -7, "text": {"hidden_size": 64}}`
	testMore = `{"pattern": 3, "letters": "M*E-"}`
)

// The values are Python's for the same text, with given and take as lookups.
func TestEval(t *testing.T) {
	for _, tt := range []struct{ expr, want string }{
		{"hidden // heads", "128"},
		{"minus // 2", "-4"}, // towards minus infinity
		{"minus % 4", "1"},   // of the divisor's sign
		{"hidden / heads", "128.0"},
		{"2 ** 10 + 1", "1025"},
		{"-2 ** 2", "-4"},
		{"(hidden * rate) // heads", "64.0"},
		{"int(8 * hidden / 3)", "10922"},
		{"ceil(hidden / 3)", "1366"},
		{"round(2.5)", "2"},
		{"kv or heads", "32"},
		{"zero or None", "null"},
		{"heads if kv is None else kv", "32"},
		{"kv is not None and 1 // zero", "false"}, // the right side is not evaluated
		{"not on", "false"},
		{"'mamba' in kinds", "true"},
		{"'factor' not in rope", "false"},
		{"kinds == ['mamba', 'attention']", "true"},
		{"heads == 32.0", "true"},
		{"rope['factor']", "4"},
		{"rope.rope_type", `"yarn"`},
		{"text.hidden_size", "64"},
		{"kinds[-1]", `"attention"`},
		{"range(layers)[1:-1]", "[1,2,3,4]"},
		{"range(2, layers, 2)", "[2,4]"},
		{"['a'] * 2 + ['b']", `["a","a","b"]`},
		{"[*kinds, 'conv']", `["mamba","attention","conv"]`},
		{"['s' if (i + 1) % given('pattern') else 'f' for i in range(layers)]", `["s","s","f","s","s","f"]`},
		{"[i for i, k in enumerate(kinds) if k == 'attention']", "[1]"},
		{"{'a': 1, **rope, 'factor': 8}", `{"a":1,"rope_type":"yarn","factor":8}`},
		{"dict([[i, k] for i, k in enumerate(kinds)])", `{"0":"mamba","1":"attention"}`},
		{"pick(rope, 'theta', 10000.0)", "10000.0"},
		{"attr('nothing', 5)", "5"},
		{"has('heads') and not has('nothing')", "true"},
		{"given('nothing', 4)", "4"},
		{"isgiven('pattern')", "true"},
		{"take('pattern') + given('pattern', 0)", "3"},
		{"min(heads, layers)", "6"},
		{"max([1, 9, 3])", "9"},
		{"sum(range(5))", "10"},
		{"prod([2, 3, 7])", "42"},
		{"len(kinds) + len(rope)", "4"},
		{"sorted(set([3, 1, 3]))", "[1,3]"},
		{"position(kinds, 'attention')", "1"},
		{"renamed(kinds)", `["linear_attention","full_attention"]`},
		{"from_pattern(given('letters'))", `["linear_attention","full_attention","moe","mlp"]`},
		{"to_pattern(from_pattern(given('letters')))", `"M*E-"`},
		{"repeated([[['global', 'local'], 2]])", `["global","local","global","local"]`},
		{"kind(kinds) == 'list' and kind(kv) == 'none'", "true"},
		{"split('gated-gelu', '-')[-1]", `"gelu"`},
	} {
		f, err := ParseExpr(tt.expr)
		if err != nil {
			t.Error(err)
			continue
		}
		v, ok, err := f.Eval(newConfig(t, testFields, testMore))
		if got := string(v.AppendJSON(nil)); err != nil || !ok || got != tt.want {
			t.Errorf("%s = %s, %t, %v, want %s", tt.expr, got, ok, err, tt.want)
		}
	}
}

func TestEvalErrors(t *testing.T) {
	for _, tt := range []struct{ expr, want string }{
		{"hidden // zero", "division by zero"},
		{"hidden % zero", "division by zero"},
		{"kv + 1", "not both numbers"},
		{"'a' < 1", "cannot be compared"},
		{"kinds[2]", "no element"},
		{"rope['theta']", "no key"},
		{"9223372036854775807 + 1", "too large"},
		{"hidden ** 40", "too large"},
		{"range(hidden * hidden)", "more than"},
		{"['x'] * 1000000000", "more than"},
		{"[[j for j in range(60000)] for i in range(60000)]", "more than"},
		{"[i for i in range(60000) if i in range(60000)]", "more than"},
		{"from_pattern('MX')", "no layer type"},
		{"int('many')", "can be made whole"},
	} {
		f, err := ParseExpr(tt.expr)
		if err != nil {
			t.Error(err)
			continue
		}
		if v, _, err := f.Eval(newConfig(t, testFields, testMore)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s = %s, %v, want an error with %q", tt.expr, v.AppendJSON(nil), err, tt.want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Formula
	}{
		{"head_dim = hidden // heads", Formula{Target: "head_dim"}},
		{"kv ?= heads", Formula{Target: "kv", IfNull: true}},
		{"given.pattern = 6", Formula{Target: "pattern", Given: true}},
		{"text_config.sliding_window = None", Formula{Target: "sliding_window", Sub: "text_config"}},
	} {
		f, err := Parse(tt.text)
		if err != nil {
			t.Error(err)
			continue
		}
		if f.Target != tt.want.Target || f.Given != tt.want.Given || f.Sub != tt.want.Sub || f.IfNull != tt.want.IfNull || f.String() != tt.text {
			t.Errorf("%s: %+v", tt.text, f)
		}
	}
	for _, text := range []string{"", "a", "a = ", "a = (1", "a = [1", "a = 1 if 2", "a = nobody(1)", "a = len()", "a = 1 2", "a = 'x", "a = [x for y]"} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

// Whatever the expression, evaluating it ends, without a panic.
func FuzzEval(f *testing.F) {
	for _, seed := range []string{"hidden // heads", "[i for i in range(layers) if i in kinds]", "{**rope, 'a': 1}['a']", "kinds[-1:]", "text.x.y"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseExpr(text)
		if err != nil || len(text) > 200 {
			return
		}
		e.Eval(newConfig(t, testFields, testMore))
	})
}
