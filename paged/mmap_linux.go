package paged

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// hugePage is the size of a huge page, and how a region is aligned so that it can have them.
const hugePage = 2 << 20

// A region is memory that is off the Go heap: the collector neither scans nor counts it.
type region struct {
	bytes  []byte // zero, aligned to a huge page
	huge   bool   // the kernel was asked for huge pages, and did not refuse
	mapped []byte
}

// reserve maps n zero bytes, n > 0. The system gives them when they are first touched.
func reserve(n int) (region, error) {
	mapped, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return region{}, fmt.Errorf("mmap of %d bytes: %w", n+hugePage, err)
	}
	bytes := aligned(mapped, n, hugePage)
	return region{bytes: bytes, huge: unix.Madvise(bytes, unix.MADV_HUGEPAGE) == nil, mapped: mapped}, nil
}

// release gives the memory back. No slice of it may be used afterwards.
func (r *region) release() error {
	mapped := r.mapped
	*r = region{}
	if mapped == nil {
		return nil
	}
	return unix.Munmap(mapped)
}
