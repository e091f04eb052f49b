package headcount

import (
	"fmt"
	"math"
	"slices"

	"headcount/attn"
	"headcount/dtype"
	"headcount/engine"
	"headcount/hw"
	"headcount/layout"
	"headcount/model"
	"headcount/roofline"
)

// describe fills what the checkpoint alone says.
func (r *Report) describe(about *subject) {
	m := about.model
	r.Model = ModelReport{Name: m.Name, Architecture: m.Architecture, ModelType: m.ModelType, Layers: len(m.Layers),
		QueryHeads: m.QueryHeads, KVHeads: m.KVHeads, HeadDim: m.HeadDim, Parameters: about.parameters, WeightBytes: about.bytes, LayerKinds: about.kinds, Provenance: m.Provenance}
	for _, key := range about.duplicates {
		r.note("duplicate-key", "warning", key+" is given more than once; the last one counts, as in Python")
	}
	for _, odd := range m.Oddities {
		r.note(odd.ID, "info", odd.Text)
	}
	if about.headers != nil {
		r.note("tensor-headers", "warning", about.headers.Error())
	}
}

// layerKinds are the kinds of cache that each layer keeps, equal neighbours together.
func layerKinds(m *model.Model) []LayerRun {
	var runs []LayerRun
	var before *model.Layer
	for _, layer := range m.Layers {
		if layer != before {
			kinds := []model.Kind{}
			for _, c := range layer.Caches {
				kinds = append(kinds, c.Kind)
			}
			if n := len(runs); n == 0 || !slices.Equal(runs[n-1].Kinds, kinds) {
				runs = append(runs, LayerRun{Kinds: kinds})
			}
			before = layer
		}
		runs[len(runs)-1].Layers++
	}
	return runs
}

func (r *Report) note(id, severity, text string) {
	r.Notes = append(r.Notes, engine.Note{ID: id, Severity: severity, Text: text})
}

// take copies the engine's answer.
func (r *Report) take(res *engine.Result) {
	v := &res.Model
	r.Model.QueryHeads, r.Model.KVHeads, r.Model.HeadDim = v.QueryHeads, v.KVHeads, v.HeadDim
	r.Model.MaxModelLen, r.Model.DType = v.MaxModelLen, v.DType
	r.Model.AttentionArch = v.AttentionArch.String()
	r.Model.Variant = attn.Geometry{Arch: v.AttentionArch, QueryHeads: v.QueryHeads, KVHeads: v.KVHeads}.Variant()
	if v.Quantization != "" {
		r.Model.Quantization = &v.Quantization
	}
	r.Ranks, r.KVCache, r.Resolved, r.Log = res.Ranks, res.KVCache, res.Resolved, res.Log
	r.Notes = append(r.Notes, res.Notes...)
}

// fill makes every list of the report a list.
func (r *Report) fill() {
	if r.Ranks == nil {
		r.Ranks = []engine.Rank{}
	}
	if r.Model.LayerKinds == nil {
		r.Model.LayerKinds = []LayerRun{}
	}
	if r.KVCache.Groups == nil {
		r.KVCache.Groups = []engine.Group{}
	}
	if r.KVCache.Concurrency == nil {
		r.KVCache.Concurrency = []engine.Concurrency{}
	}
	if r.Log == nil {
		r.Log = []string{}
	}
	if r.Notes == nil {
		r.Notes = []engine.Note{}
	}
}

// withoutRules takes back what only an engine's own device could make true.
func (r *Report) withoutRules(gpu *hw.Accelerator, name string) {
	r.KVCache = engine.KVCache{DType: r.KVCache.DType, BytesPerToken: r.KVCache.BytesPerToken, FixedBytesPerRequest: r.KVCache.FixedBytesPerRequest}
	r.Resolved, r.Log = engine.Resolved{}, nil
	for i := range r.Ranks {
		r.Ranks[i].NumBlocks, r.Ranks[i].BytesPerBlock = nil, nil
	}
	r.Notes = slices.DeleteFunc(r.Notes, func(n engine.Note) bool { return n.ID == "device-assumed" }) // one was named
	r.note("not_known", "warning", fmt.Sprintf("what %s allocates on %s is not known: its rules here are CUDA's and, for vLLM, the CPU build's; geometry and roofline hold", name, gpu.Name))
}

func gib(n int64) float64 { return float64(n) / (1 << 30) }

// underRoof places each kind of layer's decode attention under the device's roof, on one
// rank. Layers that keep a state have no attention to place.
func underRoof(gpu *hw.Accelerator, m *model.Model, l layout.Layout, kv dtype.Type) *Roofline {
	roof := &Roofline{Accelerator: gpu.Name, Layers: []RooflinePoint{}}
	ridge, known := roofline.Of(gpu)
	if known {
		x := math.Round(float64(ridge)*10) / 10
		roof.Ridge = &x
	}
	tp := l.AttentionTP()
	seen := map[model.Kind]bool{}
	for _, layer := range m.Layers {
		for _, c := range layer.Caches {
			if seen[c.Kind] || c.Attn.QueryHeads == 0 || c.Kind == model.Indexer {
				continue
			}
			seen[c.Kind] = true
			cost, err := roofline.Decode(c.Attn, tp, kv.Bytes(), 1)
			if err != nil || cost.Bytes <= 0 {
				continue
			}
			x := cost.Intensity()
			point := RooflinePoint{Kind: string(c.Kind), FLOPPerToken: int64(cost.FLOP), CellBytes: int64(cost.Bytes), Intensity: float64(x)}
			if known {
				share := float64(x) / float64(ridge)
				point.ShareOfRidge = &share
				point.Bound = "bandwidth"
				if share >= 1 {
					point.Bound = "compute"
				}
			}
			roof.Layers = append(roof.Layers, point)
		}
	}
	return roof
}
