package bench

import (
	"path/filepath"
	"testing"
	"time"
)

func TestWaited(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "7", "schedstat"), "900 100 3\n")
	write(t, filepath.Join(dir, "8", "schedstat"), "50 11 1\n")
	write(t, filepath.Join(dir, "9", "other"), "") // a thread that ended
	if sum, ok := waitedIn(dir); sum != 111*time.Nanosecond || !ok {
		t.Errorf("%d, %v, want 100 + 11 ns", sum, ok)
	}
	if _, ok := waitedIn(t.TempDir()); ok {
		t.Error("known without a thread")
	}
	if c := now(); c.known && c.cpu <= 0 {
		t.Errorf("%+v: a process that has used no CPU", c)
	}
}
