package cli

import (
	"fmt"
	"io"
	"math"
	"strings"

	"headcount"
	"headcount/vram"
)

// barWidth is a device's memory in characters.
const barWidth = 64

// A share is a part of a device's bar.
type share struct {
	mark  string
	name  string
	bytes float64
}

// shares are what a bill says of a device, in the order in which it fills; without a pool
// what would be one is free.
func shares(m *vram.Memory, pooled bool) []share {
	kind := map[string]int{"loading": 0, "activation": 1, "workspace": 1, "runner_tensors": 1, "encoder_outputs": 1, "reserved": 1}
	all := []share{{"█", "weights", float64(*m.WeightsBytes)}, {"▓", "activations", 0}, {"▒", "graphs and CUDA", 0}, {"░", "KV cache", float64(m.KVBytes.P50)}, {"·", "free", 0}}
	if !pooled {
		all[3].bytes = 0
	}
	for _, t := range m.Terms {
		i, ok := kind[t.Name]
		if !ok || t.Name == "loading" && t.Basis == vram.Empirical {
			i = 2
		}
		all[i].bytes += float64(t.P50)
	}
	taken := 0.0
	for _, s := range all {
		taken += s.bytes
	}
	if all[4].bytes = float64(m.TotalBytes) - taken; m.Term("reserved") != nil {
		all[1].name = "reserved for activations and graphs"
	}
	return all
}

// showBars draws one device of each kind of rank. All ranks of a stage are alike.
func showBars(out io.Writer, r *headcount.Report) {
	stages := r.Stages
	if len(stages) == 0 && r.Memory != nil {
		stages = []*vram.Memory{r.Memory}
	}
	for i := 0; i < len(stages); {
		m, n := stages[i], 1
		if m.KVBytes == nil || m.KVBytes.P50 == 0 {
			return
		}
		for i+n < len(stages) && alike(m, stages[i+n]) {
			n++
		}
		showBar(out, shares(m, r.Error != nil || r.KVCache.AvailableBytes != nil), m.TotalBytes, gpus(r, i, n, len(stages)))
		i += n
	}
}

// gpus names the devices of n stages from i on, of so many.
func gpus(r *headcount.Report, i, n, stages int) string {
	each := r.Layout.GPUs() / max(stages, 1)
	name := "the GPU"
	if total := each * n; total > 1 {
		name = fmt.Sprintf("each of %d GPUs", total)
	}
	switch {
	case stages == 1:
		return name
	case n == 1:
		return fmt.Sprintf("%s, stage %d", name, i)
	}
	return fmt.Sprintf("%s, stages %d to %d", name, i, i+n-1)
}

// alike reports whether two stages draw the same bar.
func alike(a, b *vram.Memory) bool {
	if a.WeightsBytes == nil || b.WeightsBytes == nil || len(a.Terms) != len(b.Terms) {
		return false
	}
	return math.Abs(float64(*a.WeightsBytes-*b.WeightsBytes)) < 1<<20 && math.Abs(float64(a.KVBytes.P50-b.KVBytes.P50)) < 1<<20
}

func showBar(out io.Writer, parts []share, total int64, name string) {
	var bar strings.Builder
	var legend []string
	drawn, sum := 0, 0.0
	for _, s := range parts {
		if s.bytes <= 0 {
			continue
		}
		sum += s.bytes
		end := min(int(math.Round(barWidth*sum/float64(total))), barWidth)
		bar.WriteString(strings.Repeat(s.mark, max(end-drawn, 0)))
		drawn = max(end, drawn)
		legend = append(legend, fmt.Sprintf("%s %.1f %s", s.mark, s.bytes/(1<<30), s.name))
	}
	fmt.Fprintf(out, "%s  %s, %.1f GiB\n", bar.String(), name, float64(total)/(1<<30))
	fmt.Fprintf(out, "  %s\n", strings.Join(legend, "  "))
}
