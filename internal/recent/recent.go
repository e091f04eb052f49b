// Package recent keeps what was made for the last few keys.
package recent

import "sync"

// size is how many keys a [List] keeps: what requests that come in turns ask about, and
// little enough to search.
const size = 16

// A List keeps the values of the last keys that were put. The zero List is empty. It may be
// used by many goroutines.
type List[K comparable, V any] struct {
	mu   sync.Mutex
	kept [size]entry[K, V]
	next int
}

type entry[K comparable, V any] struct {
	key   K
	value V
	there bool
}

// Get is the value of a key, if it is kept.
func (l *List[K, V]) Get(key K) (value V, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.kept {
		if e := &l.kept[i]; e.there && e.key == key {
			return e.value, true
		}
	}
	return value, false
}

// Put keeps a value; the key that was put longest ago gives way.
func (l *List[K, V]) Put(key K, value V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept[l.next] = entry[K, V]{key, value, true}
	l.next = (l.next + 1) % size
}
