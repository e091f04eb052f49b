// Package scorecard counts how often answers agree with an engine's, field by field and
// model type by model type, and holds the misses to a list: a miss that is not listed
// fails a test, and so does a listed one that no longer misses.
package scorecard

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A Card counts the checks of one test.
type Card struct {
	rows   int
	missed map[string][]Miss // by row
	fields map[string]*tally
	types  map[string]*tally

	unknown map[string]int // rows by what was not answered and why
}

type tally struct{ right, wrong int }

// A Miss is one field of one row that differs.
type Miss struct{ Row, Field, Detail string }

// New returns an empty Card.
func New() *Card {
	return &Card{unknown: map[string]int{}, missed: map[string][]Miss{}, fields: map[string]*tally{}, types: map[string]*tally{}}
}

// Rows is how many rows were done.
func (c *Card) Rows() int { return c.rows }

// A Row collects the checks of one golden row.
type Row struct {
	card   *Card
	id     string
	kind   string
	misses []Miss
}

// Row starts a row of a model type.
func (c *Card) Row(id, kind string) *Row { return &Row{card: c, id: id, kind: kind} }

// Check counts one field. got and want print as they are compared.
func (r *Row) Check(field string, got, want any) {
	have, wanted := fmt.Sprint(got), fmt.Sprint(want)
	count(r.card.fields, field, have == wanted)
	if have != wanted {
		r.misses = append(r.misses, Miss{r.id, field, fmt.Sprintf("got %.200s, want %.200s", have, wanted)})
	}
}

// Unknown counts a field that the answer says it does not know: no miss, and no hit. Rows
// are counted by reason, and the count is listed: it may not grow.
func (r *Row) Unknown(field, reason string) { r.card.unknown[field+": "+reason]++ }

// Done counts the row, right when no field missed, and returns its misses.
func (r *Row) Done() []Miss {
	r.card.rows++
	count(r.card.types, r.kind, len(r.misses) == 0)
	if len(r.misses) > 0 {
		r.card.missed[r.id] = r.misses
	}
	return r.misses
}

func count(m map[string]*tally, key string, ok bool) {
	if m[key] == nil {
		m[key] = &tally{}
	}
	if ok {
		m[key].right++
	} else {
		m[key].wrong++
	}
}

// Judge prints the score and holds the misses to the list in file: lines of
// "row pattern<TAB>field pattern<TAB>reason", patterns as in [path.Match], and of
// "unknown<TAB>rows<TAB>field: reason".
func (c *Card) Judge(t *testing.T, file string) {
	t.Helper()
	listed, unknown := readList(t, file)
	for reason, n := range c.unknown {
		if n != unknown[reason] {
			t.Errorf("%s: lists %d rows not known, now %d: %s", file, unknown[reason], n, reason)
		}
	}
	for reason := range unknown {
		if c.unknown[reason] == 0 {
			t.Errorf("%s: no row is unknown any more: %s", file, reason)
		}
	}
	loose := slices.DeleteFunc(c.Misses(), func(m Miss) bool { return cover(listed, m) })
	t.Log(c)
	for i, m := range loose {
		if i == maxPrinted {
			t.Errorf("... and %d more misses", len(loose)-i)
			break
		}
		t.Errorf("%s: %s: %s", m.Row, m.Field, m.Detail)
	}
	for _, l := range listed {
		if !l.used {
			t.Errorf("%s:%d: no longer misses: %s %s", file, l.line, l.row, l.field)
		}
	}
}

// Misses are the fields that differ, by field and row.
func (c *Card) Misses() []Miss {
	var all []Miss
	for _, misses := range c.missed {
		all = append(all, misses...)
	}
	slices.SortFunc(all, func(a, b Miss) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Row, b.Row))
	})
	return all
}

// String is the score by field and by model type.
func (c *Card) String() string {
	return fmt.Sprintf("%d of %d rows agree in every field\n%s\n%s", c.rows-len(c.missed), c.rows, table(c.fields), table(c.types))
}

const maxPrinted = 60

// An entry is one line of the list of misses.
type entry struct {
	row, field string
	line       int
	used       bool
}

func readList(t *testing.T, file string) (misses []*entry, unknown map[string]int) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unknown = map[string]int{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text := lines.Text()
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		parts := strings.Split(text, "\t")
		if len(parts) != 3 || strings.TrimSpace(parts[2]) == "" {
			t.Fatalf("%s:%d: want row, field and reason, tab-separated", file, n)
		}
		if parts[0] == "unknown" {
			rows, err := strconv.Atoi(parts[1])
			if err != nil {
				t.Fatalf("%s:%d: %v", file, n, err)
			}
			unknown[parts[2]] = rows
			continue
		}
		misses = append(misses, &entry{row: parts[0], field: parts[1], line: n})
	}
	return misses, unknown
}

func cover(listed []*entry, m Miss) bool {
	for _, l := range listed {
		row, _ := path.Match(l.row, m.Row)
		field, _ := path.Match(l.field, m.Field)
		if row && field {
			l.used = true
			return true
		}
	}
	return false
}

// table prints tallies, the incomplete ones first.
func table(m map[string]*tally) string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(min(m[b].wrong, 1), min(m[a].wrong, 1)), cmp.Compare(a, b))
	})
	var b strings.Builder
	full := 0
	for _, k := range keys {
		if m[k].wrong == 0 {
			full++
			continue
		}
		fmt.Fprintf(&b, "%6d of %6d  %s\n", m[k].right, m[k].right+m[k].wrong, k)
	}
	fmt.Fprintf(&b, "%d of %d without a miss", full, len(m))
	return b.String()
}
