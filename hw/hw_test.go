package hw

import (
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"headcount/dtype"
	"headcount/problem"
	"headcount/units"
)

// Every figure has a source, and every source a figure.
func TestSources(t *testing.T) {
	for _, a := range All() {
		for _, s := range []struct {
			group  string
			given  bool
			source string
		}{
			{"memory", a.MemoryBytes > 0 || a.MemoryMiB > 0, a.Sources.Memory},
			{"usable memory", a.UsableBytes > 0, a.Sources.Usable},
			{"bandwidth", a.BytesPerSec > 0, a.Sources.Bandwidth},
			{"peak", a.Peak != Peaks{}, a.Sources.Peak},
			{"chip", a.Capability != [2]int{} || a.SMs > 0 || a.L2Bytes > 0, a.Sources.Chip},
		} {
			if s.given != (s.source != "") {
				t.Errorf("%s: %s given %t, source %q", a.ID, s.group, s.given, s.source)
			}
		}
	}
}

func TestTable(t *testing.T) {
	wellFormed := regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*-[1-9][0-9]*gb$`)
	ids, drivers, families := map[string]bool{}, map[string]bool{}, map[string]bool{}
	last := ""
	for _, a := range All() {
		if !wellFormed.MatchString(a.ID) && a.ID != "cpu" || ids[a.ID] {
			t.Errorf("id %q is not well-formed or not unique", a.ID)
		}
		if a.DriverName != "" && drivers[a.DriverName] {
			t.Errorf("%s: driver name %q is not unique", a.ID, a.DriverName)
		}
		if a.family != last && families[a.family] {
			t.Errorf("%s: family %q is not contiguous", a.ID, a.family)
		}
		if !strings.HasPrefix(strings.ReplaceAll(a.ID, "-", ""), a.family) {
			t.Errorf("%s does not begin with its family %q", a.ID, a.family)
		}
		ids[a.ID], drivers[a.DriverName], families[a.family], last = true, true, true, a.family
		if err := a.Check(); err != nil {
			t.Errorf("%s: %v", a.ID, err)
		}
		nvidia := a.Vendor == "nvidia"
		if nvidia != (a.Capability != [2]int{}) || nvidia != (a.MemoryMiB > 0) {
			t.Errorf("%s: vendor %s with capability %v and %d MiB of nvidia-smi", a.ID, a.Vendor, a.Capability, a.MemoryMiB)
		}
		if nvidia && (a.MemoryMiB<<20 != a.MemoryBytes || a.DriverName == "" || a.UsableBytes == 0) {
			t.Errorf("%s: NVML %d bytes, nvidia-smi %d MiB, usable %d, driver name %q", a.ID, a.MemoryBytes, a.MemoryMiB, a.UsableBytes, a.DriverName)
		}
		if a.Nominal && a.UsableBytes > 0 {
			t.Errorf("%s: a label beside a reading", a.ID)
		}
		if a.EngineRules() != (nvidia || a.ID == "cpu") {
			t.Errorf("%s: EngineRules() = %t", a.ID, a.EngineRules())
		}
	}
	for _, want := range []string{"h100", "h200", "h20", "b200", "gb200", "b300", "a100", "a10", "l4", "l40s", "rtx3090", "rtx4090", "rtx5090",
		"rtx6000ada", "rtxpro6000", "t4", "v100", "mi210", "mi250x", "mi300x", "mi325x", "mi350x", "mi355x", "gaudi2", "gaudi3",
		"tpuv5e", "tpuv5p", "tpuv6e", "m4max", "m3ultra", "ascend910b", "cpu"} {
		if !families[want] {
			t.Errorf("no %s", want)
		}
	}
}

// What engines' defaults look at, as their own probes answered.
func TestReadings(t *testing.T) {
	for _, tt := range []struct {
		id                string
		bytes, mib        int64
		usableGiB, driver string
		capability        [2]int
	}{
		{"h100-sxm-80gb", 85520809984, 81559, "79.19", "NVIDIA H100 80GB HBM3", [2]int{9, 0}},
		{"h200-sxm-141gb", 150754820096, 143771, "139.8", "NVIDIA H200", [2]int{9, 0}},
		{"a100-sxm-80gb", 85899345920, 81920, "79.25", "NVIDIA A100-SXM4-80GB", [2]int{8, 0}},
		{"l4-24gb", 24152899584, 23034, "22.03", "NVIDIA L4", [2]int{8, 9}},
		{"b200-sxm-180gb", 183359 << 20, 183359, "178.36", "NVIDIA B200", [2]int{10, 0}},
		{"b300-sxm-288gb", 275040 << 20, 275040, "267.69", "NVIDIA B300 SXM6 AC", [2]int{10, 3}},
		{"h20-sxm-96gb", 97871 << 20, 97871, "95.0", "NVIDIA H20", [2]int{9, 0}},
		{"l40s-48gb", 46068 << 20, 46068, "44.39", "NVIDIA L40S", [2]int{8, 9}},
		{"a10-24gb", 23028 << 20, 23028, "22.06", "NVIDIA A10", [2]int{8, 6}},
		{"t4-16gb", 15360 << 20, 15360, "14.56", "Tesla T4", [2]int{7, 5}},
		{"rtx-4090-24gb", 24564 << 20, 24564, "23.64", "NVIDIA GeForce RTX 4090", [2]int{8, 9}},
		{"rtx-5090-32gb", 32607 << 20, 32607, "31.36", "NVIDIA GeForce RTX 5090", [2]int{12, 0}},
		{"rtx-pro-6000-96gb", 97887 << 20, 97887, "94.97", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", [2]int{12, 0}},
	} {
		a, err := Lookup(tt.id)
		if err != nil {
			t.Error(err)
			continue
		}
		usable := units.FormatGiB(units.Bytes(a.UsableBytes))
		if a.MemoryBytes != tt.bytes || a.MemoryMiB != tt.mib || usable != tt.usableGiB || a.DriverName != tt.driver || a.Capability != tt.capability {
			t.Errorf("%s: %d bytes, %d MiB, %s GiB usable, %q, %v, want %+v", a.ID, a.MemoryBytes, a.MemoryMiB, usable, a.DriverName, a.Capability, tt)
		}
	}
}

func TestRidge(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ridge string // "" where not known
	}{
		{"h100", "295 FLOP/byte"}, // 989.4 TFLOP/s ÷ 3.35 TB/s
		{"mi300x", "247 FLOP/byte"},
		{"t4", "203 FLOP/byte"}, // no bfloat16: 65 TFLOP/s in float16 ÷ 320 GB/s
		{"m3-ultra", ""},
		{"ascend-910b", ""},
		{"cpu", ""},
	} {
		a, err := Lookup(tt.name)
		if err != nil {
			t.Error(err)
			continue
		}
		ridge, ok := a.Ridge()
		if ok != (tt.ridge != "") || ok && ridge.String() != tt.ridge {
			t.Errorf("%s: Ridge() = %v, %t, want %q", tt.name, ridge, ok, tt.ridge)
		}
	}
}

func TestPeaks(t *testing.T) {
	p := Peaks{TF32: 1, BF16: 2, FP16: 3, FP8: 4, INT8: 5, FP4: 6}
	for d, want := range map[dtype.Type]units.FLOPPerSec{
		dtype.BFloat16: 2, dtype.Float16: 3, dtype.Float8E4M3: 4, dtype.Float8E5M2: 4, dtype.Int8: 5, dtype.Float32: 0, dtype.Unknown: 0,
	} {
		if got := p.Of(d); got != want {
			t.Errorf("Of(%v) = %v, want %v", d, got, want)
		}
	}
	if got := (Peaks{FP16: 3}).Dense16(); got != 3 {
		t.Errorf("Dense16 without bfloat16 = %v, want float16's 3", got)
	}
}

func TestTotalBytes(t *testing.T) {
	for name, want := range map[string]struct {
		n       int64
		reading bool
	}{
		"h100": {85029158912, true}, "gaudi3": {128 << 30, false}, "cpu": {0, false},
	} {
		a, _ := Lookup(name)
		if n, reading := a.TotalBytes(); n != want.n || reading != want.reading {
			t.Errorf("%s: TotalBytes() = %d, %t, want %+v", name, n, reading, want)
		}
	}
	var none *Accelerator
	if !none.EngineRules() {
		t.Error("no device named: the engines' own rules hold")
	}
}

func TestFigures(t *testing.T) {
	for name, want := range map[string][]string{
		"h100":   {"79.6 GiB", "3.35 TB/s", "989.4 TFLOP/s", "295 FLOP/byte"},
		"gaudi2": {"96 GiB nominal", "2.46 TB/s", "432 TFLOP/s", "176 FLOP/byte"},
		"m1-max": {"64 GiB nominal", "400 GB/s", "-", "-"},
		"cpu":    {"-", "-", "-", "-"},
	} {
		a, _ := Lookup(name)
		if got := a.Figures(); !slices.Equal(got, want) {
			t.Errorf("%s: Figures() = %q, want %q", name, got, want)
		}
	}
}

func TestLookup(t *testing.T) {
	for name, want := range map[string]string{
		"h100": "h100-sxm-80gb", "H100": "h100-sxm-80gb", " h100 ": "h100-sxm-80gb", "h100-80": "h100-sxm-80gb", "H100 80GB HBM3": "h100-sxm-80gb",
		"h100-sxm5-80gb": "h100-sxm-80gb", "NVIDIA H100 80GB HBM3": "h100-sxm-80gb", "H100 SXM 80 GB": "h100-sxm-80gb", "h100_sxm": "h100-sxm-80gb",
		"h100-pcie": "h100-pcie-80gb", "H100-NVL": "h100-nvl-94gb", "NVIDIA H100 PCIe": "h100-pcie-80gb", "h100 94gb": "h100-nvl-94gb",
		"h200": "h200-sxm-141gb", "b200": "b200-sxm-180gb", "GB200": "gb200-186gb", "B300": "b300-sxm-288gb", "h20": "h20-sxm-96gb",
		"a100": "a100-sxm-80gb", "A100-40G": "a100-sxm-40gb", "a100 pcie 40gb": "a100-pcie-40gb", "NVIDIA A100-SXM4-80GB": "a100-sxm-80gb",
		"a100-sxm4-40gb": "a100-sxm-40gb", "a10": "a10-24gb", "l4": "l4-24gb", "L40S": "l40s-48gb", "t4": "t4-16gb", "Tesla T4": "t4-16gb",
		"v100": "v100-sxm-32gb", "v100-16gb": "v100-sxm-16gb", "4090": "rtx-4090-24gb", "rtx4090": "rtx-4090-24gb", "RTX4090": "rtx-4090-24gb",
		"RTX5090": "rtx-5090-32gb", "NVIDIA GeForce RTX 3090": "rtx-3090-24gb", "rtx 6000 ada": "rtx-6000-ada-48gb",
		"RTXPRO6000": "rtx-pro-6000-96gb", "rtx pro 6000": "rtx-pro-6000-96gb", "mi300x": "mi300x-192gb", "AMD Instinct MI300X": "mi300x-192gb",
		"gaudi 3": "gaudi3-128gb", "tpu-v5e": "tpu-v5e-16gb", "v6e": "tpu-v6e-32gb", "m3 ultra": "m3-ultra-512gb", "910b": "ascend-910b-64gb", "cpu": "cpu",
	} {
		a, err := Lookup(name)
		if err != nil || a.ID != want {
			t.Errorf("Lookup(%q) = %v, %v, want %s", name, a, err, want)
		}
	}
}

func TestLookupRefuses(t *testing.T) {
	for _, tt := range []struct{ name, message, hint string }{
		{"h1000", `gpu = h1000: not an accelerator that headcount knows`, "did you mean h100-sxm-80gb?"},
		{"mi300", "", "did you mean mi300x-192gb"},
		{"h10", "", "did you mean h100-sxm-80gb"},
		{"rtx-4080", "", "did you mean rtx-4090-24gb"},
		{"h100 turbo", "", "did you mean h100-sxm-80gb?"},
		{"h100x", "", "did you mean h100-sxm-80gb"},
		{"rtx 6000", "gpu = rtx 6000: more than one accelerator has this name", "one of rtx-6000-ada-48gb, rtx-pro-6000-96gb"},
		{"80gb", "gpu = 80gb: more than one accelerator has this name", "one of h100-sxm-80gb, a100-sxm-80gb"},
		{"m2", "gpu = m2: more than one accelerator has this name", "one of m2-ultra-192gb, m2-max-96gb"},
		{"", "", "headcount gpus lists what is known"},
		{"nvidia", "", "headcount gpus lists what is known"},
		{"quantum abacus", "", "headcount gpus lists what is known"},
		{strings.Repeat("h100", 10000), "", "headcount gpus lists what is known"},
		{strings.Repeat("é", 90), "", "headcount gpus lists what is known"},
	} {
		a, err := Lookup(tt.name)
		p, ok := errors.AsType[*problem.Error](err)
		if !ok {
			t.Errorf("Lookup(%.40q) = %v, %v, want a *problem.Error", tt.name, a, err)
			continue
		}
		if p.Code != problem.BadValue || p.Field != "gpu" || tt.message != "" && p.Message != tt.message || !strings.HasPrefix(p.Hint, tt.hint) {
			t.Errorf("Lookup(%.40q): %q, hint %q, want %q, hint %q", tt.name, p.Message, p.Hint, tt.message, tt.hint)
		}
	}
}

// An id costs nothing to find: a stream of requests looks one up per line.
func TestLookupAllocationFree(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { _, _ = Lookup("h100-sxm-80gb") }); n != 0 {
		t.Errorf("Lookup of an id allocates %v times", n)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, a := range All() {
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(text)
		if a.ID == "cpu" { // has no memory of its own
			if p, ok := errors.AsType[*problem.Error](err); !ok || p.Code != problem.MissingField {
				t.Errorf("cpu reads back as %v, %v", back, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", a.ID, err)
			continue
		}
		want := *a
		want.family = ""
		if *back != want {
			t.Errorf("%s reads back as %+v, want %+v", a.ID, *back, want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       Accelerator
	}{
		{"the least", `{"memory_bytes": 1000}`, Accelerator{ID: "custom", Name: "custom", MemoryBytes: 1000}},
		{"nulls", `{"id": "x", "memory_bytes": 1000, "l2_bytes": null, "peak_flop_per_second": null, "sources": null}`,
			Accelerator{ID: "x", Name: "x", MemoryBytes: 1000}},
		{"MiB alone", `{"vendor": "NVIDIA", "memory_mib": 81559, "compute_capability": "9.0"}`,
			Accelerator{ID: "custom", Name: "custom", Vendor: "nvidia", MemoryBytes: 81559 << 20, MemoryMiB: 81559, Capability: [2]int{9, 0}}},
		{"bytes alone", `{"vendor": "nvidia", "memory_bytes": 85520809984}`,
			Accelerator{ID: "custom", Name: "custom", Vendor: "nvidia", MemoryBytes: 85520809984, MemoryMiB: 81559}},
		{"rates", `{"memory_bytes": 1, "memory_bandwidth_bytes_per_second": 3.35e12, "peak_flop_per_second": {"bf16": 989.4e12}}`,
			Accelerator{ID: "custom", Name: "custom", MemoryBytes: 1, BytesPerSec: 3.35e12, Peak: Peaks{BF16: 989.4e12}}},
	} {
		got, err := Parse([]byte(tt.text))
		if err != nil || *got != tt.want {
			t.Errorf("%s: Parse = %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, text, field string
		code              problem.Code
	}{
		{"nothing", ``, "", problem.Unreadable},
		{"not JSON", `{"memory_bytes": `, "", problem.Unreadable},
		{"not an object", `[1]`, "", problem.BadValue},
		{"two objects", `{"memory_bytes": 1} {}`, "", problem.Unreadable},
		{"rubbish after", `{"memory_bytes": 1} x`, "", problem.Unreadable},
		{"no memory", `{"id": "x"}`, "memory_bytes", problem.MissingField},
		{"null", `null`, "memory_bytes", problem.MissingField},
		{"mistyped field", `{"memory": 1}`, "memory", problem.BadValue},
		{"mistyped peak", `{"memory_bytes": 1, "peak_flop_per_second": {"bf17": 1}}`, "bf17", problem.BadValue},
		{"text for a number", `{"memory_bytes": "80 GB"}`, "memory_bytes", problem.BadValue},
		{"a fraction of a byte", `{"memory_bytes": 1.5}`, "memory_bytes", problem.BadValue},
		{"negative", `{"memory_bytes": -1}`, "memory_bytes", problem.BadValue},
		{"beyond int64", `{"memory_bytes": 9223372036854775808}`, "memory_bytes", problem.BadValue},
		{"absurd", `{"memory_bytes": 9223372036854775807}`, "memory_bytes", problem.BadValue},
		{"absurd MiB", `{"memory_mib": 9007199254740993}`, "memory_mib", problem.BadValue},
		{"more usable than there is", `{"memory_bytes": 10, "usable_memory_bytes": 11}`, "usable_memory_bytes", problem.BadValue},
		{"more usable than MiB", `{"memory_mib": 1, "usable_memory_bytes": 1048577}`, "usable_memory_bytes", problem.BadValue},
		{"infinite", `{"memory_bytes": 1, "memory_bandwidth_bytes_per_second": 1e999}`, "memory_bandwidth_bytes_per_second", problem.BadValue},
		{"absurd rate", `{"memory_bytes": 1, "peak_flop_per_second": {"bf16": 1e21}}`, "peak_flop_per_second.bf16", problem.BadValue},
		{"a rate in TB/s", `{"memory_bytes": 1, "memory_bandwidth_bytes_per_second": 0.5}`, "memory_bandwidth_bytes_per_second", problem.BadValue},
		{"negative rate", `{"memory_bytes": 1, "peak_flop_per_second": {"fp8": -1}}`, "peak_flop_per_second.fp8", problem.BadValue},
		{"capability", `{"memory_bytes": 1, "compute_capability": "nine"}`, "compute_capability", problem.BadValue},
		{"half a capability", `{"memory_bytes": 1, "compute_capability": "9"}`, "compute_capability", problem.BadValue},
		{"long capability", `{"memory_bytes": 1, "compute_capability": "9.0.1"}`, "compute_capability", problem.BadValue},
		{"capability of 100", `{"memory_bytes": 1, "compute_capability": "100.0"}`, "compute_capability", problem.BadValue},
		{"control characters", `{"memory_bytes": 1, "name": "\u001b[31m"}`, "name", problem.BadValue},
		{"long name", `{"memory_bytes": 1, "id": "` + strings.Repeat("x", 81) + `"}`, "id", problem.BadValue},
		{"deep", strings.Repeat("[", 60000), "", problem.Unreadable},
		{"large", strings.Repeat(" ", MaxBytes) + "{}", "", problem.Unreadable},
		{"SMs", `{"memory_bytes": 1, "streaming_multiprocessors": 1e6}`, "streaming_multiprocessors", problem.BadValue},
		{"nominal", `{"memory_bytes": 1, "memory_nominal": "yes"}`, "memory_nominal", problem.BadValue},
		{"source", `{"memory_bytes": 1, "sources": {"peak": 5}}`, "sources.peak", problem.BadValue},
	} {
		got, err := Parse([]byte(tt.text))
		p, ok := errors.AsType[*problem.Error](err)
		if !ok {
			t.Errorf("%s: Parse = %+v, %v, want a *problem.Error", tt.name, got, err)
			continue
		}
		if p.Code != tt.code || p.Field != tt.field || strings.ContainsAny(p.Message, "\n\x1b") {
			t.Errorf("%s: %s %q %q, want %s %q", tt.name, p.Code, p.Field, p.Message, tt.code, tt.field)
		}
	}
}

// A description inside a request is read and refused in the same way.
func TestUnmarshal(t *testing.T) {
	var req struct {
		Accelerator *Accelerator `json:"accelerator"`
	}
	if err := json.Unmarshal([]byte(`{"accelerator": {"id": "x", "memory_bytes": 5}}`), &req); err != nil || req.Accelerator.MemoryBytes != 5 {
		t.Errorf("Unmarshal = %+v, %v", req.Accelerator, err)
	}
	err := json.Unmarshal([]byte(`{"accelerator": {"memory_bytes": -5}}`), &req)
	if p, ok := errors.AsType[*problem.Error](err); !ok || p.Field != "memory_bytes" {
		t.Errorf("Unmarshal of a negative memory: %v", err)
	}
}

func TestCheck(t *testing.T) {
	for field, a := range map[string]Accelerator{
		"memory_bandwidth_bytes_per_second": {BytesPerSec: units.BytesPerSec(math.NaN())},
		"peak_flop_per_second.fp4":          {Peak: Peaks{FP4: units.FLOPPerSec(math.Inf(1))}},
		"compute_capability":                {Capability: [2]int{9, -1}},
		"vendor":                            {Vendor: "a\nb"},
	} {
		if p, ok := errors.AsType[*problem.Error](a.Check()); !ok || p.Field != field {
			t.Errorf("Check() = %v, want field %s", p, field)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, a := range All() {
		text, err := json.Marshal(a)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"memory_mib": 1, "vendor": "NVIDIA", "usable_memory_bytes": null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := Parse(data)
		if err != nil {
			if _, ok := errors.AsType[*problem.Error](err); !ok || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %T %q", err, err)
			}
			return
		}
		if err := a.Check(); err != nil || a.MemoryBytes <= 0 {
			t.Errorf("Parse let through %+v: %v", *a, err)
		}
		a.Figures()
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(text)
		if err != nil || *back != *a {
			t.Errorf("%s reads back as %+v, %v, want %+v", text, back, err, *a)
		}
	})
}

func FuzzLookup(f *testing.F) {
	for _, name := range []string{"h100", "NVIDIA A100-SXM4-80GB", "rtx 6000", "80", "h1000", "\xff", "-"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		a, err := Lookup(name)
		if (a == nil) == (err == nil) {
			t.Errorf("Lookup(%q) = %v, %v", name, a, err)
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	for _, name := range []string{"h100-sxm-80gb", "h100"} {
		b.Run("name="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Lookup(name)
			}
		})
	}
}
