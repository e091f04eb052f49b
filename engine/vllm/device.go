package vllm

import (
	"strings"

	"headcount/hw"
)

// A device is what the engine asks of an accelerator.
type device struct {
	major, minor int // CUDA compute capability
	memory       int64
	name         string // as the driver reports it
	cpu          bool   // the engine's CPU build
}

// golden is the device that is assumed when none is named: an H100 SXM as NVML reports it.
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

// label is the first word of the pool's log line.
func (d device) label() string {
	if d.cpu {
		return "CPU"
	}
	return "GPU"
}

// atLeast compares the compute capability.
func (d device) atLeast(major, minor int) bool {
	return d.major > major || d.major == major && d.minor >= minor
}

// A batch is the default size of one scheduler step.
type batch struct{ tokens, seqs int }

// batch is the default for an API server by the device's memory and name
// (engine/arg_utils.py, get_batch_defaults).
func (d device) batch(ranks int) batch {
	const gib = 1 << 30
	switch {
	case d.cpu:
		return batch{2048 * ranks, 128 * ranks}
	case d.memory >= 160*gib:
		return batch{16384, 1024}
	case d.memory >= 70*gib && !strings.Contains(strings.ToLower(d.name), "a100") && (d.major != 12 || d.minor != 1):
		return batch{8192, 1024}
	}
	return batch{2048, 256}
}
