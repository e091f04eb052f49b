package weights_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/internal/shared"
	"headcount/layout"
	"headcount/model"
	"headcount/weights"
)

// TestGoldenWeights holds parameters and bytes against the engine's own, stage by stage.
func TestGoldenWeights(t *testing.T) {
	dir := shared.Dir(t)
	f, err := os.Open(filepath.Join(dir, "golden", "vllm.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	only := os.Getenv("HEADCOUNT_TYPE") // for working on one family: a text model_type
	type tallied struct{ right, wrong int }
	score := map[string]*tallied{}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<26)
	for sc.Scan() {
		var row struct {
			ID, File string
			Layout   struct {
				TP, PP, DCP int
				EP          bool
			}
			Resolved struct {
				TextModelType string   `json:"text_model_type"`
				Class         string   `json:"model_class"`
				DType         string   `json:"dtype"`
				Quant         *string  `json:"quant"`
				PPLayers      [][2]int `json:"pp_layers"`
			}
			Weights []struct {
				Params, Bytes int64
				BytesBy       map[string]int64 `json:"bytes_by"`
			}
		}
		if err := json.Unmarshal(sc.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if len(row.Weights) == 0 || row.Resolved.Quant != nil || only != "" && row.Resolved.TextModelType != only {
			continue
		}
		key := row.Resolved.TextModelType + " " + row.Resolved.Class
		if score[key] == nil {
			score[key] = &tallied{}
		}
		miss := func(format string, args ...any) {
			score[key].wrong++
			if only != "" {
				t.Logf("%s: %s", row.ID, fmt.Sprintf(format, args...))
			}
		}
		data, err := os.ReadFile(filepath.Join(dir, "configs", row.File))
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := checkpoint.Parse(data)
		if err != nil {
			miss("%v", err)
			continue
		}
		m, err := model.Resolve(&checkpoint.Source{Name: row.File, Config: object})
		if err != nil {
			miss("%v", err)
			continue
		}
		spans := []layout.Span{{End: len(m.Layers)}}
		if row.Resolved.PPLayers != nil {
			spans = nil
			for _, s := range row.Resolved.PPLayers {
				spans = append(spans, layout.Span{Start: s[0], End: s[1]})
			}
		}
		if spans[len(spans)-1].End != len(m.Layers) {
			miss("%d layers, want %d", len(m.Layers), spans[len(spans)-1].End)
			continue
		}
		dt, _ := dtype.Parse(row.Resolved.DType)
		got, err := weights.Stages(m, layout.Layout{TP: row.Layout.TP, PP: row.Layout.PP, EP: row.Layout.EP}, spans, dt)
		if err != nil {
			miss("%v", err)
			continue
		}
		bad := ""
		for i, want := range row.Weights {
			if got[i].Parameters != want.Params || got[i].Bytes != want.Bytes {
				bad = fmt.Sprintf("stage %d: %d parameters, %d bytes, want %d, %d (%v want %v)", i, got[i].Parameters, got[i].Bytes,
					want.Params, want.Bytes, got[i].ByPart, want.BytesBy)
				break
			}
		}
		if bad != "" {
			miss("%s", bad)
			continue
		}
		score[key].right++
	}
	var lines []string
	right, wrong := 0, 0
	for key, s := range score {
		right, wrong = right+s.right, wrong+s.wrong
		lines = append(lines, fmt.Sprintf("%4d of %4d  %s", s.right, s.right+s.wrong, key))
	}
	sort.Strings(lines)
	t.Logf("weights to the byte: %d of %d rows\n%s", right, right+wrong, strings.Join(lines, "\n"))
}
