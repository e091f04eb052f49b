package weights_test

import (
	"testing"

	"headcount/checkpoint"
	"headcount/dtype"
	"headcount/layout"
	"headcount/model"
	"headcount/weights"
)

// FuzzStages wants parameters or an error of any config on any layout, and never a count
// below zero.
func FuzzStages(f *testing.F) {
	f.Add([]byte(llama70B), uint16(8), uint8(2))
	f.Add([]byte(`{"model_type": "gpt_bigcode"}`), uint16(3), uint8(1))
	f.Add([]byte(`{"model_type": "mixtral", "num_local_experts": 2147483647, "intermediate_size": 2147483647}`), uint16(65535), uint8(1))
	f.Add([]byte(`{"model_type": "opt", "word_embed_proj_dim": 1}`), uint16(1), uint8(4))
	f.Fuzz(func(t *testing.T, data []byte, tp uint16, pp uint8) {
		src, err := checkpoint.FromBytes("config.json", checkpoint.Files{Config: data})
		if err != nil {
			return
		}
		m, err := model.Resolve(src)
		if err != nil {
			return
		}
		m.WeightsUnknown = ""
		stages := int(pp%4) + 1
		for _, build := range []weights.Build{{}, {ByPlan: true, NoHead: true}, {Experts: weights.Padding{Divided: 128}}, {GPTOSSExperts: weights.Padding{Divided: 128, Whole: 256}, MXFP4Experts: weights.Padding{Divided: 128, Whole: 256}}} {
			build.Layout = layout.Layout{TP: int(tp), PP: stages, EP: tp%2 == 0}
			build.DType = dtype.BFloat16
			for i := range stages {
				build.Spans = append(build.Spans, layout.Span{Start: i * len(m.Layers) / stages, End: (i + 1) * len(m.Layers) / stages})
			}
			got, err := weights.Stages(m, build)
			if err != nil {
				continue
			}
			for _, s := range got {
				if s.Parameters < 0 || s.Bytes < 0 {
					t.Fatalf("%+v", s)
				}
			}
		}
	})
}
