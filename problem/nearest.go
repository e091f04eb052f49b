package problem

import (
	"cmp"
	"slices"
	"strings"
)

// maxCompared is how much of a name is compared; names beyond it are not typed by people.
const maxCompared = 96

// Nearest returns up to n of the candidates that are a few edits from name, or that start
// with it, the nearest first. It is what a hint offers for a name that is not known.
func Nearest(name string, candidates []string, n int) []string {
	type scored struct {
		name string
		cost int
	}
	wanted := strings.ToLower(name)
	most := min(len(wanted), maxCompared)/3 + 1
	var near []scored
	for _, c := range candidates {
		have := strings.ToLower(c)
		cost := most + 1
		if max(len(wanted)-len(have), len(have)-len(wanted)) <= most { // each byte more is an edit
			cost = Distance(wanted, have)
		}
		if strings.HasPrefix(have, wanted) || strings.HasPrefix(wanted, have) {
			cost = min(cost, 1)
		}
		if cost <= most {
			near = append(near, scored{c, cost})
		}
	}
	slices.SortStableFunc(near, func(a, b scored) int { return cmp.Compare(a.cost, b.cost) })
	out := make([]string, 0, n)
	for _, s := range near[:min(n, len(near))] {
		out = append(out, s.name)
	}
	return out
}

// Distance is the number of single-byte edits between two names, of which no more than
// their first 96 bytes are compared.
func Distance(a, b string) int {
	a, b = a[:min(len(a), maxCompared)], b[:min(len(b), maxCompared)]
	var buf [maxCompared + 1]int
	row := buf[:len(b)+1]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
