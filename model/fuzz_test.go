package model_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"headcount/checkpoint"
	"headcount/internal/corpus"
	"headcount/model"
)

// FuzzResolve wants an answer or an error of any config, the same one each time. Its seeds
// are the configs that golden rows speak of, and some that no class expects.
func FuzzResolve(f *testing.F) {
	f.Add([]byte(llama70B))
	f.Add([]byte(`{"model_type": "gpt2"}`))
	f.Add([]byte(`{"model_type": "falcon", "num_attention_heads": 71, "num_kv_heads": null}`))
	f.Add([]byte(`{"model_type": "nemotron-nas", "block_configs": [{"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": 1e300}}]}`))
	f.Add([]byte(`{"model_type": "llava", "text_config": {"model_type": "qwen2", "layer_types": ["sliding_attention"]}}`))
	f.Add([]byte(`{"model_type": "hrm_text", "num_layers_per_stack": 9223372036854775807}`))
	for _, tt := range append(windowCases, stateCases...) {
		f.Add([]byte("{" + mixedCommon + tt.config + "}"))
	}
	configs := corpus.Load(f)
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		if data := configs[name].Config; 0 < len(data) && len(data) < 8<<10 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		src, err := checkpoint.FromBytes("config.json", checkpoint.Files{Config: data})
		if err != nil {
			return
		}
		m, err := model.Resolve(src)
		again, err2 := model.Resolve(src)
		if (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Fatalf("%v, then %v", err, err2)
		}
		if err != nil {
			return
		}
		if !reflect.DeepEqual(m.Layers, again.Layers) || !reflect.DeepEqual(m.Outer, again.Outer) {
			t.Fatal("resolved twice, two models")
		}
		for i, l := range append(slices.Clone(m.Layers), m.Draft...) {
			for _, c := range l.Caches {
				g, s := c.Attn, c.State
				if min(g.QueryHeads, g.KVHeads, g.KeyDim, g.ValueDim, c.Window, c.Ratio, s.Kernel, s.Inner, s.Groups, s.Heads, s.HeadDim, s.StateSize) < 0 {
					t.Fatalf("layer %d: %+v", i, c)
				}
			}
			for _, p := range l.Params {
				if min(p.Rows.Size, p.Cols.Size, p.Experts, p.Rows.Unit, p.Cols.Unit) < 0 {
					t.Fatalf("layer %d: %+v", i, p)
				}
			}
		}
	})
}
