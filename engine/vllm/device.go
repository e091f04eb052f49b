package vllm

import "headcount/hw"

// A device is what the engine asks of an accelerator.
type device struct {
	major, minor int // CUDA compute capability
	memory       int64
	name         string // as the driver reports it
	cpu          bool   // the engine's CPU build
	amx          bool   // on a processor with AMX, whose kernel for latents has blocks as other layers
}

// assumed is the device that is assumed when none is named: an H100 SXM as NVML reports it.
var assumed = device{major: 9, minor: 0, memory: 85520809984, name: "NVIDIA H100 80GB HBM3"}

// newDevice reads an accelerator; nil is the assumed one.
func newDevice(a *hw.Accelerator) device {
	switch {
	case a == nil:
		return assumed
	case a.ID == "cpu":
		return device{cpu: true, memory: a.MemoryBytes, name: "cpu"}
	}
	name := a.DriverName
	if name == "" {
		name = a.Name
	}
	return device{major: a.Capability[0], minor: a.Capability[1], memory: a.MemoryBytes, name: name}
}

// atLeast compares the compute capability.
func (d device) atLeast(major, minor int) bool {
	return d.major > major || d.major == major && d.minor >= minor
}
