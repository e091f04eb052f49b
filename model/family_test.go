package model

import "testing"

// No two families name the same architecture or model_type: which one resolves a config
// must not depend on their order.
func TestFamiliesAreDisjoint(t *testing.T) {
	architectures, types := map[string]string{}, map[string]string{}
	claim := func(taken map[string]string, name, family string) {
		if other, ok := taken[name]; ok {
			t.Errorf("%s is named by %s and by %s", name, other, family)
		}
		taken[name] = family
	}
	for _, f := range families {
		for _, name := range f.architectures {
			claim(architectures, name, f.name)
		}
		for _, name := range f.types {
			claim(types, name, f.name)
		}
	}
}
