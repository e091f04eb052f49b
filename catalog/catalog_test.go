package catalog

import "testing"

func TestLookup(t *testing.T) {
	for _, name := range []string{"llama-3-70b", "LLAMA-3-70B", "meta-llama/Meta-Llama-3-70B"} {
		src, ok := Lookup(name)
		if !ok {
			t.Fatalf("%s is not found", name)
		}
		v, _ := src.Config.Get("num_hidden_layers")
		if n, _ := v.Int(); n != 80 {
			t.Errorf("%s: %d layers, want 80", name, n)
		}
	}
	for _, name := range []string{"", "\t", "\n", "nobody/knows", "zzzz", "llama-3-70b\t", "l"} {
		if _, ok := Lookup(name); ok {
			t.Errorf("%q is found", name)
		}
	}
}

// Every entry is found by each of its names, and by no other's.
func TestEveryEntryIsFound(t *testing.T) {
	for _, e := range All() {
		for _, name := range append(e.Short, e.ID) {
			if _, ok := Lookup(name); !ok {
				t.Errorf("%s is not found by %q", e.ID, name)
			}
		}
	}
}
