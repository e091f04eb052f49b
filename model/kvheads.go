package model

import (
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/problem"
)

// An Edit gives one field of config.json another value.
type Edit struct {
	Path  []string // keys from the root
	Value checkpoint.Value
}

func set(v checkpoint.Value, path ...string) Edit { return Edit{path, v} }

// KVHeadEdits are the edits of config.json that give the model n KV heads, in the field
// that its class reads. The error is a [*problem.Error]
// where the class has no such field: every query head of it has its own
// keys and values, and no engine would read a checkpoint that says otherwise.
func (m *Model) KVHeadEdits(n int) ([]Edit, error) {
	find := m.family.kvHeads
	if find == nil {
		find = aliasedKVHeads
	}
	edits := find(m.Config, n)
	if len(edits) == 0 {
		return nil, problem.New(problem.Unsupported, "architectures", m.Architecture, "has no field that gives it %d KV heads, so no engine would read them", n)
	}
	if path, nested := m.Config.Nested(); nested {
		for i := range edits {
			edits[i].Path = append(strings.Split(path, "."), edits[i].Path...)
		}
	}
	return edits, nil
}

// aliasedKVHeads sets each name of the number of KV heads that the file has and its class
// reads, or else the one under which the class keeps it.
func aliasedKVHeads(c *Config, n int) []Edit {
	var edits []Edit
	for _, key := range kvAliases {
		if old, inFile := c.file().Get(key); inFile && (!c.Known() || c.text.class.keeps(key)) {
			edits = append(edits, set(like(old, n), key))
		}
	}
	if len(edits) > 0 {
		return edits
	}
	for _, key := range kvAliases {
		if c.text.class.keeps(key) {
			return []Edit{set(checkpoint.NewInt(int64(n)), c.text.attributes.own(key))}
		}
	}
	return nil
}

// file is the object of config.json that holds the text model's fields: the outer one also
// where the class moves them into a config of their own.
func (c *Config) file() *checkpoint.Object {
	if c.path != "" {
		return c.text.object
	}
	return c.top.object
}

// keeps reports whether the class has a field, under whatever name.
func (c *class) keeps(key string) bool {
	if own, ok := c.alias[key]; ok {
		key = own
	}
	_, ok := c.defaults.Get(key)
	return ok
}

// like is n in the form of old: a number, or a list of as many as old has.
func like(old checkpoint.Value, n int) checkpoint.Value {
	v := checkpoint.NewInt(int64(n))
	if old.Kind() != checkpoint.List {
		return v
	}
	return checkpoint.NewList(slices.Repeat([]checkpoint.Value{v}, len(old.List()))...)
}

// attnConfigKVHeads sets DBRX's and llm-foundry's field.
func attnConfigKVHeads(_ *Config, n int) []Edit {
	return []Edit{set(checkpoint.NewInt(int64(n)), "attn_config", "kv_n_heads")}
}

// A Projection is one tensor of a layer in which KV heads have rows: keys, values or both,
// and queries beside them where the checkpoint fuses the three. A bias or a norm whose
// elements belong to heads is one too.
type Projection struct {
	Name       string // inside its layer
	Rows, Cols int    // Cols is 0 for a vector
	Transposed bool   // stored as [Cols, Rows]
	Blocks     []Block
}

// A Block is the rows of one head in a Projection. Blocks follow each other without gap.
type Block struct {
	Role Role
	Head int // of the queries' or of the KV heads
	Rows int
}

// Projections are the tensors of a layer that hold keys or values of KV heads, in the
// order in which the layer has them.
func (l *Layer) Projections() []Projection {
	var out []Projection
	byName := map[string][]Param{}
	for _, p := range l.Params {
		if p.headed() {
			byName[p.Name] = append(byName[p.Name], p)
		}
	}
	for _, p := range l.Params {
		parts := byName[p.Name]
		if delete(byName, p.Name); slices.ContainsFunc(parts, Param.ofKV) {
			out = append(out, projection(parts))
		}
	}
	return out
}

// headed reports whether rows of the parameter belong to heads.
func (p Param) headed() bool {
	return (p.Role == Queries || p.ofKV()) && p.Rows.Unit > 0 && p.Rows.Size > 0
}

func (p Param) ofKV() bool { return p.Role == Keys || p.Role == Values }

// projection is the tensor in which parameters of one name lie.
func projection(parts []Param) Projection {
	first := parts[0]
	out := Projection{Name: first.Name, Cols: first.Cols.Size, Transposed: first.Transposed}
	groups := 1 // runs, each with an equal share of every part's heads
	if first.ByGroup {
		groups = kvHeadsOf(parts)
	}
	for group := range groups {
		for _, p := range parts {
			heads := p.Rows.Size / p.Rows.Unit / groups
			for i := range heads {
				out.Blocks = append(out.Blocks, Block{p.Role, group*heads + i, p.Rows.Unit})
				out.Rows += p.Rows.Unit
			}
		}
	}
	return out
}

func kvHeadsOf(parts []Param) int {
	i := slices.IndexFunc(parts, Param.ofKV)
	return parts[i].Rows.Size / parts[i].Rows.Unit
}
