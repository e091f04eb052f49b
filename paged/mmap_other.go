//go:build !linux

package paged

import "fmt"

// cacheLine is how a region is aligned.
const cacheLine = 64

// maxRegion bounds a region to what an allocation can be.
const maxRegion = 1 << 46

// A region is plain memory: there is no huge page to ask for.
type region struct {
	bytes []byte // zero, aligned to a cache line
	huge  bool   // never
}

// reserve allocates n zero bytes, n > 0.
func reserve(n int) (region, error) {
	if n > maxRegion {
		return region{}, fmt.Errorf("%d bytes are more than can be allocated", n)
	}
	return region{bytes: aligned(make([]byte, n+cacheLine), n, cacheLine)}, nil
}

// release leaves the memory to the collector.
func (r *region) release() error {
	*r = region{}
	return nil
}
