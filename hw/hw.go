// Package hw knows accelerators: memory as the driver reports it, bandwidth and peaks,
// each with its source.
package hw

// An Accelerator is one device. A figure without a source is zero and prints as null.
type Accelerator struct {
	ID         string // "h100-sxm-80gb"
	Name       string // "H100 SXM 80 GB"
	Vendor     string // "nvidia", "amd", ...
	DriverName string // as NVML reports it, "NVIDIA H100 80GB HBM3"; engines match on it
	Capability [2]int // CUDA compute capability; zero for other vendors

	MemoryBytes int64 // as the driver reports it (NVML total); engines' defaults look at this
	UsableBytes int64 // as the runtime reports it (cudaMemGetInfo total); what fractions multiply
	MemoryMiB   int64 // as nvidia-smi prints it, MiB; SGLang's tiers look at this
	Nominal     bool  // memory is the label on the box, not a reading
	BytesPerSec float64
	PeakFLOPS   map[string]float64 // dense FLOP/s by dtype: "bf16", "fp8", "int8", "fp4"
	SMs         int
	L2Bytes     int64
	Sources     map[string]string // figure → where it comes from
}
