// Package hw knows accelerators: memory as the driver reports it, bandwidth and peaks,
// each with its source. They are data, in accelerators.go; [Lookup] finds one by id, short
// name or driver's name, and [Parse] reads a description of another.
package hw

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"headcount/dtype"
	"headcount/problem"
	"headcount/units"
)

// An Accelerator is one device, as a serving engine counts devices. A figure without a
// source is zero and prints as null. The accelerators that [Lookup] and [All] return are
// shared and must not be changed.
type Accelerator struct {
	ID         string // "h100-sxm-80gb"
	Name       string // "H100 SXM 80 GB"
	Vendor     string // "nvidia", "amd", ...; "cpu" for an engine's CPU build
	DriverName string // as NVML reports it, "NVIDIA H100 80GB HBM3"; engines match on it
	Capability [2]int // CUDA compute capability; zero for other vendors

	MemoryBytes int64 // as the driver reports it (NVML total); engines' defaults look at this
	UsableBytes int64 // as the runtime reports it (cudaMemGetInfo total); what fractions multiply
	MemoryMiB   int64 // as nvidia-smi prints it, MiB; SGLang's tiers look at this
	Nominal     bool  // memory is the label on the box, not a reading
	BytesPerSec units.BytesPerSec
	Peak        Peaks
	SMs         int // streaming multiprocessors; compute units of other vendors
	L2Bytes     int64
	Sources     Sources

	family string // what a short name names: "a100" for each of the four; the usual one comes first
}

// Peaks are the rates of dense matrix products, in FLOP/s (OP/s for INT8), by the dtype of
// the factors, with 32-bit accumulation. Structured sparsity, which doubles the figures in
// many a datasheet, is left out.
type Peaks struct {
	TF32, BF16, FP16, FP8, INT8, FP4 units.FLOPPerSec
}

// Of is the peak for factors of type t, 0 if it is not known.
func (p Peaks) Of(t dtype.Type) units.FLOPPerSec {
	switch t {
	case dtype.BFloat16:
		return p.BF16
	case dtype.Float16:
		return p.FP16
	case dtype.Float8E4M3, dtype.Float8E5M2:
		return p.FP8
	case dtype.Int8:
		return p.INT8
	}
	return 0
}

// Dense16 is the peak of the 16-bit format that the device has: bfloat16, or float16 on a
// device without it.
func (p Peaks) Dense16() units.FLOPPerSec {
	if p.BF16 > 0 {
		return p.BF16
	}
	return p.FP16
}

// Sources say where each group of figures comes from.
type Sources struct {
	Memory    string `json:"memory,omitempty"`        // MemoryBytes, MemoryMiB
	Usable    string `json:"usable_memory,omitempty"` // UsableBytes
	Bandwidth string `json:"memory_bandwidth,omitempty"`
	Peak      string `json:"peak,omitempty"`
	Chip      string `json:"chip,omitempty"` // Capability, SMs, L2Bytes
}

// EngineRules reports whether the engines' rules that headcount knows hold on the device:
// they are CUDA's, and those of the CPU build for "cpu". On any other device geometry and
// roofline hold, and what an engine would allocate is not known. A nil Accelerator, no
// device named, leaves the engines' own rules.
func (a *Accelerator) EngineRules() bool {
	return a == nil || a.Vendor == "nvidia" || a.Vendor == "cpu"
}

// TotalBytes is the memory that an engine's fraction multiplies: what the runtime reports,
// or, where that was never read, what the driver reports or the label says; reading tells
// which. It is 0 if nothing is known.
func (a *Accelerator) TotalBytes() (n int64, reading bool) {
	if a.UsableBytes > 0 {
		return a.UsableBytes, true
	}
	return a.MemoryBytes, false
}

// Ridge is the ridge point in the device's 16-bit format, or false where the peak or the
// bandwidth is not known.
func (a *Accelerator) Ridge() (units.Intensity, bool) {
	if a.Peak.Dense16() <= 0 || a.BytesPerSec <= 0 {
		return 0, false
	}
	return a.Peak.Dense16().Per(a.BytesPerSec), true
}

// Figures are memory, bandwidth, dense 16-bit peak and ridge point, for a table; "-" for
// what is not known.
func (a *Accelerator) Figures() []string {
	const unknown = "-"
	out := []string{unknown, unknown, unknown, unknown}
	if a.MemoryBytes > 0 {
		out[0] = units.Bytes(a.MemoryBytes).String()
		if a.Nominal {
			out[0] += " nominal"
		}
	}
	if a.BytesPerSec > 0 {
		out[1] = a.BytesPerSec.String()
	}
	if peak := a.Peak.Dense16(); peak > 0 {
		out[2] = peak.String()
	}
	if ridge, ok := a.Ridge(); ok {
		out[3] = ridge.String()
	}
	return out
}

// Bounds of a description that is not ours; far above any device.
const (
	maxName     = 80
	maxMemory   = 1 << 50 // bytes
	maxRate     = 1e20    // bytes/s, FLOP/s
	maxSMs      = 1 << 20
	maxRevision = 99 // either half of a compute capability
)

// Check reports the first figure that no device can have. The error is a [*problem.Error]
// with code bad_value that names the field as [Parse] reads it.
func (a *Accelerator) Check() error {
	for _, f := range [...]struct{ field, text string }{{"id", a.ID}, {"name", a.Name}, {"vendor", a.Vendor}, {"driver_name", a.DriverName}} {
		if utf8.RuneCountInString(f.text) > maxName || strings.ContainsFunc(f.text, unprintable) {
			return problem.New(problem.BadValue, f.field, f.text, "not printable text of at most %d characters", maxName)
		}
	}
	for _, f := range [...]struct {
		field  string
		n, max int64
	}{
		{"memory_bytes", a.MemoryBytes, maxMemory}, {"usable_memory_bytes", a.UsableBytes, maxMemory}, {"memory_mib", a.MemoryMiB, maxMemory >> 20},
		{"streaming_multiprocessors", int64(a.SMs), maxSMs}, {"l2_bytes", a.L2Bytes, maxMemory},
		{"compute_capability", int64(a.Capability[0]), maxRevision}, {"compute_capability", int64(a.Capability[1]), maxRevision},
	} {
		if f.n < 0 || f.n > f.max {
			return problem.New(problem.BadValue, f.field, f.n, "not between 0 and %d", f.max)
		}
	}
	for _, f := range [...]struct {
		field string
		x     float64
	}{
		{"memory_bandwidth_bytes_per_second", float64(a.BytesPerSec)},
		{"peak_flop_per_second.tf32", float64(a.Peak.TF32)}, {"peak_flop_per_second.bf16", float64(a.Peak.BF16)},
		{"peak_flop_per_second.fp16", float64(a.Peak.FP16)}, {"peak_flop_per_second.fp8", float64(a.Peak.FP8)},
		{"peak_flop_per_second.int8", float64(a.Peak.INT8)}, {"peak_flop_per_second.fp4", float64(a.Peak.FP4)},
	} {
		if math.IsNaN(f.x) || f.x < 0 || f.x > maxRate || f.x > 0 && f.x < 1 {
			return problem.New(problem.BadValue, f.field, f.x, "not a rate between 1 and %g per second", maxRate)
		}
	}
	if a.MemoryBytes > 0 && a.UsableBytes > a.MemoryBytes {
		return problem.New(problem.BadValue, "usable_memory_bytes", a.UsableBytes, "more than memory_bytes %d", a.MemoryBytes)
	}
	return nil
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
