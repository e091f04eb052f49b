package vram

// SGLang is SGLang's bill: free memory after the weights, less what the fraction leaves
// (sglang/srt/mem_cache/kv_cache_configurator.py _profile_available_bytes). Activations and
// graphs live in what the fraction leaves.
func SGLang(l *Load) *Memory {
	have := l.Device.TotalBytes
	if l.FreeBytes > 0 {
		have = min(have, l.FreeBytes)
	}
	m := &Memory{Stage: l.Stage, TotalBytes: l.Device.TotalBytes, FreeBytes: l.FreeBytes, Fraction: l.Fraction, WeightsBytes: l.WeightsBytes, TakenBytes: have}
	context := l.Context()
	begin := float64(have) - float64(context.P50)
	m.Terms = []Term{
		context, l.leftover(),
		{"reserved", exact(begin * (1 - l.Fraction)), Exact, "", "free memory before the weights × (1 − mem_fraction_static): activations and graphs"},
		distribution("fragmentation", "SGLang"),
	}
	m.settle()
	return m
}
