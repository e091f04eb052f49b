// Package roofline places work under the roof of a device: bound by memory bandwidth below
// the ridge point, by compute above it, and never faster than the roof (Williams, Waterman
// and Patterson, Roofline, CACM 2009).
//
// A figure that is not known stays so: nothing here divides by a guess.
package roofline

import (
	"headcount/attn"
	"headcount/dtype"
	"headcount/hw"
	"headcount/problem"
	"headcount/units"
)

// A Roof is the two limits of a device. A limit that is not known is zero.
type Roof struct {
	Peak      units.FLOPPerSec  // dense, in the dtype of the work
	Bandwidth units.BytesPerSec // of device memory
}

// For is the roof of gpu over work in t: bfloat16 or float16 attention, whatever the cache
// is stored in. A nil gpu has no known limit.
func For(gpu *hw.Accelerator, t dtype.Type) Roof {
	if gpu == nil {
		return Roof{}
	}
	return Roof{Peak: gpu.Peak.Of(t), Bandwidth: gpu.BytesPerSec}
}

// Ridge returns the ridge point of a device: below this arithmetic intensity, in
// FLOP/byte, a kernel is bound by memory bandwidth, above it by compute. It is 0 where
// either limit is not known.
func Ridge(peak units.FLOPPerSec, bw units.BytesPerSec) units.Intensity {
	if !(peak > 0 && bw > 0) {
		return 0
	}
	return peak.Per(bw)
}

// Of is the ridge point of gpu in its 16-bit format, or false where it is not known.
func Of(gpu *hw.Accelerator) (units.Intensity, bool) {
	if gpu == nil {
		return 0, false
	}
	return gpu.Ridge()
}

// A Bound is what limits the speed of some work on a device.
type Bound string

// What can limit; "" where the roof is not known.
const (
	Bandwidth Bound = "bandwidth"
	Compute   Bound = "compute"
)

// A Point is work under a roof.
type Point struct {
	Intensity units.Intensity
	Ridge     units.Intensity // 0 where not known
	Share     float64         // Intensity / Ridge; 0 where not known
	Bound     Bound           // "" where not known
}

// Known reports whether the roof was: only then do Ridge, Share and Bound mean something.
func (p Point) Known() bool { return p.Bound != "" }

// Place puts work of intensity i under the roof. At the ridge itself both limits take the
// same time, and it counts as bound by compute.
func (r Roof) Place(i units.Intensity) Point {
	p := Point{Intensity: i, Ridge: Ridge(r.Peak, r.Bandwidth)}
	if p.Ridge == 0 || !(i >= 0) {
		return p
	}
	p.Share, p.Bound = float64(i)/float64(p.Ridge), Bandwidth
	if i >= p.Ridge {
		p.Bound = Compute
	}
	return p
}

// A Cost is what some work takes on one device.
type Cost struct {
	FLOP  units.FLOP
	Bytes units.Bytes // read from device memory
}

// Intensity is FLOP per byte, 0 for work that reads nothing.
func (c Cost) Intensity() units.Intensity {
	if c.Bytes <= 0 {
		return 0
	}
	return c.FLOP.Per(c.Bytes)
}

// Decode is the cost, on one rank of tp, of decode attention in one layer of shape g over
// so many cached tokens, all sequences of the batch together, with elements of elemBytes.
// Errors are those of [attn.Geometry.Intensity], or bad_value for a count that overflows.
func Decode(g attn.Geometry, tp int, elemBytes, tokens int64) (Cost, error) {
	flop, err := g.DecodeFLOP(tp)
	if err != nil {
		return Cost{}, err
	}
	cell, err := g.BytesPerToken(tp, elemBytes)
	if err != nil {
		return Cost{}, err
	}
	ops, opsFit := units.Mul(int64(flop), tokens)
	size, sizeFits := units.Mul(int64(cell), tokens)
	if tokens < 0 || !opsFit || !sizeFits {
		return Cost{}, problem.New(problem.BadValue, "tokens", tokens, "not a number of cached tokens that can be counted")
	}
	return Cost{FLOP: units.FLOP(ops), Bytes: units.Bytes(size)}, nil
}

// Seconds is the least time that c takes under the roof:
//
//	max(FLOP / Peak, Bytes / Bandwidth)
//
// A limit that is not known is left out, which keeps the bound true; false if neither is.
func (r Roof) Seconds(c Cost) (float64, bool) {
	var compute, read float64
	if r.Peak > 0 {
		compute = float64(c.FLOP) / float64(r.Peak)
	}
	if r.Bandwidth > 0 {
		read = float64(c.Bytes) / float64(r.Bandwidth)
	}
	return max(compute, read), r.Peak > 0 || r.Bandwidth > 0
}

// Attainable is the rate that work of intensity i can reach at most:
//
//	min(Peak, i · Bandwidth)
//
// It is 0 where a limit is not known.
func (r Roof) Attainable(i units.Intensity) units.FLOPPerSec {
	return min(r.Peak, units.FLOPPerSec(float64(i)*float64(r.Bandwidth)))
}
