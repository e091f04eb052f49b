package headcount

import (
	"encoding/json"

	"headcount/dtype"
	"headcount/engine"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
	"headcount/vram"
)

// SchemaVersion is the version of the Report's JSON. Fields are added freely; a rename or
// a new meaning raises it.
const SchemaVersion = 1

// A Report is the answer to one Request. Bytes and tokens are whole numbers; null is not
// known; figures of a rank say so by standing under ranks.
type Report struct {
	SchemaVersion int             `json:"schema_version"`
	ID            json.RawMessage `json:"id,omitempty"`
	Engine        EngineID        `json:"engine"`
	Model         ModelReport     `json:"model"`
	Layout        layout.Layout   `json:"layout"`
	Ranks         []engine.Rank   `json:"ranks"`
	KVCache       engine.KVCache  `json:"kv_cache"`
	Memory        *vram.Memory    `json:"memory"` // of the rank that binds; null without an accelerator
	Stages        []*vram.Memory  `json:"memory_by_stage,omitempty"`
	Roofline      *Roofline       `json:"roofline"` // null without an accelerator
	Resolved      engine.Resolved `json:"resolved"`
	Log           []string        `json:"log"`
	Notes         []engine.Note   `json:"notes"`
	Error         *problem.Error  `json:"error"`
	Advice        []Advice        `json:"advice,omitempty"` // where it was asked for: see [Planner.Advise]
}

// EngineID names an engine and the release whose rules were applied.
type EngineID struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// A ModelReport is the model as the engine sees it, whole and unsplit.
type ModelReport struct {
	Name          string            `json:"name"`
	Architecture  string            `json:"architecture"`
	ModelType     string            `json:"model_type"`
	Variant       string            `json:"variant"`        // MHA, GQA-8, MQA, MLA: printed, never branched on
	AttentionArch string            `json:"attention_arch"` // MHA or MLA
	Layers        int               `json:"layers"`
	QueryHeads    int               `json:"query_heads"`
	KVHeads       int               `json:"kv_heads"`
	HeadDim       int               `json:"head_dim"`
	MaxModelLen   int64             `json:"max_model_len"`
	DType         dtype.Type        `json:"dtype"`
	Quantization  *string           `json:"quantization"`
	Parameters    *int64            `json:"parameters"`   // null when not known from the config, nor from tensor headers
	WeightBytes   *int64            `json:"weight_bytes"` // of them, all ranks, each stored once
	LayerKinds    []LayerRun        `json:"layer_kinds"`  // in order, equal neighbours together
	Provenance    map[string]string `json:"provenance"`   // field ← where its value came from
}

// A LayerRun is layers in a row whose caches are of the same kinds: none for a layer that
// keeps nothing of its own.
type LayerRun struct {
	Layers int          `json:"layers"`
	Kinds  []model.Kind `json:"kinds"`
}

// A Roofline says where decode attention stands under an accelerator's roof.
type Roofline struct {
	Accelerator string          `json:"accelerator"`
	Ridge       *float64        `json:"ridge_flop_per_byte"`
	Layers      []RooflinePoint `json:"layers"`
}

// A RooflinePoint is one kind of layer's decode attention on one rank.
type RooflinePoint struct {
	Kind         string   `json:"kind"`
	FLOPPerToken int64    `json:"flop_per_token"` // one layer, for each cached token of a decode step
	CellBytes    int64    `json:"cell_bytes"`     // one layer, what of the token is read for it
	Intensity    float64  `json:"intensity_flop_per_byte"`
	ShareOfRidge *float64 `json:"share_of_ridge"`
	Bound        string   `json:"bound"` // bandwidth, compute; "" when the roof is not known
}

// Heaviest is the stage on which a token costs most, and so the one that binds; nil where
// the report has no stage.
func (r *Report) Heaviest() *engine.Rank {
	var best *engine.Rank
	for i := range r.Ranks {
		if best == nil || r.Ranks[i].BytesPerToken > best.BytesPerToken {
			best = &r.Ranks[i]
		}
	}
	return best
}
