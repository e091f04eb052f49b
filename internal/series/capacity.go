package series

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"headcount"
	"headcount/units"
)

// Capacity is how many tokens one replica holds against the tensor parallel size.
type Capacity struct {
	Title      string         `json:"title"`
	Pooled     bool           `json:"pooled" doc:"tokens are known; otherwise what is compared is the bytes of a token"`
	Lines      []CapacityLine `json:"lines"`
	Crossovers []Crossover    `json:"crossovers"`
}

// A CapacityLine is one model on one engine.
type CapacityLine struct {
	Label       string          `json:"label"`
	SaturatesAt *int            `json:"saturates_at" doc:"ranks beyond this hold copies: a token costs each as much as before; null if none does"`
	Points      []CapacityPoint `json:"points"`
}

// A CapacityPoint is one layout.
type CapacityPoint struct {
	TP            int      `json:"tp"`
	Layout        string   `json:"layout"`
	Tokens        *int64   `json:"tokens" doc:"of one replica; null without a pool"`
	Requests      *float64 `json:"requests" doc:"of the model's longest length"`
	BytesPerToken *int64   `json:"bytes_per_token" doc:"on the rank that binds, all its layers"`
	BytesText     string   `json:"bytes_per_token_text"`
	KVReplication *int     `json:"kv_replication"`
	Refused       string   `json:"refused" doc:"why the engine does not take the layout,  if it does"`
}

// A Crossover is where one line overtakes another.
type Crossover struct {
	A    int    `json:"a" doc:"index of the line that is ahead from TP on"`
	B    int    `json:"b" doc:"index of the line that was ahead before"`
	TP   int    `json:"tp"`
	Text string `json:"text"`
}

// sameButTP reports whether two requests ask the same but for the tensor parallel size.
func sameButTP(a, b *headcount.Request) bool {
	x, y := *a, *b
	x.Layout, y.Layout = x.Layout.Normal(), y.Layout.Normal()
	x.Layout.TP, y.Layout.TP = 0, 0
	x.ID, y.ID = nil, nil
	return reflect.DeepEqual(x, y)
}

func capacityOf(sweeps [][]*headcount.Report, sizes []int) *Capacity {
	c := &Capacity{Title: "Tokens that one replica holds", Crossovers: []Crossover{}}
	heads := make([]*headcount.Report, len(sweeps))
	for i, line := range sweeps {
		heads[i] = firstLegal(line)
	}
	names := labels(heads, func(r *headcount.Report) string {
		l := r.Layout
		l.TP = 1
		_, rest, _ := strings.Cut(l.String(), " · ")
		return rest
	})
	for i, line := range sweeps {
		out := CapacityLine{Label: names[i], Points: make([]CapacityPoint, len(line))}
		for j, r := range line {
			out.Points[j] = capacityPoint(r, sizes[j])
		}
		out.SaturatesAt = saturation(out.Points)
		c.Lines = append(c.Lines, out)
	}
	c.Pooled = slices.ContainsFunc(c.Lines, func(l CapacityLine) bool {
		return slices.ContainsFunc(l.Points, func(p CapacityPoint) bool { return p.Tokens != nil })
	})
	if !c.Pooled {
		c.Title = "KV cache of one token on one rank, all layers"
	}
	for b := range c.Lines {
		for a := range c.Lines {
			if tp, ok := overtakes(c.Lines[a].Points, c.Lines[b].Points); a != b && ok {
				c.Crossovers = append(c.Crossovers, Crossover{A: a, B: b, TP: tp,
					Text: fmt.Sprintf("from TP %d on, %s holds more than %s", tp, c.Lines[a].Label, c.Lines[b].Label)})
			}
		}
	}
	return c
}

func capacityPoint(r *headcount.Report, tp int) CapacityPoint {
	p := CapacityPoint{TP: tp, Layout: r.Layout.String(), Refused: refusal(r)}
	if rank := r.Heaviest(); rank != nil {
		p.BytesPerToken, p.KVReplication = &rank.BytesPerToken, &rank.KVReplication
		p.BytesText = units.Bytes(rank.BytesPerToken).String()
	}
	if p.Refused == "" {
		p.Tokens, p.Requests = r.KVCache.Tokens, r.KVCache.Requests(r.Model.MaxModelLen, r.Model.MaxModelLen)
	}
	return p
}

// saturation is the first size after which a token costs a rank as much as before.
func saturation(points []CapacityPoint) *int {
	for i := 1; i < len(points); i++ {
		before, after := points[i-1].BytesPerToken, points[i].BytesPerToken
		if before != nil && after != nil && *before == *after && points[i].TP > points[i-1].TP {
			return &points[i-1].TP
		}
	}
	return nil
}

// overtakes is the first size from which a is ahead of b, having been behind it.
func overtakes(a, b []CapacityPoint) (tp int, ok bool) {
	behind := false
	for i := range a {
		switch ahead, known := compare(a[i], b[i]); {
		case !known:
		case ahead < 0:
			behind = true
		case ahead > 0 && behind:
			return a[i].TP, true
		}
	}
	return 0, false
}

// compare is positive if a holds more than b: by tokens where pools are known, by the bytes
// of a token where none is.
func compare(a, b CapacityPoint) (sign int, known bool) {
	switch {
	case a.Refused != "" || b.Refused != "":
		return 0, false
	case a.Tokens != nil && b.Tokens != nil:
		return int(min(max(*a.Tokens-*b.Tokens, -1), 1)), true
	case a.Tokens == nil && b.Tokens == nil && a.BytesPerToken != nil && b.BytesPerToken != nil:
		return int(min(max(*b.BytesPerToken-*a.BytesPerToken, -1), 1)), true
	}
	return 0, false
}
