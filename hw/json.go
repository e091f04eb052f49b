package hw

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"headcount/problem"
	"headcount/units"
)

// MaxBytes bounds the description of an accelerator.
const MaxBytes = 64 << 10

// A Description is an Accelerator in JSON: what is not known is null.
type Description struct {
	ID         string  `json:"id"`
	Name       string  `json:"name"`
	Vendor     string  `json:"vendor"`
	DriverName *string `json:"driver_name"`
	Capability *string `json:"compute_capability"` // "9.0"

	MemoryBytes *int64             `json:"memory_bytes"`
	UsableBytes *int64             `json:"usable_memory_bytes"`
	MemoryMiB   *int64             `json:"memory_mib"`
	Nominal     bool               `json:"memory_nominal"`
	BytesPerSec *units.BytesPerSec `json:"memory_bandwidth_bytes_per_second"`
	Peak        DescribedPeaks     `json:"peak_flop_per_second"`
	SMs         *int               `json:"streaming_multiprocessors"`
	L2Bytes     *int64             `json:"l2_bytes"`
	Sources     Sources            `json:"sources"`
}

// DescribedPeaks are the Peaks of a Description.
type DescribedPeaks struct {
	TF32 *units.FLOPPerSec `json:"tf32"`
	BF16 *units.FLOPPerSec `json:"bf16"`
	FP16 *units.FLOPPerSec `json:"fp16"`
	FP8  *units.FLOPPerSec `json:"fp8"`
	INT8 *units.FLOPPerSec `json:"int8"`
	FP4  *units.FLOPPerSec `json:"fp4"`
}

// MarshalJSON writes every figure, null where it is not known.
func (a Accelerator) MarshalJSON() ([]byte, error) {
	w := Description{
		ID: a.ID, Name: a.Name, Vendor: a.Vendor, DriverName: known(a.DriverName),
		MemoryBytes: known(a.MemoryBytes), UsableBytes: known(a.UsableBytes), MemoryMiB: known(a.MemoryMiB), Nominal: a.Nominal,
		BytesPerSec: known(a.BytesPerSec), SMs: known(a.SMs), L2Bytes: known(a.L2Bytes), Sources: a.Sources,
		Peak: DescribedPeaks{known(a.Peak.TF32), known(a.Peak.BF16), known(a.Peak.FP16), known(a.Peak.FP8), known(a.Peak.INT8), known(a.Peak.FP4)},
	}
	if a.Capability != [2]int{} {
		w.Capability = known(fmt.Sprintf("%d.%d", a.Capability[0], a.Capability[1]))
	}
	return json.Marshal(w)
}

// known is nil for the zero value.
func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// value is the zero value for nil.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Parse reads a description of one accelerator, in the form that MarshalJSON writes:
//
//	{"id": "my-gpu", "vendor": "nvidia", "compute_capability": "9.0", "memory_bytes": 85520809984,
//	 "usable_memory_bytes": 85029158912, "memory_bandwidth_bytes_per_second": 3.35e12,
//	 "peak_flop_per_second": {"bf16": 989.4e12}}
//
// Memory is the one figure that must be there, as memory_bytes or memory_mib; what is left
// out or null is not known. On an NVIDIA device the one gives the other, as the driver's
// tool does. The error is a [*problem.Error] that names the field.
func Parse(data []byte) (*Accelerator, error) {
	if len(data) > MaxBytes {
		return nil, problem.New(problem.Unreadable, "", nil, "accelerator of %d bytes exceeds the cap of %d", len(data), MaxBytes)
	}
	w := Description{ID: "custom"}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&w); err != nil {
		return nil, readable(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, problem.New(problem.Unreadable, "", nil, "text after the end of the accelerator")
	}
	return w.accelerator()
}

// UnmarshalJSON reads what [Parse] reads.
func (a *Accelerator) UnmarshalJSON(data []byte) error {
	parsed, err := Parse(data)
	if err != nil {
		return err
	}
	*a = *parsed
	return nil
}

// accelerator checks what was read and fills in what follows from it.
func (w *Description) accelerator() (*Accelerator, error) {
	a := &Accelerator{
		ID: w.ID, Name: w.Name, Vendor: strings.ToLower(w.Vendor), DriverName: value(w.DriverName),
		MemoryBytes: value(w.MemoryBytes), UsableBytes: value(w.UsableBytes), MemoryMiB: value(w.MemoryMiB), Nominal: w.Nominal,
		BytesPerSec: value(w.BytesPerSec), SMs: value(w.SMs), L2Bytes: value(w.L2Bytes), Sources: w.Sources,
		Peak: Peaks{value(w.Peak.TF32), value(w.Peak.BF16), value(w.Peak.FP16), value(w.Peak.FP8), value(w.Peak.INT8), value(w.Peak.FP4)},
	}
	if a.Name == "" {
		a.Name = a.ID
	}
	if w.Capability != nil {
		var ok bool
		if a.Capability, ok = capability(*w.Capability); !ok {
			return nil, problem.New(problem.BadValue, "compute_capability", *w.Capability, "not of the form 9.0")
		}
	}
	if err := a.Check(); err != nil {
		return nil, err
	}
	switch {
	case a.MemoryBytes == 0 && a.MemoryMiB == 0:
		return nil, problem.New(problem.MissingField, "memory_bytes", nil, "an accelerator needs its memory").
			WithHint(`give "memory_bytes", or "memory_mib" as nvidia-smi prints it`)
	case a.MemoryBytes == 0:
		a.MemoryBytes = a.MemoryMiB << 20
	case a.MemoryMiB == 0 && a.Vendor == "nvidia":
		a.MemoryMiB = a.MemoryBytes >> 20
	}
	return a, a.Check()
}

// capability reads a compute capability, "9.0".
func capability(s string) (c [2]int, ok bool) {
	major, minor, _ := strings.Cut(s, ".")
	for i, part := range []string{major, minor} {
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil || n > maxRevision {
			return c, false
		}
		c[i] = int(n)
	}
	return c, true
}

// readable puts the decoder's words into ours.
func readable(err error) *problem.Error {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return p
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return problem.New(problem.BadValue, wrong.Field, wrong.Value, "not a %s", wants(wrong))
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return problem.New(problem.Unreadable, "", nil, "accelerator, byte %d: %s", syntax.Offset, syntax.Error())
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return problem.New(problem.BadValue, strings.Trim(field, `"`), nil, "not a field of an accelerator").
			WithHint("headcount gpus --json shows the fields")
	}
	return problem.New(problem.Unreadable, "", nil, "accelerator: %v", err)
}

// wants is the kind of value that a field takes, in words.
func wants(e *json.UnmarshalTypeError) string {
	switch e.Type.Kind().String() {
	case "int", "int64":
		return "whole number"
	case "float64":
		return "number"
	case "bool":
		return "true or false"
	case "string":
		return "string"
	}
	return "object"
}
