//go:build !linux

package paged

import "fmt"

// cacheLine is how a region is aligned.
const cacheLine = 64

// maxRegion bounds a region to what an allocation can be.
const maxRegion = 1 << 46

// A mapping is plain memory: there is no huge page to ask for.
type mapping struct {
	bytes []byte // zero, aligned to a cache line
	huge  bool   // never
}

// reserve allocates n zero bytes, n > 0.
func reserve(n int) (mapping, error) {
	if n > maxRegion {
		return mapping{}, fmt.Errorf("%d bytes are more than can be allocated", n)
	}
	return mapping{bytes: aligned(make([]byte, n+cacheLine), n, cacheLine)}, nil
}

// release leaves the memory to the collector.
func (r *mapping) release() error {
	*r = mapping{}
	return nil
}
