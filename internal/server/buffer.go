package server

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"errors"

	"headcount"
)

// A buffer is memory for one body, kept from request to request.
type buffer struct{ bytes.Buffer }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// maxKept bounds what an idle buffer holds.
const maxKept = 1 << 20

func takeBuffer() *buffer { return buffers.Get().(*buffer) }

func (b *buffer) giveBack() {
	if b.Cap() <= maxKept {
		b.Reset()
		buffers.Put(b)
	}
}

// read takes a request's body, up to the largest that is of use.
func (b *buffer) read(body io.Reader) error {
	n, err := b.ReadFrom(io.LimitReader(body, headcount.MaxRequestBytes+1))
	switch {
	case n > headcount.MaxRequestBytes:
		return newProblem(http.StatusRequestEntityTooLarge, fmt.Sprintf("request exceeds the cap of %d bytes", headcount.MaxRequestBytes))
	case err == nil:
		return nil
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return newProblem(http.StatusRequestTimeout, "the body did not arrive in time")
	}
	return newProblem(http.StatusBadRequest, "the body ended early")
}
