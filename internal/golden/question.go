package golden

import (
	"headcount/engine"
	"headcount/layout"
)

// GPUs are the accelerators behind the rows' names.
var GPUs = map[string]string{
	"H100": "h100-sxm-80gb", "H200": "h200-sxm-141gb", "A100": "a100-sxm-80gb", "B200": "b200-sxm-180gb",
	"L4": "l4-24gb", "L40S": "l40s-48gb", "T4": "t4-16gb", "RTX4090": "rtx-4090-24gb",
}

// Parallel is the job's parallel sizes.
func (l *SGLangLayout) Parallel() layout.Layout {
	return layout.Layout{TP: l.TP, PP: l.PP, DP: l.DP, DCP: l.DCP, DPAttention: l.DPAttn}
}

// Options are the job's flags and readings.
func (l *SGLangLayout) Options() engine.Options {
	return engine.Options{
		DType: l.DType, KVCacheDType: l.KVCacheDType, PageSize: l.PageSize, MaxModelLen: l.ContextLength,
		MemFractionStatic: l.MemFractionStatic, MaxRunningRequests: l.MaxRunningRequests, MaxTotalTokens: l.MaxTotalTokens,
		ChunkedPrefillSize: l.ChunkedPrefillSize, AttentionBackend: l.AttentionBackend,
		SpeculativeAlgorithm: l.SpeculativeAlgorithm, SpeculativeSteps: l.SpeculativeSteps,
		SpeculativeTopK: l.SpeculativeTopK, SpeculativeDraftTokens: l.SpeculativeTokens,
		DisableRadixCache: l.Args.DisableRadixCache, DisableOverlap: l.Args.DisableOverlap,
		SWAFullTokensRatio: l.Args.SWAFullTokensRatio, DisableHybridSWA: l.Args.DisableHybridSWA,
		MaxMambaCacheSize: l.Args.MaxMambaCacheSize, MambaFullRatio: l.Args.MambaFullMemoryRatio,
		MambaRadixStrategy: l.Args.MambaRadixStrategy, DisableCUDAGraph: l.Args.DisableCUDAGraph, EnableMultimodal: l.Args.EnableMultimodal,
		MemoryBeginGiB: l.BeginGiB, MemoryEndGiB: l.EndGiB,
	}
}
