package golden

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headcount/checkpoint"
)

// Source reads the config of a row from the corpus' folder, with the side file that lies
// beside it.
func Source(dir, file string) (*checkpoint.Source, error) {
	name := filepath.Join(dir, "configs", file)
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	quant, err := os.ReadFile(strings.TrimSuffix(name, ".json") + ".hf_quant.json")
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return checkpoint.FromBytes(strings.TrimSuffix(file, ".json"), checkpoint.Files{Config: data, HFQuant: quant})
}

// A Score counts right and wrong answers by kind and holds the wrong ones against a list
// of those that are known, each with its reason.
type Score struct {
	t     testing.TB
	right map[string]int
	total map[string]int
	known []*miss
	only  string
}

// A miss is a line of the list: a pattern over "kind/id", and why.
type miss struct {
	pattern, reason string
	wrong, right    int
}

// NewScore reads the list of known misses from a file, if there is one. A line is a
// pattern of path.Match, two spaces or more, and the reason; # begins a comment.
// HEADCOUNT_TYPE narrows the test to kinds that begin with it and prints each miss.
func NewScore(t testing.TB, list string) *Score {
	s := &Score{t: t, right: map[string]int{}, total: map[string]int{}, only: os.Getenv("HEADCOUNT_TYPE")}
	f, err := os.Open(list)
	if err != nil {
		if os.IsNotExist(err) {
			return s
		}
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, reason, ok := strings.Cut(line, "  ")
		if !ok || strings.TrimSpace(reason) == "" {
			t.Fatalf("%s: %q has no reason", list, pattern)
		}
		s.known = append(s.known, &miss{pattern: pattern, reason: strings.TrimSpace(reason)})
	}
	return s
}

// Wants reports whether rows of a kind take part.
func (s *Score) Wants(kind string) bool { return strings.HasPrefix(kind, s.only) }

// Add counts one answer; diff is "" for a right one. A kind is "text model_type/class".
func (s *Score) Add(kind, id, diff string) {
	s.t.Helper()
	s.total[kind]++
	if diff == "" {
		s.right[kind]++
	}
	known := false
	for _, m := range s.known {
		if ok, err := path.Match(m.pattern, kind+"/"+id); err != nil {
			s.t.Fatalf("%q: %v", m.pattern, err)
		} else if !ok {
			continue
		}
		known = true
		if diff == "" {
			m.right++
		} else {
			m.wrong++
		}
	}
	if diff == "" || known && s.only == "" {
		return
	}
	if known {
		s.t.Logf("known: %s/%s: %s", kind, id, diff)
		return
	}
	s.t.Errorf("%s/%s: %s", kind, id, diff)
}

// Report prints the score by kind and fails for a known miss that is one no longer. whole
// says that every row took part, so that a pattern without a row is an error as well.
func (s *Score) Report(what string, whole bool) {
	s.t.Helper()
	var lines strings.Builder
	right, total := 0, 0
	for _, kind := range slices.Sorted(maps.Keys(s.total)) {
		right, total = right+s.right[kind], total+s.total[kind]
		if s.right[kind] < s.total[kind] || testing.Verbose() {
			fmt.Fprintf(&lines, "\n%5d of %4d  %s", s.right[kind], s.total[kind], kind)
		}
	}
	s.t.Logf("%s: %d of %d rows%s", what, right, total, lines.String())
	for _, m := range s.known {
		switch {
		case m.right > 0:
			s.t.Errorf("%q is listed as a miss, but %d of its rows are right", m.pattern, m.right)
		case m.wrong == 0 && whole && s.only == "":
			s.t.Errorf("%q is listed as a miss, but no row is one", m.pattern)
		}
	}
}
