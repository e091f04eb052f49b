package bootlog

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"headcount/catalog"
	"headcount/checkpoint"
	"headcount/internal/golden"
)

// Models finds the configs that rows speak of, in the corpus' folder and the catalogue.
type Models struct {
	dir   string
	files map[string]string // simplified name → file
	odd   []string          // names whose config is not the model's own
}

// NewModels indexes the configs under dir.
func NewModels(dir string) (*Models, error) {
	index, err := os.ReadFile(filepath.Join(dir, "configs", "INDEX.tsv"))
	if err != nil {
		return nil, err
	}
	m := &Models{dir: dir, files: map[string]string{}}
	for line := range strings.Lines(string(index)) {
		f := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if len(f) < 7 {
			continue
		}
		if converted := f[6] == "real_converted"; f[6] != "real" && !converted || converted && strings.Contains(f[4], "!=hidden_size") {
			m.odd = append(m.odd, strings.ToLower(f[1])) // drafts, configs that were made smaller, one that is not its model's
			continue
		}
		m.files[strings.ToLower(f[1])] = f[0]
		for _, key := range []string{base(f[1]), simple(f[1])} {
			if _, taken := m.files[key]; !taken {
				m.files[key] = f[0]
			}
		}
	}
	return m, nil
}

func base(name string) string {
	name = strings.ToLower(name)
	if i := strings.LastIndex(name, "--"); i >= 0 {
		name = name[i+2:]
	}
	return name[strings.LastIndexByte(name, '/')+1:]
}

// A tuning changes what a model says, not its shape.
var tuning = regexp.MustCompile(`^meta-|-(instruct|chat|it|hf|base|pt|reasoning|2507|2503|v0\.1|v0\.2|v0\.3)\b`)

func simple(name string) string { return tuning.ReplaceAllString(base(name), "") }

// A format of weights in a checkpoint's name, at its end.
var format = regexp.MustCompile(`[-_.](fp8|awq|gptq|nvfp4|int[48]|w\d+a\d+|quantized|autoround|qat)\b.*$`)

// Known is the name by which Source finds a model of the row's shape; ok is false where there
// is none. own tells that it is the checkpoint itself: what is not has other weights.
func (m *Models) Known(name string) (known string, own, ok bool) {
	name, _, _ = strings.Cut(name, " (")
	lower := strings.ToLower(name)
	if file, ok := m.find(lower); ok {
		return file, true, true
	}
	if _, ok := catalog.Lookup(name); ok && !slices.Contains(m.odd, lower) {
		return name, true, true
	}
	file, ok := m.find(simple(format.ReplaceAllString(lower, "")))
	return file, false, ok
}

// find looks for a name as it is, without its owner, and without what a tuning adds.
func (m *Models) find(name string) (file string, ok bool) {
	for _, key := range []string{name, base(name), simple(name)} {
		if file, ok := m.files[key]; ok {
			return file, true
		}
	}
	return "", false
}

// Source resolves a name that Known gave.
func (m *Models) Source(_ context.Context, name string) (*checkpoint.Source, bool, error) {
	if !strings.HasSuffix(name, ".json") {
		return nil, false, nil // the catalogue's
	}
	src, err := golden.Source(m.dir, name)
	return src, true, err
}
