package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// now reads the process's clocks.
func now() clock {
	var cpu unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &cpu)
	waited, ok := waitedIn("/proc/self/task")
	return clock{known: ok && err == nil, cpu: time.Duration(cpu.Nano()), waited: waited}
}

// waitedIn sums the second number, nanoseconds on a run queue, of each thread's schedstat.
func waitedIn(dir string) (sum time.Duration, ok bool) {
	threads, err := os.ReadDir(dir)
	if err != nil {
		return 0, false
	}
	for _, thread := range threads {
		text, err := os.ReadFile(filepath.Join(dir, thread.Name(), "schedstat"))
		if err != nil {
			continue // the thread has ended
		}
		if fields := bytes.Fields(text); len(fields) == 3 {
			n, err := strconv.ParseInt(string(fields[1]), 10, 64)
			sum, ok = sum+time.Duration(n), ok || err == nil
		}
	}
	return sum, ok
}
