package recent

import (
	"sync"
	"testing"
)

func TestList(t *testing.T) {
	var l List[int, string]
	if v, ok := l.Get(0); ok {
		t.Errorf("an empty list keeps %q", v)
	}
	for i := range size + 1 {
		l.Put(i, "value")
	}
	if _, ok := l.Get(0); ok {
		t.Error("the oldest key is still there")
	}
	for i := 1; i <= size; i++ {
		if v, ok := l.Get(i); !ok || v != "value" {
			t.Errorf("key %d: %q, %v", i, v, ok)
		}
	}
}

// A value that is read is always one that was put for its key.
func TestListTogether(t *testing.T) {
	var l List[int, int]
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 1000 {
				key := i % (2 * size)
				if v, ok := l.Get(key); ok && v != 3*key {
					t.Errorf("key %d has the value %d", key, v)
				}
				l.Put(key, 3*key)
			}
		})
	}
	wg.Wait()
}
