// Package problem is the one shape in which headcount says that something cannot be
// planned: either the input is unusable, or an engine would refuse it.
package problem

import (
	"errors"
	"fmt"
	"strings"
)

// A Code says what kind of problem it is. Callers branch on it; people read the message.
type Code string

const (
	Unreadable          Code = "unreadable"           // not JSON, too large, too deep
	MissingField        Code = "missing_field"        // a field that neither the file nor the engine's class gives
	BadValue            Code = "bad_value"            // a field or flag of the wrong type or out of range
	UnknownArchitecture Code = "unknown_architecture" // no family resolves it
	Unsupported         Code = "unsupported"          // the engine has no path for it
	NotDivisible        Code = "not_divisible"        // a sharded dimension does not divide
	IllegalLayout       Code = "illegal_layout"       // parallel sizes that exclude each other
	DoesNotFit          Code = "does_not_fit"         // pool too small
	NotKnown            Code = "not_known"            // headcount cannot tell; it does not guess
	Internal            Code = "internal"             // a fault of headcount itself
)

// An Error names a field, its value, and what is wrong with it. The remedy is apart, in
// Hint, so that a log stays one line. RefusedBy is the engine whose own rule refuses
// ("vllm", "sglang"), empty when the input itself is unusable.
type Error struct {
	Code      Code   `json:"code"`
	Field     string `json:"field,omitempty"` // path from the root, "text_config.num_key_value_heads", or a flag
	Value     any    `json:"value,omitempty"`
	Message   string `json:"message"` // the whole line, field and value included
	Hint      string `json:"hint,omitempty"`
	RefusedBy string `json:"refused_by,omitempty"`
	Line      int    `json:"line,omitempty"` // in a stream of requests

	// Set on a pool that is too small; bytes of one rank, tokens.
	NeededBytes          int64 `json:"needed_bytes,omitempty"`
	AvailableBytes       int64 `json:"available_bytes,omitempty"`
	EstimatedMaxModelLen int64 `json:"estimated_max_model_len,omitempty"`
}

// New returns an Error that reads "field = value: what is wrong", or "field: …" when
// value is nil, or just what is wrong when field is empty.
func New(code Code, field string, value any, format string, args ...any) *Error {
	what := fmt.Sprintf(format, args...)
	var b strings.Builder
	if field != "" {
		field = show(field) // a key of a file may be any text
		b.WriteString(field)
		if value != nil {
			fmt.Fprintf(&b, " = %s", show(value))
		}
		b.WriteString(": ")
	}
	b.WriteString(what)
	return &Error{Code: code, Field: field, Value: value, Message: b.String()}
}

// show prints a value from a file on one line and of bounded length.
func show(v any) string {
	s := oneLine(fmt.Sprint(v))
	if len(s) > 80 {
		s = strings.ToValidUTF8(s[:77], "") + "..."
	}
	return s
}

// oneLine is s without what would break a line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '.'
		}
		return r
	}, s)
}

// Error is the message, one line.
func (e *Error) Error() string { return e.Message }

// WithHint returns e with the remedy set.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// By returns e marked as the refusal of an engine.
func (e *Error) By(engine string) *Error {
	e.RefusedBy = engine
	return e
}

// Within returns err with the place where it happened before its message. An error that is
// none of ours is returned as it is.
func Within(where string, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	located := *e
	located.Message = oneLine(where) + ": " + e.Message
	return &located
}
