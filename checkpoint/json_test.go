package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"headcount/internal/shared"
	"headcount/problem"
)

// sample is a config with everything that Parse has to read: nesting, each kind of
// value, escapes, Python's own numbers, a key given twice.
const sample = `{
  "architectures": ["LlamaForCausalLM"],
  "model_type": "llama",
  "hidden_size": 4096, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": null,
  "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "time_step_limit": [0.0, Infinity],
  "attention_bias": false, "use_cache": true, "empty": {}, "none": [],
  "rope_scaling": {"factor": 8.0, "low": -Infinity, "rope_type": "llama3\n\"\u00e9\ud83d\ude00\\", "x": NaN},
  "layer_types": ["full_attention", ["nested", {"deep": -0.5E+2}]],
  "vocab_size": 128256, "vocab_size": 128000
}
`

func TestParseSample(t *testing.T) {
	o, duplicates, err := Parse([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"vocab_size"}; !reflect.DeepEqual(duplicates, want) {
		t.Errorf("duplicates = %q, want %q", duplicates, want)
	}
	if v, _ := o.Get("vocab_size"); v != NewInt(128000) {
		t.Errorf("vocab_size = %v, want the last one given", v.Any())
	}
	if v, ok := o.Get("head_dim"); !ok || v.Kind() != Null {
		t.Error("head_dim: null is a value")
	}
	if _, ok := o.Get("absent"); ok {
		t.Error("absent: found")
	}
	keys := o.Keys()
	if len(keys) != o.Len() || keys[0] != "architectures" || keys[len(keys)-1] != "vocab_size" {
		t.Errorf("keys = %q", keys)
	}
	scaling, _ := o.Get("rope_scaling")
	if s, _ := scaling.Dict().Get("rope_type"); s.text != "llama3\n\"é😀\\" {
		t.Errorf("rope_type = %q", s.text)
	}
	limit, _ := o.Get("time_step_limit")
	if x, ok := limit.List()[1].Float(); !ok || !math.IsInf(x, 1) {
		t.Errorf("time_step_limit[1] = %v", x)
	}
}

func TestParseNumbers(t *testing.T) {
	for _, tt := range []struct {
		in      string
		kind    Kind
		integer int64 // when whole
		whole   bool
		real    float64
		out     string
	}{
		{"0", Int, 0, true, 0, "0"},
		{"-0", Int, 0, true, 0, "0"},
		{"9223372036854775807", Int, math.MaxInt64, true, 1 << 63, "9223372036854775807"},
		{"-9223372036854775808", Int, math.MinInt64, true, -1 << 63, "-9223372036854775808"},
		{"9223372036854775808", Float, 0, false, 1 << 63, "9223372036854775808"},    // 2^63
		{"-9223372036854775809", Float, 0, false, -1 << 63, "-9223372036854775809"}, // keeps its digits
		{"8.0", Float, 8, true, 8, "8.0"},
		{"8.5", Float, 0, false, 8.5, "8.5"},
		{"-0.0", Float, 0, true, math.Copysign(0, -1), "-0.0"},
		{"4e3", Float, 4000, true, 4000, "4000.0"},
		{"9007199254740991.0", Float, 1<<53 - 1, true, 1<<53 - 1, "9007199254740991.0"},
		{"9007199254740992.0", Float, 0, false, 1 << 53, "9007199254740992.0"}, // 2^53 may be 2^53 + 1
		{"1e400", Float, 0, false, math.Inf(1), "Infinity"},
		{"-1E+400", Float, 0, false, math.Inf(-1), "-Infinity"},
		{"1e-400", Float, 0, true, 0, "0.0"},
		{"1e-05", Float, 0, false, 1e-5, "1e-05"},
		{"0.0001", Float, 0, false, 1e-4, "0.0001"},
		{"1e15", Float, 1e15, true, 1e15, "1000000000000000.0"},
		{"1e16", Float, 0, false, 1e16, "1e+16"},
		{"Infinity", Float, 0, false, math.Inf(1), "Infinity"},
		{"-Infinity", Float, 0, false, math.Inf(-1), "-Infinity"},
	} {
		o, _, err := Parse([]byte(`{"n": ` + tt.in + `}`))
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		v, _ := o.Get("n")
		if n, ok := v.Int(); v.Kind() != tt.kind || n != tt.integer || ok != tt.whole {
			t.Errorf("%s: kind %d, Int %d %v, want kind %d, %d %v", tt.in, v.Kind(), n, ok, tt.kind, tt.integer, tt.whole)
		}
		if x, ok := v.Float(); !ok || x != tt.real || math.Signbit(x) != math.Signbit(tt.real) {
			t.Errorf("%s: Float %v %v, want %v", tt.in, x, ok, tt.real)
		}
		if out := string(v.AppendJSON(nil)); out != tt.out {
			t.Errorf("%s: written as %s, want %s", tt.in, out, tt.out)
		}
	}
}

func TestParseErrors(t *testing.T) {
	nest := func(n int, open, inner, closing string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(closing, n)
	}
	for _, tt := range []struct{ name, in, want string }{
		{"empty", "", "empty, not JSON"},
		{"space only", " \n\t ", "empty, not JSON"},
		{"HTML", "\n<!DOCTYPE html>", "an HTML or XML page, not JSON"},
		{"LFS pointer", "version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer, not JSON"},
		{"GGUF", "GGUF\x03\x00", "a GGUF file, not JSON"},
		{"PyTorch", "PK\x03\x04\x00", "a PyTorch file or another archive, not JSON"},
		{"safetensors", "\x10\x00\x00\x00\x00\x00\x00\x00{}", "a safetensors file, not JSON"},
		{"GGUF over the cap", "GGUF" + strings.Repeat("x", MaxBytes), "a GGUF file, not JSON"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "UTF-16 text, not JSON"},
		{"a list", "[1]", "line 1, column 1: a list is not an object"},
		{"null", "null", "line 1, column 1: null is not an object"},
		{"a number", "8", "line 1, column 1: a number is not an object"},
		{"text after", "{} x", "line 1, column 4: text after the end"},
		{"two objects", "{}\n{}", "line 2, column 1: text after the end"},
		{"NUL", "{\x00}", `line 1, column 2: '\x00' where a key in double quotes should be`},
		{"Python repr", "{'a': 1}", `line 1, column 2: '\'' where a key in double quotes should be`},
		{"a comment", "{\n  // no\n}", "line 2, column 3: '/' where a key in double quotes should be"},
		{"trailing comma", `{"a": 1,}`, "line 1, column 9: a comma before '}'"},
		{"trailing comma in a list", `{"a": [1, ]}`, "line 1, column 11: a comma before ']'"},
		{"no colon", `{"a" 1}`, "line 1, column 6: '1' where a colon should be"},
		{"no comma", `{"a": 1 "b": 2}`, `line 1, column 9: '"' where a comma or '}' should be`},
		{"wrong bracket", `{"a": [1}`, "line 1, column 9: '}' where a comma or ']' should be"},
		{"no value", `{"a": }`, "line 1, column 7: '}' where a value should be"},
		{"Python True", `{"a": True}`, "line 1, column 7: 'T' where a value should be"},
		{"half a word", `{"a": tru}`, "line 1, column 7: 't' where a value should be"},
		{"ends early", `{"a": `, "line 1, column 7: ends where a value should be"},
		{"minus NaN", `{"a": -NaN}`, "line 1, column 8: 'N' where a digit should be"},
		{"half of -Infinity", `{"a": -Inf}`, "line 1, column 7: '-' where a value should be"},
		{"plus", `{"a": +1}`, "line 1, column 7: '+' where a value should be"},
		{"leading zero", `{"a": 01}`, "line 1, column 7: a number with a leading zero"},
		{"no digit before the point", `{"a": .5}`, "line 1, column 7: '.' where a value should be"},
		{"no digit after the point", `{"a": 1.}`, "line 1, column 9: '}' where a digit should be"},
		{"no exponent", `{"a": 1e}`, "line 1, column 9: '}' where a digit should be"},
		{"hexadecimal", `{"a": 0x10}`, "line 1, column 8: 'x' where a comma or '}' should be"},
		{"huge integer", `{"a": ` + strings.Repeat("9", maxDigits+1) + `}`, "line 1, column 7: an integer of more than 4300 digits"},
		{"newline in a string", "{\"a\": \"x\ny\"}", "line 1, column 9: a control character in a string"},
		{"control character after an escape", "{\"a\": \"\\n\x01\"}", "line 1, column 10: a control character in a string"},
		{"open string", `{"a": "x`, "line 1, column 9: a string has no end"},
		{"open string after an escape", `{"a": "\n`, "line 1, column 10: a string has no end"},
		{"bad escape", `{"a": "\x41"}`, "line 1, column 8: a bad escape in a string"},
		{"short escape", `{"a": "\u12"}`, "line 1, column 8: a bad escape in a string"},
		{"bad UTF-8", "{\"a\":\n \"\xff\"}", "line 2, column 3: not UTF-8"},
		{"overlong UTF-8", "{\"\xc0\xaf\": 1}", "line 1, column 3: not UTF-8"},
		{"a surrogate in UTF-8", "{\"\ufffd\xed\xa0\x80\": 1}", "line 1, column 6: not UTF-8"},
		{"deep list", `{"a": ` + nest(maxDepth, "[", "", "]") + `}`, "line 1, column 70: nested deeper than 64"},
		{"deep object", nest(maxDepth, `{"a":`, "{}", "}"), "line 1, column 321: nested deeper than 64"},
		{"many values", `{"a": [` + strings.Repeat("1,", maxElements) + `1]}`, fmt.Sprintf("line 1, column %d: more than 131072 values", 8+2*(maxElements-2))},
		{"large", `{"a": "` + strings.Repeat("x", MaxBytes) + `"}`, "larger than 1048576 bytes"},
	} {
		o, _, err := Parse([]byte(tt.in))
		p, ok := errors.AsType[*problem.Error](err)
		if !ok || o != nil {
			t.Errorf("%s: accepted", tt.name)
			continue
		}
		if p.Code != problem.Unreadable || p.Error() != tt.want {
			t.Errorf("%s: %s %q, want %q", tt.name, p.Code, p.Error(), tt.want)
		}
	}
}

func TestParseLimitsAreInclusive(t *testing.T) {
	for name, in := range map[string]string{
		"depth":    strings.Repeat(`{"a":`, maxDepth-1) + "{}" + strings.Repeat("}", maxDepth-1),
		"elements": `{"a": [` + strings.Repeat("1,", maxElements-3) + `1]}`,
		"bytes":    `{"a": "` + strings.Repeat("x", MaxBytes-len(`{"a": ""}`)) + `"}`,
		"digits":   `{"a": ` + strings.Repeat("9", maxDigits) + `}`,
		"mark":     "\ufeff{}",
	} {
		if _, _, err := Parse([]byte(in)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseText(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`plain`, "plain"},
		{`\"\\\/\b\f\n\r\t`, "\"\\/\b\f\n\r\t"},
		{`\u00e9\u4E2d`, "é中"},
		{`\ud83d\ude00`, "😀"},
		{`\ud83d`, "\ufffd"},                       // a lone high surrogate
		{`\ude00\ud83d`, "\ufffd\ufffd"},           // the wrong way round
		{`\ud83d\u0041`, "\ufffdA"},                // high surrogate, then a letter
		{`\ud83d\n`, "\ufffd\n"},                   // high surrogate, then another escape
		{"\x7f\u2028 \ufffd", "\x7f\u2028 \ufffd"}, // allowed as they are
	} {
		o, _, err := Parse([]byte(`{"s": "` + tt.in + `"}`))
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		v, _ := o.Get("s")
		if s, ok := v.Text(); !ok || s != tt.want {
			t.Errorf("%s: %q, want %q", tt.in, s, tt.want)
		}
		again, _, err := Parse(o.AppendJSON(nil))
		if w, _ := again.Get("s"); err != nil || w != v {
			t.Errorf("%s: reads back as %q, %v", tt.in, w.text, err)
		}
	}
}

func TestParseDuplicates(t *testing.T) {
	large := strings.Builder{}
	for i := range 2 * scanned {
		fmt.Fprintf(&large, `"k%d": %d, `, i, i)
	}
	for _, tt := range []struct {
		name, in, want string
		paths          []string
	}{
		{"none", `{"a": 1, "b": {"a": 2}}`, `{"a":1,"b":{"a":2}}`, nil},
		{"last wins, first place", `{"a": 1, "b": 2, "a": 3}`, `{"a":3,"b":2}`, []string{"a"}},
		{"whole value", `{"a": {"x": 1}, "a": {"y": 2}}`, `{"a":{"y":2}}`, []string{"a"}},
		{"by escape", `{"a": 1, "\u0061": 2}`, `{"a":2}`, []string{"a"}},
		{"nested", `{"t": {"u": {"a": 1, "a": 2}}}`, `{"t":{"u":{"a":2}}}`, []string{"t.u.a"}},
		{"in a list", `{"t": [1, [{"a": 1, "a": 2}]]}`, `{"t":[1,[{"a":2}]]}`, []string{"t[1][0].a"}},
		{"several", `{"t": {"a": 1, "a": 2}, "t": {"b": 1, "b": 2}}`, `{"t":{"b":2}}`, []string{"t.a", "t.b", "t"}},
		{"unprintable", `{"\n": 1, "\n": 2}`, `{"\n":2}`, []string{"\ufffd"}},
		{"large object", `{` + large.String() + `"k3": 0, "k20": 1}`, "", []string{"k3", "k20"}},
	} {
		o, paths, err := Parse([]byte(tt.in))
		if err != nil || !reflect.DeepEqual(paths, tt.paths) {
			t.Errorf("%s: duplicates %q, %v, want %q", tt.name, paths, err, tt.paths)
			continue
		}
		if out := string(o.AppendJSON(nil)); tt.want != "" && out != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, out, tt.want)
		}
	}
	_, paths, _ := Parse([]byte(`{` + strings.Repeat(`"a": 1, `, 1000) + `"a": 1}`))
	if len(paths) != maxDuplicates {
		t.Errorf("%d paths, want them capped at %d", len(paths), maxDuplicates)
	}
}

// A file cut anywhere is an error, and never a smaller config.
func TestParseTruncated(t *testing.T) {
	whole := strings.TrimSpace(sample)
	for n := range len(whole) {
		if _, _, err := Parse([]byte(whole[:n])); err == nil {
			t.Errorf("accepted the first %d bytes", n)
		}
	}
}

// Objects behave alike on both sides of the size from which they keep a map.
func TestObjectSet(t *testing.T) {
	o := NewObject()
	for i := range 3 * scanned {
		key := fmt.Sprint(i)
		if _, ok := o.Get(key); ok {
			t.Fatalf("%s: found before Set", key)
		}
		o.Set(key, NewInt(0))
		o.Set(key, NewInt(int64(i)))
		for j := range i + 1 {
			if v, ok := o.Get(fmt.Sprint(j)); !ok || v != NewInt(int64(j)) {
				t.Fatalf("after %d: %d = %v", i, j, v.Any())
			}
		}
		if o.Len() != i+1 || o.Keys()[i] != key {
			t.Fatalf("after %d: %d keys, last %q", i, o.Len(), o.Keys()[i])
		}
	}
	var none *Object
	if _, ok := none.Get("a"); ok || none.Len() != 0 || none.Keys() != nil || string(none.AppendJSON(nil)) != "null" {
		t.Error("a nil object is empty")
	}
}

func TestValueAccessors(t *testing.T) {
	inner := NewObject()
	inner.Set("a", NewInt(1))
	for _, tt := range []struct {
		v    Value
		kind Kind
		any  any
		out  string
	}{
		{Value{}, Null, "null", "null"},
		{NewDict(nil), Null, "null", "null"},
		{NewBool(true), Bool, true, "true"},
		{NewBool(false), Bool, false, "false"},
		{NewInt(-8), Int, int64(-8), "-8"},
		{NewFloat(0.5), Float, 0.5, "0.5"},
		{NewFloat(math.NaN()), Float, "NaN", "NaN"},
		{NewFloat(math.Inf(-1)), Float, "-Infinity", "-Infinity"},
		{NewText("a\"\x01\n\r\t\\é"), String, `"a\"\x01\n\r\t\\é"`, `"a\"\u0001\n\r\t\\é"`},
		{NewList(NewInt(1), Value{}), List, "list of 2", "[1,null]"},
		{NewList(), List, "list of 0", "[]"},
		{NewDict(inner), Dict, "object of 1 keys", `{"a":1}`},
	} {
		if tt.v.Kind() != tt.kind || tt.v.Any() != tt.any {
			t.Errorf("kind %d, Any %v, want %d, %v", tt.v.Kind(), tt.v.Any(), tt.kind, tt.any)
		}
		if out, err := tt.v.MarshalJSON(); err != nil || string(out) != tt.out {
			t.Errorf("%v: written as %s, want %s", tt.any, out, tt.out)
		}
		_, isInt := tt.v.Int()
		_, isFloat := tt.v.Float()
		_, isBool := tt.v.Bool()
		_, isText := tt.v.Text()
		got := [...]bool{isInt, isFloat, isBool, isText, tt.v.List() != nil, tt.v.Dict() != nil}
		want := [...]bool{tt.kind == Int, tt.kind == Int || tt.kind == Float, tt.kind == Bool, tt.kind == String, tt.out == "[1,null]", tt.kind == Dict}
		if got != want {
			t.Errorf("%v: answers as %v, want %v", tt.any, got, want)
		}
	}
}

func TestMarshalJSON(t *testing.T) {
	o, _, err := Parse([]byte(`{"b": [1, 2.0], "a": {"<": "é"}}`))
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(struct {
		Config *Object `json:"config"`
	}{o})
	if want := `{"config":{"b":[1,2.0],"a":{"\u003c":"é"}}}`; err != nil || string(out) != want {
		t.Errorf("%s, %v, want %s", out, err, want)
	}
	o.Set("c", NewFloat(math.NaN()))
	if out, err := json.Marshal(o); err == nil {
		t.Errorf("encoding/json took NaN: %s", out)
	}
}

// agrees compares what Parse and encoding/json make of one text.
func agrees(v Value, std any) bool {
	switch std := std.(type) {
	case nil:
		return v.Kind() == Null
	case bool:
		b, ok := v.Bool()
		return ok && b == std
	case float64:
		x, ok := v.Float()
		return ok && x == std
	case string:
		s, ok := v.Text()
		return ok && s == std
	case []any:
		if v.Kind() != List || len(v.List()) != len(std) {
			return false
		}
		for i, element := range v.List() {
			if !agrees(element, std[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		if v.Kind() != Dict || v.Dict().Len() != len(std) {
			return false
		}
		for _, key := range v.Dict().Keys() {
			value, _ := v.Dict().Get(key)
			other, ok := std[key]
			if !ok || !agrees(value, other) {
				return false
			}
		}
		return true
	}
	return false
}

// checkParse holds for any bytes: what Parse accepts it writes in one form, which reads
// back as the same, and encoding/json agrees where it accepts the text too.
func checkParse(t *testing.T, data []byte) {
	o, _, err := Parse(data)
	if err != nil {
		if p, ok := errors.AsType[*problem.Error](err); !ok || strings.ContainsAny(p.Error(), "\n\r") {
			t.Errorf("not one line of a problem: %q", err)
		}
		return
	}
	text := o.AppendJSON(nil)
	again, duplicates, err := Parse(text)
	if err != nil || len(duplicates) > 0 {
		t.Fatalf("does not read back: %v, duplicates %q: %.200s", err, duplicates, text)
	}
	if second := again.AppendJSON(nil); string(second) != string(text) {
		t.Fatalf("reads back as another:\n%.300s\n%.300s", text, second)
	}
	var std any
	if json.Unmarshal(data, &std) == nil && !agrees(NewDict(o), std) {
		t.Fatalf("encoding/json reads another value than %.300s", text)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		sample, sample[:300], "{}", `{"a":[[[[]]]]}`, `{"a":1,"a":{"b":2,"b":3}}`, `{"\ud83d\ude00":"\ud83d"}`,
		`{"n":[-0,1e400,9223372036854775808,8.0,NaN,-Infinity]}`, "\ufeff{}", "<html>", "{\"\xff\":1}", `[1]`, `{"a":01}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(checkParse)
}

// Every config of the corpus reads, reads back, and reads as encoding/json has it.
func TestParseCorpus(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(shared.Dir(t), "configs", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no configs: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Parse(data); err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
		t.Run(filepath.Base(file), func(t *testing.T) { checkParse(t, data) })
	}
}

func BenchmarkParse(b *testing.B) {
	typical := []byte(sample)
	// A quantised checkpoint's config lists its modules: 20 KB of strings.
	modules := NewObject()
	for i := range 400 {
		modules.Set(fmt.Sprintf("model.layers.%d.self_attn.q_proj", i), NewText("float8_e4m3fn"))
	}
	large, _, err := Parse(typical)
	if err != nil {
		b.Fatal(err)
	}
	large.Set("quantization_config", NewDict(modules))
	for _, bb := range []struct {
		name string
		data []byte
	}{{"typical", typical}, {"quantised", large.AppendJSON(nil)}} {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(bb.data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Parse(bb.data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
