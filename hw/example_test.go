package hw_test

import (
	"encoding/json"
	"fmt"
	"os"

	"headcount/hw"
	"headcount/problem"
	"headcount/units"
)

func ExampleLookup() {
	for _, name := range []string{"h100", "A100-40G", "NVIDIA GeForce RTX 4090"} {
		a, _ := hw.Lookup(name)
		fmt.Println(a.ID, units.Bytes(a.MemoryBytes), a.BytesPerSec)
	}
	// Output:
	// h100-sxm-80gb 79.6 GiB 3.35 TB/s
	// a100-sxm-40gb 40 GiB 1.555 TB/s
	// rtx-4090-24gb 24.0 GiB 1.008 TB/s
}

// A mistyped name is answered with the nearest.
func ExampleLookup_mistyped() {
	_, err := hw.Lookup("mi300")
	fmt.Println(err)
	fmt.Println(err.(*problem.Error).Hint)
	// Output:
	// gpu = mi300: not an accelerator that headcount knows
	// did you mean mi300x-192gb?
}

func ExampleAll() {
	for _, a := range hw.All() {
		if a.Vendor == "google" {
			fmt.Println(a.ID)
		}
	}
	// Output:
	// tpu-v6e-32gb
	// tpu-v5p-95gb
	// tpu-v5e-16gb
}

func ExampleParse() {
	a, err := hw.Parse([]byte(`{
		"id": "h100-mig-3g", "vendor": "nvidia", "compute_capability": "9.0", "memory_mib": 40448,
		"memory_bandwidth_bytes_per_second": 1.675e12, "peak_flop_per_second": {"bf16": 424e12}
	}`))
	fmt.Println(a.Figures(), err)
	_, err = hw.Parse([]byte(`{"memory_bytes": "80 GB"}`))
	fmt.Println(err)
	// Output:
	// [39.5 GiB 1.675 TB/s 424 TFLOP/s 253 FLOP/byte] <nil>
	// memory_bytes = string: not a whole number
}

func ExampleAccelerator_Ridge() {
	a, _ := hw.Lookup("h100")
	fmt.Println(a.Ridge())
	// Output: 295 FLOP/byte true
}

func ExampleAccelerator_TotalBytes() {
	a, _ := hw.Lookup("h100")
	total, reading := a.TotalBytes()
	fmt.Println(units.FormatGiB(units.Bytes(total)), reading)
	// Output: 79.19 true
}

func ExampleAccelerator_EngineRules() {
	for _, name := range []string{"h100", "cpu", "mi300x"} {
		a, _ := hw.Lookup(name)
		fmt.Println(a.ID, a.EngineRules())
	}
	// Output:
	// h100-sxm-80gb true
	// cpu true
	// mi300x-192gb false
}

// What is not known is null.
func ExampleAccelerator_MarshalJSON() {
	a, _ := hw.Lookup("m1-max")
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	_ = enc.Encode(a)
	// Output:
	// {
	//   "id": "m1-max-64gb",
	//   "name": "M1 Max 64 GB",
	//   "vendor": "apple",
	//   "driver_name": null,
	//   "compute_capability": null,
	//   "memory_bytes": 68719476736,
	//   "usable_memory_bytes": null,
	//   "memory_mib": null,
	//   "memory_nominal": true,
	//   "memory_bandwidth_bytes_per_second": 400000000000,
	//   "peak_flop_per_second": {
	//     "tf32": null,
	//     "bf16": null,
	//     "fp16": null,
	//     "fp8": null,
	//     "int8": null,
	//     "fp4": null
	//   },
	//   "streaming_multiprocessors": null,
	//   "l2_bytes": null,
	//   "sources": {
	//     "memory": "Apple technical specifications, largest configuration",
	//     "memory_bandwidth": "Apple technical specifications, largest configuration"
	//   }
	// }
}
