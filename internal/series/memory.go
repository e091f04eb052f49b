package series

import (
	"strings"

	"headcount"
	"headcount/units"
)

// Memory is what fills one GPU of each layout.
type Memory struct {
	Title string `json:"title"`
	Bars  []Bar  `json:"bars"`
}

// A Bar is one GPU of the stage that holds most.
type Bar struct {
	Label       string `json:"label"`
	Accelerator string `json:"accelerator"`
	TotalBytes  int64  `json:"total_bytes" doc:"as the runtime reports it"`
	TotalText   string `json:"total_text"`
	Estimated   bool   `json:"estimated" doc:"the pool came out of the bill, with its band, and was not given"`
	Parts       []Part `json:"parts" doc:"in the order in which they are taken"`
	Refused     string `json:"refused"`
}

// A Part is one use of the memory, in bytes.
type Part struct {
	Name   string `json:"name" doc:"weights, the bill's terms, kv_pool, free"`
	Label  string `json:"label"`
	Bytes  int64  `json:"bytes"`
	Text   string `json:"text"`
	P10    *int64 `json:"p10" doc:"of an estimate; null where it is exact"`
	P90    *int64 `json:"p90"`
	Source string `json:"source"`
}

// memoryOf is a bar for each report whose weights or pool are known, nil if none's are.
func memoryOf(reports []*headcount.Report) *Memory {
	m := &Memory{Title: "Memory of one GPU"}
	names := labels(reports, func(r *headcount.Report) string { return r.Layout.String() })
	for i, r := range reports {
		if r.Memory == nil || r.Roofline == nil || r.Memory.WeightsBytes == nil && r.KVCache.AvailableBytes == nil {
			continue
		}
		m.Bars = append(m.Bars, bar(r, names[i]))
	}
	if len(m.Bars) == 0 {
		return nil
	}
	return m
}

func bar(r *headcount.Report, label string) Bar {
	b := Bar{Label: label, Accelerator: r.Roofline.Accelerator, TotalBytes: r.Memory.TotalBytes, TotalText: units.Bytes(r.Memory.TotalBytes).String(), Estimated: r.PoolEstimated(), Refused: refusal(r)}
	rest := Part{Name: "free", Label: "free", Source: "not touched by the engine"}
	if w := r.Memory.WeightsBytes; w != nil {
		b.Parts = append(b.Parts, Part{Name: "weights", Label: "weights", Bytes: *w, Source: "parameters and buffers of the rank"})
	} else {
		rest = Part{Name: "not_known", Label: "weights, not known, and free", Source: "what the rest leaves"}
	}
	for _, t := range r.Memory.Terms {
		p := Part{Name: t.Name, Label: strings.ReplaceAll(t.Name, "_", " "), Bytes: t.P50, Source: t.Source}
		if t.P10 != t.P90 {
			p.P10, p.P90 = &t.P10, &t.P90
		}
		b.Parts = append(b.Parts, p)
	}
	if pool := r.KVCache.AvailableBytes; pool != nil {
		p := Part{Name: "kv_pool", Label: "KV pool", Bytes: *pool + r.StateBytes(), Source: "as given"}
		if b.Estimated {
			p.P10, p.P90, p.Source = &r.Memory.KVBytes.P10, &r.Memory.KVBytes.P90, "what the engine's share leaves"
		}
		b.Parts = append(b.Parts, p)
	}
	rest.Bytes = b.TotalBytes
	for _, p := range b.Parts {
		rest.Bytes -= p.Bytes
	}
	if rest.Bytes > 0 {
		b.Parts = append(b.Parts, rest)
	}
	for i := range b.Parts {
		b.Parts[i].Text = units.Bytes(b.Parts[i].Bytes).String()
	}
	return b
}
