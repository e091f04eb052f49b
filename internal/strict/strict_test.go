package strict

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"headcount/checkpoint"
	"headcount/problem"
)

type inner struct {
	Width int `json:"width"`
}

type Embedded struct {
	Depth int `json:"depth"`
}

type outer struct {
	Embedded
	Name  string  `json:"name"`
	Inner []inner `json:"inner"`
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct{ in, want, hint string }{
		{`{"name":"a","inner":[{"width":1}]}`, "", ""},
		{`{"nam":"a"}`, "nam: not a field of a thing", "did you mean name?"},
		{`{"inner":[{"widht":1}]}`, "widht: not a field of a thing", "did you mean width?"},
		{`{"inner":[{"width":"1"}]}`, "inner.width: a JSON string, want a whole number", ""},
		{`{"depth":"1"}`, "depth: a JSON string, want a whole number", ""},
		{`{"name":1}`, "name: a JSON number, want a string", ""},
		{`{} {}`, "text after the end of the thing", ""},
		{`[]`, "not a JSON object", ""},
		{``, "not a JSON object", ""},
		{`{"name"`, "not a JSON object", ""},
		{`{"name":}`, "byte 9: invalid character", ""},
		{`{"name":"` + strings.Repeat("a", 100) + `"}`, "thing of 111 bytes exceeds the cap of 100", ""},
	} {
		var v outer
		err := Decode([]byte(tt.in), &v, "thing", 100)
		if (err == nil) != (tt.want == "") {
			t.Errorf("%.40s: %v", tt.in, err)
			continue
		}
		if err == nil {
			continue
		}
		p, ok := errors.AsType[*problem.Error](err)
		if !ok || !strings.HasPrefix(p.Message, tt.want) || p.Hint != tt.hint {
			t.Errorf("%.40s: %v (%s), want %s (%s)", tt.in, err, p.Hint, tt.want, tt.hint)
		}
	}
}

// Infinity is a number where Python has it as one, and text where it is text.
func TestInfinityIsBlamedAsWritten(t *testing.T) {
	var v struct {
		Size int `json:"size"`
	}
	if err := Decode([]byte(`{"size": Infinity}`), &v, "thing", 100); err == nil || err.Error() != "size: a JSON number Infinity, want a whole number" {
		t.Error(err)
	}
}

func TestDecodeInfinity(t *testing.T) {
	var v struct {
		Config json.RawMessage `json:"config"`
	}
	const in = `{"config": {"limit": [0.0, Infinity, -Infinity], "Infinity \\\" Infinity": "Infinity"}}`
	if err := Decode([]byte(in), &v, "thing", 200); err != nil {
		t.Fatal(err)
	}
	if want := `{"limit": [0.0, 1e999999, -1e999999], "Infinity \\\" Infinity": "Infinity"}`; string(v.Config) != want {
		t.Errorf("%s\nwant %s", v.Config, want)
	}
	object, _, err := checkpoint.Parse(v.Config)
	if err != nil {
		t.Fatal(err)
	}
	python, _, err := checkpoint.Parse([]byte(`{"limit": [0.0, Infinity, -Infinity], "Infinity \\\" Infinity": "Infinity"}`))
	if err != nil || !reflect.DeepEqual(object, python) {
		t.Errorf("%v\n%v, %v", object, python, err)
	}
}
