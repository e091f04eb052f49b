package kernel

import (
	"golang.org/x/sys/unix"
	"testing"
	"time"
)

func cpuT() time.Duration {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}
func TestPeakX(t *testing.T) {
	for _, f := range []struct {
		n string
		f func(int) int64
	}{{"dot", DotPeak}, {"fma", FMAPeak}} {
		best := 0.0
		for range 60 {
			s := cpuT()
			n := f.f(100000)
			e := cpuT() - s
			best = max(best, float64(n)/float64(e))
		}
		t.Log(f.n, best)
	}
}
