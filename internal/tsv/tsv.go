// Package tsv looks lines up in the embedded tables: text whose lines are sorted and start
// with a key and a tab. Nothing is decoded that is not asked for.
package tsv

import (
	"sort"
	"strings"
)

// Rest returns what follows key and a tab on the first line that starts so. There is no
// line without a key.
func Rest(table, key string) (rest string, ok bool) {
	line, _, _ := strings.Cut(table[seek(table, key):], "\n")
	have, rest, _ := strings.Cut(line, "\t")
	if have != key || key == "" {
		return "", false
	}
	return rest, true
}

// All returns what follows key and a tab on each line that starts so, in order.
func All(table, key string) (rests []string) {
	for line := range strings.Lines(table[seek(table, key):]) {
		have, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if have != key || key == "" {
			break
		}
		rests = append(rests, rest)
	}
	return rests
}

// seek is the offset of the first line whose key is not before key.
func seek(table, key string) int {
	at := sort.Search(len(table), func(i int) bool {
		start := strings.LastIndexByte(table[:i], '\n') + 1
		line, _, _ := strings.Cut(table[start:], "\n")
		have, _, _ := strings.Cut(line, "\t")
		return have >= key
	})
	if at == len(table) {
		return at
	}
	return strings.LastIndexByte(table[:at], '\n') + 1
}
