package bootlog

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"headcount"
	"headcount/vram"
)

const gib = 1 << 30

// A Start is a row that could be planned, and the plan.
type Start struct {
	Row
	Name   string // of the model, as it was resolved
	Own    bool   // the row's own checkpoint was, not only its shape
	Report *headcount.Report
	Later  *headcount.Report // the same start under the newest release
}

// Starts plans every row of both engines that states enough.
func Starts(dir string) ([]Start, error) {
	models, err := NewModels(dir)
	if err != nil {
		return nil, err
	}
	planner := headcount.Planner{Resolver: models}
	var starts []Start
	for _, engine := range []string{"vllm", "sglang"} {
		rows, err := Load(dir, engine)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			name, own, ok := models.Known(row.Model)
			if !ok {
				continue
			}
			req, why := row.Request(name)
			if why != "" {
				continue
			}
			r, err := planner.Plan(context.Background(), req)
			if r.Memory == nil && err != nil {
				continue // what the row's flags mean to the engine is not what was planned
			}
			if r.Memory == nil {
				continue
			}
			req.Engine = engine
			own = own && (row.Quantization != "fp8" || r.Model.Quantization == nil || strings.Contains(strings.ToLower(row.Model), "fp8")) // turned into it while loading
			later, _ := planner.Plan(context.Background(), req)
			starts = append(starts, Start{row, name, own, r, later})
		}
	}
	return starts, nil
}

// bill is the bill of the stage that a pipeline's log speaks of: of several, the one that
// leaves what is nearest to what was printed.
func (s *Start) bill() *vram.Memory {
	best, pool := s.Report.Memory, s.Weights
	if p, ok := s.pool(); ok {
		pool = p
	}
	for _, m := range s.Report.Stages {
		if math.Abs(m.Left()/gib-pool) < math.Abs(best.Left()/gib-pool) {
			best = m
		}
	}
	return best
}

// loaded is what a bill says that loading takes, GiB, NaN where that is not known.
func loaded(m *vram.Memory) float64 {
	n, ok := m.Loaded()
	if !ok {
		return math.NaN()
	}
	return float64(n) / gib
}

// known is the sum of a bill's terms, GiB, that are not distributions, without the weights.
func known(m *vram.Memory) (sum float64) {
	for _, t := range m.Terms {
		if t.Basis != vram.Empirical && t.Name != "loading" {
			sum += float64(t.P50) / gib
		}
	}
	return sum
}

// A Sample is one start's value of a term, GiB.
type Sample struct {
	Term, Class string
	Value       float64
	Line        int
	Model       string
	what        string
}

func (s Sample) String() string {
	return fmt.Sprintf("%-12s %-28s %6.2f  row %3d  %s", s.Term, s.Class, s.Value, s.Line, s.what)
}

// Samples are the values that starts give of each distribution.
func Samples(starts []Start) (out []Sample) {
	for i := range starts {
		s := &starts[i]
		add := func(term string, value float64) {
			r := s.Report
			if r.Memory.Term(term) == nil { // a term that the release does not subtract, and yet prints
				r = s.Later
			}
			if t := r.Memory.Term(term); t != nil && t.Class != "" {
				out = append(out, Sample{term, t.Class, value, s.Line, s.Name, s.Model + ", " + s.GPU})
			}
		}
		if s.Engine == "sglang" {
			s.readings(add)
			continue
		}
		if g, ok := s.GraphEstimate(); ok && (s.ours() || s.Version == "") {
			add("cuda_graphs", g)
		}
		pool, ok := s.pool()
		if !ok || s.Weights == 0 || len(s.Report.Stages) > 0 {
			continue
		}
		m := s.bill()
		rest := float64(m.TakenBytes)/gib - s.Weights - known(m) - pool
		if m.Term("cuda_graphs") != nil {
			g, ok := s.GraphEstimate()
			if !ok {
				continue
			}
			rest -= g
		}
		add("cuda_growth", rest)
	}
	return out
}

// All are the samples of starts, and of rows that need no plan.
func All(dir string, starts []Start) ([]Sample, error) {
	vllm, err := Load(dir, "vllm")
	if err != nil {
		return nil, err
	}
	sglang, err := Load(dir, "sglang")
	return slices.Concat(Samples(starts), Growths(vllm, starts), Contexts(sglang)), err
}

// Growths are what rows printed of it themselves, whatever their model, if no plan was asked
// of them.
func Growths(rows []Row, starts []Start) (out []Sample) {
	for i := range rows {
		r := &rows[i]
		_, n := r.Accelerator()
		if r.Growth <= 0 || max(r.TP, n) == 0 || slices.ContainsFunc(starts, func(s Start) bool { return s.Engine == "vllm" && s.Line == r.Line }) {
			continue
		}
		load := vram.Load{Version: vram.ParseVersion(r.Version), TP: max(r.TP, 1), PP: max(r.PP, 1), Compiled: !r.Eager}
		if gpu, _ := r.Accelerator(); gpu != nil {
			load.Device = headcount.DeviceOf(gpu)
		}
		out = append(out, Sample{"cuda_growth", load.Growth().Class, r.Growth, r.Line, r.Model, r.Model + ", " + r.GPU})
	}
	return out
}

// Contexts are what SGLang's processes took before the weights, for which no plan is asked.
func Contexts(rows []Row) (out []Sample) {
	for i := range rows {
		r := &rows[i]
		gpu, n := r.Accelerator()
		if gpu == nil || r.begin() == 0 {
			continue
		}
		total, _ := gpu.TotalBytes()
		load := vram.Load{TP: max(r.SGTP, n, 1), PP: 1, Device: headcount.DeviceOf(gpu)}
		taken := float64(total)/gib - r.begin()
		if taken > 0 && !r.shared() {
			out = append(out, Sample{"context", load.Context().Class, taken, r.Line, r.Model, r.Model + ", " + r.GPU})
		}
	}
	return out
}

// readings are SGLang's: free memory before and after the weights.
func (s *Start) readings(add func(string, float64)) {
	m := s.Report.Memory
	if s.begin() > 0 && s.end() > 0 {
		if m.WeightsBytes != nil && s.Own {
			add("loading", s.begin()-s.end()-float64(*m.WeightsBytes)/gib)
		}
	}
}

// Unexplained is by how much starts used more than their plans say, once what is exact,
// modelled and fitted is taken off.
func (f Fitted) Unexplained(starts []Start) (out Fitted) {
	var samples []Sample
	for i := range starts {
		s := &starts[i]
		pool, ok := s.pool()
		weights, known := s.weights()
		if ok && known {
			t := s.Report.Memory.Term("fragmentation")
			_, middle, _ := s.predict(weights, f)
			samples = append(samples, Sample{Term: t.Name, Class: t.Class, Value: max(middle-pool, 0), Model: s.Name})
		}
	}
	for _, d := range Fit(samples) {
		d.P10, d.P50, d.P90 = 0, 0, rounding+percentile(medians(samples, d.Class), 0.9)
		out = append(out, d)
	}
	return out
}

// weights is what a plan has to go by, GiB: its own where the row's checkpoint is known, else
// what was printed.
func (s *Start) weights() (gib float64, ok bool) {
	if ours := loaded(s.bill()); s.Own && !math.IsNaN(ours) {
		return ours, true
	}
	return s.logged(), s.logged() > 0
}

// A Distribution is the percentiles of a class, GiB.
type Distribution struct {
	Term, Class   string
	Starts        int
	P10, P50, P90 float64
}

// A Fitted is all distributions.
type Fitted []Distribution

// Fit takes percentiles over the models of each class: starts of one model and class are one
// value, their median, so that a model that was started often counts once.
func Fit(samples []Sample) (out Fitted) {
	type key struct{ term, class string }
	classes := map[key][]Sample{}
	for _, s := range samples {
		k := key{s.Term, s.Class}
		classes[k] = append(classes[k], s)
	}
	for k, of := range classes {
		values := medians(of, k.class)
		if k.term == "cuda_growth" && len(values) < fewest {
			continue // the nearest class stands in for it
		}
		d := Distribution{Term: k.term, Class: k.class, Starts: len(of)}
		d.P10, d.P50, d.P90 = spread(values)
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b Distribution) int {
		return cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.Class, b.Class))
	})
	return out
}

// fewest is how many models a class must have whose middle is to be believed.
const fewest = 3

// medians are the values of a class's models.
func medians(samples []Sample, class string) (out []float64) {
	models := map[string][]float64{}
	for _, s := range samples {
		if s.Class == class {
			models[s.Model] = append(models[s.Model], s.Value)
		}
	}
	for _, v := range models {
		out = append(out, percentile(v, 0.5))
	}
	return out
}

// rounding is what the two digits of four figures leave open, GiB.
const rounding = 0.02

// spread is the tenth, fiftieth and ninetieth percentile of what the next value will be: the
// values' own where there are enough of them, else Student's interval about their median.
func spread(v []float64) (p10, p50, p90 float64) {
	p50 = max(percentile(v, 0.5), 0)
	n := len(v)
	if n >= len(student) {
		return max(min(percentile(v, 0.1), p50)-rounding, 0), p50, max(percentile(v, 0.9), p50) + rounding
	}
	half := 0.3 * p50 // of a single value
	if n > 1 {
		var square float64
		for _, x := range v {
			square += (x - p50) * (x - p50)
		}
		half = student[n-1] * math.Sqrt(square/float64(n-1)*(1+1/float64(n)))
	}
	return max(p50-half-rounding, 0), p50, p50 + half + rounding
}

// student is the ninetieth percentile of Student's distribution by degrees of freedom.
var student = [...]float64{0, 3.08, 1.89, 1.64, 1.53, 1.48, 1.44, 1.41, 1.40, 1.38}

// percentile interpolates between the sorted values.
func percentile(v []float64, p float64) float64 {
	v = slices.Sorted(slices.Values(v))
	at := p * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

// Table is the text of vram/empirical.tsv.
func (f Fitted) Table() string {
	var b strings.Builder
	b.WriteString("# Written by tools/memfit: term, class, starts, P10, P50, P90 in MiB.\n")
	for _, d := range f {
		fmt.Fprintf(&b, "%s\t%s\t%d\t%.0f\t%.0f\t%.0f\n", d.Term, d.Class, d.Starts, d.P10*1024, d.P50*1024, d.P90*1024)
	}
	return b.String()
}

// of is the distribution of a class, by the nearest that has one.
func (f Fitted) of(term string, classes ...string) (Distribution, bool) {
	for _, class := range classes {
		for _, d := range f {
			if d.Term == term && d.Class == class {
				return d, true
			}
		}
	}
	return Distribution{}, false
}
