package series

import (
	"slices"

	"headcount"
	"headcount/engine"
	"headcount/layout"
	"headcount/units"
)

// maxStrips is how many ranks are drawn.
const maxStrips = 64

// Strips are the KV heads that each tensor-parallel rank stores.
type Strips struct {
	Title        string  `json:"title"`
	Architecture string  `json:"architecture" doc:"MHA: strips of heads; MLA: one latent on every rank"`
	QueryHeads   int     `json:"query_heads" doc:"whole model"`
	KVHeads      int     `json:"kv_heads" doc:"whole model; 1 for MLA"`
	TokenRanks   int     `json:"token_ranks" doc:"ranks that share the tokens of a head among them (DCP); 1: each stores all"`
	Cells        []Cell  `json:"cells" doc:"what one rank keeps of a token in one layer, by kind of layer"`
	Ranks        []Strip `json:"ranks"`
	More         int     `json:"more" doc:"ranks that are not listed"`
}

// A Cell is what one rank keeps of a token in one layer of a kind.
type Cell struct {
	Kind string `json:"kind"`
	Text string `json:"text" doc:"the arithmetic"`
}

// A Strip is one rank of the first stage.
type Strip struct {
	Rank          int    `json:"rank"`
	Replica       int    `json:"replica" doc:"attention-DP rank, with requests of its own"`
	QueryHeads    Span   `json:"query_heads" doc:"that this rank computes"`
	KVHeads       []Head `json:"kv_heads" doc:"that it stores"`
	BytesPerToken int64  `json:"bytes_per_token" doc:"all layers of the stage"`
	Text          string `json:"text" doc:"the same: 40 KiB"`
}

// A Span is Count heads from First on.
type Span struct {
	First int `json:"first"`
	Count int `json:"count"`
}

// A Head is one KV head, or the latent, on one rank.
type Head struct {
	Head    int  `json:"head"`
	Copy    int  `json:"copy" doc:"1 for the first that stores it"`
	Copies  int  `json:"copies" doc:"ranks that store it; ranks that share its tokens count as one"`
	Readers Span `json:"readers" doc:"this rank's query heads that read it"`
}

// stripsOf lays heads out over ranks; nil where there are none.
func stripsOf(r *headcount.Report) *Strips {
	if len(r.Ranks) == 0 || r.Model.QueryHeads == 0 || r.Ranks[0].KVHeads == 0 {
		return nil
	}
	stage, tp := &r.Ranks[0], r.Layout.AttentionTP()
	s := &Strips{Title: "KV heads of each rank, " + modelName(r) + ", " + r.Layout.String(), Architecture: r.Model.AttentionArch, QueryHeads: r.Model.QueryHeads,
		KVHeads: r.Model.KVHeads, TokenRanks: r.Layout.DCP, Cells: []Cell{}, Ranks: []Strip{}, More: max(0, r.Layout.TP-maxStrips)}
	if s.Architecture == "MLA" {
		s.KVHeads, s.Title = 1, "The latent on each rank, "+modelName(r)+", "+r.Layout.String()
	}
	for _, run := range stage.Layers {
		if run.KVHeads > 0 && !slices.ContainsFunc(s.Cells, func(c Cell) bool { return c.Kind == string(run.Kind) }) {
			s.Cells = append(s.Cells, Cell{string(run.Kind), run.Kind.Words() + ": " + run.Elements()})
		}
	}
	for rank := range min(r.Layout.TP, maxStrips) {
		strip := s.strip(stage, rank%tp, tp)
		strip.Rank, strip.Replica = rank, rank/tp
		s.Ranks = append(s.Ranks, strip)
	}
	return s
}

// strip is rank of the tp ranks that split one attention layer.
func (s *Strips) strip(stage *engine.Rank, rank, tp int) Strip {
	var strip Strip
	strip.BytesPerToken, strip.Text = stage.BytesPerToken, units.Bytes(stage.BytesPerToken).String()
	strip.QueryHeads.First, strip.QueryHeads.Count = layout.Heads(s.QueryHeads, tp, rank)
	first, count := layout.Heads(s.KVHeads, tp, rank)
	copies := max(1, tp/s.KVHeads/s.TokenRanks)
	for head := first; head < first+count; head++ {
		h := Head{Head: head, Copy: rank/s.TokenRanks%copies + 1, Copies: copies, Readers: strip.QueryHeads}
		if count > 1 {
			per := strip.QueryHeads.Count / count
			h.Readers = Span{strip.QueryHeads.First + (head-first)*per, per}
		}
		strip.KVHeads = append(strip.KVHeads, h)
	}
	return strip
}
