package bench

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"headcount/internal/kernel"
	"headcount/units"
)

// A Machine is what was measured on, and what could not be known of it.
type Machine struct {
	Processor   string   `json:"processor"` // as the system names it, else the architecture
	OS          string   `json:"os"`
	Arch        string   `json:"arch"`
	Kernels     string   `json:"kernels"` // avx512bf16, avx512, avx2 or go
	Threads     int      `json:"threads"`
	CacheBytes  *int64   `json:"last_level_cache_bytes"` // null where the system does not say
	BufferBytes int64    `json:"buffer_bytes"`
	HugePages   bool     `json:"huge_pages"`   // were asked for, and not refused
	StealShare  *float64 `json:"steal_share"`  // of the CPUs' time that a hypervisor gave to others; null where the system does not say
	NotGatedOn  []string `json:"not_gated_on"` // what could have slowed a round without being seen
}

func thisMachine() Machine {
	m := Machine{Processor: processor(), OS: runtime.GOOS, Arch: runtime.GOARCH, Kernels: kernel.Path(), Threads: runtime.GOMAXPROCS(0)}
	if n, ok := lastLevelCache("/sys/devices/system/cpu/cpu0/cache"); ok {
		m.CacheBytes = &n
	}
	if !now().known {
		m.NotGatedOn = append(m.NotGatedOn, "waiting for a CPU, which this system does not count")
	}
	m.NotGatedOn = append(m.NotGatedOn, "other users of the memory bus", "the clock of the processor")
	return m
}

// processor is the name in Linux's /proc/cpuinfo.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, name, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(name)
		}
	}
	return runtime.GOARCH
}

// Bounds of the buffer.
const (
	cacheUnknown = 128 << 20 // taken for the last-level cache where the system does not say
	leastBuffer  = 256 << 20
	leastMemory  = 4 << 20 // a block of the widest case, 512 KiB, is less than a turn of it
	mostShare    = 4       // of the memory that is free, a 4th
)

// bufferFor is twice the last-level cache, so that what a turn reads was last touched a
// whole cache ago, but at most a fourth of the memory that is free.
func (m *Machine) bufferFor() int64 {
	cache := int64(cacheUnknown)
	if m.CacheBytes != nil {
		cache = *m.CacheBytes
	}
	size := max(2*cache, leastBuffer)
	if free, ok := freeMemory(); ok {
		size = min(size, max(free/mostShare, leastMemory))
	}
	return size
}

// lastLevelCache reads the size of the largest cache from Linux's description of a CPU.
func lastLevelCache(dir string) (largest int64, ok bool) {
	files, _ := filepath.Glob(filepath.Join(dir, "index*", "size"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := units.ParseBytes(strings.TrimSpace(string(text)) + "iB"); err == nil {
			largest, ok = max(largest, int64(n)), true
		}
	}
	return largest, ok
}

// freeMemory is what a new process may take: of the machine, and of its control group.
func freeMemory() (free int64, ok bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	_, rest, ok := strings.Cut(string(text), "MemAvailable:")
	if !ok {
		return 0, false
	}
	free = firstNumber(rest) << 10
	if limit, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil && firstNumber(string(limit)) > 0 {
		used, _ := os.ReadFile("/sys/fs/cgroup/memory.current")
		free = min(free, max(firstNumber(string(limit))-firstNumber(string(used)), 0))
	}
	return free, true
}

// firstNumber is the first word of text as a number, 0 if it is none.
func firstNumber(text string) int64 {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(fields[0], 10, 64)
	return n
}

// ticks are CPU time by what it went to.
type ticks struct{ steal, all int64 }

// steal reads the machine's CPU time; zero where the system does not say.
func steal() ticks {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return ticks{}
	}
	return parseTicks(string(text))
}

// parseTicks reads the first line of /proc/stat: "cpu" and user, nice, system, idle,
// iowait, irq, softirq, steal.
func parseTicks(stat string) (t ticks) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return ticks{}
	}
	for i, f := range fields[1:9] {
		n, _ := strconv.ParseInt(f, 10, 64)
		t.all += n
		if i == 7 {
			t.steal = n
		}
	}
	return t
}

// since is the share of CPU time since before that was stolen, nil where it is not known.
func (t ticks) since(before ticks) *float64 {
	if t.all <= before.all {
		return nil
	}
	share := float64(t.steal-before.steal) / float64(t.all-before.all)
	return &share
}
