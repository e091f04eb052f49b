// Package digest puts a Report into the words that people read: the model, the layout, and
// a row for each number with the arithmetic behind it. The terminal prints them and the
// page shows them, so that the two say the same.
package digest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"headcount"
	"headcount/dtype"
	"headcount/engine"
	"headcount/layout"
	"headcount/model"
	"headcount/units"
)

// A Digest is one Report in words.
type Digest struct {
	Title    string `json:"title"`    // "llama-3-70b · GQA-8: 64 query heads, ..."
	Setup    string `json:"setup"`    // "vLLM 0.33 · TP 8 · bf16"
	Rows     []Row  `json:"rows"`     // [] when the engine refused before there was a rank
	Headline string `json:"headline"` // what stands above the engine's log lines; "" without any
}

// A Row is one number: on a rank, of the whole model where that differs, and how it came
// about. Step is the step of [headcount.Report.Explain] that has its arithmetic, "" for none.
type Row struct {
	ID         string `json:"id"` // unique in a Digest
	Name       string `json:"name"`
	PerRank    string `json:"per_rank"`
	WholeModel string `json:"whole_model"`
	How        string `json:"how"`
	Step       string `json:"step"`
	Part       bool   `json:"part"` // one kind of layer of the number above it
}

// Of is r in words. unsplit is the same model on one rank, for the whole model's figures.
func Of(r, unsplit *headcount.Report) Digest {
	d := Digest{Title: Title(r), Setup: Setup(r), Rows: []Row{}, Headline: headline(r)}
	if len(r.Ranks) == 0 {
		return d
	}
	for i := range r.Ranks {
		if i > 0 && sameStage(&r.Ranks[i], &r.Ranks[i-1]) && i < len(r.Ranks)-1 {
			continue // as the stage before it
		}
		d.Rows = append(d.Rows, cacheRows(r, unsplit, &r.Ranks[i])...)
	}
	if n := r.KVCache.FixedBytesPerRequest; n > 0 {
		row := Row{ID: "kv_per_request", Name: "KV cache per request", PerRank: units.Bytes(n).String(), How: "windows and states at full length, beside what its tokens add"}
		if r.KVCache.Tokens != nil {
			row.Step = headcount.StepTokens
		}
		d.Rows = append(d.Rows, row)
	}
	d.Rows = append(d.Rows, poolRows(r)...)
	d.Rows = append(d.Rows, roofRows(r)...)
	number(d.Rows)
	return d
}

// A Planner answers requests: a [*headcount.Planner].
type Planner interface {
	Plan(context.Context, headcount.Request) (*headcount.Report, error)
}

// Unsplit plans the request's model on one rank, as far as it is answered, for the figures
// of the whole model.
func Unsplit(ctx context.Context, p Planner, req headcount.Request) *headcount.Report {
	req.Layout = layout.Layout{}
	req.GPU, req.Accelerator = "", nil
	req.KVCacheMemory, req.MaxModelLen = 0, 0
	r, _ := p.Plan(ctx, req)
	return r
}

// number tells rows of one id apart: kv_per_token, kv_per_token-2, ...
func number(rows []Row) {
	seen := map[string]int{}
	for i := range rows {
		id := rows[i].ID
		if seen[id]++; seen[id] > 1 {
			rows[i].ID = fmt.Sprintf("%s-%d", id, seen[id])
		}
	}
}

// headline is what stands above the engine's lines.
func headline(r *headcount.Report) string {
	switch {
	case len(r.Log) == 0:
		return ""
	case r.PoolEstimated():
		digits, share := 0, r.Memory.KVBytes.PerCent()
		if share < 0.95 {
			digits = 1
		}
		return fmt.Sprintf("The engine will log, within ± %.*f %%", digits, share)
	}
	return "The engine will log"
}

// Title names the model and its heads: "llama-3-70b · GQA-8: 64 query heads, ...".
func Title(r *headcount.Report) string {
	m := r.Model
	heads := fmt.Sprintf("%d query heads, %s × %d", m.QueryHeads, units.Plural(m.KVHeads, "KV head"), m.HeadDim)
	if m.AttentionArch == "MLA" {
		heads = fmt.Sprintf("%d query heads, one latent of %d", m.QueryHeads, r.LatentDim())
	}
	return fmt.Sprintf("%s · %s: %s, %d layers", m.Name, m.Variant, heads, m.Layers)
}

// Setup names the engine, the layout and the dtype: "vLLM 0.33 · TP 8 · bf16".
func Setup(r *headcount.Report) string {
	parts := []string{EngineName(r.Engine.Name) + " " + strings.TrimSuffix(r.Engine.Version, ".0"), r.Layout.String(), shortDType(r.Model.DType)}
	if kv := r.KVCache.DType; kv != r.Model.DType && kv != dtype.Unknown {
		name := kv.String()
		if kv == dtype.UInt8 && r.Resolved.CacheDType != "" {
			name = r.Resolved.CacheDType // how the engine calls what it stores as bytes
		}
		parts = append(parts, "KV "+name)
	}
	return strings.Join(parts, " · ")
}

// EngineName is the engine's name as its makers write it.
func EngineName(name string) string {
	if name == "sglang" {
		return "SGLang"
	}
	return "vLLM"
}

func shortDType(t dtype.Type) string {
	switch t {
	case dtype.BFloat16:
		return "bf16"
	case dtype.Float16:
		return "fp16"
	case dtype.Float32:
		return "fp32"
	}
	return t.String()
}

// cacheRows are one stage's cache and weights.
func cacheRows(r, unsplit *headcount.Report, rank *engine.Rank) []Row {
	stage := ""
	if len(r.Ranks) > 1 {
		stage = fmt.Sprintf(", stage %d", rank.Stage)
	}
	perToken := Row{ID: "kv_per_token", Name: "KV cache per token" + stage, PerRank: units.Bytes(rank.BytesPerToken).String(), How: growing(rank), Step: headcount.StepToken}
	if rank.Stage == 0 && len(unsplit.Ranks) > 0 {
		perToken.WholeModel = units.Bytes(unsplit.Ranks[0].BytesPerToken).String()
	}
	rows := []Row{perToken}
	for _, run := range merged(rank.Layers) {
		if how := fixed(run); how != "" {
			rows = append(rows, Row{ID: string(run.Kind), Name: run.Kind.Words(), PerRank: units.Bytes(run.PageSize).String(), How: how, Step: headcount.StepDType, Part: true})
		}
	}
	if rank.Stage == 0 {
		rows = append(rows, Row{ID: "kv_replication", Name: "KV replication", PerRank: strconv.Itoa(rank.KVReplication) + "×", How: replication(r, rank), Step: headcount.StepRank})
	}
	if why := noteText(r, "weights-not-known"); why != "" && rank.Stage == 0 {
		rows = append(rows, Row{ID: "weights", Name: "Weights", PerRank: "not known", How: why})
	}
	if rank.WeightBytes != nil {
		w := Row{ID: "weights", Name: "Weights" + stage, PerRank: units.Bytes(*rank.WeightBytes).String(), Step: headcount.StepWeights}
		if rank.Stage == 0 && r.Model.Parameters != nil {
			w.WholeModel = units.Bytes(*r.Model.WeightBytes).String()
			w.How = units.Group(*r.Model.Parameters) + " parameters"
			if each := *r.Model.WeightBytes / max(*r.Model.Parameters, 1); r.Model.Quantization == nil && each != r.Model.DType.Bytes() {
				w.How += fmt.Sprintf(", in the checkpoint %d B each", each)
			}
		}
		rows = append(rows, w)
	}
	return rows
}

// noteText is the text of the note of an id, "" when there is none.
func noteText(r *headcount.Report, id string) string {
	for _, n := range r.Notes {
		if n.ID == id {
			return n.Text
		}
	}
	return ""
}

// growing is the arithmetic of the bytes that one token adds on a rank.
func growing(rank *engine.Rank) string {
	if len(rank.Layers) == 0 && rank.BytesPerToken == 0 {
		return "no layer keeps anything between steps"
	}
	var terms []string
	for _, run := range merged(rank.Layers) {
		size := run.DType.Bytes()
		switch {
		case run.Kind == model.Full && run.KeyDim == run.ValueDim:
			terms = append(terms, fmt.Sprintf("2 × %d layers × %s × %d × %d B", run.Layers, units.Plural(run.KVHeads, "head"), run.KeyDim, size))
		case run.Kind == model.Full:
			terms = append(terms, fmt.Sprintf("%d layers × %s × (%d + %d) × %d B", run.Layers, units.Plural(run.KVHeads, "head"), run.KeyDim, run.ValueDim, size))
		case run.Kind == model.Latent || run.Kind == model.Indexer:
			terms = append(terms, fmt.Sprintf("%d layers × %d B", run.Layers, run.PageUnpadded/int64(max(run.BlockSize, 1))))
		}
	}
	return strings.Join(terms, " + ")
}

// merged sums the layers of runs that differ in nothing else, in order of first appearance.
func merged(runs []*engine.Run) []*engine.Run {
	var out []*engine.Run
	for _, run := range runs {
		i := slices.IndexFunc(out, func(o *engine.Run) bool {
			return o.Kind == run.Kind && o.KVHeads == run.KVHeads && o.KeyDim == run.KeyDim && o.ValueDim == run.ValueDim &&
				o.DType == run.DType && o.PageSize == run.PageSize && o.PageUnpadded == run.PageUnpadded && o.BlockSize == run.BlockSize &&
				value(o.Window) == value(run.Window)
		})
		if i < 0 {
			out = append(out, run)
		} else {
			out[i] = out[i].Over(out[i].Layers + run.Layers)
		}
	}
	return out
}

func value(p *int) int {
	if p == nil {
		return 0
	}
	return *p
}

// fixed says what a layer that does not grow with every token keeps.
func fixed(run *engine.Run) string {
	switch {
	case run.Window != nil:
		return fmt.Sprintf("a page of %d tokens a layer, %d layers with a window of %s tokens", run.BlockSize, run.Layers, units.Group(int64(*run.Window)))
	case run.StateBytes != nil:
		return fmt.Sprintf("a state a layer, %d layers", run.Layers)
	}
	return ""
}

func replication(r *headcount.Report, rank *engine.Rank) string {
	if r.Layout.DPAttention && r.Layout.DP > 1 {
		return fmt.Sprintf("%s, each with its own requests", units.Plural(r.Layout.DP, "attention-DP rank"))
	}
	if r.Model.AttentionArch == "MLA" {
		if dcp := r.Layout.DCP; dcp > 1 {
			return fmt.Sprintf("%s share the tokens, each a latent in %d", units.Plural(dcp, "rank"), dcp)
		}
		return fmt.Sprintf("the latent is whole on each of %s", units.Plural(r.Layout.TP, "rank"))
	}
	return fmt.Sprintf("%s over %s", units.Plural(r.Model.KVHeads, "KV head"), units.Plural(r.Layout.TP, "rank"))
}

// poolRows are the pool of one rank and what made it.
func poolRows(r *headcount.Report) []Row {
	if r.KVCache.AvailableBytes == nil {
		return nil
	}
	pool := Row{ID: "kv_pool", Name: "KV cache pool", PerRank: units.Bytes(*r.KVCache.AvailableBytes).String(), How: "as given", Step: headcount.StepPool}
	states := ""
	if n := r.StateBytes(); n > 0 {
		states = fmt.Sprintf(" − %.1f states", gib(n))
		pool.How = fmt.Sprintf("%.1f GiB as given%s", gib(*r.KVCache.AvailableBytes+n), states)
	}
	if len(r.Advice) > 0 && r.Error == nil {
		pool.How += "; " + r.Advice[0].String() + " should leave it"
	}
	if m := r.Memory; r.PoolEstimated() {
		taken := 0.0
		for _, t := range m.Terms {
			taken += gib(t.P50)
		}
		half := gib(m.KVBytes.P90-m.KVBytes.P10) / 2
		pool.How = fmt.Sprintf("%s − %.1f weights − %.1f ± %.1f at peak%s", have(r), gib(*m.WeightsBytes), taken, half, states)
	}
	return []Row{pool}
}

func have(r *headcount.Report) string {
	if r.Engine.Name == "sglang" {
		return fmt.Sprintf("%.1f GiB", gib(r.Memory.TotalBytes))
	}
	return fmt.Sprintf("%.2f × %.1f GiB", r.Memory.Fraction, gib(r.Memory.TotalBytes))
}

func gib(n int64) float64 { return float64(n) / (1 << 30) }

func roofRows(r *headcount.Report) []Row {
	if r.Roofline == nil {
		return nil
	}
	var rows []Row
	for i, p := range r.Roofline.Layers {
		if i > 0 && p.Intensity == r.Roofline.Layers[i-1].Intensity {
			continue
		}
		row := Row{ID: "decode_intensity", Name: "Decode intensity", PerRank: fmt.Sprintf("%.3g FLOP/byte", p.Intensity), Step: headcount.StepDecode}
		if i > 0 {
			row.Name, row.Part = model.Kind(p.Kind).Words(), true
		}
		row.How = "where it stands under the roof of the " + r.Roofline.Accelerator + " is not known"
		if p.ShareOfRidge != nil {
			row.How = fmt.Sprintf("%.1f %% of the ridge of the %s, %.0f: bound by %s", *p.ShareOfRidge*100, r.Roofline.Accelerator, *r.Roofline.Ridge, p.Bound)
		}
		rows = append(rows, row)
	}
	return rows
}

// sameStage reports whether two stages print alike.
func sameStage(a, b *engine.Rank) bool {
	known := a.WeightBytes != nil && b.WeightBytes != nil
	return a.BytesPerToken == b.BytesPerToken && (!known && a.WeightBytes == b.WeightBytes || known && *a.WeightBytes == *b.WeightBytes)
}
