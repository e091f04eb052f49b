package series

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"headcount"
	"headcount/hw"
	"headcount/model"
	"headcount/roofline"
	"headcount/units"
)

// A Roofline is work under the ceilings of a device: the rate that it can reach at most
// against its intensity. Both axes are logarithmic.
type Roofline struct {
	Title    string          `json:"title"`
	Ridge    *float64        `json:"ridge_flop_per_byte" doc:"of the first ceiling; null where not known"`
	Ceilings []Ceiling       `json:"ceilings"`
	Points   []RooflinePoint `json:"points"`

	first roofline.Roof // ceilings are drawn over From to To
	roofs []roofline.Roof
}

// A Ceiling is a roof as a line to draw.
type Ceiling struct {
	Label string `json:"label"`
	Line  []XY   `json:"line"`
}

// XY is a point of a line: FLOP/byte, FLOP/s.
type XY struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// A RooflinePoint is some work.
type RooflinePoint struct {
	Label     string  `json:"label"`
	Kind      string  `json:"kind" doc:"of the layer,  for other work"`
	TP        []int   `json:"tp" doc:"the sizes at which it is here"`
	Intensity float64 `json:"x" doc:"FLOP/byte"`
	Rate      float64 `json:"y" doc:"FLOP/s: at most, or as measured"`
	Measured  bool    `json:"measured" doc:"else predicted: on the roof"`
	Bound     string  `json:"bound" doc:"bandwidth, compute"`
	Share     float64 `json:"share_of_ridge"`
}

// NewRoofline starts a picture of a device, its ridge that of the first ceiling added.
func NewRoofline(title string) *Roofline {
	return &Roofline{Title: title, Ceilings: []Ceiling{}, Points: []RooflinePoint{}}
}

// Under adds a ceiling; one without both limits known draws nothing.
func (f *Roofline) Under(label string, roof roofline.Roof) {
	ridge := float64(roofline.Ridge(roof.Peak, roof.Bandwidth))
	if ridge == 0 {
		return
	}
	if len(f.roofs) == 0 {
		f.first, f.Ridge = roof, &ridge
	}
	f.roofs = append(f.roofs, roof)
	f.Ceilings = append(f.Ceilings, Ceiling{Label: label})
	f.stretch()
}

// Predict adds work where it meets the first ceiling.
func (f *Roofline) Predict(p RooflinePoint) {
	at := f.first.Place(units.Intensity(p.Intensity))
	p.Rate, p.Bound, p.Share = float64(f.first.Attainable(at.Intensity)), string(at.Bound), at.Share
	f.add(p)
}

// Measure adds work at the rate that was measured, in FLOP/s.
func (f *Roofline) Measure(label string, intensity units.Intensity, rate units.FLOPPerSec) {
	at := f.first.Place(intensity)
	f.add(RooflinePoint{Label: label, TP: []int{}, Intensity: float64(intensity), Rate: float64(rate), Measured: true, Bound: string(at.Bound), Share: at.Share})
}

func (f *Roofline) add(p RooflinePoint) {
	if !(p.Intensity > 0 && p.Rate > 0) {
		return // no place on a logarithmic axis
	}
	f.Points = append(f.Points, p)
	f.stretch()
}

// stretch draws every ceiling from below the least intensity to beyond the last ridge.
func (f *Roofline) stretch() {
	low, high := math.Inf(1), 0.0
	for _, p := range f.Points {
		low, high = min(low, p.Intensity), max(high, p.Intensity)
	}
	for _, roof := range f.roofs {
		ridge := float64(roofline.Ridge(roof.Peak, roof.Bandwidth))
		low, high = min(low, ridge/64), max(high, ridge)
	}
	low, high = math.Exp2(math.Floor(math.Log2(low))-1), math.Exp2(math.Ceil(math.Log2(high))+2)
	for i, roof := range f.roofs {
		ridge := float64(roofline.Ridge(roof.Peak, roof.Bandwidth))
		line := []XY{{X: low}, {X: ridge}, {X: high}}
		for j := range line {
			line[j].Y = float64(roof.Attainable(units.Intensity(line[j].X)))
		}
		f.Ceilings[i].Line = line
	}
}

// rooflineOf places each kind of layer's decode attention at each size under the roof of
// gpu; nil where the roof is not known.
func rooflineOf(gpu *hw.Accelerator, line []*headcount.Report, sizes []int) *Roofline {
	roof := roofline.Roof{Peak: gpu.Peak.Dense16(), Bandwidth: gpu.BytesPerSec}
	f := NewRoofline("Decode attention under the roof of the " + gpu.Name)
	f.Under(fmt.Sprintf("%v, %v", roof.Bandwidth, roof.Peak), roof)
	if len(f.Ceilings) == 0 {
		return nil
	}
	type place struct {
		kind      string
		intensity float64
	}
	at := map[place][]int{}
	for i, r := range line {
		if r.Roofline == nil {
			continue
		}
		for _, p := range r.Roofline.Layers {
			key := place{p.Kind, p.Intensity}
			at[key] = append(at[key], sizes[i])
		}
	}
	for key, tp := range at {
		f.Predict(RooflinePoint{Label: model.Kind(key.kind).Words() + ", TP " + sizesText(tp), Kind: key.kind, TP: tp, Intensity: key.intensity})
	}
	slices.SortFunc(f.Points, func(a, b RooflinePoint) int {
		return cmp.Or(cmp.Compare(a.TP[0], b.TP[0]), cmp.Compare(a.Kind, b.Kind))
	})
	return f
}

// sizesText is "1 to 8", or "1, 4" for few.
func sizesText(sizes []int) string {
	if len(sizes) > 2 {
		return fmt.Sprintf("%d to %d", sizes[0], sizes[len(sizes)-1])
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(sizes), " ", ", "), "[]")
}
