package verify

import "slices"

// A wording is text by which a line that says something is known.
type wording struct {
	anchor string
	engine string // whose it is; "" for whichever speaks
	read   func(*line)
}

// An automaton finds all wordings in one pass over the text (Aho and Corasick, 1975), at a
// look into two tables a byte: bytes that no wording holds share a class, and lie together
// with the line's end in the one that leads back to the root.
type automaton struct {
	words  []wording
	class  [256]uint8
	next   []uint16 // state << classBits | class → state
	accept uint16   // states from here on end a wording
	ends   []uint16 // which, by state − accept
}

const classBits = 7

// newAutomaton builds the tables. It panics on wordings that do not fit them, which a test
// would see first.
func newAutomaton(words []wording) *automaton {
	a := &automaton{words: words}
	classes := 0
	for _, w := range words {
		for _, c := range []byte(w.anchor) {
			if a.class[c] == 0 {
				classes++
				a.class[c] = uint8(classes)
			}
		}
	}
	if classes >= 1<<classBits {
		panic("verify: more different bytes in the wordings than classes")
	}
	trie := [][1 << classBits]int{{}}
	end := map[int]int{} // state → wording
	for i, w := range words {
		s := 0
		for _, c := range []byte(w.anchor) {
			if trie[s][a.class[c]] == 0 {
				trie = append(trie, [1 << classBits]int{})
				trie[s][a.class[c]] = len(trie) - 1
			}
			s = trie[s][a.class[c]]
		}
		end[s] = i
	}
	fail := make([]int, len(trie))
	for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		for c, t := range trie[s] {
			switch {
			case t != 0:
				if s != 0 {
					fail[t] = trie[fail[s]][c]
				}
				if i, ok := end[fail[t]]; ok {
					if _, own := end[t]; !own {
						end[t] = i
					}
				}
				queue = append(queue, t)
			case s != 0:
				trie[s][c] = trie[fail[s]][c]
			}
		}
	}
	a.number(trie, end)
	return a
}

// number gives states that end a wording the highest numbers and fills the tables.
func (a *automaton) number(trie [][1 << classBits]int, end map[int]int) {
	order := make([]int, len(trie))
	for i := range order {
		order[i] = i
	}
	rank := func(s int) int {
		if _, ends := end[s]; ends {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(order, func(s, t int) int { return rank(s) - rank(t) })
	to := make([]uint16, len(trie))
	for n, s := range order {
		to[s] = uint16(n)
	}
	a.accept = uint16(len(trie) - len(end))
	a.next = make([]uint16, len(trie)<<classBits)
	for s := range trie {
		for c, t := range trie[s] {
			a.next[int(to[s])<<classBits|c] = to[t]
		}
		if i, ok := end[s]; ok {
			a.ends = slices.Grow(a.ends, len(end))[:len(end)]
			a.ends[to[s]-a.accept] = uint16(i)
		}
	}
}

// each calls found for every wording in b, with the index of its last byte.
func (a *automaton) each(b []byte, found func(w *wording, at int)) {
	state := uint16(0)
	next, accept := a.next, a.accept
	class := &a.class
	for i, c := range b {
		state = next[int(state)<<classBits|int(class[c])]
		if state >= accept {
			found(&a.words[a.ends[state-accept]], i)
		}
	}
}
