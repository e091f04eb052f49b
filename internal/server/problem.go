package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"headcount/problem"
)

// A Problem is an error as RFC 9457 writes it, with the field and the remedy.
type Problem struct {
	Type   string       `json:"type" doc:"always about:blank: status and code say what it is"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitempty" doc:"field, value and what is wrong, in one line"`
	Code   problem.Code `json:"code,omitempty"`
	Field  string       `json:"field,omitempty" doc:"path from the root of the config, or a field of the request"`
	Hint   string       `json:"hint,omitempty" doc:"a way out"`
}

// Error is the problem's line.
func (p *Problem) Error() string { return p.Detail }

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is RFC 9457's.
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// init gives huma, which keeps its error type in a variable, ours: what it would add of its
// own errors is for its own validation, which is not used. Lists are never null here.
func init() {
	huma.DefaultArrayNullable = false
	huma.NewError = func(status int, detail string, _ ...error) huma.StatusError {
		if status >= http.StatusInternalServerError {
			detail = ""
		}
		return newProblem(status, detail)
	}
}

func newProblem(status int, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// asProblem is err for a client: input that is of no use with its field and its hint, and of
// anything else nothing.
func asProblem(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return newProblem(http.StatusServiceUnavailable, "the answer took too long; ask for less at once")
	}
	e, ok := errors.AsType[*problem.Error](err)
	if !ok {
		return newProblem(http.StatusInternalServerError, "")
	}
	p := newProblem(http.StatusUnprocessableEntity, e.Message)
	p.Code, p.Field, p.Hint = e.Code, e.Field, e.Hint
	return p
}

// badBody is asProblem for a body that could not be read: 400 where it is not JSON.
func badBody(body []byte, err error) *Problem {
	p := asProblem(err)
	if !json.Valid(body) {
		p.Status, p.Title = http.StatusBadRequest, http.StatusText(http.StatusBadRequest)
	}
	return p
}

func writeProblem(w http.ResponseWriter, p *Problem) {
	data, err := json.Marshal(p)
	if err != nil {
		data = nil
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	w.Write(data)
}
