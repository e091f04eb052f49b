package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"headcount/problem"
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

// read takes a request's body of at most limit bytes.
func (b *buffer) read(body io.Reader, limit int64) error {
	n, err := b.ReadFrom(io.LimitReader(body, limit+1))
	switch {
	case n > limit:
		return tooLarge(limit)
	case err == nil:
		return nil
	}
	return brokenOff(err)
}

func tooLarge(limit int64) error {
	return newProblem(http.StatusRequestEntityTooLarge, fmt.Sprintf("request exceeds the cap of %d bytes", limit))
}

// brokenOff is the problem of a body that did not come to its end.
func brokenOff(err error) error {
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return newProblem(http.StatusRequestTimeout, "the body did not arrive in time")
	}
	p := newProblem(http.StatusBadRequest, "the body ended early")
	p.Code = problem.Unreadable
	return p
}

// An arriving body is read as it comes, up to limit bytes. Its problem is kept for whoever
// reads it through something that says it in other words.
type arriving struct {
	body    io.Reader
	read    int64
	limit   int64
	problem error
}

func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	a.read += int64(n)
	switch {
	case a.read > a.limit:
		a.problem = tooLarge(a.limit)
		return n, a.problem
	case err != nil && err != io.EOF:
		a.problem = brokenOff(err)
	}
	return n, err
}
