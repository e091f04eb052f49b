package paged

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// hugePage is the size of a huge page, and how a region is aligned so that it can have them.
const hugePage = 2 << 20

// A mapping is memory that is off the Go heap: the collector neither scans nor counts it.
type mapping struct {
	bytes  []byte // zero, aligned to a huge page
	huge   bool   // the kernel was asked for huge pages, and did not refuse
	mapped []byte
}

// reserve maps n zero bytes, n > 0. The system gives them when they are first touched.
func reserve(n int) (mapping, error) {
	mapped, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return mapping{}, fmt.Errorf("mmap of %d bytes: %w", n+hugePage, err)
	}
	bytes := aligned(mapped, n, hugePage)
	return mapping{bytes: bytes, huge: unix.Madvise(bytes, unix.MADV_HUGEPAGE) == nil, mapped: mapped}, nil
}

// release gives the memory back. No slice of it may be used afterwards.
func (r *mapping) release() error {
	mapped := r.mapped
	*r = mapping{}
	if mapped == nil {
		return nil
	}
	return unix.Munmap(mapped)
}
