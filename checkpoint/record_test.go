package checkpoint_test

import (
	"testing"

	"headcount/checkpoint"
)

func TestRecord(t *testing.T) {
	src, err := checkpoint.FromBytes("x", checkpoint.Files{
		Config:  []byte(`{"a": 1, "b": 2, "null": null, "text_config": {"c": 3, "d": 4}, "list": [{"e": 5, "f": 6}, 7], "unread": {"a": 1}, "asked": {"first": 1, "second": 2}}`),
		HFQuant: []byte(`{"g": 8, "h": 9}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	reduced := checkpoint.Record(src)
	src.Config.Get("a")
	src.Config.Get("null")
	src.Config.Get("absent")
	src.Config.Get("asked")
	text, _ := src.Config.Get("text_config")
	text.Dict().Get("d")
	list, _ := src.Config.Get("list")
	list.List()[0].Dict().Get("e")
	src.HFQuant.Get("h")
	got := reduced()
	if have, want := string(got.Config.AppendJSON(nil)), `{"a":1,"null":null,"text_config":{"d":4},"list":[{"e":5},7],"asked":{"first":1}}`; have != want {
		t.Errorf("config is %s, want %s", have, want)
	}
	if have, want := string(got.HFQuant.AppendJSON(nil)), `{"h":9}`; have != want {
		t.Errorf("hf_quant_config is %s, want %s", have, want)
	}
}

func TestMerge(t *testing.T) {
	parse := func(s string) *checkpoint.Object {
		o, _, err := checkpoint.Parse([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	base := parse(`{"a": 1, "t": {"x": 1, "y": 2}, "s": {"z": 3}}`)
	got := base.Merge(parse(`{"t": {"y": 5, "w": 6}, "s": 4, "n": null}`))
	if have, want := string(got.AppendJSON(nil)), `{"a":1,"t":{"x":1,"y":5,"w":6},"s":4,"n":null}`; have != want {
		t.Errorf("merged is %s, want %s", have, want)
	}
	if have := string(base.AppendJSON(nil)); have != `{"a":1,"t":{"x":1,"y":2},"s":{"z":3}}` {
		t.Errorf("the base became %s", have)
	}
}
