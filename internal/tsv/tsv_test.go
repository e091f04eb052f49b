package tsv

import (
	"slices"
	"testing"
)

// Keys are compared as bytes up to the tab: "c-d" is after "c", however the lines sort.
const sorted = "a\t1\nab\tx\ty\nb\nc\t3\nc\t4\nc-d\t2\nz\tlast"

func TestRest(t *testing.T) {
	for _, text := range []string{sorted, sorted + "\n"} {
		for key, want := range map[string]string{"a": "1", "ab": "x\ty", "b": "", "c": "3", "c-d": "2", "z": "last"} {
			if got, ok := Rest(text, key); !ok || got != want {
				t.Errorf("Rest(%q) = %q, %v, want %q", key, got, ok, want)
			}
		}
		for _, key := range []string{"", "0", "aa", "abc", "d", "zz", "\t", "\n", "a\t1"} {
			if got, ok := Rest(text, key); ok {
				t.Errorf("Rest(%q) = %q, want nothing", key, got)
			}
		}
	}
	if _, ok := Rest("", "a"); ok {
		t.Error("an empty table has a line")
	}
}

func TestAll(t *testing.T) {
	for key, want := range map[string][]string{"c": {"3", "4"}, "z": {"last"}, "q": nil, "": nil} {
		if got := All(sorted, key); !slices.Equal(got, want) {
			t.Errorf("All(%q) = %q, want %q", key, got, want)
		}
	}
}
