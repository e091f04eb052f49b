// Package team runs one function on several workers, of which the caller is the first.
package team

import (
	"runtime"
	"sync"
)

// A Team is a function and the goroutines that wait to run it. Between runs they are
// parked, and a run allocates nothing. A Team serves one caller at a time.
type Team struct {
	run  func(worker int)
	wake []chan struct{} // of workers 1, 2, …
	busy sync.WaitGroup
}

// New starts a team of n workers, or of as many as there are processors when n is 0, whose
// work is run.
func New(n int, run func(worker int)) *Team {
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	t := &Team{run: run, wake: make([]chan struct{}, n-1)}
	for i := range t.wake {
		wake := make(chan struct{}, 1)
		t.wake[i] = wake
		go func() {
			for range wake {
				t.run(i + 1)
				t.busy.Done()
			}
		}()
	}
	return t
}

// Size is the number of workers, the caller included.
func (t *Team) Size() int { return len(t.wake) + 1 }

// Run runs the work on n workers, at most all: on worker 0 in the caller's goroutine. It
// returns when every one of them has.
func (t *Team) Run(n int) {
	n = min(max(n, 1), t.Size())
	t.busy.Add(n - 1)
	for _, wake := range t.wake[:n-1] {
		wake <- struct{}{}
	}
	t.run(0)
	t.busy.Wait()
}

// Close ends the workers. A closed team must not be run.
func (t *Team) Close() {
	for _, wake := range t.wake {
		close(wake)
	}
	t.wake = nil
}
