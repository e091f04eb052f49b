package weights_test

import (
	"fmt"
	"os"
	"testing"

	"headcount/internal/corpus"
	"headcount/internal/golden"
	"headcount/model"
	"headcount/weights"
)

func TestResid(t *testing.T) {
	if os.Getenv("RESID") == "" {
		t.Skip("")
	}
	configs := corpus.Load(t)
	for row, err := range golden.VLLM() {
		if err != nil {
			t.Fatal(err)
		}
		if len(row.Weights) == 0 {
			continue
		}
		src, _, err := configs.Source(t.Context(), row.File)
		if err != nil {
			t.Fatal(err)
		}
		m, err := model.Resolve(src)
		if err != nil {
			continue
		}
		if !row.Resolved.IsMultimodal {
			continue
		}
		why := m.WeightsUnknown
		if os.Getenv("RESID") == "known" && why != "" {
			continue
		}
		m.Towers, m.WeightsUnknown = false, ""
		b := build(row, m)
		stages, err := weights.Stages(m, b)
		bufs, ok := weights.Buffers(m, b)
		for i, w := range row.Weights {
			var d, db, dbuf int64 = -1, -1, -1
			if err == nil {
				d, db = w.Params-stages[i].Parameters, w.Bytes-stages[i].Bytes
			}
			if ok {
				dbuf = w.BufferBytes - bufs[i]
			}
			fmt.Printf("R\t%s\t%s\t%v\t%d\t%d\t%d\t%d\t%v\t%v\n", row.Resolved.ModelClass, row.ID, row.Resolved.Quant != nil, i, d, db, dbuf, err, m.Family)
		}
	}
}
