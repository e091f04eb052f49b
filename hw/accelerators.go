package hw

// Readings: a number of MiB is what nvidia-smi or the runtime prints, exact to that MiB. A
// number of hundredths of a GiB is what an engine or PyTorch logs, and exact to that: what
// the runtime reports moves by a tenth of a GiB between drivers.
const (
	mib = 1 << 20
	gib = 1 << 30
	mb  = 1 << 20 // of caches, which datasheets count in binary
)

// A vendor's label counts memory in binary: DRAM has no other size.
const (
	labelled = "label, taken as 2^30 bytes a GB; no reading"
)

// Sources that several devices share.
const (
	smi           = "nvidia-smi memory.total; NVML's bytes are its MiB"
	torch         = "total_memory of PyTorch's device properties, MiB"
	oom           = "total capacity in PyTorch's out-of-memory message, two decimals"
	hipTotal      = "total memory of the HIP runtime as PyTorch prints it"
	properties    = "CUDA device properties"
	hopperPaper   = "NVIDIA H100 Tensor Core GPU Architecture white paper, dense"
	h100Sheet     = "NVIDIA H100 Tensor Core GPU datasheet"
	h100SheetHalf = "NVIDIA H100 Tensor Core GPU datasheet, half of the figure with sparsity"
	h200Sheet     = "NVIDIA H200 Tensor Core GPU datasheet"
	h200SheetHalf = "NVIDIA H200 Tensor Core GPU datasheet, half of the figure with sparsity"
	h20Brief      = "NVIDIA H20 specification as resellers publish it, dense; NVIDIA has no public datasheet"
	a100Sheet     = "NVIDIA A100 Tensor Core GPU datasheet"
	a100Dense     = "NVIDIA A100 Tensor Core GPU datasheet, dense"
	blackwellHalf = "NVIDIA Blackwell Architecture Technical Brief, per GPU of HGX B200, half of the figure with sparsity"
	gb200Half     = "NVIDIA GB200 NVL72 datasheet, a 72nd, half of the figure with sparsity"
	adaPaper      = "NVIDIA Ada GPU Architecture white paper, dense, FP32 accumulate"
	adaProPaper   = "NVIDIA Ada GPU Architecture (professional) white paper, dense, FP32 accumulate"
	rtxBlackwell  = "NVIDIA RTX Blackwell GPU Architecture white paper, dense, FP32 accumulate"
	rtxProPaper   = "NVIDIA RTX Blackwell PRO GPU Architecture white paper, dense, FP32 accumulate"
	voltaPaper    = "NVIDIA Tesla V100 GPU Architecture white paper"
	v100Sheet     = "NVIDIA V100 Tensor Core GPU datasheet"
	cdna2Sheet    = "AMD Instinct MI200 series data sheet"
	cdna2Half     = "AMD Instinct MI250X data sheet, half of the package: one of its two dies"
	cdna3Sheet    = "AMD Instinct MI300X data sheet, dense"
	mi325Sheet    = "AMD Instinct MI325X data sheet, dense"
	mi350Sheet    = "AMD Instinct MI350X data sheet, dense"
	mi355Sheet    = "AMD Instinct MI355X data sheet, dense"
	gaudiSlides   = "Intel, Gaudi 3 AI Accelerator, Hot Chips 2024, product table"
	tpuDocs       = "Cloud TPU documentation, system architecture, per chip"
	appleSpecs    = "Apple technical specifications, largest configuration"
)

// accelerators are all that are known. A family is contiguous and its usual variant first.
var accelerators = [...]Accelerator{
	// NVIDIA Hopper
	{
		ID: "h100-sxm-80gb", Name: "H100 SXM 80 GB", Vendor: "nvidia", family: "h100",
		DriverName: "NVIDIA H100 80GB HBM3", Capability: [2]int{9, 0},
		MemoryBytes: 81559 * mib, MemoryMiB: 81559, UsableBytes: 85029158912, BytesPerSec: 3.35e12,
		Peak: Peaks{TF32: 494.7e12, BF16: 989.4e12, FP16: 989.4e12, FP8: 1978.9e12, INT8: 1978.9e12},
		SMs:  132, L2Bytes: 50 * mb,
		Sources: Sources{Memory: smi, Usable: properties + ": 85029158912; 79.19 GiB in vLLM's logs", Bandwidth: h100Sheet, Peak: hopperPaper, Chip: properties},
	},
	{
		ID: "h100-pcie-80gb", Name: "H100 PCIe 80 GB", Vendor: "nvidia", family: "h100",
		DriverName: "NVIDIA H100 PCIe", Capability: [2]int{9, 0},
		MemoryBytes: 81559 * mib, MemoryMiB: 81559, UsableBytes: 81008 * mib, BytesPerSec: 2.0e12,
		Peak: Peaks{TF32: 378e12, BF16: 756e12, FP16: 756e12, FP8: 1513e12, INT8: 1513e12},
		SMs:  114, L2Bytes: 50 * mb,
		Sources: Sources{Memory: smi, Usable: torch, Bandwidth: h100Sheet, Peak: hopperPaper, Chip: properties + "; L2 from the white paper"},
	},
	{
		ID: "h100-nvl-94gb", Name: "H100 NVL 94 GB", Vendor: "nvidia", family: "h100",
		DriverName: "NVIDIA H100 NVL", Capability: [2]int{9, 0},
		MemoryBytes: 95830 * mib, MemoryMiB: 95830, UsableBytes: 9310 * gib / 100, BytesPerSec: 3.9e12,
		Peak:    Peaks{TF32: 835e12 / 2, BF16: 1671e12 / 2, FP16: 1671e12 / 2, FP8: 3341e12 / 2, INT8: 3341e12 / 2},
		Sources: Sources{Memory: smi, Usable: oom, Bandwidth: h100Sheet, Peak: h100SheetHalf, Chip: properties},
	},
	{
		ID: "h200-sxm-141gb", Name: "H200 SXM 141 GB", Vendor: "nvidia", family: "h200",
		DriverName: "NVIDIA H200", Capability: [2]int{9, 0},
		MemoryBytes: 143771 * mib, MemoryMiB: 143771, UsableBytes: 150110011392, BytesPerSec: 4.8e12,
		Peak: Peaks{TF32: 989e12 / 2, BF16: 1979e12 / 2, FP16: 1979e12 / 2, FP8: 3958e12 / 2, INT8: 3958e12 / 2},
		SMs:  132, L2Bytes: 60 * mb,
		Sources: Sources{Memory: smi, Usable: properties + ": 143156 MiB; 139.8 GiB in vLLM's logs", Bandwidth: h200Sheet, Peak: h200SheetHalf, Chip: properties},
	},
	{
		ID: "h20-sxm-96gb", Name: "H20 SXM 96 GB", Vendor: "nvidia", family: "h20",
		DriverName: "NVIDIA H20", Capability: [2]int{9, 0},
		MemoryBytes: 97871 * mib, MemoryMiB: 97871, UsableBytes: 97285 * mib, BytesPerSec: 4.0e12,
		Peak: Peaks{TF32: 74e12, BF16: 148e12, FP16: 148e12, FP8: 296e12, INT8: 296e12},
		SMs:  78, L2Bytes: 60 * mb,
		Sources: Sources{Memory: smi, Usable: torch, Bandwidth: h20Brief, Peak: h20Brief, Chip: properties + "; L2 from resellers' specification"},
	},

	// NVIDIA Blackwell
	{
		ID: "b200-sxm-180gb", Name: "B200 SXM 180 GB", Vendor: "nvidia", family: "b200",
		DriverName: "NVIDIA B200", Capability: [2]int{10, 0},
		MemoryBytes: 183359 * mib, MemoryMiB: 183359, UsableBytes: 182642 * mib, BytesPerSec: 8e12,
		Peak: Peaks{TF32: 2.25e15 / 2, BF16: 4.5e15 / 2, FP16: 4.5e15 / 2, FP8: 9e15 / 2, INT8: 9e15 / 2, FP4: 18e15 / 2},
		SMs:  148, L2Bytes: 126 * mb,
		Sources: Sources{Memory: smi, Usable: torch, Bandwidth: "NVIDIA DGX B200 datasheet: 64 TB/s over 8 GPUs", Peak: blackwellHalf, Chip: properties},
	},
	{
		ID: "gb200-186gb", Name: "GB200 186 GB", Vendor: "nvidia", family: "gb200",
		DriverName: "NVIDIA GB200", Capability: [2]int{10, 0},
		MemoryBytes: 189471 * mib, MemoryMiB: 189471, UsableBytes: 18431 * gib / 100, BytesPerSec: 8e12,
		Peak:    Peaks{TF32: 2.5e15 / 2, BF16: 5e15 / 2, FP16: 5e15 / 2, FP8: 10e15 / 2, INT8: 10e15 / 2, FP4: 20e15 / 2},
		SMs:     152,
		Sources: Sources{Memory: smi, Usable: oom, Bandwidth: "NVIDIA GB200 NVL72 datasheet: 576 TB/s over 72 GPUs", Peak: gb200Half, Chip: properties},
	},
	{
		ID: "b300-sxm-288gb", Name: "B300 SXM 288 GB", Vendor: "nvidia", family: "b300",
		DriverName: "NVIDIA B300 SXM6 AC", Capability: [2]int{10, 3},
		MemoryBytes: 275040 * mib, MemoryMiB: 275040, UsableBytes: 26769 * gib / 100, BytesPerSec: 8e12,
		Peak: Peaks{TF32: 2.25e15 / 2, BF16: 4.5e15 / 2, FP16: 4.5e15 / 2, FP8: 9e15 / 2, FP4: 13.5e15},
		SMs:  148,
		Sources: Sources{Memory: smi, Usable: oom, Bandwidth: "NVIDIA HGX B300 specification, per GPU",
			Peak: "NVIDIA HGX B300 specification, an eighth, half of the figure with sparsity; FP4 dense as given", Chip: properties},
	},

	// NVIDIA Ampere, datacentre
	{
		ID: "a100-sxm-80gb", Name: "A100 SXM 80 GB", Vendor: "nvidia", family: "a100",
		DriverName: "NVIDIA A100-SXM4-80GB", Capability: [2]int{8, 0},
		MemoryBytes: 81920 * mib, MemoryMiB: 81920, UsableBytes: 7925 * gib / 100, BytesPerSec: 2039e9,
		Peak: Peaks{TF32: 156e12, BF16: 312e12, FP16: 312e12, INT8: 624e12},
		SMs:  108, L2Bytes: 40 * mb,
		Sources: Sources{Memory: smi, Usable: oom, Bandwidth: a100Sheet, Peak: a100Dense, Chip: properties},
	},
	{
		ID: "a100-pcie-80gb", Name: "A100 PCIe 80 GB", Vendor: "nvidia", family: "a100",
		DriverName: "NVIDIA A100 80GB PCIe", Capability: [2]int{8, 0},
		MemoryBytes: 81920 * mib, MemoryMiB: 81920, UsableBytes: 7925 * gib / 100, BytesPerSec: 1935e9,
		Peak: Peaks{TF32: 156e12, BF16: 312e12, FP16: 312e12, INT8: 624e12},
		SMs:  108, L2Bytes: 40 * mb,
		Sources: Sources{Memory: smi, Usable: oom + ", of the SXM module", Bandwidth: a100Sheet, Peak: a100Dense, Chip: properties},
	},
	{
		ID: "a100-sxm-40gb", Name: "A100 SXM 40 GB", Vendor: "nvidia", family: "a100",
		DriverName: "NVIDIA A100-SXM4-40GB", Capability: [2]int{8, 0},
		MemoryBytes: 40960 * mib, MemoryMiB: 40960, UsableBytes: 42298834944, BytesPerSec: 1555e9,
		Peak: Peaks{TF32: 156e12, BF16: 312e12, FP16: 312e12, INT8: 624e12},
		SMs:  108, L2Bytes: 40 * mb,
		Sources: Sources{Memory: smi, Usable: properties + ": 42298834944", Bandwidth: a100Sheet, Peak: a100Dense, Chip: properties},
	},
	{
		ID: "a100-pcie-40gb", Name: "A100 PCIe 40 GB", Vendor: "nvidia", family: "a100",
		DriverName: "NVIDIA A100-PCIE-40GB", Capability: [2]int{8, 0},
		MemoryBytes: 40960 * mib, MemoryMiB: 40960, UsableBytes: 3949 * gib / 100, BytesPerSec: 1555e9,
		Peak: Peaks{TF32: 156e12, BF16: 312e12, FP16: 312e12, INT8: 624e12},
		SMs:  108, L2Bytes: 40 * mb,
		Sources: Sources{Memory: smi, Usable: "39.49 GiB in a TensorRT-LLM log", Bandwidth: a100Sheet, Peak: a100Dense, Chip: properties},
	},
	{
		ID: "a10-24gb", Name: "A10 24 GB", Vendor: "nvidia", family: "a10",
		DriverName: "NVIDIA A10", Capability: [2]int{8, 6},
		MemoryBytes: 23028 * mib, MemoryMiB: 23028, UsableBytes: 2206 * gib / 100, BytesPerSec: 600e9,
		Peak:    Peaks{TF32: 62.5e12, BF16: 125e12, FP16: 125e12, INT8: 250e12},
		SMs:     72,
		Sources: Sources{Memory: smi, Usable: oom, Bandwidth: "NVIDIA A10 datasheet", Peak: "NVIDIA A10 datasheet, dense", Chip: properties},
	},

	// NVIDIA Ada, datacentre
	{
		ID: "l4-24gb", Name: "L4 24 GB", Vendor: "nvidia", family: "l4",
		DriverName: "NVIDIA L4", Capability: [2]int{8, 9},
		MemoryBytes: 23034 * mib, MemoryMiB: 23034, UsableBytes: 2203 * gib / 100, BytesPerSec: 300e9,
		Peak:    Peaks{TF32: 120e12 / 2, BF16: 242e12 / 2, FP16: 242e12 / 2, FP8: 485e12 / 2, INT8: 485e12 / 2},
		SMs:     58,
		Sources: Sources{Memory: smi, Usable: oom, Bandwidth: "NVIDIA L4 datasheet", Peak: "NVIDIA L4 datasheet, half of the figure with sparsity", Chip: properties},
	},
	{
		ID: "l40s-48gb", Name: "L40S 48 GB", Vendor: "nvidia", family: "l40s",
		DriverName: "NVIDIA L40S", Capability: [2]int{8, 9},
		MemoryBytes: 46068 * mib, MemoryMiB: 46068, UsableBytes: 4439 * gib / 100, BytesPerSec: 864e9,
		Peak: Peaks{TF32: 183e12, BF16: 362.05e12, FP16: 362.05e12, FP8: 733e12, INT8: 733e12},
		SMs:  142, L2Bytes: 96 * mb,
		Sources: Sources{Memory: smi, Usable: oom, Bandwidth: "NVIDIA L40S datasheet", Peak: "NVIDIA L40S datasheet, dense", Chip: properties + "; L2 from the Ada white paper"},
	},

	// NVIDIA GeForce and RTX
	{
		ID: "rtx-3090-24gb", Name: "RTX 3090 24 GB", Vendor: "nvidia", family: "rtx3090",
		DriverName: "NVIDIA GeForce RTX 3090", Capability: [2]int{8, 6},
		MemoryBytes: 24576 * mib, MemoryMiB: 24576, UsableBytes: 24259 * mib, BytesPerSec: 936e9,
		Peak: Peaks{TF32: 35.6e12, BF16: 71e12, FP16: 71e12, INT8: 284e12},
		SMs:  82, L2Bytes: 6 * mb,
		Sources: Sources{Memory: smi, Usable: torch, Bandwidth: "NVIDIA Ampere GA102 GPU Architecture white paper", Peak: "NVIDIA Ampere GA102 GPU Architecture white paper, dense, FP32 accumulate", Chip: properties},
	},
	{
		ID: "rtx-4090-24gb", Name: "RTX 4090 24 GB", Vendor: "nvidia", family: "rtx4090",
		DriverName: "NVIDIA GeForce RTX 4090", Capability: [2]int{8, 9},
		MemoryBytes: 24564 * mib, MemoryMiB: 24564, UsableBytes: 2364 * gib / 100, BytesPerSec: 1008e9,
		Peak: Peaks{TF32: 82.6e12, BF16: 165.2e12, FP16: 165.2e12, FP8: 330.3e12, INT8: 660.6e12},
		SMs:  128, L2Bytes: 72 * mb,
		Sources: Sources{Memory: smi, Usable: oom, Bandwidth: adaPaper, Peak: adaPaper, Chip: properties},
	},
	{
		ID: "rtx-5090-32gb", Name: "RTX 5090 32 GB", Vendor: "nvidia", family: "rtx5090",
		DriverName: "NVIDIA GeForce RTX 5090", Capability: [2]int{12, 0},
		MemoryBytes: 32607 * mib, MemoryMiB: 32607, UsableBytes: 33677180928, BytesPerSec: 1792e9,
		Peak: Peaks{TF32: 104.8e12, BF16: 209.5e12, FP16: 209.5e12, FP8: 419e12, INT8: 838e12, FP4: 1676e12},
		SMs:  170, L2Bytes: 96 * mb,
		Sources: Sources{Memory: smi, Usable: properties + ": 33677180928", Bandwidth: rtxBlackwell, Peak: rtxBlackwell, Chip: properties},
	},
	{
		ID: "rtx-6000-ada-48gb", Name: "RTX 6000 Ada 48 GB", Vendor: "nvidia", family: "rtx6000ada",
		DriverName: "NVIDIA RTX 6000 Ada Generation", Capability: [2]int{8, 9},
		MemoryBytes: 49140 * mib, MemoryMiB: 49140, UsableBytes: 48622 * mib, BytesPerSec: 960e9,
		Peak: Peaks{TF32: 182.1e12, BF16: 364.2e12, FP16: 364.2e12, FP8: 728.5e12, INT8: 728.5e12},
		SMs:  142, L2Bytes: 96 * mb,
		Sources: Sources{Memory: smi, Usable: torch, Bandwidth: adaProPaper, Peak: adaProPaper, Chip: properties + "; L2 from the white paper"},
	},
	{
		ID: "rtx-pro-6000-96gb", Name: "RTX PRO 6000 Blackwell 96 GB", Vendor: "nvidia", family: "rtxpro6000",
		DriverName: "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", Capability: [2]int{12, 0},
		MemoryBytes: 97887 * mib, MemoryMiB: 97887, UsableBytes: 9497 * gib / 100, BytesPerSec: 1792e9,
		Peak: Peaks{TF32: 251.9e12, BF16: 503.8e12, FP16: 503.8e12, FP8: 1007.6e12, INT8: 1007.6e12, FP4: 2015.2e12},
		SMs:  188, L2Bytes: 128 * mb,
		Sources: Sources{Memory: smi, Usable: "94.97 GiB in vLLM's logs", Bandwidth: rtxProPaper, Peak: rtxProPaper, Chip: rtxProPaper},
	},

	// NVIDIA Turing and Volta
	{
		ID: "t4-16gb", Name: "T4 16 GB", Vendor: "nvidia", family: "t4",
		DriverName: "Tesla T4", Capability: [2]int{7, 5},
		MemoryBytes: 15360 * mib, MemoryMiB: 15360, UsableBytes: 1456 * gib / 100, BytesPerSec: 320e9,
		Peak: Peaks{FP16: 65e12, INT8: 130e12},
		SMs:  40, L2Bytes: 4 * mb,
		Sources: Sources{Memory: smi, Usable: "14.56 GiB in a vLLM log", Bandwidth: "NVIDIA T4 datasheet", Peak: "NVIDIA T4 datasheet", Chip: properties},
	},
	{
		ID: "v100-sxm-32gb", Name: "V100 SXM2 32 GB", Vendor: "nvidia", family: "v100",
		DriverName: "Tesla V100-SXM2-32GB", Capability: [2]int{7, 0},
		MemoryBytes: 32768 * mib, MemoryMiB: 32768, UsableBytes: 32510 * mib, BytesPerSec: 900e9,
		Peak: Peaks{FP16: 125e12},
		SMs:  80, L2Bytes: 6 * mb,
		Sources: Sources{Memory: smi, Usable: torch + ", of the PCIe card", Bandwidth: v100Sheet, Peak: v100Sheet, Chip: voltaPaper},
	},
	{
		ID: "v100-sxm-16gb", Name: "V100 SXM2 16 GB", Vendor: "nvidia", family: "v100",
		DriverName: "Tesla V100-SXM2-16GB", Capability: [2]int{7, 0},
		MemoryBytes: 16384 * mib, MemoryMiB: 16384, UsableBytes: 16160 * mib, BytesPerSec: 900e9,
		Peak: Peaks{FP16: 125e12},
		SMs:  80, L2Bytes: 6 * mb,
		Sources: Sources{Memory: smi, Usable: torch, Bandwidth: v100Sheet, Peak: v100Sheet, Chip: voltaPaper},
	},
	{
		ID: "v100-pcie-32gb", Name: "V100 PCIe 32 GB", Vendor: "nvidia", family: "v100",
		DriverName: "Tesla V100-PCIE-32GB", Capability: [2]int{7, 0},
		MemoryBytes: 32768 * mib, MemoryMiB: 32768, UsableBytes: 32510 * mib, BytesPerSec: 900e9,
		Peak: Peaks{FP16: 112e12},
		SMs:  80, L2Bytes: 6 * mb,
		Sources: Sources{Memory: smi, Usable: torch, Bandwidth: v100Sheet, Peak: v100Sheet, Chip: voltaPaper},
	},
	{
		ID: "v100-pcie-16gb", Name: "V100 PCIe 16 GB", Vendor: "nvidia", family: "v100",
		DriverName: "Tesla V100-PCIE-16GB", Capability: [2]int{7, 0},
		MemoryBytes: 16384 * mib, MemoryMiB: 16384, UsableBytes: 16160 * mib, BytesPerSec: 900e9,
		Peak: Peaks{FP16: 112e12},
		SMs:  80, L2Bytes: 6 * mb,
		Sources: Sources{Memory: smi, Usable: torch + ", of the SXM module", Bandwidth: v100Sheet, Peak: v100Sheet, Chip: voltaPaper},
	},

	// AMD Instinct
	{
		ID: "mi355x-288gb", Name: "Instinct MI355X 288 GB", Vendor: "amd", family: "mi355x", DriverName: "AMD Instinct MI355X",
		MemoryBytes: 28798 * gib / 100, UsableBytes: 28798 * gib / 100, BytesPerSec: 8e12,
		Peak:    Peaks{BF16: 2516.6e12, FP16: 2516.6e12, FP8: 5033.2e12, INT8: 5033.2e12, FP4: 10066.3e12},
		SMs:     256,
		Sources: Sources{Memory: hipTotal, Usable: hipTotal, Bandwidth: mi355Sheet, Peak: mi355Sheet, Chip: mi355Sheet},
	},
	{
		ID: "mi350x-288gb", Name: "Instinct MI350X 288 GB", Vendor: "amd", family: "mi350x", DriverName: "AMD Instinct MI350X",
		MemoryBytes: 28798 * gib / 100, UsableBytes: 28798 * gib / 100, BytesPerSec: 8e12,
		Peak:    Peaks{BF16: 2306.9e12, FP16: 2306.9e12, FP8: 4613.7e12, INT8: 4613.7e12, FP4: 9227.5e12},
		SMs:     256,
		Sources: Sources{Memory: hipTotal + " on the MI350 series", Usable: hipTotal + " on the MI350 series", Bandwidth: mi350Sheet, Peak: mi350Sheet, Chip: mi350Sheet},
	},
	{
		ID: "mi325x-256gb", Name: "Instinct MI325X 256 GB", Vendor: "amd", family: "mi325x", DriverName: "AMD Instinct MI325X",
		MemoryBytes: 25598 * gib / 100, UsableBytes: 25598 * gib / 100, BytesPerSec: 6e12,
		Peak:    Peaks{TF32: 653.7e12, BF16: 1307.4e12, FP16: 1307.4e12, FP8: 2614.9e12, INT8: 2614.9e12},
		SMs:     304,
		Sources: Sources{Memory: hipTotal, Usable: hipTotal, Bandwidth: mi325Sheet, Peak: mi325Sheet, Chip: mi325Sheet},
	},
	{
		ID: "mi300x-192gb", Name: "Instinct MI300X 192 GB", Vendor: "amd", family: "mi300x", DriverName: "AMD Instinct MI300X",
		MemoryBytes: 196592 * mib, UsableBytes: 196592 * mib, BytesPerSec: 5.3e12,
		Peak:    Peaks{TF32: 653.7e12, BF16: 1307.4e12, FP16: 1307.4e12, FP8: 2614.9e12, INT8: 2614.9e12},
		SMs:     304,
		Sources: Sources{Memory: hipTotal, Usable: hipTotal, Bandwidth: cdna3Sheet, Peak: cdna3Sheet, Chip: cdna3Sheet},
	},
	{ // a package of two dies, each of which the driver and the engines count as a device
		ID: "mi250x-64gb", Name: "Instinct MI250X, one die of two, 64 GB", Vendor: "amd", family: "mi250x", DriverName: "AMD Instinct MI250X",
		MemoryBytes: 6398 * gib / 100, UsableBytes: 6398 * gib / 100, BytesPerSec: 3276.8e9 / 2,
		Peak:    Peaks{BF16: 383e12 / 2, FP16: 383e12 / 2, INT8: 383e12 / 2},
		SMs:     110,
		Sources: Sources{Memory: hipTotal, Usable: hipTotal, Bandwidth: cdna2Half, Peak: cdna2Half, Chip: cdna2Half},
	},
	{
		ID: "mi210-64gb", Name: "Instinct MI210 64 GB", Vendor: "amd", family: "mi210", DriverName: "AMD Instinct MI210",
		MemoryBytes: 6398 * gib / 100, UsableBytes: 6398 * gib / 100, BytesPerSec: 1638.4e9,
		Peak:    Peaks{BF16: 181e12, FP16: 181e12, INT8: 181e12},
		SMs:     104,
		Sources: Sources{Memory: hipTotal + " on a 64 GB die of its series", Usable: hipTotal + " on a 64 GB die of its series", Bandwidth: cdna2Sheet, Peak: cdna2Sheet, Chip: cdna2Sheet},
	},

	// Intel Gaudi
	{
		ID: "gaudi3-128gb", Name: "Gaudi 3 128 GB", Vendor: "intel", family: "gaudi3",
		MemoryBytes: 128 * gib, Nominal: true, BytesPerSec: 3.67e12,
		Peak:    Peaks{BF16: 1835e12, FP8: 1835e12},
		Sources: Sources{Memory: labelled, Bandwidth: gaudiSlides, Peak: gaudiSlides},
	},
	{
		ID: "gaudi2-96gb", Name: "Gaudi 2 96 GB", Vendor: "intel", family: "gaudi2",
		MemoryBytes: 96 * gib, Nominal: true, BytesPerSec: 2.46e12,
		Peak:    Peaks{BF16: 432e12},
		Sources: Sources{Memory: labelled, Bandwidth: gaudiSlides, Peak: gaudiSlides},
	},

	// Google TPU
	{
		ID: "tpu-v6e-32gb", Name: "TPU v6e 32 GB", Vendor: "google", family: "tpuv6e",
		MemoryBytes: 32 * gib, Nominal: true, BytesPerSec: 1638e9,
		Peak:    Peaks{BF16: 918e12, INT8: 1836e12},
		Sources: Sources{Memory: labelled, Bandwidth: tpuDocs, Peak: tpuDocs},
	},
	{
		ID: "tpu-v5p-95gb", Name: "TPU v5p 95 GB", Vendor: "google", family: "tpuv5p",
		MemoryBytes: 95 * gib, Nominal: true, BytesPerSec: 2765e9,
		Peak:    Peaks{BF16: 459e12},
		Sources: Sources{Memory: labelled, Bandwidth: tpuDocs, Peak: tpuDocs},
	},
	{
		ID: "tpu-v5e-16gb", Name: "TPU v5e 16 GB", Vendor: "google", family: "tpuv5e",
		MemoryBytes: 16 * gib, Nominal: true, BytesPerSec: 819e9,
		Peak:    Peaks{BF16: 197e12, INT8: 393e12},
		Sources: Sources{Memory: labelled, Bandwidth: tpuDocs, Peak: tpuDocs},
	},

	// Apple; no peak is published
	{
		ID: "m4-max-128gb", Name: "M4 Max 128 GB", Vendor: "apple", family: "m4max",
		MemoryBytes: 128 * gib, Nominal: true, BytesPerSec: 546e9,
		Sources: Sources{Memory: appleSpecs, Bandwidth: appleSpecs},
	},
	{
		ID: "m3-ultra-512gb", Name: "M3 Ultra 512 GB", Vendor: "apple", family: "m3ultra",
		MemoryBytes: 512 * gib, Nominal: true, BytesPerSec: 819e9,
		Sources: Sources{Memory: appleSpecs, Bandwidth: appleSpecs},
	},
	{
		ID: "m3-max-128gb", Name: "M3 Max 128 GB", Vendor: "apple", family: "m3max",
		MemoryBytes: 128 * gib, Nominal: true, BytesPerSec: 400e9,
		Sources: Sources{Memory: appleSpecs, Bandwidth: appleSpecs},
	},
	{
		ID: "m2-ultra-192gb", Name: "M2 Ultra 192 GB", Vendor: "apple", family: "m2ultra",
		MemoryBytes: 192 * gib, Nominal: true, BytesPerSec: 800e9,
		Sources: Sources{Memory: appleSpecs, Bandwidth: appleSpecs},
	},
	{
		ID: "m2-max-96gb", Name: "M2 Max 96 GB", Vendor: "apple", family: "m2max",
		MemoryBytes: 96 * gib, Nominal: true, BytesPerSec: 400e9,
		Sources: Sources{Memory: appleSpecs, Bandwidth: appleSpecs},
	},
	{
		ID: "m1-ultra-128gb", Name: "M1 Ultra 128 GB", Vendor: "apple", family: "m1ultra",
		MemoryBytes: 128 * gib, Nominal: true, BytesPerSec: 800e9,
		Sources: Sources{Memory: appleSpecs, Bandwidth: appleSpecs},
	},
	{
		ID: "m1-max-64gb", Name: "M1 Max 64 GB", Vendor: "apple", family: "m1max",
		MemoryBytes: 64 * gib, Nominal: true, BytesPerSec: 400e9,
		Sources: Sources{Memory: appleSpecs, Bandwidth: appleSpecs},
	},

	// Huawei; published figures contradict each other
	{
		ID: "ascend-910b-64gb", Name: "Ascend 910B 64 GB", Vendor: "huawei", family: "ascend910b",
		MemoryBytes: 64 * gib, Nominal: true,
		Sources: Sources{Memory: labelled},
	},

	// The machine's own processor, for an engine's CPU build; its memory is not a figure of ours.
	{ID: "cpu", Name: "CPU", Vendor: "cpu", family: "cpu"},
}
