package model

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"headcount/checkpoint"
)

// What Transformers' and vLLM's classes computed from probing files, attribute by
// attribute; tools/facts/probes.py wrote it. The list names what formulas cannot say.
func TestClassesAgainstTransformers(t *testing.T) {
	known := probeMisses(t)
	agree, total, files, refusals := 0, 0, 0, 0
	wrong := map[string]string{} // "model_type attribute" → first difference
	for line := range probeLines(t) {
		row, _, err := checkpoint.Parse([]byte(`{"row":` + line + `}`))
		if err != nil {
			t.Fatal(err)
		}
		v, _ := row.Get("row")
		files++
		kind, _ := v.List()[0].Text()
		file, want := v.List()[1].Dict(), v.List()[2].Dict()
		class, ok := lookupClass(kind)
		if !ok {
			t.Errorf("%s: no class", kind)
			continue
		}
		a := construct(file, class, kind)
		if refuses := v.List()[2].Kind() == checkpoint.Null; refuses != (a.err != nil) {
			id := kind + " refused"
			if wrong[id] == "" {
				wrong[id] = fmt.Sprintf("refusal %v, want %t, of %s", a.err, refuses, v.List()[1].AppendJSON(nil))
			}
		} else {
			refusals++
		}
		for _, key := range want.Keys() {
			total++
			w, _ := want.Get(key)
			got, ok := a.Get(key)
			if ok && sameJSON(got, w) {
				agree++
				continue
			}
			id := kind + " " + key
			if wrong[id] == "" {
				wrong[id] = fmt.Sprintf("%s, want %s, of %s", got.AppendJSON(nil), w.AppendJSON(nil), v.List()[1].AppendJSON(nil))
			}
		}
	}
	t.Logf("%d of %d computed attributes agree; %d of %d files are taken or refused alike", agree, total, refusals, files)
	for _, id := range slices.Sorted(maps.Keys(wrong)) {
		if !known[id] {
			t.Errorf("%s: %.300s", id, wrong[id])
		}
	}
	for id := range known {
		if wrong[id] == "" {
			t.Errorf("%s is listed as a miss, but is none", id)
		}
	}
}

// sameJSON compares values as Python's == would, floats but for the last bits: Python's pow
// is the C library's.
func sameJSON(a, b checkpoint.Value) bool {
	if x, ok := a.Float(); ok {
		y, ok := b.Float()
		return ok && math.Abs(x-y) <= 1e-14*math.Abs(x)
	}
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case checkpoint.List:
		return slices.EqualFunc(a.List(), b.List(), sameJSON)
	case checkpoint.Dict:
		x, y := a.Dict(), b.Dict()
		if x.Len() != y.Len() {
			return false
		}
		for _, key := range x.Keys() {
			v, _ := x.Get(key)
			if w, ok := y.Get(key); !ok || !sameJSON(v, w) {
				return false
			}
		}
		return true
	}
	return string(a.AppendJSON(nil)) == string(b.AppendJSON(nil))
}

func probeLines(t *testing.T) func(yield func(string) bool) {
	f, err := os.Open("testdata/classes.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(string) bool) {
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(z)
		lines.Buffer(nil, checkpoint.MaxBytes)
		for lines.Scan() {
			if !yield(lines.Text()) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// probeMisses reads the list of known misses: model_type, attributes; # begins a comment.
func probeMisses(t *testing.T) map[string]bool {
	data, err := os.ReadFile("testdata/classes_misses.txt")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] == "#" {
			continue
		}
		for _, attr := range words[1:] {
			known[words[0]+" "+attr] = true
		}
	}
	return known
}
