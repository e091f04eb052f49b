package difftest

import (
	"math"

	"headcount/internal/golden"
)

// readings are free GiB before and after the weights on each kind of GPU, as SGLang logs
// them; draws move them a little.
var readings = map[string][2]float64{
	"H100": {78.66, 41.37}, "A100": {78.68, 41.37}, "H200": {139.08, 81.53}, "B200": {177.50, 97.11},
	"RTX4090": {23.11, 9.87}, "L4": {21.80, 8.43},
}

// sglangLayout draws parallel sizes and flags for SGLang: most flags stay at their default.
func sglangLayout(r random, gpu string, f facts) golden.SGLangLayout {
	l := golden.SGLangLayout{TP: f.tp(r)}
	switch r.IntN(8) {
	case 0:
		l.DPAttn, l.DP = true, pick(r, 1, 2, l.TP, l.TP)
	case 1:
		l.DCP = pick(r, divisors(l.TP)...)
	case 2:
		l.PP = f.pp(r)
	case 3:
		l.DP = 2
	}
	if r.one(3) {
		l.KVCacheDType = pick(r, "fp8_e5m2", "fp8_e4m3", "bf16", "fp8_e4m3", "auto", "mxfp8")
	}
	if r.one(4) {
		l.PageSize = pick(r, 1, 16, 32, 64, 128)
	}
	if r.one(5) {
		l.ContextLength = f.shorter(r)
	}
	if r.one(5) {
		l.MemFractionStatic = pick(r, 0.6, 0.75, 0.85, 0.9)
	}
	if r.one(5) {
		l.MaxRunningRequests = pick(r, 1, 16, 48, 64, 256, 512, 1000)
	}
	if r.one(8) {
		l.MaxTotalTokens = pick[int64](r, 5000, 100000, 1000000)
	}
	if r.one(8) {
		l.ChunkedPrefillSize = pick(r, -1, 1024, 2048, 4096, 8192, 16384)
	}
	if r.one(12) {
		l.DType = pick(r, "float16", "bfloat16", "half")
	}
	if r.one(12) {
		l.AttentionBackend = pick(r, "triton", "flashinfer", "fa3", "torch_native")
	}
	if r.one(12) {
		l.SpeculativeAlgorithm = pick(r, "EAGLE", "NEXTN")
		l.SpeculativeSteps, l.SpeculativeTopK, l.SpeculativeTokens = 3, 1, 4
	}
	sglangArgs(r, &l)
	begin, end := readings[gpu][0], readings[gpu][1]
	l.BeginGiB = hundredths(begin - r.Float64())
	l.EndGiB = hundredths(end * (0.6 + 0.8*r.Float64()))
	if r.one(12) {
		l.EndGiB = hundredths(begin * (0.05 + 0.2*r.Float64()))
	}
	l.EndGiB = min(l.EndGiB, l.BeginGiB)
	return l
}

// sglangArgs draws the less common flags.
func sglangArgs(r random, l *golden.SGLangLayout) {
	a := &l.Args
	if r.one(6) {
		a.DisableRadixCache = true
	}
	if r.one(8) {
		a.DisableOverlap = true
	}
	if r.one(8) {
		a.SWAFullTokensRatio = pick(r, 0.1, 0.25, 0.5, 1.0)
	}
	if r.one(12) {
		a.DisableHybridSWA = true
	}
	if r.one(10) {
		a.MaxMambaCacheSize = pick(r, 8, 64, 500)
	}
	if r.one(10) {
		a.MambaFullMemoryRatio = pick(r, 0.2, 0.5, 2.0)
	}
	if r.one(10) {
		a.MambaRadixStrategy = pick(r, "extra_buffer", "no_buffer", "auto")
	}
	if r.one(12) {
		a.DisableCUDAGraph = true
	}
	if r.one(16) {
		a.EnableMultimodal = true
	}
}

func hundredths(x float64) float64 { return math.Round(x*100) / 100 }

// vllmLayout draws parallel sizes and flags for vLLM.
func vllmLayout(r random, f facts) golden.VLLMLayout {
	l := golden.VLLMLayout{Name: "drawn", TP: f.tp(r), PP: 1, DCP: 1}
	switch r.IntN(8) {
	case 0, 1:
		l.PP = f.pp(r)
	case 2:
		l.DCP = f.dcp(r, l.TP)
	case 3:
		l.EP = f.experts || r.one(8)
	}
	if r.one(4) {
		l.KVCacheDType = pick(r, "fp8", "fp8_e4m3", "fp8_e5m2", "bfloat16", "fp8")
	}
	if r.one(4) {
		l.BlockSize = pick(r, 8, 16, 32, 64, 128, 256, 48)
	}
	if r.one(4) {
		l.MaxModelLen = f.shorter(r)
	}
	if r.one(5) {
		on := r.one(3)
		l.PrefixCaching = &on
	}
	if r.one(10) {
		l.DisableHybrid = true
	}
	if r.one(12) {
		l.DType = pick(r, "float16", "bfloat16", "float32")
	}
	if r.one(8) {
		l.MaxNumBatched = pick(r, 512, 2048, 4096, 16384)
	}
	if l.PP == 1 && (f.drafts && r.one(3) || r.one(40)) { // the oracle builds a draft on every stage
		l.Spec = &golden.VLLMSpeculative{Method: "mtp", Tokens: pick(r, 1, 2, 3)}
	}
	return l
}

// shorter draws a context length, within the config's most of the time.
func (f *facts) shorter(r random) int64 {
	n := pick(r, 100, 1024, 2048, 4096, 8191, 32768)
	if f.length > 0 && n > f.length && !r.one(8) {
		n = f.length
	}
	return int64(n)
}

// goldenVLLM is one of the layouts of vLLM's golden rows.
func goldenVLLM(r random, f facts) golden.VLLMLayout {
	l := golden.VLLMLayout{Name: "golden", TP: 1, PP: 1, DCP: 1}
	off := false
	if f.drafts && r.one(3) {
		l.Spec = &golden.VLLMSpeculative{Method: "mtp", Tokens: 1}
		if r.one(2) {
			l.TP, l.Spec.Tokens = 8, 3
		}
		return l
	}
	switch r.IntN(16) {
	case 0:
		l.TP = 2
	case 1:
		l.TP = 4
	case 2:
		l.TP = 8
	case 3:
		l.TP = 16
	case 4:
		l.TP, l.KVCacheDType = 8, "fp8"
	case 5:
		l.PP = 2
	case 6:
		l.TP, l.PP = 4, 2
	case 7:
		l.TP, l.DCP = 8, 2
	case 8:
		l.TP, l.DCP = 8, 8
	case 9:
		l.TP, l.DCP = 16, 2
	case 10:
		l.BlockSize = 32
	case 11:
		l.BlockSize = 64
	case 12:
		l.MaxModelLen = 8192
	case 13:
		l.TP, l.EP = 8, true
	case 14:
		l.PrefixCaching = &off
	case 15:
		l.DisableHybrid = true
	}
	return l
}

// goldenSGLang is one of the layouts of SGLang's golden rows.
func goldenSGLang(r random, gpu string) golden.SGLangLayout {
	l := golden.SGLangLayout{TP: pick(r, 1, 2, 4, 8, 16), BeginGiB: readings[gpu][0], EndGiB: readings[gpu][1]}
	switch r.IntN(16) {
	case 0:
		l.TP, l.PP = 2, 2
	case 1:
		l.TP, l.PageSize = 4, 64
	case 2:
		l.TP, l.DCP = 8, 8
	case 3:
		l.TP, l.DCP = 4, 2
	case 4:
		l.TP, l.DP, l.DPAttn = 8, 8, true
	case 5:
		l.KVCacheDType = "fp8_e5m2"
	case 6:
		l.KVCacheDType = "fp8_e4m3"
	case 7:
		l.MaxRunningRequests = 64
	case 8:
		l.MemFractionStatic, l.ContextLength = 0.9, 2048
	case 9:
		l.EndGiB = hundredths(l.EndGiB * 0.4)
	case 10:
		l.MaxTotalTokens, l.PageSize = 100000, 16
	case 11:
		l.Args.DisableRadixCache, l.MaxRunningRequests = true, 64
	case 12:
		l.SpeculativeAlgorithm, l.SpeculativeSteps, l.SpeculativeTopK, l.SpeculativeTokens = "EAGLE", 3, 1, 4
	case 13:
		l.Args.DisableOverlap = true
	case 14:
		l.Args.SWAFullTokensRatio = 0.25
	}
	return l
}
