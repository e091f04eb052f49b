// Command catalog writes the catalogue from a folder of config.json files: it plans each
// on both engines over a set of layouts, notes which keys are read, and keeps those.
//
//	go run ./tools/catalog -configs DIR -o catalog
//
// DIR holds INDEX.tsv, whose columns file, model_id and kind are used: kind real models go
// into catalog/models.tsv and are known to users; all others go into testdata/corpus.tsv,
// where tests find what golden rows speak of. Hand-written entries of catalog/more.tsv
// are added; catalog/short.txt adds short names to those made from hub ids.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"headcount/checkpoint"
	"headcount/internal/reduce"
)

func main() {
	configs := flag.String("configs", "", "folder of config.json files with an INDEX.tsv")
	out := flag.String("o", "catalog", "folder to write models.tsv and names.tsv into")
	corpus := flag.String("corpus", "testdata/corpus.tsv", "file for what is not a model that people serve")
	flag.Parse()
	if err := run(*configs, *out, *corpus); err != nil {
		fmt.Fprintln(os.Stderr, "catalog:", err)
		os.Exit(1)
	}
}

// An entry is one checkpoint: hub id, and its reduced files as one JSON object.
type entry struct{ id, files string }

func run(configs, out, corpus string) error {
	index, err := readIndex(filepath.Join(configs, "INDEX.tsv"))
	if err != nil {
		return err
	}
	var served, other []entry
	for _, line := range index {
		src, err := load(configs, line.file)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", line.file, err)
			continue
		}
		known := strings.HasPrefix(line.kind, "real")
		small := reduce.Source(context.Background(), src)
		small.Params = src.Params // params.json is read before any key is noted
		e := entry{line.id, encode(small)}
		if known && !taken(served, line.id) {
			served = append(served, e)
		}
		other = append(other, entry{line.file, e.files})
	}
	more, err := handWritten(filepath.Join(out, "more.tsv"))
	if err != nil {
		return err
	}
	served = append(served, more...)
	if err := write(filepath.Join(out, "models.tsv"), served, true); err != nil {
		return err
	}
	if err := write(corpus, other, false); err != nil {
		return err
	}
	return writeNames(out, served)
}

func taken(entries []entry, id string) bool {
	return slices.ContainsFunc(entries, func(e entry) bool { return strings.EqualFold(e.id, id) })
}

type indexLine struct{ file, id, kind string }

func readIndex(name string) ([]indexLine, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.LazyQuotes, r.FieldsPerRecord = '\t', true, -1
	rows, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	column := func(name string) int { return slices.Index(rows[0], name) }
	file, id, kind := column("file"), column("model_id"), column("kind")
	var lines []indexLine
	for _, row := range rows[1:] {
		if len(row) > max(file, id, kind) {
			lines = append(lines, indexLine{row[file], row[id], row[kind]})
		}
	}
	return lines, nil
}

// load reads a file and the hf_quant_config.json that stands for its folder's.
func load(configs, file string) (*checkpoint.Source, error) {
	data, err := os.ReadFile(filepath.Join(configs, file))
	if err != nil {
		return nil, err
	}
	quant, err := os.ReadFile(filepath.Join(configs, strings.TrimSuffix(file, ".json")+".hf_quant.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return checkpoint.FromBytes(file, checkpoint.Files{Config: data, HFQuant: quant})
}

// encode is the reduced files as one JSON object.
func encode(src *checkpoint.Source) string {
	all := checkpoint.NewObject()
	if src.Params != nil {
		all.Set("params", checkpoint.NewDict(src.Params))
	} else {
		all.Set("config", checkpoint.NewDict(src.Config))
	}
	if src.HFQuant.Len() > 0 {
		all.Set("hf_quant_config", checkpoint.NewDict(src.HFQuant))
	}
	return string(all.AppendJSON(nil))
}

// handWritten reads entries whose config is known from elsewhere: id, a tab, the object.
func handWritten(name string) ([]entry, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []entry
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		id, files, ok := strings.Cut(lines.Text(), "\t")
		if !ok {
			return nil, fmt.Errorf("%s: no tab in %q", name, lines.Text())
		}
		out = append(out, entry{id, files})
	}
	return out, lines.Err()
}

// write sorts entries by key and writes a line each; withID repeats the id as it is
// written on the hub beside its lower-case key.
func write(name string, entries []entry, withID bool) error {
	var lines []string
	for _, e := range entries {
		if withID {
			lines = append(lines, strings.ToLower(e.id)+"\t"+e.id+"\t"+e.files)
		} else {
			lines = append(lines, e.id+"\t"+e.files)
		}
	}
	return writeSorted(name, lines)
}

func writeSorted(name string, lines []string) error {
	slices.SortFunc(lines, func(x, y string) int {
		a, _, _ := strings.Cut(x, "\t")
		b, _, _ := strings.Cut(y, "\t")
		return cmp.Compare(a, b)
	})
	return os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// decoration are the parts of a hub name that people leave out.
var decoration = regexp.MustCompile(`^meta-|-(hf|instruct|it|chat|chat-hf|base)$`)

// writeNames gives each model its name without the organisation and, where that is then
// nobody else's, without decoration. short.txt comes first.
func writeNames(dir string, entries []entry) error {
	names := map[string]string{}
	data, err := os.ReadFile(filepath.Join(dir, "short.txt"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		if name, id, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			names[name] = id
		}
	}
	for _, trim := range []bool{false, true} {
		claims := map[string][]string{}
		for _, e := range entries {
			_, name, _ := strings.Cut(strings.ToLower(e.id), "/")
			if trim {
				name = decoration.ReplaceAllString(decoration.ReplaceAllString(name, ""), "")
			}
			claims[name] = append(claims[name], e.id)
		}
		for name, ids := range claims {
			if _, given := names[name]; !given && len(ids) == 1 && name != "" {
				names[name] = ids[0]
			}
		}
	}
	var lines []string
	for name, id := range names {
		if !taken(entries, id) {
			return fmt.Errorf("short.txt: %s is no model of the catalogue", id)
		}
		lines = append(lines, name+"\t"+id)
	}
	return writeSorted(filepath.Join(dir, "names.tsv"), lines)
}
